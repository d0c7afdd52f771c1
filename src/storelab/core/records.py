"""Write and read records, the contract between measuring and analysis. `docs/records.md` explains every column.

A file is either complete at its final path or absent: it is written with a temporary name, synced and renamed.
`run.json` is written last. `core/integrity.py` checks that the files have not changed since they were measured.
"""

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from storelab.core.errors import UserError
from storelab.core.model import JsonObject, Point
from storelab.core.redaction import redacted, without_tokens

if TYPE_CHECKING:  # processes that write no table start faster without it
    import pyarrow as pa

SCHEMA = 4  # 2: `intended_ns`, the monitor, invalid runs. 3: `endpoint`. 4: `files` in the monitor
# Columns of the files and their types: names of pyarrow types, or names that `arrow_schema` defines.
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
    "intended_ns": "int64",  # open loop: time at which the operation was due; null in a closed loop
    "endpoint": "int16",  # number of the front-end, if a client uses several
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
SCENARIOS = {"client": "int16", "scenario": "string", "same_front_end": "bool"}
SCENARIOS |= dict.fromkeys(("tried", "anomalies", "errors"), "int64")
ANSWERS = {
    "client": "int16",
    "topic": "string",
    "check": "string",
    "answer": "string",
    "evidence": "string",
    "start_ns": "int64",
    "end_ns": "int64",
}
_DAY = "begin_ns end_ns prepare_ns files raw_bytes objects stored bytes heads gets puts skipped retries failures"
DAYS = {"client": "int16", "stratum": "int8", "day": "int32", "state": "string", "reason": "string"}
DAYS |= dict.fromkeys(_DAY.split(), "int64")  # days of a release that is published
_LAUNCH = "begin_ns end_ns files raw_bytes objects gets bytes kept"
LAUNCHES = {"client": "int16", "launch": "int32", "application": "int16", "state": "string", "reason": "string"}
LAUNCHES |= dict.fromkeys(_LAUNCH.split(), "int64")  # starts of an application
_COLLECTION = "number begin_ns marked_ns end_ns kept dropped alive dead deletes requests gets retries failures"
COLLECTIONS = {"client": "int16", "state": "string", "reason": "string"}
COLLECTIONS |= dict.fromkeys(_COLLECTION.split(), "int64")  # garbage collections of a release
# Samples of the monitor, up to 5 per second. Counters start when the host boots or the process starts. `what` is
# `host`, `client` (`name` is its number; child processes are included), `server` (a daemon of the store) or
# `interface`.
MONITOR = {
    "host": "string",
    "what": "string",
    "name": "string",
    "time_ns": "int64",
    "cpu_user_s": "float64",
    "cpu_system_s": "float64",
    "rss_bytes": "int64",  # for a host: memory in use
    "established": "int64",  # this and the next three: TCP sockets of the host by state
    "time_wait": "int64",
    "syn": "int64",  # SYN_SENT, SYN_RECV
    "closing": "int64",
    "sockets": "int64",  # number of open sockets of a client
    "files": "int64",  # number of open files of a client or daemon, including sockets
    "rx_bytes": "int64",
    "tx_bytes": "int64",
    "rx_packets": "int64",
    "tx_packets": "int64",
}
# Files that some workloads write in addition to `ops`: `<name>.<client>.parquet`.
TABLES = {"anomalies": ANOMALIES, "scenarios": SCENARIOS, "answers": ANSWERS, "days": DAYS}
TABLES |= {"collections": COLLECTIONS, "launches": LAUNCHES, "monitor": MONITOR}
TESTBED = "10.99.0.{}"  # address in the network of a testbed
FRONT_END_LINK = "fe{}"  # network interface of a front-end of a testbed, by its number from 1
HUNG = "Hung"  # error class of an operation that was abandoned at the end of the drain time, which is its `end_ns`
# files for a failed attempt: if the point has no record, and if it has one
FAILED, LATER = "failed.json", "later.json"
AGAIN = "measured again by request"
HEADS = ("run.json", FAILED, LATER)
SUM_KEYS = ("summed", "sum")  # keys that `with_sum` adds
_SUM = re.compile(rb',\n "sum": "([0-9a-f]{64})"\n}\n\Z')  # the end of a file that contains its own checksum
# columns with few different values, which are stored as dictionaries
REPEATED = ("op", "object", "error", "client", "worker", "status", "count")


@dataclass
class Budget:
    """The failed operations of a run, compared with the failure budget. docs/records.md explains each field."""

    errors: int
    operations: int
    fraction: float
    failure_budget: float
    hung: int | None = None  # number of errors that are hung operations; None if an engine cannot report it
    hung_fraction: float = 0.0
    reason: str | None = None  # reason why the run is invalid
    before_errors: int | None = None  # number of errors until the first action of a fault
    before_operations: int | None = None

    def to_json(self) -> JsonObject:
        out = asdict(self)
        return out if self.before_errors is not None else {k: v for k, v in out.items() if not k.startswith("before_")}


@dataclass
class RoleRecord:
    """The actions of one role of a point. clients: the numbers of its clients."""

    name: str
    workload: str
    axes: JsonObject
    clients: list[int]
    begin_ns: int
    end_ns: int
    engine: JsonObject
    budget: Budget

    def to_json(self) -> JsonObject:
        return {f.name: getattr(self, f.name) for f in fields(self)} | {"budget": self.budget.to_json()}


@dataclass(kw_only=True)
class RunRecord:
    """The record of a point: the content of `run.json`, which docs/records.md explains.

    Fields that are None are omitted from the file. Older records lack some fields.
    """

    schema: int = SCHEMA
    campaign: str = ""
    point: Point
    valid: bool = True
    budget: Budget | None = None
    attempt: str = ""
    launcher: str = ""
    start_ns: int = 0
    deadline_ns: int = 0
    lead_ns: int = 0
    clients: list[JsonObject] = field(default_factory=list)  # each is a `contract.ClientResult`
    host: JsonObject = field(default_factory=dict)
    store: JsonObject = field(default_factory=dict)
    environment: JsonObject = field(default_factory=dict)
    engine: JsonObject = field(default_factory=dict)
    checks: list[JsonObject] = field(default_factory=list)
    events: list[JsonObject] = field(default_factory=list)
    roles: list[RoleRecord] | None = None
    nodes: list[JsonObject] | None = None
    coordinator: JsonObject | None = None  # host of the coordinator, if the clients ran on other nodes
    shared_machine: bool | None = None
    cold: JsonObject | None = None
    fault: JsonObject | None = None
    observed: JsonObject | None = None
    durability: JsonObject | None = None
    fill: JsonObject | None = None
    servers: list[JsonObject] | None = None
    earlier: list[JsonObject] | None = None  # attempts before this one, see `tries`
    files: dict[str, JsonObject] | None = None  # name -> {sha256, bytes}

    def to_json(self) -> JsonObject:
        out = {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not None}
        out["point"] = self.point.to_json()
        if self.budget:
            out["budget"] = self.budget.to_json()
        if self.roles:
            out["roles"] = [role.to_json() for role in self.roles]
        return out

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        run = cls(**{f.name: data[f.name] for f in fields(cls) if f.name in data})
        run.point = Point.from_json(data["point"])
        if "budget" in data:
            run.budget = Budget(**data["budget"])
        if "roles" in data:
            run.roles = [RoleRecord(**role | {"budget": Budget(**role["budget"])}) for role in data["roles"]]
        return run


def write_atomic(path: Path, data: bytes, sync: bool = True) -> None:
    """Write a file atomically: with a temporary name in the same folder, followed by fsync and rename.

    sync: False to skip the fsync, for a file that is soon moved or read and whose loss does no harm.
    """
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
        if error.filename in (None, str(temporary)):  # the error of a full disk has no file name
            error.filename = str(path)
        raise
    finally:
        with contextlib.suppress(OSError):  # there is no temporary file on a read-only disk
            temporary.unlink()


def write_json(path: Path, data: Any) -> None:
    """Write data as JSON, atomically. Raises ValueError if a number is NaN or infinite."""
    write_atomic(path, (json.dumps(data, indent=1, allow_nan=False) + "\n").encode())


def with_sum(data: Mapping[str, Any]) -> bytes:
    """Return `data` as JSON that contains its own checksum.

    The first key is `summed`. The last key is `sum`, the SHA-256 of the text without this key.
    """
    plain = json.dumps(
        {"summed": True} | {k: v for k, v in data.items() if k not in SUM_KEYS}, indent=1, allow_nan=False
    )
    digest = sha256_of(f"{plain}\n".encode())
    return f'{plain[:-2]},\n "sum": "{digest}"\n}}\n'.encode()


def write_summed(path: Path, data: Mapping[str, Any]) -> None:
    """Write JSON that contains its own checksum, so that `damage` detects any later change."""
    write_atomic(path, with_sum(data))


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is not a valid JSON number")


def damage(path: Path) -> str | None:
    """Return what is wrong with a JSON file.

    Return None if it is intact, or if it has no checksum because an old version wrote it.
    """
    try:
        return damage_of(path.read_bytes())
    except OSError as error:
        return f"cannot be read ({error.strerror})"


def damage_of(text: bytes) -> str | None:
    """Return what is wrong with the text of a JSON file, like `damage`."""
    try:
        data = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return "is not JSON: the file is damaged"
    if not isinstance(data, dict):
        return "is not a mapping of keys: the file is damaged"
    found = _SUM.search(text)
    if found is None:
        return "has lost its checksum: the file is damaged" if "summed" in data else None
    plain = text[: found.start()] + b"\n}\n"
    whole = sha256_of(plain) == found[1].decode()
    return None if whole else "does not match its checksum: it was changed after it was written"


def as_json(data: Any) -> Any:
    """Return `data` in the form in which a JSON file returns it (tuples become lists)."""
    return json.loads(json.dumps(data))


def read_json(path: Path) -> Any:
    """Return the content of a JSON file. Raises UserError if it is missing or not JSON."""
    try:
        return json.loads(path.read_bytes(), parse_constant=_no_number)
    except OSError as error:
        raise UserError(str(path), f"cannot be read ({error.strerror})") from None
    except ValueError:
        raise UserError(
            str(path), "is not JSON: the file is damaged", "restore it, or measure the point again"
        ) from None


def read_as(path: Path, kind: Any, hint: str) -> Any:
    """Return the content of a JSON file after checking its type, such as `list[int]` or a dataclass.

    hint: the hint of the error. Raises UserError if the file cannot be read, is not JSON, or has another type.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        data = path.read_bytes()
        TypeAdapter(kind).validate_json(data, strict=True)
    except OSError as error:
        raise UserError(str(path), f"cannot be read ({error.strerror})", hint) from None
    except ValidationError as error:
        first = error.errors()[0]  # the input is not reported, because it can be a secret key
        at = ".".join(map(str, first["loc"]))
        problem = f"{first['msg'][0].lower()}{first['msg'][1:]}"
        raise UserError(str(path), f"is damaged: {f'{at}: ' if at else ''}{problem}", hint) from None
    return json.loads(data)


def write_table(path: Path, kinds: Mapping[str, str], columns: Mapping[str, Any], sync: bool = True) -> None:
    """Write columns (each of shape (n,)) as Parquet, atomically.

    kinds: OPS or another declaration of this module; missing columns become null. Times are delta-encoded, because they
    need most of the space. For `sync`, see `write_atomic`.
    """
    import pyarrow as pa  # imported here, because most commands write no table and start faster without it
    import pyarrow.parquet as pq

    schema = arrow_schema(kinds)
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


def arrow_schema(kinds: Mapping[str, str]) -> "pa.Schema":
    """Return the Arrow schema of a declaration of this module."""
    import pyarrow as pa

    nested = {
        "few words": pa.dictionary(pa.int8(), pa.string()),
        "many words": pa.dictionary(pa.int32(), pa.string()),
        "histogram": pa.list_(pa.struct([("upper_ns", pa.int64()), ("count", pa.int64())])),
    }
    return pa.schema({name: nested.get(kind, kind) for name, kind in kinds.items()})


def read_table(files: Path | Sequence[Path], columns: Sequence[str] | None = None) -> "pa.Table":
    """Return columns (default: all) of Parquet files, concatenated. Raises OSError or ValueError.

    `pyarrow.parquet.read_table` does the same, but first loads Arrow's data sets, which needs 0.2 s of CPU time.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    every = [files] if isinstance(files, Path) else files
    return pa.concat_tables(pq.ParquetFile(path).read(columns) for path in every)


def sync_folder(folder: Path) -> None:
    """Sync the directory entries of a folder to the disk."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def move_in(source: Path, target: Path) -> None:
    """Move a file to its final path on the same file system, by fsync and rename."""
    with open(source, "rb") as f:
        os.fsync(f.fileno())
    os.replace(source, target)


def sha256_of(data: bytes) -> str:
    """Return the SHA-256 of these bytes, in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def file_entries(files: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """Return name -> {sha256, bytes} of files, in the form in which `run.json` lists them."""
    return {p.name: {"sha256": sha256(p), "bytes": p.stat().st_size} for p in files}


def same_point(recorded: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return True if the `point` of a record is the wanted point.

    Both have the same key, which omits axes at their default. If only one of them has an axis, this axis was added in a
    later version, and has its default value in the other.
    """
    shared = recorded["axes"].keys() & wanted["axes"].keys()
    return all(recorded[k] == wanted[k] for k in ("store", "workload", "rep")) and all(
        recorded["axes"][a] == wanted["axes"][a] for a in shared
    )


def earlier(folder: Path, point: Mapping[str, Any], why: str = AGAIN) -> list[dict[str, Any]]:
    """Return the attempts to measure a point (given by its identity) that its folder records, oldest first.

    Each has time_ns, outcome (`measured` or `failed`) and reason. The reason of a measured attempt is `why`: the reason
    for the next attempt. A new record must include all attempts, so that repeated attempts stay visible.
    """
    texts = {}
    for name in HEADS:
        with contextlib.suppress(OSError):
            texts[name] = (folder / name).read_bytes()
    return tries(texts, point, why)


def tries(
    texts: Mapping[str, bytes], point: Mapping[str, Any], why: str = "measured again by request"
) -> list[dict[str, Any]]:
    """Return the attempts to measure a point like `earlier`, from the texts of the files by name."""
    attempts: dict[tuple[int, str], dict[str, Any]] = {}
    for name in filter(texts.__contains__, HEADS):
        try:
            old = json.loads(texts[name])
            failed = name != "run.json"
            this = {"time_ns": old["time_ns" if failed else "start_ns"], "outcome": "failed" if failed else "measured"}
            tries = [*old.get("earlier", []), this | {"reason": old["reason"] if failed else why}]
            attempts |= {(t["time_ns"], t["outcome"]): t for t in tries} if same_point(old["point"], point) else {}
        except (ValueError, KeyError, TypeError, AttributeError):  # a damaged file
            continue
    return [attempts[when] for when in sorted(attempts)]


def finish(folder: Path, run: Mapping[str, Any], tables: Iterable[str] | None = None) -> None:
    """Write `run.json` last, because its presence marks the point as done.

    tables: names of the record's Parquet files; default: all in the folder. `run.json` lists an earlier failed attempt.
    Therefore an existing `failed.json` is first renamed, and removed afterwards, so that both never exist at the same
    time.
    """
    names = sorted(tables) if tables is not None else sorted(p.name for p in folder.glob("*.parquet"))
    files = file_entries(folder / name for name in names)
    if (folder / FAILED).exists():
        os.replace(folder / FAILED, folder / LATER)
    write_summed(folder / "run.json", {"schema": SCHEMA, **redacted(run), "files": files})
    (folder / LATER).unlink(missing_ok=True)


def fail(folder: Path, point: Point, reason: str, detail: Mapping[str, Any] | None = None) -> None:
    """Write `failed.json` with the reason. If the point has a record, keep it and write `later.json` instead."""
    failure = {
        "schema": SCHEMA,
        "point": asdict(point),
        "time_ns": time.time_ns(),
        "reason": without_tokens(reason),
        "detail": redacted(detail or {}),
        "earlier": earlier(folder, asdict(point)),
    }
    write_summed(folder / (LATER if (folder / "run.json").exists() else FAILED), failure)


def changes_file(raw: Path, sha256: str) -> Path:
    """Return the file with the uncommitted changes of the code, by their checksum in the records."""
    return raw / "changes" / f"{sha256}.diff"


def sealed(raw: Path) -> bool:
    """Return True if the records of a campaign are sealed, so that nothing can be added."""
    return (raw / "SEAL").exists()
