"""The end of a campaign: check that every point is complete, and write `SHA256SUMS` over all raw files.

From then on, the checksums certify the files. Therefore files that contradict each other are refused. This module may
import `core`.
"""

from storelab.core import integrity, records
from storelab.core.config import Config
from storelab.core.errors import UserError
from storelab.core.model import Point
from storelab.measure import attempts, plan_file


def damaged(config: Config, points: list[Point]) -> dict[str, integrity.IntegrityError]:
    """Return the problems of damaged records, by the key of the point."""
    there = (p for p in points if (config.raw / p.key / "run.json").exists())
    found = {p.key: integrity.first_error(config.raw / p.key, p.identity()) for p in there}
    return {key: damage for key, damage in found.items() if damage}


def refuse(config: Config, points: list[Point]) -> None:
    """Raise UserError if points were not tried, records are not in the plan, or files are damaged."""
    absent = integrity.missing(config.raw, [p.key for p in points], failed_counts=True)
    if absent:
        failed = len(integrity.missing(config.raw, [p.key for p in points])) - len(absent)
        also = f", and {failed} failed" if failed else ""
        raise UserError(
            f"campaign {config.name}",
            f"{len(absent)} of {len(points)} points were not tried{also}; the first that was not tried is {absent[0]}",
            integrity.go_on(config.name, config.campaign),
        )
    plan_file.refuse_dropped(config, points)
    for key, damage in damaged(config, points).items():
        raise damage.error(f"restore it, or measure it again: `storelab measure {key}`")
    for path in sorted(config.raw.glob("manifests/*/*.json")):
        if wrong := integrity.error_of_manifest(path):
            raise wrong.error("restore it, or stage it again: `storelab stage`")
    for path in integrity.raw_files(config.raw):
        if path.suffix == ".json" and (problem := records.damage(path)):
            raise UserError(str(path), problem, "restore it, or run with measure=true, which writes it again")


def refuse_altered(config: Config) -> None:
    """Raise UserError if an old file, which has no checksum in its record, was altered after it was collected."""
    if not (config.raw / integrity.SUMS).exists():
        return
    listed = integrity.read_sums(config.raw)
    for name, digest in listed.items():
        path = config.raw / name
        if path.suffix != ".json" or name == integrity.PLAN or not path.exists() or records.sha256(path) == digest:
            continue
        if "summed" not in records.read_json(path):
            raise UserError(str(path), "was altered after it was collected", integrity.MEASURE_AGAIN)


def write_sums(config: Config, points: list[Point]) -> int:
    """Write the checksums of all raw files to `SHA256SUMS`, and return their number. Raises UserError like `refuse`."""
    attempts.sweep_raw(config)
    refuse(config, points)
    refuse_altered(config)
    return integrity.write_sums(config.raw)
