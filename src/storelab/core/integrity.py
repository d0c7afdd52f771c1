"""Check that the raw files of a campaign have not changed since they were measured. All commands use these checks.

While a campaign is measured, a record is stored in its point's folder. Sealing moves all records to a few files
(`core/sealed.py`). These checksums exist:

- `run.json`, `failed.json`, `plan.json` and the manifests contain their own checksum (`records.with_sum`).
- `run.json` and the manifests contain the checksums of the Parquet files in the same folder.
- `SHA256SUMS` contains the checksums of all raw files, and in its last line the checksum of the lines above.
- `SEAL`, which closes the campaign, contains the checksum of `SHA256SUMS` and its own checksum.

Files of older versions can lack some of these checksums and are still readable.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from storelab.core import record_values, records, renamed, sealed
from storelab.core.errors import UserError
from storelab.core.model import Point
from storelab.core.records import RunRecord

SUMS, SEAL, PLAN = "SHA256SUMS", "SEAL", "plan.json"
SEALED_KEYS = ("time", "points", "failed", "sha256sums_sha256")
SEAL_SCHEMA = 2  # 2: the records are in the sealed form
RESTORE = sealed.RESTORE
MEASURE_AGAIN = "restore it, or run with measure=true, which measures damaged points again"
_LINE = re.compile(r"([0-9a-f]{64})  (\S.*)")
_LAST = "# SHA-256 of the lines above: "
# first line of a checksum file of derived files: the checksum of the code that made them
_CODE = re.compile(r"# code: ([0-9a-f]{64})\n")

Digest = Callable[[Path], str]


@dataclass(frozen=True)
class IntegrityError:
    """An integrity problem of a record: the file, and what is wrong with it."""

    path: Path
    problem: str

    def error(self, hint: str = MEASURE_AGAIN) -> UserError:
        return UserError(str(self.path), self.problem, hint)


def first_error(
    folder: Path, point: Mapping[str, Any] | None, digest: Digest = records.sha256
) -> IntegrityError | None:
    """Check the record in a point's folder. Return the first problem, or None.

    The head (`run.json`) is checked first, then its point (given by its identity), then its Parquet files. `digest`
    returns the SHA-256 of a file. Raises UserError if a later version of storelab wrote the record.
    """
    head = folder / "run.json"
    if not head.exists():
        return IntegrityError(head, "raw record is missing")
    if problem := records.damage(head):
        return IntegrityError(head, problem)
    run = records.read_json(head)
    if problem := _problem_of_head(run, point):
        if LATER_SCHEMA in problem:
            raise UserError(str(head), problem, "use a later version of storelab")
        return IntegrityError(head, problem)
    return _error_of_files(folder, run["files"].items(), head.name, digest)


FAILURES = (records.FAILED, records.LATER)
LATER_SCHEMA = "which this version of storelab does not know"


def _problem_of_head(run: Mapping[str, Any], point: Mapping[str, Any] | None) -> str | None:
    """Return the problem of the content of a `run.json`, also if its point is not the expected one, or None."""
    try:
        schema, recorded, _ = run["schema"] + 0, run["point"], run["files"].items()
        same = point is None or records.same_point(recorded, point)
        wrong = record_values.problem(run)
    except (KeyError, TypeError, AttributeError):
        return "is not a record: the file is damaged"
    if schema > records.SCHEMA:
        return f"has schema {schema}, {LATER_SCHEMA}"
    return wrong if same else "is the record of another point than the one in the plan"


def _problem_of_failure(text: bytes, point: Mapping[str, Any] | None) -> str | None:
    """Return the problem of the content of a failed attempt, also if its point is not the expected one, or None."""
    failure = json.loads(text)
    if not isinstance(failure, dict):
        return "is not a record: the file is damaged"
    if wrong := record_values.problem_of_failure(failure):
        return wrong
    same = point is None or records.same_point(failure["point"], point)
    return None if same else "is the record of another point than the one in the plan"


def _error_of_files(folder: Path, files: Iterable[tuple[str, Any]], head: str, digest: Digest) -> IntegrityError | None:
    """Return the problem of the first file that differs from its entry in the head, or None."""
    for name, entry in files:
        path = folder / name
        if not path.is_file():
            return IntegrityError(path, "raw record is missing")
        try:
            agrees = path.stat().st_size == entry["bytes"] and digest(path) == entry["sha256"]
        except (KeyError, TypeError):
            return IntegrityError(folder / head, f"has no size and checksum of {name}: the file is damaged")
        if not agrees:
            return IntegrityError(
                path, f"has a wrong checksum: it is not the file that {head} in the same folder lists"
            )
    return None


def error_of_manifest(path: Path, digest: Digest = records.sha256) -> IntegrityError | None:
    """Check a manifest and the files next to it. Return the first problem, or None."""
    if problem := records.damage(path):
        return IntegrityError(path, problem)
    files = records.read_json(path).get("files", {})
    return _error_of_files(path.parent, files.items(), path.name, digest)


def load_run(folder: Path, point: Point | None = None) -> RunRecord | None:
    """Return the valid record in a point's folder, or None if there is no record or `first_error` finds a problem."""
    if first_error(folder, point.identity() if point else None):
        return None
    return RunRecord.from_json(records.read_json(folder / "run.json"))


def raw_files(raw: Path) -> list[Path]:
    """Return every raw file except the checksums, the seal and temporary files."""
    skip = {raw / SUMS, raw / SEAL}
    return sorted(p for p in raw.rglob("*") if p.is_file() and p not in skip and not p.name.endswith(".tmp"))


def heads(raw: Path) -> list[str]:
    """Return the keys of all existing records, including records of points that are not in the plan."""
    if sealed.is_sealed_form(raw):
        return sorted(key for key, files in sealed.index(raw).texts.items() if "run.json" in files)
    return sorted(p.parent.relative_to(raw).as_posix() for p in raw.rglob("run.json"))


def texts(raw: Path, key: str) -> dict[str, bytes]:
    """Return the JSON files of a point that exist, by their name in `records.HEADS`."""
    if sealed.is_sealed_form(raw):
        return dict(sealed.index(raw).texts.get(key, {}))
    found = {}
    for name in records.HEADS:
        with suppress(FileNotFoundError, NotADirectoryError):
            found[name] = (raw / key / name).read_bytes()
    return found


def has(raw: Path, key: str, *names: str) -> bool:
    """Return True if a point has one of these files (default: `run.json`)."""
    wanted = names or ("run.json",)
    if sealed.is_sealed_form(raw):
        return any(name in sealed.index(raw).texts.get(key, {}) for name in wanted)
    return any((raw / key / name).exists() for name in wanted)


def read(raw: Path, key: str, name: str = "run.json") -> dict[str, Any]:
    """Return a JSON file of a point. Raises UserError if it is missing or not JSON."""
    if not sealed.is_sealed_form(raw):
        return cast(dict[str, Any], renamed.of_run(records.read_json(raw / key / name)))
    try:
        found = json.loads(texts(raw, key)[name])
    except (KeyError, ValueError):
        raise UserError(str(raw / sealed.RUNS), f"has no intact {name} of {key}", RESTORE) from None
    return cast(dict[str, Any], renamed.of_run(found))


def read_run(raw: Path, key: str) -> dict[str, Any]:
    """Return `run.json` of a point. Raises UserError if it is missing, or if its values are impossible."""
    run = read(raw, key)
    if problem := _problem_of_head(run, None):
        raise UserError(f"{raw}: run.json of {key}", problem, MEASURE_AGAIN)
    return run


def missing(raw: Path, keys: Iterable[str], failed_counts: bool = False) -> list[str]:
    """Return the keys of points without `run.json`. With `failed_counts`, a `failed.json` is sufficient."""
    names = ("run.json", records.FAILED) if failed_counts else ("run.json",)
    return [key for key in keys if not has(raw, key, *names)]


def unknown(raw: Path, keys: Iterable[str]) -> list[str]:
    """Return the keys of records whose points are not in the plan."""
    return sorted(set(heads(raw)) - set(keys))


def write_sums(raw: Path) -> int:
    """Write `SHA256SUMS` for all raw files, in the format of `sha256sum -c`, and return the number of files."""
    files = {p.relative_to(raw).as_posix(): records.sha256(p) for p in raw_files(raw)}
    records.write_atomic(raw / SUMS, sums_text(files))
    return len(files)


def sums_text(sums: Mapping[str, str], code: str | None = None) -> bytes:
    """Return the text of a checksum file, for a mapping of name to SHA-256.

    Its last line is the checksum of the lines above.

    code: the checksum of the code that made the files, for derived files.
    """
    text = (f"# code: {code}\n" if code else "") + "".join(f"{digest}  {name}\n" for name, digest in sums.items())
    return f"{text}{_LAST}{records.sha256_of(text.encode())}\n".encode()


def sum_of_records(raw: Path) -> str:
    """Return a checksum that changes with any record but not when the campaign is sealed.

    Raises UserError if there are no checksums.
    """
    measured = raw / sealed.MEASURED_SUMS
    path = measured if measured.exists() else raw / SUMS
    if not path.exists():
        read_sums(raw)
    return records.sha256(path)


def code_of(sums: bytes) -> str | None:
    """Return the checksum of the code that is in a checksum file, or None."""
    found = _CODE.match(sums.decode(errors="replace"))
    return found[1] if found else None


def read_sums(raw: Path, name: str = SUMS) -> dict[str, str]:
    """Return the SHA-256 of each file from `SHA256SUMS`. Raises UserError if the file is missing or damaged."""
    path = raw / name
    if not path.exists():
        hint = "run the campaign with measure=true, or `storelab collect`"
        raise UserError(str(path), "does not exist: the campaign was not collected", hint)
    hint = RESTORE if records.sealed(raw) else "restore it, or run `storelab collect`, which writes it again"
    return parsed_sums(path.read_bytes(), str(path), hint)


def parsed_sums(data: bytes, path: str, hint: str) -> dict[str, str]:
    """Parse a text that `sums_text` wrote. Older files lack its last line, the checksum of the lines above.

    `path` is the name of the file in messages. Raises UserError if the text is damaged.
    """
    listed: dict[str, str] = {}
    text = data.decode(errors="replace")
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines, 1):
        found = _LINE.fullmatch(line.removesuffix("\n"))
        if number == len(lines) and line.startswith(_LAST):
            above = text[: -len(line)].encode()
            if line != f"{_LAST}{records.sha256_of(above)}\n":
                raise UserError(path, "does not match the checksum in its last line: it was changed", hint)
        elif number == 1 and _CODE.fullmatch(line):
            continue
        elif found is None or not line.endswith("\n") or found[2] in listed:
            raise UserError(f"{path}, line {number}", "is not the checksum of a file: it was changed", hint)
        else:
            listed[found[2]] = found[1]
    return listed


def seal_of(raw: Path) -> dict[str, Any] | None:
    """Return the content of SEAL, or None if the campaign is not sealed.

    Raises UserError if SEAL is damaged or SHA256SUMS has changed.
    """
    path, sums = raw / SEAL, raw / SUMS
    if not path.exists():
        return None
    if problem := records.damage(path):
        raise UserError(str(path), problem, RESTORE)
    seal: dict[str, Any] = records.read_json(path)
    if seal.get("schema", 0) > SEAL_SCHEMA:
        raise UserError(
            str(path), f"the file has schema {seal['schema']}, {LATER_SCHEMA}", "use a later version of storelab"
        )
    if lost := [key for key in SEALED_KEYS if key not in seal]:
        raise UserError(str(path), f"has no {lost[0]!r}: the file is damaged", RESTORE)
    if not sums.exists() or records.sha256(sums) != seal["sha256sums_sha256"]:
        raise UserError(str(sums), "is not the one that was sealed", RESTORE)
    return seal


def require_measured(folder: Path) -> None:
    """Raise UserError if this folder of a campaign has no `plan.json`."""
    path = folder / "raw" / PLAN
    if not path.exists():
        hint = f"measure it first: `storelab run {folder.resolve().name}`; or name a measured campaign"
        raise UserError(str(path), "does not exist: this is not a measured campaign", hint)


def plan_of(raw: Path) -> dict[str, Any]:
    """Return the content of `plan.json`. Raises UserError if it is damaged."""
    path = raw / PLAN
    hint = RESTORE if records.sealed(raw) else "restore it, or remove it and run `storelab plan --write`"
    if problem := records.damage(path):
        raise UserError(str(path), problem, hint)
    plan: Any = records.read_json(path)
    wrong = record_values.problem_of_plan(plan) if isinstance(plan, dict) else "is not a plan: the file is damaged"
    if wrong:
        raise UserError(str(path), wrong, hint)
    return renamed.of_plan(plan)


def complete(raw: Path, plan: Mapping[str, Any]) -> int:
    """Verify a campaign like `verify`, and return the number of files.

    Raises UserError if a file is wrong, or if a point was never measured.
    """
    keys = [p["key"] for p in plan["points"]]
    number = verify(raw) if (raw / SUMS).exists() else 0  # verified first, because damaged files must not be read
    lost = missing(raw, keys, failed_counts=True)
    number = number if lost or number else verify(raw)
    if lost:
        problem = f"was not measured; {len(lost)} of {len(keys)} points are missing"
        raise UserError(str(raw / lost[0]), problem, go_on(raw.parent.name, plan.get("file")))
    return number


def go_on(name: str, file: str | None) -> str:
    """Return a hint how to complete a campaign. name: the name of the campaign; file: its campaign file."""
    command = f"storelab run {file or name}" + (f" name={name}" if file not in (None, name) else "")
    return f"measure the missing points: `{command}`, with the original settings; existing records are kept"


def verify(raw: Path) -> int:
    """Check all raw files of a campaign against its seal, checksums, plan and records, and return their number.

    Raises UserError for the first file that was changed or renamed, is missing, or does not belong to the campaign.
    """
    seal = seal_of(raw)
    listed = read_sums(raw)
    hint = RESTORE if seal else MEASURE_AGAIN
    found = {p.relative_to(raw).as_posix(): records.sha256(p) for p in raw_files(raw)}
    _same_names(raw, listed, found, hint)
    for name in listed:
        if found[name] != listed[name]:
            lost = sealed.where_damaged(raw / name) if seal and name.endswith(".parquet") else ""
            problem = "has a wrong checksum: it was changed after it was measured" + (lost and f" ({lost})")
            raise UserError(str(raw / name), problem, hint)

    def digest(path: Path) -> str:
        return found.get(path.relative_to(raw).as_posix(), "")

    points = {p["key"]: p for p in plan_of(raw)["points"]}
    if sealed.is_sealed_form(raw):
        _verify_sealed(raw, points)
    for key in [] if sealed.is_sealed_form(raw) else heads(raw):
        if key not in points:
            known = "is the record of a point that plan.json does not have"
            raise UserError(
                str(raw / key / "run.json"), known, "restore the plan that contains this point, or remove the record"
            )
        if wrong := first_error(raw / key, points[key], digest):
            raise wrong.error(hint)
    for name in found:
        path = raw / name
        if path.suffix == ".json" and path.name != "run.json" and (damaged := records.damage(path)):
            raise UserError(str(path), damaged, hint)
        if path.name in FAILURES and (
            damaged := _problem_of_failure(path.read_bytes(), points.get(Path(name).parent.as_posix()))
        ):
            raise UserError(str(path), damaged, hint)
        if name.startswith("manifests/") and path.suffix == ".json" and (wrong := error_of_manifest(path, digest)):
            raise wrong.error(hint)
    if seal and seal["points"] != len(points):
        raise UserError(
            str(raw / SEAL), f"the seal has {seal['points']} points, but plan.json has {len(points)}", RESTORE
        )
    return len(listed)


def _verify_sealed(raw: Path, points: Mapping[str, Mapping[str, Any]]) -> None:
    """Check the records of a sealed campaign against the plan, and against the checksums from before sealing.

    Raises UserError if they differ.
    """
    head, known = raw / sealed.RUNS, sealed.index(raw)
    measured = read_sums(raw, sealed.MEASURED_SUMS)
    for key, texts in known.texts.items():
        for name, text in texts.items():
            place = f"{head}: {name} of {key}"
            if problem := records.damage_of(text):
                raise UserError(place, problem, RESTORE)
            if measured.get(f"{key}/{name}") != records.sha256_of(text):
                raise UserError(place, f"does not match its checksum in {sealed.MEASURED_SUMS}", RESTORE)
            if name in FAILURES and (problem := _problem_of_failure(text, points.get(key))):
                raise UserError(place, problem, RESTORE)
        if "run.json" in texts and key not in points:
            raise UserError(f"{head}: {key}", "is the record of a point that plan.json does not have", RESTORE)
        run = json.loads(texts["run.json"]) if "run.json" in texts else {"files": {}}
        if problem := _problem_of_head(run, points.get(key)) if "run.json" in texts else None:
            raise UserError(f"{head}: run.json of {key}", problem, RESTORE)
        if lost := run["files"].keys() - known.rows.get(key, {}).keys():
            raise UserError(f"{head}: {key}", f"lacks rows of {min(lost)}", RESTORE)
    gone = measured.keys() - known.names - {p.relative_to(raw).as_posix() for p in raw_files(raw)}
    if gone:
        raise UserError(str(head), f"does not have {min(gone)}, which {sealed.MEASURED_SUMS} lists", RESTORE)


def is_collected(raw: Path) -> bool:
    """Return True if `SHA256SUMS` exists, is intact, and matches all files."""
    try:
        verify(raw)
    except UserError:
        return False
    return True


def _same_names(raw: Path, listed: Mapping[str, str], found: Mapping[str, str], hint: str) -> None:
    """Raise UserError if a listed file is renamed or missing, or if a file is not listed."""
    foreign = [name for name in found if name not in listed]
    gone = [name for name in listed if name not in found]
    for name in gone:
        if there := next((f for f in foreign if found[f] == listed[name]), None):
            raise UserError(str(raw / name), f"was renamed: it has the content of {raw / there}", "rename it back")
    if gone:
        more = f" ({len(gone)} files are missing)" if len(gone) > 1 else ""
        raise UserError(str(raw / gone[0]), f"raw record is missing{more}", hint)
    if foreign:
        problem = f"is not in {SUMS} ({len(foreign)} files are not)"
        raise UserError(str(raw / foreign[0]), problem, "run `storelab collect`, or remove it")
