"""Records: the contract between measuring and analysis. `docs/records.md` explains every column.

Good file at a good path or nothing: temporary name, fsync, rename; `run.json` last. `run.json` bears the SHA-256 of the
Parquet files beside it; `SHA256SUMS` that of every raw file of the campaign; `SEAL` closes the campaign.
"""

import hashlib
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from storelab.core.errors import UserError
from storelab.core.model import Point

SCHEMA = 3  # 2: `intended_ns`, the monitor; invalid runs. 3: `endpoint`
# The files' columns and their types: names that pyarrow knows, or those of `write_table`.
OPS = {
    "client": "int16",
    "worker": "int16",
    "op": "few words",
    "object": "many words",
    "count": "int64",
    "bytes": "int64",
    "wire_bytes": "int64",
    "requests": "int32",
    "start_ns": "int64",
    "first_byte_ns": "int64",
    "end_ns": "int64",
    "status": "int16",
    "error": "string",
    "latency_hist": "histogram",
    "intended_ns": "int64",  # open loop: when the operation was due; null in a closed loop
    "endpoint": "int16",  # number of the front-end, where a client uses several
}
READS = {
    "client": "int16",
    "read": "int32",
    "entries": "int64",
    "branches": "int32",
    "baskets": "int64",
    "needed_bytes": "int64",
    "asked_bytes": "int64",
    "wire_bytes": "int64",
    "requests": "int32",
    "start_ns": "int64",
    "end_ns": "int64",
    "open_ns": "int64",
    "plan_ns": "int64",
    "transfer_ns": "int64",
    "decompress_ns": "int64",
    "deserialise_ns": "int64",
}
ANOMALIES = {
    "client": "int16",
    "scenario": "string",
    "key": "string",
    "same_front_end": "bool",
    "start_ns": "int64",
    "lasted_ns": "int64",
    "watched_ns": "int64",
    "evidence": "string",
}
SCENARIOS = {
    "client": "int16",
    "scenario": "string",
    "same_front_end": "bool",
    "tried": "int64",
    "anomalies": "int64",
    "errors": "int64",
}
ANSWERS = {
    "client": "int16",
    "topic": "string",
    "check": "string",
    "answer": "string",
    "evidence": "string",
    "start_ns": "int64",
    "end_ns": "int64",
}
# What the monitor saw, 5 times a second; counters since the boot of the host, or the begin of the process. `what`:
# `host`, `client` (name: its number; its child processes included), `server` (a daemon of the store), `interface`.
MONITOR = {
    "host": "string",
    "what": "string",
    "name": "string",
    "time_ns": "int64",
    "cpu_user_s": "float64",
    "cpu_system_s": "float64",
    "rss_bytes": "int64",  # host: memory in use
    "established": "int64",  # TCP sockets of the host, by state
    "time_wait": "int64",
    "syn": "int64",  # SYN_SENT, SYN_RECV
    "closing": "int64",  # FIN_WAIT, CLOSE_WAIT, LAST_ACK, CLOSING
    "sockets": "int64",  # client: sockets that it holds open
    "rx_bytes": "int64",
    "tx_bytes": "int64",
    "rx_packets": "int64",
    "tx_packets": "int64",
}
# Files beside `ops` that some workloads leave: `<name>.<client>.parquet`.
TABLES = {"anomalies": ANOMALIES, "scenarios": SCENARIOS, "answers": ANSWERS, "monitor": MONITOR}
HUNG = "Hung"  # error class of an operation that was given up when the drain was over; its `end_ns` says when that was
REPEATED = ("op", "object", "error", "client", "worker", "status", "count")  # columns of few values: as a dictionary


def write_atomic(path: Path, data: bytes, sync: bool = True) -> None:
    """Write a whole file or nothing: temporary name in the same folder, fsync, rename. `sync`: False for a file that
    is soon moved or read, and lost without harm."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as f:
            f.write(data)
            if sync:
                f.flush()
                os.fsync(f.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if error.filename in (None, str(temporary)):  # a full disk is told without one
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, data: Any) -> None:
    write_atomic(path, (json.dumps(data, indent=1, allow_nan=False) + "\n").encode())


def as_json(data: Any) -> Any:
    """`data` as it comes back from a JSON file (tuples become lists)."""
    return json.loads(json.dumps(data))


def read_json(path: Path) -> Any:
    """Raises UserError where the file is missing or no JSON."""
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise UserError(str(path), f"cannot be read ({error.strerror})") from None
    except ValueError:
        raise UserError(
            str(path), "is not JSON: the file is damaged", "restore it, or measure the point again"
        ) from None


class _NoPandas:
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("a measuring process does without pandas", name=name)


def without_pandas() -> None:
    """Load pyarrow at once, and keep it from importing pandas for its first array: half a second of CPU in which other
    clients may still be measuring."""
    sys.meta_path.insert(0, _NoPandas())
    import pyarrow.parquet  # noqa: F401


def write_table(path: Path, kinds: Mapping[str, str], columns: Mapping[str, Any], sync: bool = True) -> None:
    """Write columns (shape (n,) each) as Parquet, atomically. `kinds`: OPS or another declaration of this module; a
    column of it that is missing is null. Times are delta-encoded: they take most of the room."""
    import pyarrow as pa  # here: most commands write no table, and start faster without
    import pyarrow.parquet as pq

    nested = {
        "few words": pa.dictionary(pa.int8(), pa.string()),
        "many words": pa.dictionary(pa.int32(), pa.string()),
        "histogram": pa.list_(pa.struct([("upper_ns", pa.int64()), ("count", pa.int64())])),
    }
    schema = pa.schema({name: nested.get(kind, kind) for name, kind in kinds.items()})
    n, sink = len(next(iter(columns.values()))) if columns else 0, pa.BufferOutputStream()
    arrays = [pa.array(columns[f.name], f.type) if f.name in columns else pa.nulls(n, f.type) for f in schema]
    pq.write_table(
        pa.Table.from_arrays(arrays, schema=schema),
        sink,
        compression="zstd",
        use_dictionary=[name for name in kinds if name in REPEATED],
        column_encoding={name: "DELTA_BINARY_PACKED" for name in kinds if name.endswith(("_ns", "bytes"))},
        write_statistics=False,
    )
    write_atomic(path, sink.getvalue().to_pybytes(), sync)


def move_in(source: Path, target: Path) -> None:
    """Bring a file of the same file system to its place for good: fsync, rename."""
    with open(source, "rb") as f:
        os.fsync(f.fileno())
    os.replace(source, target)


def sha256(path: Path) -> str:
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def file_entries(folder: Path) -> dict[str, dict[str, Any]]:
    """Name -> {sha256, bytes} of the Parquet files in a point's folder."""
    return {p.name: {"sha256": sha256(p), "bytes": p.stat().st_size} for p in sorted(folder.glob("*.parquet"))}


def same_point(recorded: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a record's `point` is the wanted one. Both lie at one key, which leaves axes at their default out: an
    axis that one of them does not know (it came with a later version, maybe in the middle of a campaign) stands at its
    default in the other."""
    shared = recorded["axes"].keys() & wanted["axes"].keys()
    return all(recorded[k] == wanted[k] for k in ("store", "workload", "rep")) and all(
        recorded["axes"][a] == wanted["axes"][a] for a in shared
    )


def load_run(folder: Path, point: Point | None = None) -> dict[str, Any] | None:
    """The valid `run.json` of a point's folder; None where it is absent, of another point, of an unknown schema, or
    without one of its Parquet files."""
    try:
        run = json.loads((folder / "run.json").read_bytes())
        foreign = run["schema"] > SCHEMA or (point and not same_point(run["point"], point.identity()))
        if foreign or any((folder / name).stat().st_size != entry["bytes"] for name, entry in run["files"].items()):
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return run


def earlier(folder: Path, point: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tries of a point (its identity) that its folder tells of, oldest first: time_ns, outcome (`measured` or
    `failed`), reason. Whoever writes a new record keeps them in it: which points were tried more than once is no
    secret."""
    told: dict[tuple[int, str], dict[str, Any]] = {}
    for name in ("run.json", "failed.json"):
        try:
            old = json.loads((folder / name).read_bytes())
            mine = same_point(old["point"], point)
        except (OSError, ValueError, KeyError, TypeError):
            continue
        failed = name == "failed.json"
        this = {"time_ns": old["time_ns" if failed else "start_ns"], "outcome": "failed" if failed else "measured"}
        tries = [*old.get("earlier", []), this | {"reason": old["reason"] if failed else "measured again by request"}]
        told |= {(t["time_ns"], t["outcome"]): t for t in tries} if mine else {}
    return [told[when] for when in sorted(told)]


def finish(folder: Path, run: Mapping[str, Any]) -> None:
    """Write `run.json` last: its presence marks the point as done; an old failure is then history."""
    write_json(folder / "run.json", {"schema": SCHEMA, **run, "files": file_entries(folder)})
    (folder / "failed.json").unlink(missing_ok=True)


def fail(folder: Path, point: Point, reason: str, detail: Mapping[str, Any] | None = None) -> None:
    """A failed point leaves `failed.json` with the reason, never a record."""
    write_json(
        folder / "failed.json",
        {
            "schema": SCHEMA,
            "point": asdict(point),
            "time_ns": time.time_ns(),
            "reason": reason,
            "detail": dict(detail or {}),
            "earlier": earlier(folder, asdict(point)),
        },
    )


def missing(raw: Path, keys: Iterable[str], failed_counts: bool = False) -> list[str]:
    """Keys of points without `run.json` (with `failed_counts`: and without `failed.json`)."""
    names = ("run.json", "failed.json") if failed_counts else ("run.json",)
    return [k for k in keys if not any((raw / k / n).exists() for n in names)]


def sealed(raw: Path) -> bool:
    return (raw / "SEAL").exists()


def raw_files(raw: Path) -> list[Path]:
    """Every raw file that counts: not the checksums themselves, the seal, nor temporary files."""
    skip = {"SHA256SUMS", "SEAL"}
    return sorted(p for p in raw.rglob("*") if p.is_file() and p.name not in skip and not p.name.endswith(".tmp"))


def write_sums(raw: Path) -> int:
    """Write `SHA256SUMS` (format of sha256sum) over all raw files; returns their number."""
    files = raw_files(raw)
    write_atomic(raw / "SHA256SUMS", "".join(f"{sha256(p)}  {p.relative_to(raw).as_posix()}\n" for p in files).encode())
    return len(files)


def verify(raw: Path) -> int:
    """Check every raw file against `SHA256SUMS`; returns how many there are.

    Raises UserError: a file is missing, was altered, or is not listed.
    """
    sums = raw / "SHA256SUMS"
    if not sums.exists():
        raise UserError(
            str(sums),
            "is not there: the campaign was not collected",
            "run the campaign with measure=true, or `storelab collect`",
        )
    lines = (line.partition("  ") for line in sums.read_text().splitlines())
    listed = {name: digest for digest, _, name in lines}
    for name, digest in listed.items():
        path = raw / name
        if not path.exists():
            raise UserError(str(path), "raw record is missing", "restore it, or measure the point again")
        if sha256(path) != digest:
            raise UserError(
                str(path),
                "has a wrong checksum: it was altered after it was measured",
                "restore it, or measure the point again",
            )
    if foreign := [p for p in raw_files(raw) if p.relative_to(raw).as_posix() not in listed]:
        raise UserError(
            str(foreign[0]), f"is not in SHA256SUMS ({len(foreign)} such files)", "run `storelab collect`, or remove it"
        )
    return len(listed)
