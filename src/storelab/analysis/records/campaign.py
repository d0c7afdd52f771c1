"""A campaign's raw records as the analysis reads them: plan, runs, failures; verification and the seal.

Imports the contract (`records`, `model`) and nothing of the measuring side.
"""

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storelab import __version__
from storelab.analysis.records import links
from storelab.core import evidence, records, sealed
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
        told = self.runs.get(key) or self.failures[key]
        if key in self.runs and len(texts := evidence.texts(self.raw, key)) > 1:
            return [t for t in records.tries(texts, told["point"]) if t["time_ns"] != told["start_ns"]]
        return told.get("earlier", [])

    def files(self, prefix: str) -> list[tuple[str, str]]:
        """Key and file name of the Parquet files `<prefix>.<client>.parquet` of all runs."""
        return [(k, name) for k, run in self.runs.items() for name in run["files"] if name.startswith(f"{prefix}.")]


def watched_s(run: Mapping[str, Any], host: Mapping[str, Any]) -> float:
    """Return how long a host of a run was watched; the length of the run where its record does not tell."""
    return float(host.get("seconds") or (run["deadline_ns"] - run["start_ns"]) / 1e9)


def client_cpu_s(run: Mapping[str, Any]) -> float:
    """Return the CPU seconds of all clients of a run, until each of them ended."""
    return sum((c.get("cpu_user_s") or 0) + (c.get("cpu_system_s") or 0) for c in run["clients"])


def read_plan(folder: Path) -> dict[str, Any]:
    """plan.json. Raises UserError: not there, damaged, or written by a later storelab."""
    path = folder / "raw" / evidence.PLAN
    sealed.refuse_half_sealed(path.parent)
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
    runs = {key: evidence.read(raw, key) for key in points if evidence.has(raw, key)}
    failures = {key: evidence.read(raw, key, records.FAILED) for key in points if key not in runs}
    if known := links.declared(folder):
        links.complete(runs.values(), known)
    return Campaign(folder, plan, runs, failures)


def seal(folder: Path, with_failures: bool = False) -> dict[str, Any]:
    """Close a complete campaign: its records become few files (`core/sealed.py`), and `raw/SEAL` covers them.

    A sealed one is verified and its seal returned; one that an older storelab sealed gets the new form. Killed at any
    moment, the old form or the new one is whole, and the next call goes on.

    Raises UserError: points missing, points failed (unless `with_failures`), records altered, or another process seals.
    """
    with _alone(folder):
        _go_on(folder)
        raw, plan = folder / "raw", read_plan(folder)
        if not (raw / evidence.SUMS).exists() and not records.sealed(raw):
            evidence.write_sums(raw)
        campaign, old = load(folder), evidence.seal_of(raw)
        if old and sealed.is_sealed_form(raw):
            return old
        if campaign.failures and not with_failures and not old:
            raise UserError(
                str(raw / next(iter(campaign.failures))),
                (
                    f"failed ({len(campaign.failures)} of {len(plan['points'])} points): "
                    f"{next(iter(campaign.failures.values()))['reason']}"
                ),
                "measure again, or seal --with-failures",
            )
        now = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "storelab": __version__}
        counts = {"points": len(campaign.points), "failed": len(campaign.failures)}
        told = {"schema": evidence.SEAL_SCHEMA, **now, **counts}
        if old:
            told |= {key: old[key] for key in ("time", "storelab") if key in old} | {"converted": now, "before": old}
        _write_sealed(folder, told)
        _exchange(folder)
        return evidence.seal_of(raw) or told


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let no other process seal this campaign meanwhile."""
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        lock = -1  # what is missing is said by who reads it
    try:
        if lock >= 0:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise UserError(str(folder), "is being sealed by another process", "wait until it has ended") from None
    finally:
        if lock >= 0:
            os.close(lock)


def _go_on(folder: Path) -> None:
    """Put in order what a seal that was killed left. The measured form goes only where the sealed one is whole."""
    raw, sealing, measured = folder / "raw", folder / sealed.SEALING, folder / sealed.MEASURED
    if measured.is_dir() and not raw.exists():
        measured.rename(raw)
    if sealing.is_dir():
        shutil.rmtree(sealing)
    if measured.is_dir():
        evidence.verify(raw)
        _remove_measured(raw, measured)


def _write_sealed(folder: Path, told: dict[str, Any]) -> None:
    """Write the sealed form beside the measured one, and verify it. Nothing stays where that fails."""
    raw, new = folder / "raw", folder / sealed.SEALING
    try:
        new.mkdir()
        sealed.write(raw, evidence.raw_files(raw), new)
        records.write_atomic(new / sealed.MEASURED_SUMS, (raw / evidence.SUMS).read_bytes())
        evidence.write_sums(new)
        for name in (evidence.SUMS, evidence.PLAN):  # the records are the same: what was made of them is not stale
            shutil.copystat(raw / name, new / name)
        records.write_summed(new / evidence.SEAL, told | {"sha256sums_sha256": records.sha256(new / evidence.SUMS)})
        evidence.verify(new)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def _exchange(folder: Path) -> None:
    """Put the sealed form into the place of the measured one, which is removed."""
    raw, new, old = folder / "raw", folder / sealed.SEALING, folder / sealed.MEASURED
    raw.rename(old)
    new.rename(raw)
    records.sync_folder(folder)
    _remove_measured(raw, old)


def _remove_measured(raw: Path, measured: Path) -> None:
    """Remove the measured form, its sums last. Raises UserError: `raw` is not the sealed form of these records."""
    sums, kept = measured / evidence.SUMS, raw / sealed.MEASURED_SUMS
    rest = [path for path in measured.iterdir() if path != sums]
    if rest and not (sums.exists() and kept.exists() and sums.read_bytes() == kept.read_bytes()):
        raise UserError(str(measured), "holds other records than those that were sealed", "move it elsewhere")
    for path in rest:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    shutil.rmtree(measured)
