"""The end of a campaign: is every point there and whole? Then `SHA256SUMS` is written over all raw files.

What is written there is vouched for from then on, so nothing that disagrees with itself comes in. May import: `core`.
"""

from storelab.core import evidence, records
from storelab.core.config import Config
from storelab.core.errors import UserError
from storelab.core.model import Point
from storelab.measure import attempts, plan_file


def damaged(config: Config, points: list[Point]) -> dict[str, evidence.Flaw]:
    """Key -> what is wrong with the record of a point, where it has one that is damaged."""
    there = (p for p in points if (config.raw / p.key / "run.json").exists())
    found = {p.key: evidence.flaw(config.raw / p.key, p.identity()) for p in there}
    return {key: flaw for key, flaw in found.items() if flaw}


def refuse(config: Config, points: list[Point]) -> None:
    """Raises UserError: points that were not tried, records of no plan, files that are damaged."""
    absent = evidence.missing(config.raw, [p.key for p in points], failed_counts=True)
    if absent:
        raise UserError(
            f"campaign {config.name}",
            f"{len(absent)} of {len(points)} points are not measured, the first is {absent[0]}",
            evidence.go_on(config.name, config.campaign),
        )
    plan_file.refuse_dropped(config, points)
    for key, flaw in damaged(config, points).items():
        raise flaw.error(f"restore it, or measure it anew: `storelab measure {key}`")
    for path in sorted(config.raw.glob("manifests/*/*.json")):
        if wrong := evidence.flaw_of_manifest(path):
            raise wrong.error("restore it, or stage it anew: `storelab stage`")
    for path in evidence.raw_files(config.raw):
        if path.suffix == ".json" and (problem := records.damage(path)):
            raise UserError(str(path), problem, "restore it, or run with measure=true, which writes it anew")


def refuse_altered(config: Config) -> None:
    """Files of before they had sums of their own: they must be what was collected. Raises UserError."""
    if not (config.raw / evidence.SUMS).exists():
        return
    listed = evidence.read_sums(config.raw)
    for name, digest in listed.items():
        path = config.raw / name
        if path.suffix != ".json" or name == evidence.PLAN or not path.exists() or records.sha256(path) == digest:
            continue
        if "summed" not in records.read_json(path):
            raise UserError(str(path), "was altered after it was collected", evidence.ANEW)


def write_sums(config: Config, points: list[Point]) -> int:
    """`SHA256SUMS` over all raw files; returns their number. Raises UserError, see `refuse`."""
    attempts.sweep_raw(config)
    refuse(config, points)
    refuse_altered(config)
    return evidence.write_sums(config.raw)
