"""Evidence: are the raw files of a campaign still what was measured? One look, which every command shares.

A record lies in its point's folder while a campaign is measured, and in few files once it is sealed (`core/sealed.py`).
`run.json`, `failed.json`, `plan.json` and the manifests bear a sum of their own (`records.with_sum`); `run.json` and
the manifests that of the Parquet files beside them; `SHA256SUMS` that of every raw file, and of its own lines; `SEAL`,
which closes the campaign, that of `SHA256SUMS` and its own. What older versions wrote lacks some of these, and is read.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storelab.core import records, sealed
from storelab.core.errors import UserError
from storelab.core.model import Point
from storelab.core.records import RunRecord

SUMS, SEAL, PLAN = "SHA256SUMS", "SEAL", "plan.json"
SEALED_KEYS = ("time", "points", "failed", "sha256sums_sha256")
SEAL_SCHEMA = 2  # 2: the records are in the sealed form
RESTORE = sealed.RESTORE
ANEW = "restore it, or run with measure=true, which measures anew what is damaged"
_LINE = re.compile(r"([0-9a-f]{64})  (\S.*)")
_LAST = "# SHA-256 of the lines above: "
_CODE = re.compile(r"# code: ([0-9a-f]{64})\n")  # of derived files: what they were made by

Digest = Callable[[Path], str]


@dataclass(frozen=True)
class Flaw:
    """What is wrong with a record: the file, and what about it."""

    path: Path
    problem: str

    def error(self, mend: str = ANEW) -> UserError:
        return UserError(str(self.path), self.problem, mend)


def flaw(folder: Path, point: Mapping[str, Any] | None, digest: Digest = records.sha256) -> Flaw | None:
    """What is wrong with the record in a point's folder: its head by itself, against the point (its identity), against
    its Parquet files. `digest`: of a file. Raises UserError where a later storelab wrote it."""
    head = folder / "run.json"
    if not head.exists():
        return Flaw(head, "raw record is missing")
    if problem := records.damage(head):
        return Flaw(head, problem)
    run = records.read_json(head)
    if problem := _problem_of_head(run, point):
        if LATER_SCHEMA in problem:
            raise UserError(str(head), problem, "use a later storelab")
        return Flaw(head, problem)
    return _flaw_of_files(folder, run["files"].items(), head.name, digest)


LATER_SCHEMA = "which this storelab does not know"


def _problem_of_head(run: Mapping[str, Any], point: Mapping[str, Any] | None) -> str | None:
    """What is wrong with the content of a `run.json`, and against the point that it shall be of."""
    try:
        schema, recorded, _ = run["schema"] + 0, run["point"], run["files"].items()
        same = point is None or records.same_point(recorded, point)
    except (KeyError, TypeError, AttributeError):
        return "is no record: the file is damaged"
    if schema > records.SCHEMA:
        return f"has schema {schema}, {LATER_SCHEMA}"
    return None if same else "is the record of another point than the plan has here"


def _flaw_of_files(folder: Path, files: Iterable[tuple[str, Any]], head: str, digest: Digest) -> Flaw | None:
    """The first of the files that is not what the head says of it."""
    for name, entry in files:
        path = folder / name
        if not path.is_file():
            return Flaw(path, "raw record is missing")
        try:
            agrees = path.stat().st_size == entry["bytes"] and digest(path) == entry["sha256"]
        except (KeyError, TypeError):
            return Flaw(folder / head, f"does not say what {name} should be: the file is damaged")
        if not agrees:
            return Flaw(path, f"has a wrong checksum: it is not the file that {head} beside it tells of")
    return None


def flaw_of_manifest(path: Path, digest: Digest = records.sha256) -> Flaw | None:
    """As `flaw`, of a manifest and the files beside it."""
    if problem := records.damage(path):
        return Flaw(path, problem)
    files = records.read_json(path).get("files", {})
    return _flaw_of_files(path.parent, files.items(), path.name, digest)


def load_run(folder: Path, point: Point | None = None) -> RunRecord | None:
    """The valid record in a point's folder; None where there is none, or `flaw` finds something."""
    if flaw(folder, point.identity() if point else None):
        return None
    return RunRecord.from_json(records.read_json(folder / "run.json"))


def raw_files(raw: Path) -> list[Path]:
    """Every raw file that counts: not the checksums themselves, the seal, nor temporary files."""
    skip = {raw / SUMS, raw / SEAL}
    return sorted(p for p in raw.rglob("*") if p.is_file() and p not in skip and not p.name.endswith(".tmp"))


def heads(raw: Path) -> list[str]:
    """Keys of all records that are there, whether a plan knows them or not."""
    if sealed.is_sealed_form(raw):
        return sorted(key for key, own in sealed.index(raw).texts.items() if "run.json" in own)
    return sorted(p.parent.relative_to(raw).as_posix() for p in raw.rglob("run.json"))


def texts(raw: Path, key: str) -> dict[str, bytes]:
    """Return the JSON files of a point, which are some of `records.HEADS`: name -> text."""
    if sealed.is_sealed_form(raw):
        return dict(sealed.index(raw).texts.get(key, {}))
    found = {}
    for name in records.HEADS:
        with suppress(FileNotFoundError, NotADirectoryError):
            found[name] = (raw / key / name).read_bytes()
    return found


def has(raw: Path, key: str, *names: str) -> bool:
    """Whether a point has one of these files (default: `run.json`)."""
    wanted = names or ("run.json",)
    if sealed.is_sealed_form(raw):
        return any(name in sealed.index(raw).texts.get(key, {}) for name in wanted)
    return any((raw / key / name).exists() for name in wanted)


def read(raw: Path, key: str, name: str = "run.json") -> dict[str, Any]:
    """Return a JSON file of a point. Raises UserError: it is missing or no JSON."""
    if not sealed.is_sealed_form(raw):
        found: dict[str, Any] = records.read_json(raw / key / name)
        return found
    try:
        found = json.loads(texts(raw, key)[name])
    except (KeyError, ValueError):
        raise UserError(str(raw / sealed.RUNS), f"has no whole {name} of {key}", RESTORE) from None
    return found


def missing(raw: Path, keys: Iterable[str], failed_counts: bool = False) -> list[str]:
    """Keys of points without `run.json` (with `failed_counts`: and without `failed.json`)."""
    names = ("run.json", records.FAILED) if failed_counts else ("run.json",)
    return [key for key in keys if not has(raw, key, *names)]


def unknown(raw: Path, keys: Iterable[str]) -> list[str]:
    """Keys of records that no point of the plan has."""
    return sorted(set(heads(raw)) - set(keys))


def write_sums(raw: Path) -> int:
    """Write `SHA256SUMS` (`sha256sum -c` reads it) over all raw files; returns their number."""
    files = {p.relative_to(raw).as_posix(): records.sha256(p) for p in raw_files(raw)}
    records.write_atomic(raw / SUMS, sums_text(files))
    return len(files)


def sums_text(sums: Mapping[str, str], code: str | None = None) -> bytes:
    """Name -> SHA-256 as the text of a file of checksums, whose last line has the sum of those above. code: the sum of
    the code that made the files, where they are derived."""
    text = (f"# code: {code}\n" if code else "") + "".join(f"{digest}  {name}\n" for name, digest in sums.items())
    return f"{text}{_LAST}{records.sha256_of(text.encode())}\n".encode()


def sum_of_records(raw: Path) -> str:
    """Return a sum that changes with any record, and stays when the campaign is sealed. Raises UserError: no sums."""
    measured = raw / sealed.MEASURED_SUMS
    path = measured if measured.exists() else raw / SUMS
    if not path.exists():
        read_sums(raw)
    return records.sha256(path)


def code_of(sums: bytes) -> str | None:
    """Return the sum of the code that the text of a file of checksums names."""
    found = _CODE.match(sums.decode(errors="replace"))
    return found[1] if found else None


def read_sums(raw: Path, name: str = SUMS) -> dict[str, str]:
    """File -> SHA-256 as `SHA256SUMS` has them. Raises UserError: not there, or damaged."""
    path = raw / name
    if not path.exists():
        mend = "run the campaign with measure=true, or `storelab collect`"
        raise UserError(str(path), "is not there: the campaign was not collected", mend)
    mend = RESTORE if records.sealed(raw) else "restore it, or run `storelab collect`, which looks at all and writes it"
    return parsed_sums(path.read_bytes(), str(path), mend)


def parsed_sums(data: bytes, path: str, mend: str) -> dict[str, str]:
    """What `sums_text` wrote; older files lack the last line. `path`: for messages. Raises UserError: damaged."""
    listed: dict[str, str] = {}
    text = data.decode(errors="replace")
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines, 1):
        found = _LINE.fullmatch(line.removesuffix("\n"))
        if number == len(lines) and line.startswith(_LAST):
            above = text[: -len(line)].encode()
            if line != f"{_LAST}{records.sha256_of(above)}\n":
                raise UserError(path, "does not agree with the sum in its last line: it was altered", mend)
        elif number == 1 and _CODE.fullmatch(line):
            continue
        elif found is None or not line.endswith("\n") or found[2] in listed:
            raise UserError(f"{path}, line {number}", "is no checksum of a file: it was altered", mend)
        else:
            listed[found[2]] = found[1]
    return listed


def seal_of(raw: Path) -> dict[str, Any] | None:
    """The SEAL of a sealed campaign, else None. Raises UserError: it is damaged, or SHA256SUMS changed since."""
    path, sums = raw / SEAL, raw / SUMS
    if not path.exists():
        return None
    if problem := records.damage(path):
        raise UserError(str(path), problem, RESTORE)
    seal: dict[str, Any] = records.read_json(path)
    if seal.get("schema", 0) > SEAL_SCHEMA:
        raise UserError(str(path), f"has schema {seal['schema']}, {LATER_SCHEMA}", "use a later storelab")
    if lost := [key for key in SEALED_KEYS if key not in seal]:
        raise UserError(str(path), f"has no {lost[0]!r}: the file is damaged", RESTORE)
    if not sums.exists() or records.sha256(sums) != seal["sha256sums_sha256"]:
        raise UserError(str(sums), "is not the one that was sealed", RESTORE)
    return seal


def plan_of(raw: Path) -> dict[str, Any]:
    """`plan.json`. Raises UserError: damaged."""
    path = raw / PLAN
    mend = RESTORE if records.sealed(raw) else "restore it, or remove it and run `storelab plan --write`"
    if problem := records.damage(path):
        raise UserError(str(path), problem, mend)
    plan: dict[str, Any] = records.read_json(path)
    try:
        for point in plan["points"]:
            point["key"], point["store"], point["workload"], point["axes"].keys(), point["rep"]
    except (KeyError, TypeError, AttributeError):
        raise UserError(str(path), "tells no points: the file is damaged", mend) from None
    return plan


def complete(raw: Path, plan: Mapping[str, Any]) -> int:
    """As `verify`, of a campaign whose points were all tried. Raises UserError, also where one was not."""
    keys = [p["key"] for p in plan["points"]]
    number = verify(raw) if (raw / SUMS).exists() else 0  # first: a damaged file is not read
    lost = missing(raw, keys, failed_counts=True)
    number = number if lost or number else verify(raw)
    if lost:
        problem = f"was not measured ({len(lost)} of {len(keys)} points)"
        raise UserError(str(raw / lost[0]), problem, go_on(raw.parent.name, plan.get("file")))
    return number


def go_on(name: str, file: str | None) -> str:
    """How a campaign that is not whole goes on. name: its own; file: that of its campaign file."""
    command = f"make measure CAMPAIGN={file or name}" + (f" CONFIG=name={name}" if file not in (None, name) else "")
    return f"measure what is missing: `{command}`, with the settings it began with; what is there stays"


def verify(raw: Path) -> int:
    """Hold all raw files of a campaign against each other: seal, sums, plan, records; returns how many there are.

    Raises UserError at the first that was altered, is missing or renamed, or is none of the campaign's.
    """
    seal = seal_of(raw)
    listed = read_sums(raw)
    mend = RESTORE if seal else ANEW
    found = {p.relative_to(raw).as_posix(): records.sha256(p) for p in raw_files(raw)}
    _same_names(raw, listed, found, mend)
    for name in listed:
        if found[name] != listed[name]:
            lost = sealed.where_damaged(raw / name) if seal and name.endswith(".parquet") else ""
            problem = "has a wrong checksum: it was altered after it was measured" + (lost and f" ({lost})")
            raise UserError(str(raw / name), problem, mend)

    def digest(path: Path) -> str:
        return found.get(path.relative_to(raw).as_posix(), "")

    points = {p["key"]: p for p in plan_of(raw)["points"]}
    if sealed.is_sealed_form(raw):
        _verify_sealed(raw, points)
    for key in [] if sealed.is_sealed_form(raw) else heads(raw):
        if key not in points:
            known = "is the record of a point that plan.json does not have"
            raise UserError(str(raw / key / "run.json"), known, "restore the plan that has it, or remove the record")
        if wrong := flaw(raw / key, points[key], digest):
            raise wrong.error(mend)
    for name in found:
        path = raw / name
        if path.suffix == ".json" and path.name != "run.json" and (damaged := records.damage(path)):
            raise UserError(str(path), damaged, mend)
        if name.startswith("manifests/") and path.suffix == ".json" and (wrong := flaw_of_manifest(path, digest)):
            raise wrong.error(mend)
    if seal and seal["points"] != len(points):
        raise UserError(str(raw / SEAL), f"tells of {seal['points']} points, plan.json of {len(points)}", RESTORE)
    return len(listed)


def _verify_sealed(raw: Path, points: Mapping[str, Mapping[str, Any]]) -> None:
    """Hold the records of a sealed campaign against the plan, the sums of when they were measured, and each other.

    Raises UserError: they disagree.
    """
    head, known = raw / sealed.RUNS, sealed.index(raw)
    measured = read_sums(raw, sealed.MEASURED_SUMS)
    for key, own in known.texts.items():
        for name, text in own.items():
            place = f"{head}: {name} of {key}"
            if problem := records.damage_of(text):
                raise UserError(place, problem, RESTORE)
            if measured.get(f"{key}/{name}") != records.sha256_of(text):
                raise UserError(place, f"is not what {sealed.MEASURED_SUMS} has", RESTORE)
        if "run.json" in own and key not in points:
            raise UserError(f"{head}: {key}", "is the record of a point that plan.json does not have", RESTORE)
        run = json.loads(own["run.json"]) if "run.json" in own else {"files": {}}
        if problem := _problem_of_head(run, points.get(key)) if "run.json" in own else None:
            raise UserError(f"{head}: run.json of {key}", problem, RESTORE)
        if lost := run["files"].keys() - known.rows.get(key, {}).keys():
            raise UserError(f"{head}: {key}", f"lacks rows of {min(lost)}", RESTORE)
    gone = measured.keys() - known.names - {p.relative_to(raw).as_posix() for p in raw_files(raw)}
    if gone:
        raise UserError(str(head), f"does not have {min(gone)}, which {sealed.MEASURED_SUMS} lists", RESTORE)


def is_collected(raw: Path) -> bool:
    """Whether `SHA256SUMS` is there and whole, and all files are as it has them."""
    try:
        verify(raw)
    except UserError:
        return False
    return True


def _same_names(raw: Path, listed: Mapping[str, str], found: Mapping[str, str], mend: str) -> None:
    """Raises UserError: a listed file is renamed or missing, or a file is not listed."""
    foreign = [name for name in found if name not in listed]
    gone = [name for name in listed if name not in found]
    for name in gone:
        if there := next((f for f in foreign if found[f] == listed[name]), None):
            raise UserError(str(raw / name), f"was renamed: its content is {raw / there}", "give it its name back")
    if gone:
        more = f" ({len(gone)} files are gone)" if len(gone) > 1 else ""
        raise UserError(str(raw / gone[0]), f"raw record is missing{more}", mend)
    if foreign:
        problem = f"is not in {SUMS} ({len(foreign)} such files)"
        raise UserError(str(raw / foreign[0]), problem, "run `storelab collect`, or remove it")
