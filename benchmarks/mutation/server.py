"""Try planted faults: a process forks a child for each. It has imported the large packages, but not storelab.

`server.py WORKERS`: each line of its input is a list of jobs, {"id", "kind": "trace" or "fault", …}. It prints one line
for each finished job: {"id", "status", "killers", "seconds"}. A child sees the fault through an import hook, so nothing
is written into the package. Programs that a test starts do not see the fault.
"""

import gc
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from mutation import operators, traced

READY = (
    *(
        "numpy",
        "pandas",
        "pyarrow.parquet",
        "pyarrow.dataset",
        "duckdb",
        "scipy.stats",
        "scipy.optimize",
        "pydantic",
        "yaml",
        "click",
    ),
    *(
        "matplotlib.figure",
        "matplotlib.backends.backend_agg",
        "seaborn",
        "rich.table",
        "psutil",
        "uproot",
        "awkward",
        "fsspec",
        "s3fs",
    ),
    *(
        "boto3",
        "obstore",
        "aiohttp",
        "requests",
        "minio",
        "trustme",
        "hypothesis",
        "xxhash",
        "cramjam",
        "coverage",
        "xdist.scheduler",
    ),
)
SURVIVED, KILLED, BROKEN, TIME_OUT = "survived", "killed", "broken", "time-out"


class Planted(SourceFileLoader):
    """A loader for the module with its fault, which stores no byte code."""

    number = -1

    def get_code(self, fullname: str) -> Any:
        source = Path(self.path).read_text()
        return compile(operators.planted(source, self.number)[0], self.path, "exec", dont_inherit=True)


class Finder:
    def __init__(self, module: str, number: int) -> None:
        self.path = traced.path_of(module)
        self.number = number
        self.package = self.path.name == "__init__.py"
        self.name = traced.dotted(module)

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != self.name:
            return None
        loader = Planted(name, str(self.path))
        loader.number = self.number
        places = [str(self.path.parent)] if self.package else None
        return spec_from_file_location(name, self.path, loader=loader, submodule_search_locations=places)


class Chosen:
    """A pytest plugin that runs only the given tests, in the given order.

    After a failure, only the first `always` of them still run. The file `failures` gets a line for each failed test or
    file; the file `running` contains the name of the current test.
    """

    def __init__(self, tests: list[str], always: int, scratch: Path) -> None:
        self.place, self.always, self.scratch = {t: i for i, t in enumerate(tests)}, always, scratch
        self.failed: list[str] = []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = sorted((i for i in items if i.nodeid in self.place), key=lambda i: self.place[i.nodeid])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: Any) -> bool | None:
        if self.failed and self.place[item.nodeid] >= self.always:
            item.session.shouldfail = "the fault was seen"
            return True
        (self.scratch / "running").write_text(item.nodeid)
        return None

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and report.nodeid not in self.failed:
            self.failed.append(report.nodeid)
            (self.scratch / "failures").write_text("\n".join(self.failed))

    pytest_collectreport = pytest_runtest_logreport


def child(job: dict[str, Any], scratch: Path) -> int:
    """Run the job and return the exit code of pytest."""
    os.chdir(traced.ROOT)
    sink = os.open(scratch / "said", os.O_WRONLY | os.O_CREAT)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    os.environ["TMPDIR"] = tempfile.tempdir = str(scratch)
    resource.setrlimit(resource.RLIMIT_CPU, (int(job["cpu_s"]), int(job["cpu_s"]) + 5))
    if job["kind"] == "trace":
        traced.trace(job["file"], Path(job["out"]), scratch)
        return 0
    if job["number"] >= 0:
        sys.meta_path.insert(0, Finder(job["module"], job["number"]))
    traced.own_campaigns(scratch / "campaigns", job["made"])
    chosen = Chosen(job["tests"], job["always"], scratch)
    files = list(dict.fromkeys(t.partition("::")[0] for t in job["tests"]))
    return int(pytest.main([*traced.QUIET, "--tb=line", *files], plugins=[chosen]))


def start(job: dict[str, Any]) -> tuple[int, Path]:
    scratch = Path(tempfile.mkdtemp(prefix="storelab-mutant-"))
    pid = os.fork()
    if pid:
        return pid, scratch
    status = 99
    with suppress(BaseException):
        os.setsid()
        status = child(job, scratch)
    os._exit(status)


def judged(job: dict[str, Any], status: int | None, scratch: Path, seconds: float) -> dict[str, Any]:
    """Return the result of a job. status: as returned by `os.waitpid`; None after a time-out."""
    killers = _read(scratch / "failures").splitlines()
    code = None if status is None else os.waitstatus_to_exitcode(status)
    if code is None or code in (-signal.SIGXCPU, -signal.SIGKILL):
        result = TIME_OUT
        killers += [t for t in [_read(scratch / "running")] if t and t not in killers]
    elif code in (0, 5):
        result = SURVIVED
    else:
        result = KILLED if code == 1 and killers else BROKEN
    return {"id": job["id"], "status": result, "killers": killers, "seconds": round(seconds, 2)}


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _waited_s(pid: int) -> float:
    """Return how long the process was ready to run while other processes used all CPUs."""
    return int((_read(Path(f"/proc/{pid}/schedstat")).split() or [0, 0])[1]) / 1e9


def serve(jobs: list[dict[str, Any]], workers: int) -> None:
    running: dict[int, tuple[dict[str, Any], Path, float]] = {}
    waiting = list(reversed(jobs))
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                job = waiting.pop()
                pid, scratch = start(job)
                running[pid] = job, scratch, time.monotonic()
            _reap(running)
    finally:
        for pid, (_, scratch, _) in running.items():
            _end(pid)
            shutil.rmtree(scratch, ignore_errors=True)


def _reap(running: dict[int, tuple[dict[str, Any], Path, float]]) -> None:
    """Print the results of jobs that ended, or whose time is over; end the latter."""
    for pid, (job, scratch, begun) in list(running.items()):
        ended, status = os.waitpid(pid, os.WNOHANG)
        late = not ended and time.monotonic() - begun - _waited_s(pid) > job["wall_s"]
        if not (ended or late):
            continue
        _end(pid, wait=not ended)
        del running[pid]
        print(json.dumps(judged(job, status if ended else None, scratch, time.monotonic() - begun)), flush=True)
        shutil.rmtree(scratch, ignore_errors=True)
    time.sleep(0.02)


def _end(pid: int, wait: bool = True) -> None:
    """Kill a child and all processes that it started; it leads its own session."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if wait:
        os.kill(pid, signal.SIGKILL)  # in case the child does not lead a session yet
        os.waitpid(pid, 0)


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    for name in READY:
        with suppress(ImportError):
            importlib.import_module(name)
    assert not [m for m in sys.modules if m.partition(".")[0] == "storelab"]
    gc.freeze()
    for line in sys.stdin:
        serve(json.loads(line), int(sys.argv[1]))
    sys.stdout.flush()
    os._exit(0)  # skips the exit handlers of the packages


if __name__ == "__main__":
    main()
