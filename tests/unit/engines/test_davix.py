"""The engine `davix` without davix: the protocol of its program, its counts, its secrets, and the probe's question."""

import sys
from types import SimpleNamespace

import pytest

from storelab.core.errors import UserError
from storelab.engines import davix_program
from storelab.engines.common.error_classes import classify
from storelab.engines.davix_program import DavixError, Program, facts, spent_of, url_of
from storelab.stores.protocols.endpoint import Bucket, Endpoint
from storelab.stores.protocols.filesystems import path
from storelab.workloads.probe import answers, byteranges

# Speaks as davix_program.cpp does: an object of 1000 bytes, byte i is i % 251. It counts one request for each question,
# and one for each range of a vector.
FAKE = """#!{python}
import mmap, os, sys
number = int(sys.argv[1])
data = bytes(i % 251 for i in range(1000))
requests = several = ranges = asked = handed = 0
place = None
log = open({log!r}, "w")
log.write(" ".join(sys.argv[2:]))
for line in sys.stdin:
    words = line.split()
    log.write(line); log.flush()
    begin, said, came = "ok 0", "", 0
    if words[0] == "size":
        place = mmap.mmap(number, int(words[1]))
    elif words[-1].endswith("/secret"):
        begin, said = "no 17 403", "HTTP 403: not with " + os.environ["AWS_SECRET_ACCESS_KEY"] + " here"
    elif words[-1].endswith("/refused"):
        begin, said = "no 6 0", "Could not connect: Connection refused"
    elif "/odd-" in words[-1]:
        begin, said = "no %s 0" % words[-1].partition("/odd-")[2], "odd"
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
    """Return a function that starts a program with davix's protocol, and the program's log."""
    log, script = tmp_path / "log", tmp_path / "fake"
    script.write_text(FAKE.format(python=sys.executable, log=str(log)))
    script.chmod(0o755)
    monkeypatch.setattr(davix_program, "binary", lambda: script)
    made = []

    def make(endpoint=END, environ=KEYS):
        made.append(Program(endpoint, 7.4, environ))
        return made[-1]

    yield make, log
    for p in made:
        p.close()


def expected(begin, size):
    return bytes(i % 251 for i in range(begin, begin + size))


def test_program_reads_objects_ranges_and_vectors(fake):
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


def test_memory_grows_with_the_answer(fake, monkeypatch):
    monkeypatch.setattr(davix_program, "MIN_MEMORY", 16)
    one = fake[0]()
    kept = bytes(one.read("u", 0, 10))
    assert bytes(one.read("u", 100, 400)) == expected(100, 400)
    assert kept == expected(0, 10) and one.capacity == 400


def test_credentials_are_named_and_not_passed_on(fake):
    """The command line, which all users of a machine can read, has only the number of the memory file."""
    make, log = fake
    end = Endpoint("https://h", protocol="http", token="TOKEN", certificate="X509_USER_PROXY", verify=False)
    make(end, {"TOKEN": "bearer", "X509_USER_PROXY": "/p"})
    assert log.read_text().split("\n")[:4] == ["timeout 7", "token TOKEN", "certificate X509_USER_PROXY", "insecure"]
    make(Endpoint("http://h", region="here"))
    assert log.read_text().split("\n")[:2] == ["timeout 7", "s3 here"]
    assert "secret" not in log.read_text() and "bearer" not in log.read_text()


def test_errors_have_class_status_and_no_secret(fake):
    one = fake[0]()
    for place, found, message in (
        ("secret", ("PermissionRefused", 403), "HTTP 403: not with *** here"),
        ("refused", ("ConnectionRefused", 0), "Could not connect: Connection refused"),
        ("odd-6", ("ConnectionProblem", 0), "odd"),
        ("odd-99", ("Davix99", 0), "odd"),
        ("odd-0", ("WrongAnswer", 0), "odd"),
    ):
        with pytest.raises(DavixError) as caught:
            one.get(f"http://h/{place}", 10)
        assert (classify(caught.value), str(caught.value)) == (found, message)
    assert bytes(one.read("u", 1, 2)) == expected(1, 2), "the next question is answered"
    with pytest.raises(DavixError) as caught:
        one.get("http://h/end", 10)
    assert classify(caught.value) == ("Ended", 0)


def test_counts_of_programs_are_summed():
    a, b = (spent_of(w.split()) for w in ("5 2 9 100 90 400 1 2 200:1,206:1", "1 0 0 0 0 9 0 1 -"))
    assert a.statuses == {200: 1, 206: 1} and b.statuses == {}
    answers_to_several = {"200": 1, "206": 1}
    counts = {"requests": 6, "for_several_ranges": 2, "ranges": 9, "answers_to_several": answers_to_several}
    assert facts([a, b]) == counts


def test_urls_are_quoted_once():
    s3, web = Endpoint("http://h:1/"), Endpoint("https://h:2/data", protocol="http")
    bucket = Bucket("b", "p/")
    assert url_of(s3, path(s3, bucket, "a b")) == "http://h:1/b/p/a%20b"
    assert url_of(web, path(web, bucket, "a b")) == "https://h:2/data/b/p/a%20b"


def test_missing_program_names_the_install_command(tmp_path, monkeypatch):
    monkeypatch.setenv("STORELAB_TOOLS", str(tmp_path))
    with pytest.raises(UserError, match="storelab install davix"):
        davix_program.binary()
    context = SimpleNamespace(endpoint=END, bucket=Bucket("b"), known="known", body=b"")
    found = answers.ask_question(answers.Check("ranges", "davix, 10 ranges", byteranges.davix_vector), context, 2**62)
    assert found.answer == "not tried" and "storelab install davix" in found.evidence
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / davix_program.NAME).write_text("x")
    (tmp_path / "bin" / f"{davix_program.NAME}.json").write_text('{"source": "of another day", "bytes": 1}')
    assert not davix_program.present(tmp_path), "a program built from older source is not used"


class Answering:
    """A program for the probe, with given answers and counts."""

    def __init__(self, words, body):
        self.spent, self.body = spent_of(words.split()), body

    def vector(self, url, starts, sizes):
        return [memoryview(self.body)[a : a + n] for a, n in zip(starts, sizes, strict=True)]

    def close(self): ...


def test_probe_reports_what_davix_sent(monkeypatch):
    body = bytes(range(256)) * (byteranges.SIZE // 256 + 1)
    for counted, right, answer, evidence in (
        ("1 1 10 500 500 900 1 1 206:1", True, "yes", "1 request, answered 206"),
        ("11 1 20 1000 500 900 3 4 200:1", True, "differs", "11 requests, 1 of them for several ranges (answered 200)"),
        ("10 0 10 500 500 900 3 4 -", True, "differs", "10 requests, 0 of them for several ranges (none)"),
        ("1 1 10 500 500 900 1 1 206:1", False, "differs", "wrong bytes"),
    ):
        program_of = Answering(counted, body if right else body[1:] + b"x")
        monkeypatch.setattr(byteranges, "Program", lambda *_, made=program_of: made)
        context = SimpleNamespace(endpoint=END, bucket=Bucket("b", "p/"), known="p/known", body=body)
        found = answers.ask_question(
            answers.Check("ranges", "davix, 10 ranges", byteranges.davix_vector), context, 2**62
        )
        assert (found.check, found.answer) == ("davix, 10 ranges", answer) and evidence in found.evidence, counted
