"""A person's mistake, wrong by construction: one line with place, value and mend, exit code 2, no traceback."""

from pathlib import Path

import mistaken
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mistaken import Mistake

from storelab.core import config, yaml_text
from storelab.core.errors import UserError, of_system


@pytest.mark.parametrize("mistake", [*mistaken.inputs(len(mistaken.FAMILIES), 7)], ids=lambda m: m.kind)
def test_one_of_each_kind_is_told(tmp_path, mistake):
    answer = mistaken.told(tmp_path / "here", mistake)
    assert answer.outcome == "told", (mistake, answer)


def line(folder: Path, *arguments: str, files: dict[str, bytes] | None = None, rebuild=None) -> str:
    mistake = Mistake("", arguments, files or {}, rebuild)
    mistaken.laid_out(folder)
    for name, data in (files or {}).items():
        (folder / name).write_bytes(data)
    code, out, err = mistaken.run(folder, mistake)
    assert mistaken.judged(code, out, err, 0.0).outcome == "told", (code, out, err)
    return err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            b"name: x\nname: y\n",
            "campaigns/small.yaml, line 2: the key 'name' is there twice, first in line 1; remove one",
        ),
        (b"a: \xff", "line 1: the byte 0xff is not UTF-8; save the file as UTF-8 text"),
        (b"a: 1\nb: &x [*x]", "line 2: *x refers to itself"),
        (b"a: " + b"[" * 5000, "line 1: is nested deeper than 40 levels; close the brackets"),
        (b"\x00\x01", "line 1: the character '\\x00' is no text"),
        (b"a: 2024-13-45", "holds a value that cannot be read"),
        (b"a: " + b"9" * 5000, "holds a value that cannot be read"),
        (b"x" * 2_000_000, "is larger than 1000 kB"),
        (mistaken.CAMPAIGN.replace("  up:", "  " + "u" * 300 + ":").encode(), "has 300 signs; a name has at most 64"),
    ],
)
def test_text_that_is_none(tmp_path, text, words):
    assert words in line(tmp_path / "here", "check", files={"campaigns/small.yaml": text})


def test_aliases_that_grow_without_bound_are_refused():
    rows = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    rows += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(UserError, match="holds more than 200000 values"):
        yaml_text.parse("\n".join(rows), "f")
    assert yaml_text.parse("a: &x {b: 1}\nc: {<<: *x, d: *x}", "f")["c"] == {"b": 1, "d": {"b": 1}}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--set", "scale=.inf", "check"), "scale: Infinity: input should be a finite number"),
        (("--set", "sweeps.up=[", "check"), "--set sweeps.up: is not YAML"),
        (("up", "one", "--front-ends", "0"), "up: Invalid value for '--front-ends': 0 is not in the range"),
        (("--set", "results=file", "check"), "results: 'file': file is a file, no folder; name another folder"),
        (("--set", "state=file/x", "check"), "state: 'file/x': file is a file, no folder"),
        (("--set", "results=''", "check"), "results: '' is empty; give it a value"),
        (("--set", "repetitions=1000000000", "check"), "the plan has 2000000000 points or more, the most is 100000"),
        (("--set", "repetitions=true", "check"), "repetitions: true is no value for this key"),
        (
            ("--set", "sweeps.up.axes.clients=[1,2,1]", "check"),
            "sweeps.up.axes.clients: 1 is there twice; name it once",
        ),
        (
            ("--set", "sweeps.up.axes.object_size=[1 MB,1000 kB]", "check"),
            "sweeps.up.axes.object_size: '1000 kB' is there twice",
        ),
        (("--set", "use_stores=[one,one]", "check"), "use_stores: 'one' is there twice; name it once"),
        (("--set", "use_stores=[nono]", "check"), "command line: use_stores: no one defined the store 'nono'"),
        (
            (
                "--set",
                "use_stores=[one,two]",
                "--set",
                "stores.one.port=20000",
                "--set",
                "stores.two.port=20031",
                "check",
            ),
            "stores.two.port: port 20031 is in the blocks of stores one and two; set their `port` further apart",
        ),
        (
            ("--set", "sweeps.down.axes.buckets=9", "check"),
            "sweeps.down.objects: 8 objects leave some of 9 buckets empty; give 9",
        ),
        (("--set", "gang_timeout=0 s", "check"), "gang_timeout: '0 s' is too short; give at least 1 ms"),
        (("--set", "sweeps.up.duration=5 ns", "check"), "sweeps.up.duration: '5 ns' is too short to measure in"),
        (("--set", "files.mine={path: gone.root}", "check"), "files.mine.path: gone.root: no such file"),
        (("size", "--link", "0 Gbit/s", "--client-link", "1 Gbit/s"), "--link: '0 Gbit/s' is nothing"),
        (("chek",), "chek': is no command; did you mean 'check'?"),
        (("check", "--fast"), "check: No such option '--fast'; see `storelab check --help`"),
    ],
)
def test_what_is_told(tmp_path, arguments, words):
    assert words in line(tmp_path / "here", *arguments)


@pytest.mark.parametrize(
    ("settings_", "words"),
    [
        ({"endpoint": "https://a b"}, "stores.far.endpoint: 'https://a b' is no URL of an S3 endpoint"),
        ({"endpoint": "https://a;reboot"}, "stores.far.endpoint: 'https://a;reboot' is no URL"),
        ({"endpoint": ["https://a", "http://b"]}, "stores.far.endpoint: the front-ends mix http and https"),
        ({"endpoint": ["https://a", "https://a/"]}, "stores.far.endpoint: 'https://a' is there twice"),
        ({"region": ""}, "stores.far.region: '' is not a name"),
        ({"bucket": "Mine"}, "stores.far.bucket: 'Mine' is no name of an S3 bucket"),
        ({"prefix": "xn--a"}, "stores.far.prefix: 'xn--a' begins as no bucket may"),
        ({"ca_file": "file"}, "holds no certificate that can be read; give a PEM file"),
        ({"profile": "nobody"}, "stores.far.profile: there is no AWS profile 'nobody'"),
        ({"kind": "directory", "path": "/nowhere"}, "stores.far.path: '/nowhere' is no folder"),
    ],
)
def test_a_store_that_cannot_be(tmp_path, settings_, words):
    import json

    far = {"kind": "s3", "endpoint": "https://s3.example.org"} | settings_
    if far["kind"] == "directory":
        del far["endpoint"]
    (tmp_path / "config.yaml").write_text("")
    store = json.dumps(far)
    text = mistaken.MAIN.replace('{kind: s3, endpoint: "https://s3.example.org"}', store).encode()
    engine = "fsspec" if far["kind"] == "directory" else "s5cmd"
    sets = [f"sweeps.{name}.axes.engine={engine}" for name in ("up", "down")]
    more = [word for item in sets for word in ("--set", item)]
    assert words in line(tmp_path / "here", "--set", "use_stores=[far]", *more, "check", files={"config.yaml": text})


@pytest.mark.parametrize("bucket", ["abc", "a" * 63, "my.bucket-1", "1.2.3", "a.b.c.d", "xn-a", "1.2.3.4a"])
def test_buckets_that_s3_allows(bucket):
    from storelab.stores.s3.store import Settings

    assert Settings(kind="s3", endpoint="https://a", bucket=bucket).bucket == bucket


def test_names_are_looked_at_where_nothing_is_measured(tmp_path):
    assert "mesure: unknown key 'mesure'; did you mean 'measure'?" in line(
        tmp_path / "here", rebuild={"mesure": "true"}
    )
    assert "limits.object: unknown key" in line(tmp_path / "here", rebuild={"limits": {"object": 1}})


def test_what_the_system_refuses_names_the_path_and_the_mend():
    assert str(of_system(OSError(28, "No space", "results/x"))) == (
        "results/x: no space left on device; make room on this disk"
    )
    assert "read-only file system; give a folder on a disk" in str(of_system(OSError(30, "", "a")))
    assert str(of_system(OSError("Error writing. Detail: [errno 28] No space left"))).startswith(
        "a file: no space left on device; make room"
    )
    assert str(of_system(ConnectionRefusedError(111, "refused"))).startswith("network: ")


def test_a_full_disk_is_told_with_its_file(tmp_path, monkeypatch):
    from storelab.core import records

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(records.os, "fsync", full)
    with pytest.raises(OSError, match="device") as caught:
        records.write_atomic(tmp_path / "new", b"x")
    assert caught.value.filename == str(tmp_path / "new") and not list(tmp_path.iterdir())


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.text(max_size=60), st.text(alphabet="{}[]&*!?-:,#'\"|>%@` \n\tab1.~", max_size=60)))
def test_any_text_is_read_or_refused(text):
    try:
        yaml_text.parse(text, "here")
        config.parse_set([f"a={text}"])
    except UserError as error:
        assert "\n" not in str(error) and error.problem


JWT = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
SECRETS = (
    JWT,
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "AKIAIOSFODNN7EXAMPLE",
    "MDAxY2xvY2F0aW9uIE9wdGlvbmFsLmVtcHR5CjAwMThpZGVu",
)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "arguments",
    [
        ("--set", "stores.door.token={}", "--set", "use_stores=[door]", "check"),
        ("--set", "stores.far.profile={}", "--set", "use_stores=[far]", "check"),
        ("--set", "stores.far.endpoint={}", "--set", "use_stores=[far]", "check"),
        ("--set", "stores.far.endpoint=https://me:{}@a", "--set", "use_stores=[far]", "check"),
        ("--set", "stores.far.secret_key={}", "check"),
        ("--set", "stores.far.{}=1", "check"),
        ("--set", "limits.objects={}", "check"),
        ("--set", "{}", "check"),
        ("--set", "campaign={}", "check"),
        ("up", "{}"),
        ("{}",),
        ("check", "--{}"),
    ],
)
def test_a_pasted_token_is_not_printed_back(tmp_path, secret, arguments):
    said = line(tmp_path / "here", *(a.format(secret) for a in arguments))
    assert secret not in said and max((len(w) for w in said.split() if w in secret), default=0) < 8, said


def test_what_is_no_token_is_printed():
    for plain in (
        "nullserver/calibrate/operation~put_engine~obstore_object_size~10GB_workers~0002_part_size~256MiB_rep~001",
        "/data/Run2023B/NanoAODv12/SingleMuon/file-0001.root",
        "https://front-end-1.example.org:9000",
        "a3f5" * 16,
        "an_ordinary_name_of_a_sweep_that_is_long",
    ):
        assert str(UserError("here", plain)) == f"here: {plain}"


def test_no_sign_that_moves_the_cursor_is_printed():
    assert str(UserError("a\x1b[2J", "b\nc\x00", "d\x07")) == "a?[2J: b c?; d?"


def test_the_count_of_a_benchmark_sees_what_is_not_told(monkeypatch, capsys):
    kinds = iter([Mistake("right", ("check",)), Mistake("a fault", ("check",)), Mistake("wrong", ("chek",))])
    monkeypatch.setattr(mistaken, "inputs", lambda *_: kinds)
    real, tried = mistaken.run, []

    def run(folder, mistake):
        tried.append(mistake.kind)
        return ("Traceback …", "", "") if mistake.kind == "a fault" else real(folder, mistake)

    monkeypatch.setattr(mistaken, "run", run)
    assert mistaken.tried(3, 1) == {"mistakes": 3, "tracebacks": 1, "silent": 1, "unclear": 0}
    assert "silent: " in capsys.readouterr().err and tried == ["right", "a fault", "wrong"]
