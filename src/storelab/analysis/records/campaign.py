"""Raw records of a campaign: load the plan, runs and failures, verify checksums, and seal the campaign.

This module imports only the formats (`core`) and no code that measures.
"""

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storelab import __version__
from storelab.analysis.records import links
from storelab.core import folders, integrity, records, sealed
from storelab.core.errors import UserError


@dataclass(frozen=True)
class Campaign:
    """The records of a campaign: plan (plan.json), runs (key -> run.json) and failures (key -> failed.json).

    Each planned point is in either `runs` or `failures`.
    """

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
        """Return the points of a workload that were measured successfully, in the plan's order."""
        return [p for p in self.points if p["workload"] == workload and p["key"] in self.runs]

    def tries(self, key: str) -> list[dict[str, Any]]:
        """Return the earlier tries of a point, oldest first, in the form of `core.records.earlier`.

        The try whose result is used is not included.
        """
        record = self.runs.get(key) or self.failures[key]
        if key in self.runs and len(texts := integrity.texts(self.raw, key)) > 1:
            return [t for t in records.tries(texts, record["point"]) if t["time_ns"] != record["start_ns"]]
        return record.get("earlier", [])

    def files(self, prefix: str) -> list[tuple[str, str]]:
        """Return key and file name of the Parquet files `<prefix>.<client>.parquet` of all runs."""
        return [(k, name) for k, run in self.runs.items() for name in run["files"] if name.startswith(f"{prefix}.")]


def watched_s(run: Mapping[str, Any], host: Mapping[str, Any]) -> float:
    """Return for how many seconds a host was monitored in a run, or the length of the run if this was not recorded."""
    return float(host.get("seconds") or (run["deadline_ns"] - run["start_ns"]) / 1e9)


def client_cpu_s(run: Mapping[str, Any]) -> float:
    """Return the CPU time in seconds of all clients of a run, from their start to their end."""
    return sum((c.get("cpu_user_s") or 0) + (c.get("cpu_system_s") or 0) for c in run["clients"])


def read_plan(folder: Path) -> dict[str, Any]:
    """Read plan.json. Raises UserError if it does not exist, is damaged, or was written by a later storelab."""
    path = folder / "raw" / integrity.PLAN
    sealed.refuse_half_sealed(path.parent)
    integrity.require_measured(folder)
    plan = integrity.plan_of(path.parent)
    if plan.get("schema", 0) > 1:
        problem = f"has schema {plan['schema']}, which this version of storelab does not know"
        raise UserError(str(path), problem, "use a later version of storelab")
    return plan


def load(folder: Path) -> Campaign:
    """Load the records of a campaign after verifying its checksums and seal.

    Capacities of links that are not in the records are taken from `links.yaml`.

    Raises UserError if records were altered or are missing, or if a point was never tried.
    """
    plan, raw = read_plan(folder), folder / "raw"
    integrity.complete(raw, plan)
    points = {p["key"]: p for p in plan["points"]}
    runs = {key: integrity.read(raw, key) for key in points if integrity.has(raw, key)}
    failures = {key: integrity.read(raw, key, records.FAILED) for key in points if key not in runs}
    if known := links.declared(folder):
        links.complete(runs.values(), known)
    return Campaign(folder, plan, runs, failures)


def seal(folder: Path, with_failures: bool = False, dirty: bool = False) -> dict[str, Any]:
    """Seal a complete campaign and return its seal.

    The records are packed into a few files (`core/sealed.py`), whose checksums are covered by `raw/SEAL`. A sealed
    campaign is only verified. If an older version of storelab sealed it, it is converted to the new form. If the
    process is killed, either the old or the new form is complete, and the next call continues.

    Raises UserError if points are missing, if points failed (unless `with_failures` is set), if points were measured
    with uncommitted changes of the code (unless `dirty` is set and the changes are kept), if records were altered, or
    if another process seals or measures the campaign.
    """
    with folders.campaign_lock(folder, exclusive=True, required=True):
        _recover(folder)
        raw, plan = folder / "raw", read_plan(folder)
        if not (raw / integrity.SUMS).exists() and not records.sealed(raw):
            integrity.write_sums(raw)
        campaign, old = load(folder), integrity.seal_of(raw)
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
        if not old:
            _refuse_dirty(campaign, dirty)
        now = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "storelab": __version__}
        counts = {"points": len(campaign.points), "failed": len(campaign.failures)}
        new = {"schema": integrity.SEAL_SCHEMA, **now, **counts}
        if old:
            new |= {key: old[key] for key in ("time", "storelab") if key in old} | {"converted": now, "before": old}
        _write_sealed(folder, new)
        _exchange(folder)
        return integrity.seal_of(raw) or new


def _refuse_dirty(campaign: Campaign, dirty: bool) -> None:
    """Raise UserError if a point was measured with uncommitted changes, or, with `dirty`, with changes that are lost.

    Records of older versions do not have the changes, and can be sealed with `dirty`.
    """
    found = {key: env for key, run in campaign.runs.items() if (env := run.get("environment") or {}) and _is_dirty(env)}
    again = "commit the changes and measure again"
    for key, env in found.items():
        commit, changes = env["git_commit"].removesuffix("-dirty"), env.get("git_changes")
        if not dirty:
            count = f"({len(found)} of {len(campaign.points)} points)"
            problem = f"was measured with uncommitted changes of the code of commit {commit} {count}"
            raise UserError(str(campaign.raw / key), problem, f"{again}, or use `storelab seal --dirty`")
        if changes and not records.changes_file(campaign.raw, changes.get("sha256", "")).exists():
            problem = f"its changes of the code of commit {commit} were not kept"
            reason = changes.get("not_kept") or "their file is missing"
            raise UserError(str(campaign.raw / key), f"{problem}: {reason}", again)


def _is_dirty(environment: Mapping[str, Any]) -> bool:
    return str(environment.get("git_commit")).endswith("-dirty")


def _recover(folder: Path) -> None:
    """Clean up after a killed `seal`. The measured form is removed only if the sealed form is complete."""
    raw, sealing, measured = folder / "raw", folder / sealed.SEALING, folder / sealed.MEASURED
    if measured.is_dir() and not raw.exists():
        measured.rename(raw)
    if sealing.is_dir():
        shutil.rmtree(sealing)
    if measured.is_dir():
        integrity.verify(raw)
        _remove_measured(raw, measured)


def _write_sealed(folder: Path, seal: dict[str, Any]) -> None:
    """Write the sealed form next to the measured one, and verify it. If this fails, remove the sealed form."""
    raw, new = folder / "raw", folder / sealed.SEALING
    try:
        new.mkdir()
        sealed.write(raw, integrity.raw_files(raw), new)
        records.write_atomic(new / sealed.MEASURED_SUMS, (raw / integrity.SUMS).read_bytes())
        integrity.write_sums(new)
        # copied with the time stamps, so that files made from them stay up to date
        for name in (integrity.SUMS, integrity.PLAN):
            shutil.copystat(raw / name, new / name)
        records.write_summed(new / integrity.SEAL, seal | {"sha256sums_sha256": records.sha256(new / integrity.SUMS)})
        integrity.verify(new)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def _exchange(folder: Path) -> None:
    """Replace the measured form by the sealed one."""
    raw, new, old = folder / "raw", folder / sealed.SEALING, folder / sealed.MEASURED
    raw.rename(old)
    new.rename(raw)
    records.sync_folder(folder)
    _remove_measured(raw, old)


def _remove_measured(raw: Path, measured: Path) -> None:
    """Remove the measured form. Its checksums are removed last, because a later call compares them.

    Raises UserError if `raw` is not the sealed form of these records.
    """
    sums, kept = measured / integrity.SUMS, raw / sealed.MEASURED_SUMS
    rest = [path for path in measured.iterdir() if path != sums]
    if rest and not (sums.exists() and kept.exists() and sums.read_bytes() == kept.read_bytes()):
        raise UserError(str(measured), "contains records that are not sealed in raw/", "move it to another folder")
    for path in rest:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    shutil.rmtree(measured)
