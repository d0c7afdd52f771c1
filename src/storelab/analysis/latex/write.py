"""LaTeX from the tables: macros, figures with captions, flags and the list of sections (level 3, analysis).

`tex/` holds `numbers.tex` (\\Num... macros), `figures.tex` (\\ifHas... flags, \\Fig... macros), `sections.tex`, and the
`table_*.tex` of `latex_tables`. What a campaign has no data for is left out: its flag is false, its section not read.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from storelab.analysis.figures.catalogue import FIGURES
from storelab.analysis.latex import calibration, events, sparse, systems, throughput, trust, verdicts
from storelab.analysis.latex import latency as latex_latency
from storelab.analysis.latex.parts import THIN, escape
from storelab.analysis.parts import words
from storelab.analysis.tables import build as tables
from storelab.analysis.tables import latency
from storelab.analysis.tables import numbers as facts
from storelab.core import records
from storelab.core.errors import UserError


def macro(name: str) -> str:
    """`best_throughput_upload` -> `\\NumBestThroughputUpload`; letters only, as TeX demands."""
    if not re.fullmatch(r"[a-z]+(_[a-z]+)*", name):
        raise ValueError(f"{name!r} makes no LaTeX macro")
    return "\\Num" + "".join(part.capitalize() for part in name.split("_"))


def shown(name: str, value: str, unit: str) -> str:
    """A number of `numbers.csv` as it stands in the text: integers whole, measured values to 3 digits, with unit."""
    if re.fullmatch(r"-?\d+(\.0)?", value):
        text = value.removesuffix(".0") if name == "seed" else words.grouped(value.removesuffix(".0"), THIN)
    elif re.fullmatch(r"-?\d+(\.\d+)?(e[+-]?\d+)?", value):
        text = words.number(float(value), gap=THIN)
    else:
        text = escape(value)
    return f"{text}~{escape(unit)}" if unit else text


def numbers(table: pd.DataFrame) -> str:
    """One \\newcommand per row of `numbers.csv`, with its source as a comment."""
    lines = [f"\\newcommand{{{macro(r.name)}}}{{{shown(r.name, r.value, r.unit)}}} % {r.source}" for r in table.itertuples(index=False)]
    return "% Generated from numbers.csv.\n" + "\n".join(lines) + "\n"


def flags(found: Mapping[str, pd.DataFrame], index: Mapping[str, Any]) -> dict[str, bool]:
    """What the campaign has: HasX for each figure, section and remark of the paper."""
    value = dict(zip(found["numbers"]["name"], found["numbers"]["value"], strict=True))
    has = {name: name in index["figures"] for name in FIGURES}
    has |= {
        name: float(value.get(key, 0) or 0) > 0
        for name, key in (
            ("failed", "points_failed"),
            ("invalid", "points_invalid"),
            ("aa_compared", "aa_compared"),
            ("errors_seen", "errors_runs"),
            ("latency_behind", "latency_open_behind"),
            ("measured", "points_measured"),
            ("too_short", "too_short"),
            ("drifting", "drifting"),
            ("shared_host", "shared_host"),
            ("over_nodes", "over_nodes"),
            ("errors", "errors"),
            ("disturbed", "disturbed"),
            ("client_bound", "client_bound"),
            ("calibration_drift", "calibration_drift_most"),
        )
    }
    has["throughput"] = has["throughput_download"] or has["throughput_upload"]
    has["metadata"] = has["metadata_download"] or has["metadata_upload"]
    has["raw"] = has["throughput"] or has["metadata"]
    reads = set(found["sparse"]["workload"])
    has["sparse"], has["by_volume"], has["replayed"] = (w in reads for w in ("read_entries", "read_volume", "replay"))
    has["table_two"] = bool(len(found["table2"]))
    has["events_processed"] = bool(len(found["events"]))
    has["events_scan"], has["events_random"] = (f"events_{navigation}_factor" in value for navigation in ("scan", "random"))
    has["capabilities"], has["consistency"], has["space_used"] = (bool(len(found[n])) for n in ("capabilities", "consistency", "space"))
    has["latency"] = bool(len(latency.shown(found["latency"])))
    has["latency_of_closed"], has["latency_of_open"] = (f"latency_{loop}_longest" in value for loop in ("closed", "open"))
    has["scaling"] = has["front_ends"] or has["buckets"]
    has["compared"] = any(has[name] for name in ("systems", "scaling", "capabilities", "consistency", "space_used"))
    has["verdicts"] = bool(len(found["verdicts"]))
    has["monitor_cost"], has["ports_used"], has["client_memory"] = (
        name in value for name in ("monitor_cost_most", "ports_most", "client_memory_most")
    )
    has["noise"], has["aa_whole"] = "noise_floor" in value, "aa_whole" in value
    has["curves"], has["front_end_linearity"] = bool(len(found["scaling"])), "linearity_front_ends" in value
    has["calibration"] = bool(len(found["calibration"]))
    has["other_cpu"] = "other_cpu_most" in value
    has["read_wire"] = "best_read_wire" in value
    has["amplification"] = "amplification_most" in value
    has["share_amplification"] = "share_amplification_most" in value
    has["one_front_end"] = not any(
        (rows := facts.of_class(found["throughput"], c)).size and rows["front_ends"].nunique() > 1 for c in facts.CLASSES
    )
    return has


def camel(name: str) -> str:
    return "".join(p.capitalize() for p in name.split("_"))


def figures(has: Mapping[str, bool], index: Mapping[str, Any]) -> str:
    """Flags, then one macro per figure: the whole float with caption and label `fig:<name>`."""
    lines = ["% Generated from the tables and figures/index.json."]
    lines += [f"\\newif\\ifHas{camel(name)}\\Has{camel(name)}{'true' if value else 'false'}" for name, value in sorted(has.items())]
    for name, entry in index["figures"].items():
        lines.append(
            f"\\newcommand{{\\Fig{camel(name)}}}{{\\begin{{figure}}[htbp]\\centering"
            f"\\includegraphics{{{entry['pdf'].removesuffix('.pdf')}}}"
            f"\\caption{{{escape(entry['caption'])}}}\\label{{fig:{name}}}\\end{{figure}}}}"
        )
    return "\n".join(lines) + "\n"


def sections(has: Mapping[str, bool], own: Sequence[str] = ()) -> str:
    """The sections that have something to say, in the paper's order; the campaign's own figures before the conclusions."""
    compared = "systems" if has["compared"] else None
    names = [
        "introduction",
        "method",
        compared,
        "threads" if has["threads"] else None,
        "raw" if has["raw"] else None,
        "latency" if has["latency"] else None,
        "volume" if has["by_volume"] or has["replayed"] else None,
        "entries" if has["sparse"] else None,
        "events" if has["events_processed"] else None,
        "earlier",
        "conclusions",
    ]
    lines = [f"\\input{{sections/{n}}}" for n in names if n]
    if own:
        lines[-1:-1] = [r"\section{Figures of this campaign}", *(f"\\Fig{camel(name)}" for name in own)]
    return "\n".join(["% Generated: a section without data is left out.", *lines]) + "\n"


def build(campaign_dir: Path) -> list[Path]:
    """Write `tex/*.tex` from `tables/` and `figures/index.json`, atomically. Raises UserError where these are missing."""
    found = {name: tables.read(campaign_dir, name) for name in tables.NAMES}
    path = campaign_dir / "figures" / "index.json"
    if not path.exists():
        raise UserError(str(path), "is not there", "run `storelab figures` first")
    index = records.read_json(path)
    has = flags(found, index)
    texts = {
        "numbers": numbers(found["numbers"]),
        "figures": figures(has, index),
        "sections": sections(has, [name for name, entry in index["figures"].items() if entry.get("own")]),
        "table_best": throughput.best(found["throughput"]),
        "table_throughput": throughput.throughput(found["throughput"]),
        "table_sparse": sparse.entries(found["sparse"]),
        "table_two": sparse.table2(found["table2"]),
        "table_volume": sparse.volume(found["sparse"]),
        "table_replay": sparse.replay(found["sparse"]),
        "table_events": events.events(found["events"]),
        "table_systems": systems.systems(found["throughput"]),
        "table_capabilities": systems.capabilities(found["capabilities"]),
        "table_evidence": systems.evidence(found["capabilities"]),
        "table_consistency": systems.consistency(found["consistency"]),
        "table_space": systems.space(found["space"]),
        "table_latency": latex_latency.latencies(found["latency"]),
        "table_errors": latex_latency.errors(found["errors"]),
        "table_invalid": latex_latency.invalid(found["points"]),
        "table_verdicts": verdicts.verdicts(found["verdicts"]),
        "table_knees": trust.knees(found["scaling"]),
        "table_calibration": calibration.ceilings(found["calibration"]),
        "table_failed": throughput.failed(found["points"]),
        "table_environment": throughput.environment(found["environment"]),
    }
    paths = []
    for name, text in texts.items():
        paths.append(campaign_dir / "tex" / f"{name}.tex")
        records.write_atomic(paths[-1], text.encode())
    return paths
