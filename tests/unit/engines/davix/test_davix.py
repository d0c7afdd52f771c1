"""The engine `davix` without davix: how its program is spoken to, what it counts, and what nobody may read."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from storelab.core.engines import CATALOGUE
from storelab.core.errors import UserError
from storelab.engines.common.error_classes import classify
from storelab.engines.davix import program
from storelab.engines.davix.program import DavixError, Program, facts, spent_of, url_of
from storelab.stores.protocols.endpoint import Bucket, Endpoint
from storelab.stores.protocols.filesystems import path
from storelab.workloads.probe import answers
from storelab.workloads.probe import davix as probing

# Speaks as davix.cpp does: an object of 1000 bytes, byte i is i % 251; one request for each question, one for each range of a vector.
FAKE = """#!{python}
import mmap, os, sys
number = int(sys.argv[1])
data = bytes(i % 251 for i in range(1000))
requests = several = ranges = asked = handed = 0
place = None
log = open({log!r}, "w")
for line in sys.stdin:
    words = line.split()
    log.write(line); log.flush()
    begin, said, came = "ok 0", "", 0
    if words[0] == "size":
        place = mmap.mmap(number, int(words[1]))
    elif words[-1].endswith("/secret"):
        begin, said = "no 17 403", "HTTP 403: not with " + os.environ["AWS_SECRET_ACCESS_KEY"] + " here"
    elif words[-1].endswith("/end"):
        sys.exit(3)
    elif words[0] == "get":
        place[:1000] = data; came = 1000; requests += 1
    elif words[0] == "read":
        a, n = int(words[1]), int(words[2])
        place[:n] = data[a:a + n]; came = n; requests += 1; ranges += 1; asked += n
    elif words[0] == "vector":
        requests += 1; several += 1
        for _ in range(int(words[1])):
            a, n = map(int, sys.stdin.readline().split())
            place[came:came + n] = data[a:a + n]; came += n; requests += 1; ranges += 1; asked += n
    if begin == "ok 0":
        begin = "ok %d" % came
        handed += came
    counts = (requests, several, ranges, asked, handed, handed + 100 * requests, 1, 2)
    print(begin, *counts, "200:%d" % several if several else "-", said, flush=True)
"""
KEYS = {"AWS_ACCESS_KEY_ID": "known-access", "AWS_SECRET_ACCESS_KEY": "most-secret"}
END = Endpoint("http://127.0.0.1:9")


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A program that speaks like ours; its log."""
    log = tmp_path / "log"
    one = tmp_path / "fake"
    one.write_text(FAKE.format(python=sys.executable, log=str(log)))
    one.chmod(0o755)
    monkeypatch.setattr(program, "binary", lambda: one)
    made = []

    def make(endpoint=END, environ=KEYS):
        made.append(Program(endpoint, 7.4, environ))
        return made[-1]

    yield make, log
    for p in made:
        p.close()


def expected(begin, size):
    return bytes(i % 251 for i in range(begin, begin + size))


def test_objects_ranges_and_vectors(fake):
    one = fake[0]()
    assert bytes(one.get("u", 1000)) == expected(0, 1000)
    assert bytes(one.read("u", 300, 7)) == expected(300, 7)
    parts = one.vector("u", [900, 5, 40], [10, 0, 33])
    assert [bytes(p) for p in parts] == [expected(900, 10), b"", expected(40, 33)]
    assert one.vector("u", [], []) == []
    spent = one.spent
    assert (spent.requests, spent.several, spent.ranges, spent.asked, spent.handed) == (6, 1, 4, 50, 1050)
    assert (spent.wire, spent.open, spent.opened, spent.statuses) == (1650, 1, 2, {200: 1})
    assert (spent.counts.requests, spent.counts.asked_bytes, spent.counts.wire_bytes) == (6, 50, 1650)


def test_the_memory_grows_and_holds_the_next_answer(fake, monkeypatch):
    monkeypatch.setattr(program, "LEAST", 16)
    one = fake[0]()
    first = one.read("u", 0, 10)
    kept = bytes(first)
    assert bytes(one.read("u", 100, 400)) == expected(100, 400)
    assert kept == expected(0, 10) and one.room == 400


def test_what_requests_bear_is_named_and_never_told(fake):
    make, log = fake
    door = Endpoint("https://h", protocol="http", token="DOOR", certificate="X509_USER_PROXY", verify=False)
    make(door, {"DOOR": "bearer", "X509_USER_PROXY": "/p"})
    assert log.read_text().split("\n")[:4] == ["timeout 7", "token DOOR", "certificate X509_USER_PROXY", "insecure"]
    make(Endpoint("http://h", region="here"))
    assert log.read_text().split("\n")[:2] == ["timeout 7", "s3 here"]
    assert "secret" not in log.read_text() and "bearer" not in log.read_text()


def test_an_error_has_a_class_a_status_and_no_secret(fake):
    one = fake[0]()
    with pytest.raises(DavixError) as caught:
        one.get("http://h/secret", 10)
    assert classify(caught.value) == ("PermissionRefused", 403)
    assert str(caught.value) == "HTTP 403: not with *** here"
    assert bytes(one.read("u", 1, 2)) == expected(1, 2), "the next question is answered"


def test_a_program_that_ends_is_an_error_and_no_hang(fake):
    one = fake[0]()
    with pytest.raises(DavixError, match="ended") as caught:
        one.get("http://h/end", 10)
    assert classify(caught.value) == ("Ended", 0)


@pytest.mark.parametrize(
    ("words", "kind"),
    [("Could not connect: Connection refused", "ConnectionRefused"), ("odd", "ConnectionProblem")],
)
def test_network_failures_are_those_of_other_engines(fake, monkeypatch, words, kind):
    one = fake[0]()
    monkeypatch.setattr(one.process, "stdout", Lines([f"no 6 0 1 0 0 0 0 0 0 1 - {words}\n"]))
    with pytest.raises(DavixError) as caught:
        one.ask("get u")
    assert classify(caught.value) == (kind, 0) and str(caught.value) == words


class Lines:
    def __init__(self, lines):
        self.lines = lines

    def readline(self):
        return self.lines.pop(0).encode()

    def close(self): ...


def test_counts_of_several_programs():
    a, b = (spent_of(w.split()) for w in ("5 2 9 100 90 400 1 2 200:1,206:1", "1 0 0 0 0 9 0 1 -"))
    assert a.statuses == {200: 1, 206: 1} and b.statuses == {}
    told = {"requests": 6, "for_several_ranges": 2, "ranges": 9, "answers_to_several": {"200": 1, "206": 1}}
    assert facts([a, b]) == told


def test_urls():
    s3, web = Endpoint("http://h:1/"), Endpoint("https://h:2/data", protocol="http")
    bucket = Bucket("b", "p/")
    assert url_of(s3, path(s3, bucket, "a b")) == "http://h:1/b/p/a%20b"
    assert url_of(web, path(web, bucket, "a b")) == "https://h:2/data/b/p/a%20b"


def test_without_it_the_line_says_what_installs_it(tmp_path, monkeypatch):
    monkeypatch.setenv("STORELAB_TOOLS", str(tmp_path))
    with pytest.raises(UserError, match="storelab install davix"):
        program.binary()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / program.NAME).write_text("x")
    (tmp_path / "bin" / f"{program.NAME}.json").write_text('{"source": "of another day", "bytes": 1}')
    assert not program.present(tmp_path), "a program of an older source is none"


def test_the_catalogue_knows_it():
    one = CATALOGUE["davix"]
    assert one.protocols == ("s3", "http") and set(one.uses) == {"get", "get_range", "read_volume", "read_entries"}


def test_no_key_stands_on_a_command_line():
    """What a process is started with, everybody on the machine can read: the number of the memory file, nothing else."""
    source = Path(program.__file__).read_text()
    assert "[str(binary()), str(self.file)]" in source
    assert program.SOURCE.read_text().count("argv") == 0


class Told:
    """Stands for the program in the probe: what it gives, and what it counted."""

    def __init__(self, words, body):
        self.spent, self.body = spent_of(words.split()), body

    def vector(self, url, starts, sizes):
        return [memoryview(self.body)[a : a + n] for a, n in zip(starts, sizes, strict=True)]

    def close(self): ...


@pytest.mark.parametrize(
    ("counted", "right", "answer", "said"),
    [
        ("1 1 10 500 500 900 1 1 206:1", True, "yes", "1 request, answered 206"),
        ("11 1 20 1000 500 900 3 4 200:1", True, "differs", "11 requests, 1 of them for several ranges (answered 200)"),
        ("10 0 10 500 500 900 3 4 -", True, "differs", "10 requests, 0 of them for several ranges (none)"),
        ("1 1 10 500 500 900 1 1 206:1", False, "differs", "wrong bytes"),
    ],
)
def test_the_probe_tells_what_davix_sent(monkeypatch, counted, right, answer, said):
    body = bytes(range(256)) * (probing.SIZE // 256 + 1)
    monkeypatch.setattr(probing, "Program", lambda *_: Told(counted, body if right else body[1:] + b"x"))
    context = SimpleNamespace(endpoint=END, bucket=Bucket("b", "p/"), known="p/known", body=body)
    ((check,),) = (probing.CHECKS,)
    found = answers.ask(check, context, 2**62)
    assert (found.check, found.answer) == ("davix, 10 ranges", answer) and said in found.evidence


def test_the_probe_does_not_try_without_davix(tmp_path, monkeypatch):
    monkeypatch.setenv("STORELAB_TOOLS", str(tmp_path))
    context = SimpleNamespace(endpoint=END, bucket=Bucket("b"), known="known", body=b"")
    found = answers.ask(probing.CHECKS[0], context, 2**62)
    assert found.answer == "not tried" and "storelab install davix" in found.evidence
