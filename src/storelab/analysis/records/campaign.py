"""A campaign's raw records as the analysis reads them: plan, runs, failures; verification and the seal.

Imports the contract (`records`, `model`) and nothing of the measuring side.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storelab import __version__
from storelab.analysis.records import links
from storelab.core import evidence, records
from storelab.core.errors import UserError


@dataclass(frozen=True)
class Campaign:
    """`plan`: plan.json. `runs`, `failures`: key -> run.json, failed.json; together they hold every planned point."""

    folder: Path
    plan: dict[str, Any]
    runs: dict[str, dict[str, Any]]
    failures: dict[str, dict[str, Any]]

    @property
    def raw(self) -> Path:
        return self.folder / "raw"

    @property
    def points(self) -> list[dict[str, Any]]:
        return self.plan["points"]

    def measured(self, workload: str) -> list[dict[str, Any]]:
        """The points of a workload that have a record, in the plan's order."""
        return [p for p in self.points if p["workload"] == workload and p["key"] in self.runs]

    def tries(self, key: str) -> list[dict[str, Any]]:
        """The tries of a point beside the one that counts, oldest first, as `core.records.earlier` has them."""
        folder, told = self.raw / key, self.runs.get(key) or self.failures[key]
        if key in self.runs and any((folder / name).exists() for name in (records.LATER, records.FAILED)):
            return [t for t in records.earlier(folder, told["point"]) if t["time_ns"] != told["start_ns"]]
        return told.get("earlier", [])

    def files(self, prefix: str) -> dict[str, str]:
        """Path -> key of the `ops` or `reads` Parquet files of all runs."""
        return {
            str(self.raw / key / name): key
            for key, run in self.runs.items()
            for name in run["files"]
            if name.startswith(f"{prefix}.")
        }


def read_plan(folder: Path) -> dict[str, Any]:
    """plan.json. Raises UserError: not there, damaged, or written by a later storelab."""
    path = folder / "raw" / evidence.PLAN
    if not path.exists():
        raise UserError(
            str(path),
            "is not there: this is no measured campaign",
            "name a measured one, such as results/reference, by --campaign-dir; or measure it",
        )
    plan = evidence.plan_of(path.parent)
    if plan.get("schema", 0) > 1:
        problem = f"has schema {plan['schema']}, which this storelab does not know"
        raise UserError(str(path), problem, "use a later storelab")
    return plan


def load(folder: Path) -> Campaign:
    """Verify checksums and seal, then load; links that records do not know are those of `links.yaml`.

    Raises UserError: altered or missing records, points that were never tried.
    """
    plan, raw = read_plan(folder), folder / "raw"
    evidence.complete(raw, plan)
    points = {p["key"]: p for p in plan["points"]}
    runs = {k: records.read_json(raw / k / "run.json") for k in points if (raw / k / "run.json").exists()}
    failures = {key: records.read_json(raw / key / records.FAILED) for key in points if key not in runs}
    if known := links.declared(folder):
        links.complete(runs.values(), known)
    return Campaign(folder, plan, runs, failures)


def seal(folder: Path, with_failures: bool = False) -> dict[str, Any]:
    """Close a complete campaign: write `raw/SEAL`. A sealed one is verified and its seal returned.

    Raises UserError: points missing, points failed (unless `with_failures`), or records altered.
    """
    raw, plan = folder / "raw", read_plan(folder)
    if not (raw / evidence.SUMS).exists() and not records.sealed(raw):
        evidence.write_sums(raw)
    campaign = load(folder)
    if old := evidence.seal_of(raw):
        if "summed" not in old:  # of before a seal had a sum of its own
            records.write_summed(raw / evidence.SEAL, old)
        return old
    if campaign.failures and not with_failures:
        raise UserError(
            str(raw / next(iter(campaign.failures))),
            (
                f"failed ({len(campaign.failures)} of {len(plan['points'])} points): "
                f"{next(iter(campaign.failures.values()))['reason']}"
            ),
            "measure again, or seal --with-failures",
        )
    told = {
        "schema": 1,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "storelab": __version__,
        "points": len(campaign.points),
        "failed": len(campaign.failures),
        "sha256sums_sha256": records.sha256(raw / evidence.SUMS),
    }
    records.write_summed(raw / evidence.SEAL, told)
    return evidence.seal_of(raw) or told
