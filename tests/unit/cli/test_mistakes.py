"""A user's mistakes on the command line and in files: one line with place, value and hint, exit code 2."""

import errno
import io
import json
import os
from pathlib import Path

import mistaken
import pytest
from laboratory import in_process
from mistaken import Mistake
from paths import ROOT

from storelab import cli
from storelab.cli import quick
from storelab.core.errors import lacks_processes

TEXTS = [  # a campaign file, and words of the message
    (b"name: x\nname: y\n", "campaigns/small.yaml, line 2", "'name'", "line 1"),
    (b"a: \xff", "line 1", "0xff", "UTF-8"),
    (b"a: " + b"[" * 5000, "campaigns/small.yaml", "nested too deep"),
    (b"\x00\x01", "line 1", "'\\x00'"),
    (b"a: 2024-13-45", "cannot be read"),
    (b"a: " + b"9" * 5000, "cannot be read"),
    (mistaken.CAMPAIGN.replace("  up:", "  " + "u" * 300 + ":").encode(), "300 ", "at most 64"),
]
SET = [  # values of --set before `check`, and words of the message
    (["scale=.inf"], "scale: Infinity"),
    (["sweeps.up=["], "--set sweeps.up", "YAML"),
    (["results=file"], "results: 'file'", "not a folder"),
    (["state=file/x"], "state: 'file/x'", "not a folder"),
    (["results=''"], "results: '' is empty"),
    (["repetitions=1000000000"], "2000000000 points", "100000"),
    (["repetitions=true"], "repetitions: true"),
    (["sweeps.up.axes.clients=[1,2,1]"], "sweeps.up.axes.clients: 1 ", "twice"),
    (["sweeps.up.axes.object_size=[1 MB,1000 kB]"], "sweeps.up.axes.object_size: '1000 kB'", "twice"),
    (["stores_to_measure=[one,one]"], "stores_to_measure: 'one'", "twice"),
    (["stores_to_measure=[nono]"], "command line: stores_to_measure: ", "'nono'"),
    (
        ["stores_to_measure=[one,two]", "stores.one.port=20000", "stores.two.port=20031"],
        "stores.two.port: port 20031",
        "one",
    ),
    (["sweeps.down.axes.buckets=9"], "sweeps.down.objects: 8 ", "set at least 9"),
    (["gang_timeout=0 s"], "gang_timeout: '0 s'", "1 ms"),
    (["sweeps.up.duration=5 ns"], "sweeps.up.duration: '5 ns'"),
    (["files.mine={path: gone.root}"], "files.mine.path: gone.root"),
]
COMMANDS = [
    (("up", "one", "--front-ends", "0"), "up: ", "'--front-ends': 0"),
    (("size", "--link", "0 Gbit/s", "--client-link", "1 Gbit/s"), "--link: '0 Gbit/s'"),
    (("chek",), "'chek'", "'check'"),
    (("check", "--fast"), "check: ", "'--fast'", "`storelab check --help`"),
    (("check", "--set", "scale=2"), "check: ", "before the command: `storelab --set KEY=VALUE check …`"),
    (("plan", "small", "scale=2"), "plan: ", "`storelab --set scale=2 plan …`"),
    (("help", "run"), "help: ", "`storelab COMMAND --help`"),
    (("version",), "version: is not a command; write `storelab --version`"),
]
STORES = [  # settings of the store `far`, and words of the message
    ({"endpoint": "https://a b"}, "stores.far.endpoint: 'https://a b'"),
    ({"endpoint": "https://a;reboot"}, "stores.far.endpoint: 'https://a;reboot'"),
    ({"endpoint": ["https://a", "http://b"]}, "stores.far.endpoint: ", "http and https"),
    ({"endpoint": ["https://a", "https://a/"]}, "stores.far.endpoint: 'https://a'", "twice"),
    ({"region": ""}, "stores.far.region: ''"),
    ({"bucket": "Mine"}, "stores.far.bucket: 'Mine'"),
    ({"prefix": "xn--a"}, "stores.far.prefix: 'xn--a'"),
    ({"ca_file": "file"}, "stores.far.ca_file: ", "PEM"),
    ({"profile": "nobody"}, "stores.far.profile: ", "'nobody'"),
    ({"kind": "directory", "path": "/nowhere"}, "stores.far.path: '/nowhere'"),
]
FAR = ("stores.far.profile={}", "stores.far.endpoint={}", "stores.far.endpoint=https://me:{}@a")
ALONE = ("stores.far.secret_key={}", "stores.far.{}=1", "limits.objects={}", "{}", "campaign={}")
PASTED = [  # places where a user may paste a token by mistake
    ("--set", "stores.door.token={}", "--set", "stores_to_measure=[door]", "check"),
    *(("--set", setting, "--set", "stores_to_measure=[far]", "check") for setting in FAR),
    *(("--set", setting, "check") for setting in ALONE),
    *(("up", "{}"), ("{}",), ("check", "--{}")),
]
SECRETS = ("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "AKIAIOSFODNN7EXAMPLE")


def line(folder: Path, *arguments: str, files: dict[str, bytes] | None = None, rebuild=None) -> str:
    """Return the one line that a mistake prints, or what is wrong with the answer."""
    mistake = Mistake("", arguments, files or {}, rebuild)
    mistaken.laid_out(folder)
    for name, data in mistake.files.items():
        (folder / name).write_bytes(data)
    code, out, err = mistaken.run(folder, mistake)
    answer = mistaken.judged(code, out, err, 0.0)
    return err if answer.outcome == "reported" else f"{answer.outcome} {code} {out} {err}"


def settings(values: list[str]) -> list[str]:
    return [word for value in values for word in ("--set", value)]


def missing(cases: list[tuple]) -> list[tuple]:
    """Return the cases whose line lacks one of its words."""
    return [(message, words) for message, *words in cases if not all(word in message for word in words)]


def test_each_kind_of_mistake_is_one_line(tmp_path):
    wrong = []
    for mistake in mistaken.inputs(len(mistaken.FAMILIES), 7):
        answer = mistaken.run_mistake(tmp_path / "here", mistake)
        if answer.outcome != "reported":
            wrong.append((mistake, answer))
    assert not wrong


def test_mistakes_name_place_and_value(tmp_path):
    here = tmp_path / "here"
    cases = [(line(here, "check", files={"campaigns/small.yaml": text}), *words) for text, *words in TEXTS]
    cases += [(line(here, *settings(values), "check"), *words) for values, *words in SET]
    cases += [(line(here, *arguments), *words) for arguments, *words in COMMANDS]
    cases += [(line(here, rebuild={"mesure": "true"}), "mesure: ", "'measure'")]
    cases += [(line(here, rebuild={"limits": {"object": 1}}), "limits.object: ")]
    old = '{kind: s3, endpoint: "https://s3.example.org"}'
    for given, *words in STORES:
        far = given if "kind" in given else {"kind": "s3", "endpoint": "https://s3.example.org"} | given
        main = {"config.yaml": mistaken.MAIN.replace(old, json.dumps(far)).encode()}
        engine = "fsspec" if far["kind"] == "directory" else "s5cmd"
        axes = [f"sweeps.{name}.axes.engine={engine}" for name in ("up", "down")]
        cases += [(line(here, *settings(["stores_to_measure=[far]", *axes]), "check", files=main), *words)]
    assert not missing(cases)


def test_question_without_a_terminal_is_a_mistake(tmp_path, monkeypatch):
    mistaken.laid_out(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    code, _, err = in_process(tmp_path, "clean", "small")
    assert code == 2 and "clean: there is no terminal to answer the question; confirm with --yes" in err


def test_wrong_endpoint_is_reported_before_anything_is_prepared(monkeypatch):
    monkeypatch.setattr(quick, "measured", lambda *_: pytest.fail("the measurement was prepared"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for url, problem in (("https://a b", "'https://a b' is not a URL"), ("https://s3.invalid", "no credentials found")):
        code, out, err = in_process(ROOT, "quick", url)
        assert code == 2 and not out and err.startswith(f"storelab: quick: {problem}") and err.count("\n") == 1, err


def test_pasted_tokens_are_not_printed_back(tmp_path):
    for secret in SECRETS:
        for arguments in PASTED:
            message = line(tmp_path / "here", *(a.format(secret) for a in arguments))
            assert message.startswith("storelab: "), message
            shown = max((len(word) for word in message.split() if word in secret), default=0)
            assert secret not in message and shown < 8, message


def test_benchmark_counts_what_is_not_reported(monkeypatch, capsys):
    kinds = iter([Mistake("right", ("check",)), Mistake("a fault", ("check",)), Mistake("wrong", ("chek",))])
    monkeypatch.setattr(mistaken, "inputs", lambda *_: kinds)
    real, tried = mistaken.run, []

    def run(folder, mistake):
        tried.append(mistake.kind)
        return ("Traceback …", "", "") if mistake.kind == "a fault" else real(folder, mistake)

    monkeypatch.setattr(mistaken, "run", run)
    assert mistaken.tried(3, 1) == {"mistakes": 3, "tracebacks": 1, "silent": 1, "unclear": 0}
    assert "silent: " in capsys.readouterr().err and tried == ["right", "a fault", "wrong"]


NO_MEMORY = (MemoryError(), ImportError("libx.so: failed to map segment from shared object", name="x"))


NO_PROCESSES = (
    RuntimeError("can't start new thread"),
    RuntimeError("cannot join thread before it is started"),
    BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)),
)


@pytest.mark.parametrize(
    ("error", "start", "fix"),
    [(e, "storelab: processes: ", "raise the limit") for e in NO_PROCESSES]
    + [(e, "storelab: memory: ", "") for e in NO_MEMORY],
    ids=["thread", "pool", "fork", "array", "library"],
)
def test_lack_of_memory_or_processes_is_one_line(monkeypatch, capsys, error, start, fix):
    def plan(**_):
        raise error

    monkeypatch.setattr(cli.cli, "main", plan)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    printed = capsys.readouterr().err
    assert ended.value.code == 2 and printed.startswith(start) and printed.count("\n") == 1
    assert fix in printed


def test_other_runtime_errors_are_not_about_processes(monkeypatch):
    """They are faults of storelab, and a full pipe is not a limit of processes."""
    assert not lacks_processes(BlockingIOError(errno.EAGAIN, "write could not complete without blocking"))

    def plan(**_):
        raise RuntimeError("other")

    monkeypatch.setattr(cli.cli, "main", plan)
    with pytest.raises(RuntimeError, match="other"):
        cli.main()
