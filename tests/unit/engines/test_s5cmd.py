"""The program s5cmd with a store in memory: its commands, and the counts of its operations."""

import json
import os
import shlex
import subprocess
import threading
from collections import Counter
from urllib.parse import unquote

import pytest
from bucket_server import bucket
from honest_s3 import FIRST, honest_s3
from hypothesis import example, given, settings
from hypothesis import strategies as st
from staged_bodies import staged

from storelab.core import clock
from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.records import HUNG
from storelab.engines import s5cmd
from storelab.engines.common.guard import LimitExceeded
from storelab.stores.protocols import environment
from storelab.stores.protocols.endpoint import Credentials, Endpoint

MIB = 2**20
MINUTE = 60 * 10**9  # no test waits for it


@pytest.fixture
def prepared(tmp_path, monkeypatch):
    """Return a function that returns a prepared client of a kind, and its store of six objects of 1000 B."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", FIRST.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", FIRST.secret_key)
    made = []
    folder = tmp_path / "a scratch folder's"
    folder.mkdir()
    with honest_s3("any signature") as (url, store):

        def one(kind, **more):
            made.append(kind(staged(store, url, folder, 1000, 6, **more)))
            made[-1].prepare()
            return made[-1], store

        yield one
        for each in made:
            each.close()


def run(one):
    start = clock.now_ns()
    one.run(start, start + MINUTE)


def test_requests_of_an_operation():
    for op, size, multipart, part, requests in (
        ("PUT", 0, True, 0, 1),
        ("PUT", 50 * MIB, True, 0, 1),
        ("PUT", 50 * MIB + 1, True, 0, 2 + 2),
        ("PUT", 50 * MIB + 1, False, 0, 1),
        ("PUT", 20 * MIB, True, 8 * MIB, 3 + 2),
        ("GET", 0, True, 0, 1 + 1),
        ("GET", 50 * MIB + 1, True, 0, 1 + 2),
        ("GET", 50 * MIB + 1, False, 0, 1 + 2),
    ):
        assert s5cmd.requests_per_operation(op, size, multipart, part) == requests, (op, size, multipart, part)


def test_objects_are_read_once(prepared):
    """The program ends by itself, also where an object is missing: that is an error, and no object is cut off."""
    for missing in (0, 1):
        one, store = prepared(s5cmd.S5cmdGet, access="once")
        if missing:
            del store.buckets["b"].objects["p/data/d/0000003"]
        store.received.clear()
        run(one)
        result = one.result()
        assert one.exit_status == missing
        names = ("operations completed", "exit status", "summary", "content")
        assert {c.name: c.ok for c in result.checks} == dict.fromkeys(names, True)
        assert Counter(result.ops["error"]) == Counter({None: 6 - missing, "NoSuchKey": missing})
        assert result.engine["cut_off"] == 0 and sum(result.ops["bytes"]) == 1000 * (6 - missing)
        assert Counter(method for method, *_ in store.received) == {"HEAD": 6, "GET": 6}
        assert result.engine["requests_per_operation"] == {"GET": 2}


def test_uploads_end_at_the_space_in_the_store(prepared):
    one, _ = prepared(s5cmd.S5cmdPut, limits={"room_bytes": 20_000})
    with pytest.raises(LimitExceeded, match="the room in the store"):
        run(one)


def test_operations_of_a_cut_link_hung(prepared):
    """From the middle of the window on nothing is answered: the operations in flight count, and those before."""
    for cut in (True, False):
        one, store = prepared(s5cmd.S5cmdGet)
        threading.Timer(0.8, store.silent.set if cut else int).start()
        start = clock.now_ns()
        one.run(start, start + 3 * 10**9)
        store.silent.clear()
        result = one.result()
        good, hung, failed = (result.ops["error"].count(kind) for kind in (None, HUNG, "RequestError"))
        assert good > 5 and not failed and {c.ok for c in result.checks} == {True}
        engine = result.engine
        assert engine["hung"] == (2 if cut else None), engine
        assert hung == (2 if cut else 0) and (HUNG in engine["errors"]) == cut
        if cut:
            assert 2.0 < engine["hung_s"] / 2 < 2.4 and result.ops["end_ns"][-1] == start + 3 * 10**9
        assert len({len(column) for column in result.ops.values()}) == 1


def test_program_that_ends_early_is_reported(prepared):
    """The list of commands is endless: a program that ends before the deadline failed, with any exit status."""
    one, _ = prepared(s5cmd.S5cmdPut)
    one.commands = lambda: iter(())
    run(one)
    check = next(c for c in one.result().checks if c.name == "exit status")
    assert one.exit_status == 0 and not check.ok and "before the deadline" in check.detail


HARD = (
    "my file.root",
    "it's.root",
    "x?y.root",
    "x*y",
    "[ab]",
    'a"b',
    "a\\b",
    "#x",
    "$HOME",
    "`id`",
    "a;b&c|d",
    "~",
    " x ",
)
HARD += (
    "-r",
    "--raw",
    "ü",
    "日本",
    "a\tb",
    "a\rb",
    "%41",
    "a+b",
    "a=b",
    "{x,y}",
    "!",
    "\x01",
    "<>",
    "^",
    "a..b",
    "\u2028",
)
KEYS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\0"), min_size=1, max_size=100)
PATHS = st.binary(min_size=1, max_size=100).map(lambda b: os.fsdecode(b.replace(b"\0", b"x").replace(b"/", b"y")))


def sayable(name: str) -> bool:
    return "\n" not in name and "://" not in name and not name.endswith("/")


@settings(max_examples=60, deadline=None, database=None, derandomize=True)
@given(KEYS.filter(sayable), PATHS.filter(sayable))
@example("my file.root", "/a b/it's")
def test_line_splits_into_names(key, path):
    """A POSIX shell splits the line as s5cmd does."""
    line = s5cmd.encoded(s5cmd.copy_line(f"/f/{path}", s5cmd.object_url("b", key), "--part-size 5 "))
    words = shlex.split(os.fsdecode(line.removesuffix(b"\n")))
    assert words == ["cp", "--raw", "--part-size", "5", f"/f/{path}", f"s3://b/{key}"]
    assert line.count(b"\n") == 1


def test_names_that_s5cmd_cannot_write_are_refused():
    for name in ("a\nb", "a\nrm s3://b/*", "s3://b/a://b", "a/"):
        for sides in ((name, "s3://b/k"), ("s3://b/k", name)):
            with pytest.raises(UserError, match="s5cmd: its command file cannot contain the name"):
                s5cmd.copy_line(*sides)


def test_program_moves_names_as_they_are(tmp_path):
    """Uploads, copies in the store and downloads; the folder has a name of this kind too."""
    folder = tmp_path / "a folder ü?'\""
    folder.mkdir()
    not_text = os.fsdecode(b"\xff\xfe")
    for name in (*HARD, not_text):
        (folder / name).write_text(name, errors="surrogateescape")
    with bucket() as server:
        endpoint = Endpoint(server.url)

        def run(*lines: str) -> None:
            done = subprocess.run(
                s5cmd.command(endpoint, 4),
                input=s5cmd.encoded("".join(lines)),
                env=environment.client(os.environ, endpoint, Credentials("k", "s")),
                capture_output=True,
                timeout=60,
            )
            assert not done.returncode, done.stderr.decode()

        up = [s5cmd.copy_line(folder / name, s5cmd.object_url("b", name)) for name in HARD]
        run(*up, s5cmd.copy_line(folder / not_text, s5cmd.object_url("b", "not text")))
        stored = {unquote(key): body for key, body in server.objects.items()}
        assert stored == {name: name.encode() for name in HARD} | {"not text": b"\xff\xfe"}
        for name in HARD:
            (folder / name).unlink()
        run(*(s5cmd.copy_line(s5cmd.object_url("b", name), folder / name) for name in HARD))
        assert {p.name: p.read_bytes() for p in folder.iterdir() if p.name != not_text} == {
            name: name.encode() for name in HARD
        }
        run(*(s5cmd.copy_line(s5cmd.object_url("b", name), s5cmd.object_url("b", f"copy {name}")) for name in HARD))
        stored = {unquote(key): body for key, body in server.objects.items()}
        assert {f"copy {name}": name.encode() for name in HARD}.items() <= stored.items()


def test_lines_have_the_arrival_of_their_end():
    assert s5cmd.stamped_lines([(1, b"ab"), (2, b"c\nd"), (5, b"e\n\n  \nf\ng")]) == [(2, "abc"), (5, "de"), (5, "f")]


def test_errors_have_classes():
    for message, name in (
        ("SlowDown: reduce your rate status code: 503", "SlowDown"),
        ("NoSuchKey, it is gone", "NoSuchKey"),
        ("dial tcp: connection refused", "ConnectionRefused"),
        ("something else", "Other"),
    ):
        assert s5cmd.error_class(message) == name


def printed(*keys, side="source", size=10):
    other = {"source": "destination", "destination": "source"}[side]
    rows = [{"operation": "cp", side: f"s3://bucket/{k}", other: "/x", "object": {"size": size}} for k in keys]
    return [json.dumps(row) for row in rows]


def test_operations_and_errors_become_rows():
    errors = ["SlowDown: no status code: 503, request", "SlowDown: again", "x context canceled", "y RequestCanceled z"]
    for op, side in (("GET", "source"), ("PUT", "destination")):
        out = [(10 * i, f"{line}\n".encode()) for i, line in enumerate(printed("a/1", "b", side=side), 1)]
        stat = [(30, b'{"operation": "cp", "success": 2, "error": 2}\n')]
        lines = [(40 + i, (json.dumps({"error": e}) if i else e).encode() + b"\n") for i, e in enumerate(errors)]
        found = s5cmd.parse_output(3, op, 10, out + stat, lines)
        assert found.summary == {"operation": "cp", "success": 2, "error": 2}
        assert found.messages == {"SlowDown": {"count": 2, "message": errors[0]}}
        expected = {"client": [3] * 4, "op": [op] * 4, "object": ["a/1", "b", None, None], "count": [1] * 4}
        expected |= {"bytes": [10, 10, 0, 0], "end_ns": [10, 20, 40, 41], "status": [0, 0, 503, 0]}
        assert found.ops == expected | {"error": [None, None, "SlowDown", "SlowDown"]}


def test_silence_is_longer_than_operations_take():
    second = 10**9
    for ends, deadline, silent in (
        ((), 60, 0),
        ((1, 2, 3), 10, 7),
        ((1, 2, 3), 8, 0),
        ((0.1, 0.2), 1.1, 0),
        ((0.1, 0.2), 1.5, 1.3),
        ((20,), 60, 0),
        ((0.1, 5, 5.1), 20, 0),
        ((5.1, 0.1, 5), 40, 34.9),
    ):
        found = s5cmd.silence_ns([int(end * second) for end in ends], 0, int(deadline * second))
        assert found == int(silent * second), (ends, deadline)


def test_empty_objects_have_size_zero():
    """s5cmd leaves `size` out of an empty object."""
    line = {"operation": "cp", "source": "s3://bucket/k", "destination": "/x", "object": {"type": "file"}}
    found = s5cmd.parse_output(0, "GET", 0, [(1, json.dumps(line).encode() + b"\n")], [])
    assert found.ops["bytes"] == [0] and found.ops["error"] == [None]


def test_unexpected_output_fails_the_point():
    with pytest.raises(MeasurementFailed, match="'hello'"):
        s5cmd.parse_output(0, "GET", 10, [(1, b"hello\n")], [])
    lines = [(1, f"{line}\n".encode()) for line in [*printed("a"), *printed("b", "c", size=9)]]
    with pytest.raises(MeasurementFailed, match=r"2 objects .* 9 B instead of 10 B"):
        s5cmd.parse_output(0, "GET", 10, lines, [])


def test_warnings_of_the_program_are_no_results():
    """With few open files s5cmd begins with a line that is not JSON, also under `--json`."""
    warning = b"WARNING: Current open files limit 128 is too low, consider increasing\n"
    lines = [(1, warning), *((2, f"{line}\n".encode()) for line in printed("a"))]
    assert s5cmd.parse_output(0, "GET", 10, lines, []).ops["object"] == ["a"]
