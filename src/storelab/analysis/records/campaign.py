"""A campaign's raw records as the analysis reads them: plan, runs, failures; verification and the seal.

Imports the contract (`records`, `model`) and nothing of the measuring side.
"""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storelab import __version__
from storelab.core import records
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
        if key in self.runs and (folder / "failed.json").exists():  # a later try, which failed
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
    path = folder / "raw" / "plan.json"
    if not path.exists():
        raise UserError(
            str(path),
            "is not there: this is no measured campaign",
            "measure it (measure=true), or name another --campaign-dir",
        )
    return _known(path, 1)


def _known(path: Path, newest: int) -> dict[str, Any]:
    """The JSON of a record. Raises UserError where its schema is later than the newest that is known."""
    data = records.read_json(path)
    if data.get("schema", 0) > newest:
        problem = f"has schema {data['schema']}, which this storelab does not know"
        raise UserError(str(path), problem, "use a later storelab")
    return data


def seal_of(folder: Path) -> dict[str, Any] | None:
    """The SEAL of a sealed campaign, else None. Raises UserError where SHA256SUMS changed since."""
    path = folder / "raw" / "SEAL"
    if not path.exists():
        return None
    seal = records.read_json(path)
    sums = folder / "raw" / "SHA256SUMS"
    if not sums.exists() or records.sha256(sums) != seal["sha256sums_sha256"]:
        raise UserError(str(sums), "is not the one that was sealed", "restore it: a sealed campaign does not change")
    return seal


def load(folder: Path) -> Campaign:
    """Verify checksums and seal, then load. Raises UserError: altered or missing records, points that were never
    tried."""
    plan, raw = read_plan(folder), folder / "raw"
    if lost := records.missing(raw, [p["key"] for p in plan["points"]], failed_counts=True):
        raise UserError(
            str(raw / lost[0]),
            f"was not measured ({len(lost)} of {len(plan['points'])} points)",
            "run with measure=true to measure what is missing",
        )
    records.verify(raw)
    seal_of(folder)
    points = {p["key"]: p for p in plan["points"]}
    runs = {key: _run(raw / key, p) for key, p in points.items() if (raw / key / "run.json").exists()}
    failures = {key: records.read_json(raw / key / "failed.json") for key in points if key not in runs}
    return Campaign(folder, plan, runs, failures)


def _run(path: Path, point: dict[str, Any]) -> dict[str, Any]:
    run = _known(path / "run.json", records.SCHEMA)
    if "point" not in run or not records.same_point(run["point"], point):
        raise UserError(
            str(path / "run.json"),
            "is the record of another point than the plan has here",
            "restore it, or measure the point again",
        )
    for name in run["files"]:
        if not (path / name).exists():
            raise UserError(str(path / name), "raw record is missing", "restore it, or measure the point again")
    return run


def seal(folder: Path, with_failures: bool = False) -> dict[str, Any]:
    """Close a complete campaign: write `raw/SEAL`. A sealed one is verified and its seal returned.

    Raises UserError: points missing, points failed (unless `with_failures`), or records altered.
    """
    raw, plan = folder / "raw", read_plan(folder)
    if not (raw / "SHA256SUMS").exists():
        records.write_sums(raw)
    campaign = load(folder)
    if old := seal_of(folder):
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
    seal = {
        "schema": 1,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "storelab": __version__,
        "points": len(campaign.points),
        "failed": len(campaign.failures),
        "sha256sums_sha256": records.sha256(raw / "SHA256SUMS"),
    }
    records.write_atomic(raw / "SEAL", (json.dumps(seal, indent=1) + "\n").encode())
    return seal
