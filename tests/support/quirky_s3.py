"""S3 servers that each deviate from the protocol in one way (a quirk), like real servers.

`python quirky_s3.py ENGINE WORKLOAD FOLDER QUIRK=URL …` measures a short point at each of these servers. The output is
JSON, quirk -> result of `measured`.
"""

import gzip
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.client import HTTPMessage
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote

from honest_s3 import FIRST, Answers, Object, honest_s3, md5, quoted
from probed import served

# Quirk -> pattern of the error message of a client that cannot use the server; "": all clients can use it.
QUIRKS = {
    "none": "",
    "no 100 Continue": "",
    "HEAD without length": "Content-Length",
    "chunked bodies": "Content-Length",
    "gzip on request": "",
    "ETag without quotes": "",
    "no ETag": "ETag",
    "ETag other than MD5": "",
    "slow first byte": "",
    "connection closed each time": "",
    "connection closed without a word": "[Cc]losed|broken pipe|reset by peer",
    "redirected": "redirected",
    "busy": "SlowDown|503",
    "wrong Content-Range": r"Content-Range|Requested \d",
    "total unknown": r"Content-Range|CONTENT_RANGE",
    "range ignored": "range",
    "aws-chunked refused": "",
    "aws-chunked stored": "",
}


class Quirky(Answers):
    """A handler like that of the honest server, with one quirk. elsewhere: the target URL of redirects."""

    quirk = ""
    elsewhere = ""
    turns: Iterator[int]

    def handle_expect_100(self):
        return True if self.quirk == "no 100 Continue" else super().handle_expect_100()

    def do_GET(self):
        self.object = "/" in unquote(self.path.partition("?")[0]).strip("/")
        self.ranged = "Range" in self.headers and self.object
        if self.quirk == "slow first byte":
            time.sleep(0.1)
        if self.quirk == "range ignored":
            kept = HTTPMessage()
            for name, text in self.headers.items():
                if name.lower() != "range":
                    kept[name] = text
            self.headers = kept
        chunked = "aws-chunked" in self.headers.get("Content-Encoding", "")
        busy = self.quirk == "busy" and next(self.turns) % 2
        if self.object and (self.quirk == "redirected" or busy or (chunked and self.quirk == "aws-chunked refused")):
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if chunked:
                return self.answer(501, b"<Error><Code>NotImplemented</Code></Error>")
            if busy:
                return self.answer(503, b"<Error><Code>SlowDown</Code></Error>", {"Retry-After": "1"})
            return self.answer(307, b"", {"Location": self.elsewhere + self.path})
        return super().do_GET()

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

    def answer(self, status, body, headers=None):
        headers, read = dict(headers or {}), self.object and self.command in ("GET", "HEAD") and status in (200, 206)
        length = str(len(body))
        if "ETag" in headers:
            if self.quirk == "ETag without quotes":
                headers["ETag"] = headers["ETag"].strip('"')
            if self.quirk == "ETag other than MD5":
                headers["ETag"] = '"version-1"'
            if self.quirk == "no ETag":
                del headers["ETag"]
        if self.quirk == "wrong Content-Range" and "Content-Range" in headers and status == 206:
            first, _, rest = headers["Content-Range"].removeprefix("bytes ").partition("-")
            headers["Content-Range"] = f"bytes {int(first) + 1}-{rest}"
        if self.quirk == "total unknown" and "Content-Range" in headers and status == 206:
            headers["Content-Range"] = headers["Content-Range"].rpartition("/")[0] + "/*"
        if read and self.quirk == "gzip on request" and "gzip" in self.headers.get("Accept-Encoding", ""):
            body, headers["Content-Encoding"] = gzip.compress(body), "gzip"
            length = str(len(body))
        if read and self.quirk == "chunked bodies" and self.command == "GET":
            length, headers["Transfer-Encoding"] = "", "chunked"
            body = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in (body[:700], body[700:]) if p) + b"0\r\n\r\n"
        if read and self.quirk == "HEAD without length" and self.command == "HEAD":
            length = ""
        self.send_response(status)
        if self.quirk.startswith("connection closed"):
            self.close_connection = True
            if self.quirk == "connection closed each time":
                headers["Connection"] = "close"
        if length and status not in (204, 304):
            headers["Content-Length"] = length
        for name, text in headers.items():
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def quirky(*quirks: str, objects: dict[str, bytes] | None = None) -> Iterator[dict[str, tuple[str, SimpleNamespace]]]:
    """Start a server for each quirk, and yield quirk -> (URL, store). objects: initial content of the bucket `b`."""
    with ExitStack() as stack:
        out = {}
        for quirk in quirks:
            url, store = stack.enter_context(honest_s3("any signature"))
            for key, data in (objects or {}).items():
                store.buckets["b"].objects[key] = Object(data, {}, quoted(md5(data).hex()))
            facts = {"store": store, "quirk": quirk, "elsewhere": url, "turns": count()}
            out[quirk] = stack.enter_context(served(Quirky, **facts)), store
        yield out


# Measurement by a client, in a process with the keys in its environment

SIZE, OBJECTS = 1000, 6
AXES = {"get_range": {"range_size": 400, "offset": "random", "access": "once"}, "get": {"access": "once"}}


def staged(folder: Path) -> dict[str, bytes]:
    """Make the files of a data set of small objects and of a small ROOT file. Return the objects for a server."""
    import pytest
    import staged_root
    from staged_bodies import staged as small

    from storelab.datasets.root import generated

    store = SimpleNamespace(buckets={"b": SimpleNamespace(objects={})})
    small(store, "", folder, SIZE, OBJECTS)
    out = {key: one.body for key, one in store.buckets["b"].objects.items()}
    tiny = generated.Scale(entries=103, branches=60, clusters=3, bytes_per_entry=700.0, named=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(generated.SCALES, "tiny", tiny)
        facts = generated.generate_with_side_car(folder / "s.root", folder / staged_root.SIDE_CAR, "tiny", 3)
    (folder / "facts.json").write_text(json.dumps(facts))
    return out | {f"{staged_root.PREFIX}good": (folder / "s.root").read_bytes()}


def measured(engine: str, workload: str, folder: Path, url: str) -> str:
    """Measure a short point. Return the reason why it is invalid, or "" if it is valid."""
    import staged_root
    from made_jobs import client_result, gang_job

    from storelab.core import clock
    from storelab.core.errors import MeasurementFailed, UserError
    from storelab.core.model import Point
    from storelab.engines.common.guard import LimitExceeded
    from storelab.engines.contract import Check, Job
    from storelab.gang import client as gang
    from storelab.measure import record
    from storelab.stores.config import Config
    from storelab.stores.protocols.endpoint import Bucket, Endpoint
    from storelab.stores.s3 import S3, Settings
    from storelab.workloads import WORKLOADS as KINDS

    kind = KINDS[workload]
    axes = {a.name: a.default for a in kind.axes} | {"engine": engine, "clients": 1, "workers": 2, "object_size": SIZE}
    axes |= AXES.get(workload, {})
    scratch = Path(tempfile.mkdtemp(dir=folder))
    limits = dict.fromkeys(("throughput", "requests_per_s", "error_fraction"))
    if "volume_fraction" in axes:
        facts = json.loads((folder / "facts.json").read_text())
        job = staged_root.job_for("b", folder, facts, url, workload, axes | {"volume_fraction": 100.0}, limits=limits)
        place = Bucket("b", staged_root.PREFIX), "good"
    else:
        fixed = {"data_seed": 7, "duration_ns": 10**9}
        point = Point("s", workload, axes, 1, "k", "s", 5, 0, fixed)
        manifest, attempt = folder / "manifest.json", f"{engine}-{os.getpid()}-{time.time_ns()}"
        places = [Bucket("b", "p/")]
        job = Job(point, 0, Endpoint(url), places, scratch / "client", manifest, attempt, limits=limits)
        place = places[0], "data/d/0000000"
    store = S3("quirky", Settings(kind="s3", endpoint=url), folder)

    client = None
    try:  # the order of a point: read the marker in the store, run the client, check the objects
        store.access(0).read(place[0].name, place[0].prefix + place[1])
        client = kind.client(job)
        client.prepare()
        begin = clock.now_ns()
        deadline = begin + job.point.fixed["duration_ns"]
        client.run(begin, deadline)
        result = client_result(begin_ns=begin, deadline_ns=deadline, t0_ns=begin)
        gang.write_tables(scratch, 0, client.result(), result)
        whole = gang_job(job.point, buckets=job.buckets, attempt=job.attempt, scratch=folder)
        checks = [Check(**check) for check in kind.after(store, job.point, whole, scratch)]
        record.accept(limits, [result], result.checks + checks)
        return record.budget(Config.model_construct(failure_budget=0.01), [result]).reason or ""
    except (LimitExceeded, MeasurementFailed, UserError) as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - as the gang reports it
        return f"{type(error).__name__}: {error}"
    finally:
        if client:
            client.close()


def verdicts(engine: str, workload: str, folder: Path, servers: dict[str, str]) -> dict[str, str]:
    """Measure in another process, and return quirk -> reason. servers: quirk -> URL."""
    words = [sys.executable, __file__, engine, workload, str(folder), *(f"{k}={url}" for k, url in servers.items())]
    done = subprocess.run(words, env=dict(os.environ) | FIRST.environ(), capture_output=True, text=True, timeout=300)
    assert done.stdout, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


WORKLOADS = ("put", "get", "get_range", "stat", "read_entries")


def installed(program: str) -> bool:
    """Return True if the program of an engine is installed. program: `module:function`, or "" for none."""
    from storelab.core.errors import UserError

    module, _, function = program.partition(":")
    try:
        return not module or bool(getattr(importlib.import_module(module), function)())
    except UserError:
        return False


def everything(*quirks: str) -> dict[tuple[str, str], dict[str, str]]:
    """Measure with all installed S3 engines. Return (engine, workload) -> quirk -> reason."""
    from storelab.core import engines

    able = [e for e in engines.ALL if "s3" in e.protocols and installed(e.program)]
    pairs = [(e.name, w) for e in able for w in WORKLOADS if w in e.uses]
    with tempfile.TemporaryDirectory(prefix="storelab-quirks-") as name, ThreadPoolExecutor(2) as pool:
        objects = staged(folder := Path(name))
        with quirky(*quirks, objects=objects) as servers:
            urls = {quirk: url for quirk, (url, _) in servers.items()}
            found = pool.map(lambda pair: verdicts(*pair, folder, urls), pairs)
            return dict(zip(pairs, found, strict=True))


def disagreeing(found: dict[tuple[str, str], dict[str, str]]) -> list[str]:
    """Return a line for each failure of an engine whose message does not name the quirk."""
    return [
        f"{engine} {workload}, {quirk}: {reason}"
        for (engine, workload), verdict in found.items()
        for quirk, reason in verdict.items()
        if reason and not (QUIRKS[quirk] and re.search(QUIRKS[quirk], reason))
    ]


def main() -> None:
    engine, workload, folder, *servers = sys.argv[1:]
    out = {}
    for quirk, url in (word.rsplit("=", 1) for word in servers):
        out[quirk] = measured(engine, workload, Path(folder), url)
    print(json.dumps(out), flush=True)
    os._exit(0)  # because obstore can abort at the shutdown of the interpreter


if __name__ == "__main__":
    main()
