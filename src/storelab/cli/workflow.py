"""What the Snakefile needs, computed once at parse time: the plan, the gate between measuring and rebuilding (level 4).

The gate: without `measure: true` the measuring rules are not even included, and the raw records must be there already.
"""

import json
import math
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from storelab.core import config, records
from storelab.core.errors import UserError
from storelab.core.model import Point

START_S = 120  # from the begin of a job until its point begins: two starts of Snakemake, on a slow file system too


@dataclass(frozen=True)
class Workflow:
    """measuring: whether the measuring rules are included. raw_inputs: files that the tables depend on."""

    measuring: bool
    campaign_dir: str
    command: str
    raw_inputs: list[str]
    points: dict[str, Point] = field(default_factory=dict)
    datasets: dict[str, list[str]] = field(default_factory=dict)  # point key -> markers of what must be staged
    nodes: dict[str, int] = field(default_factory=dict)  # point key -> nodes of its gang, where each point is a job of its own
    minutes: dict[str, int] = field(default_factory=dict)  # ... and the walltime it asks for


def set_options(overrides: Mapping[str, Any]) -> str:
    """Snakemake's merged `--configfile` and `--config` as options of the CLI."""
    return "".join(f" --set {shlex.quote(f'{key}={json.dumps(value)}')}" for key, value in overrides.items())


def prepare(overrides: Mapping[str, Any], main: Path = Path("config.yaml")) -> Workflow:
    """Raises UserError: wrong configuration, sealed campaign to be measured, records missing for a rebuild."""
    light = config.load_rebuild(main, (), overrides)
    campaign_dir = Path(light.results) / light.name
    raw = campaign_dir / "raw"
    command = f"storelab{set_options(overrides)}"
    if not light.measure:
        return Workflow(False, str(campaign_dir), command, existing(raw, light.name))
    if records.sealed(raw):
        raise UserError(
            str(raw),
            "the campaign is sealed: it is not measured any more",
            "set measure=false to rebuild its paper, or name=… to measure it anew",
        )
    from storelab.core import plan
    from storelab.measure import plan_file
    from storelab.workloads import WORKLOADS

    full = config.load(main, (), overrides)
    planned = plan.make(full, WORKLOADS)
    plan_file.refuse_differences(full, planned)  # here too: with all markers there, no rule would run and say so
    points = {p.key: p for p in planned}
    status = campaign_dir / "status"
    stale = [key for key in points if not (raw / key / "run.json").exists()]
    changed = not plan_file.up_to_date(full, planned, WORKLOADS)
    # A marker without its record marks nothing.
    gone = [status / f"{key}.done" for key in stale] + [status / "plan"] * changed + [status / "collected"] * bool(stale or changed)
    for marker in gone:
        marker.unlink(missing_ok=True)
    staged = {key: [f"{status}/staged/{p.store}/{p.dataset['name']}.done"] if p.dataset else [] for key, p in points.items()}
    nodes, minutes = jobs(full, points)
    return Workflow(True, str(campaign_dir), command, [f"{status}/collected"], points, staged, nodes, minutes)


def jobs(full: config.Config, points: Mapping[str, Point]) -> tuple[dict[str, int], dict[str, int]]:
    """Nodes and minutes by point, for batch systems that run each point as a job. Raises UserError: more nodes needed than may be had."""
    from storelab.gang.launchers import choose, srun

    if full.launcher.kind == "local":
        nodes = dict.fromkeys(points, 1)
    else:
        srun.keep(os.environ)
        nodes = {key: choose.nodes_of(full, p) for key, p in points.items()}
    return nodes, {key: math.ceil((p.fixed["duration_ns"] / 1e9 + srun.BESIDE_S + START_S) / 60) for key, p in points.items()}


def existing(raw: Path, name: str) -> list[str]:
    """The raw files of a measured campaign. Raises UserError where points are missing: no paper from half of the records."""
    if not (raw / "plan.json").exists():
        raise UserError(
            f"campaign {name}",
            f"has no records in {raw}",
            "measure it first: `make measure CAMPAIGN=" + name + "` or `--config measure=true`",
        )
    keys = [p["key"] for p in records.read_json(raw / "plan.json")["points"]]
    absent = records.missing(raw, keys, failed_counts=True)
    if absent:
        raise UserError(
            f"campaign {name}",
            f"{len(absent)} of {len(keys)} raw records are missing, the first is {raw / absent[0]}/run.json",
            "measure what is missing with --config measure=true, or restore it",
        )
    if not (raw / "SHA256SUMS").exists():
        raise UserError(f"campaign {name}", f"{raw}/SHA256SUMS is missing", "run `storelab collect`, or measure=true to the end")
    heads = [raw / k / "run.json" for k in keys]
    return [str(p) for p in [raw / "plan.json", raw / "SHA256SUMS", *heads] if p.exists()]
