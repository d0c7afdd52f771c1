"""LaTeX of numbers.csv and environment.csv: a macro for each number that the text quotes, and what the machine
captured."""

import re
from collections.abc import Mapping

import pandas as pd

from storelab.analysis.latex import FILE, FLAGS, GIVEN
from storelab.analysis.latex.parts import THIN, breakable, camel, escape, left, longtable, row, title
from storelab.analysis.parts import words
from storelab.analysis.records.links import rate
from storelab.analysis.tables.numbers import DEFINITIONS
from storelab.core import units

MOST_VALUES = 4  # of a captured setting that have a row each
KNOWN = {
    "aa_whole": "aa_whole",
    "amplification": "amplification_most",
    "client_memory": "client_memory_most",
    "events_random": "events_random_factor",
    "events_random_planned": "events_random_planned",
    "events_random_fewer": "events_random_planned_fewer",
    "events_random_span": "events_random_factor_span",
    "events_scan": "events_scan_factor",
    "events_scan_planned": "events_scan_planned",
    "events_scan_span": "events_scan_factor_span",
    "front_end_linearity": "linearity_front_ends",
    "intervals": "interval_text",
    "latency_of_closed": "latency_closed_longest",
    "latency_of_open": "latency_open_longest",
    "ledger": "durability_bound",
    "monitor_cost": "monitor_cost_most",
    "link_problem": "link_problem",
    "links_declared": "links_declared",
    "links_known": "links_known",
    "noise": "noise_floor",
    "other_cpu": "other_cpu_most",
    "ports_used": "ports_most",
    "read_wire": "best_read_wire",
    "recovery_pause": "recovery_pause_longest",
    "recovery_told": "recovery_noticed_longest",
    "recovery_whole": "recovery_whole_longest",
    "release_left": "releases_left",
    "second_stores": "second_stores",
    "share_amplification": "share_amplification_most",
    "tail": "tail_most",
    "traffic_even": "traffic_spread_most",
    "uploads_beside": "uploads_beside",
}
POSITIVE = {
    "aa_compared": "aa_compared",
    "calibration_drift": "calibration_drift_most",
    "ceiling_exceeded": "ceiling_exceeded",
    "client_bound": "client_bound",
    "disturbed": "disturbed",
    "errors": "errors",
    "errors_seen": "errors_runs",
    "failed": "points_failed",
    "hung": "hung_runs",
    "hung_unknown": "hung_unknown",
    "invalid": "points_invalid",
    "latency_behind": "latency_open_behind",
    "link_bound": "link_bound",
    "measured": "points_measured",
    "over_nodes": "over_nodes",
    "paused": "paused",
    "shared_host": "shared_host",
    "steadiness": "steadiness_judged",
    "too_short": "too_short",
    "tried_again": "points_tried_again",
    "unsteady": "unsteady",
}


@GIVEN("said", "numbers")
def said(numbers: pd.DataFrame) -> dict[str, str]:
    """Name -> value of numbers.csv."""
    return dict(zip(numbers["name"], numbers["value"], strict=True))


@FLAGS("numbers", "said")
def flags(said: Mapping[str, str]) -> dict[str, bool]:
    """Remarks that rest on a number alone: whether it is there (KNOWN), whether it is above 0 (POSITIVE)
    or above 1."""
    known = {flag: name in said for flag, name in KNOWN.items()}
    known["several_clients"] = said.get("clients_most", "1 client") != "1 client"
    return known | {flag: float(said.get(name, 0) or 0) > 0 for flag, name in POSITIVE.items()}


def macro(name: str) -> str:
    """`best_throughput_upload` -> `\\NumBestThroughputUpload`; letters only, as TeX demands."""
    if not re.fullmatch(r"[a-z]+(_[a-z]+)*", name):
        raise ValueError(f"{name!r} makes no LaTeX macro")
    return f"\\Num{camel(name)}"


def shown(name: str, value: str, unit: str, source: str = "") -> str:
    """Return a number of `numbers.csv` as it is in the text, with its unit: integers and constants of definitions as
    they are, measured values to 3 digits."""
    if re.fullmatch(r"-?\d+(\.0)?", value):
        text = value.removesuffix(".0") if name == "seed" else words.grouped(value.removesuffix(".0"), THIN)
    elif re.fullmatch(r"-?\d+\.\d+", value) and source == DEFINITIONS:
        text = value
    elif re.fullmatch(r"-?\d+(\.\d+)?(e[+-]?\d+)?", value):
        text = words.number(float(value), gap=THIN)
    else:
        text = escape(value)
    return f"{text}~{escape(unit)}" if unit else text


@FILE("numbers", "numbers")
def numbers(table: pd.DataFrame) -> str:
    """One \\newcommand per row of `numbers.csv`, with its source as a comment."""
    lines = [
        f"\\newcommand{{{macro(r.name)}}}{{{shown(r.name, r.value, r.unit, r.source)}}} % {r.source}"
        for r in table.itertuples(index=False)
    ]
    return "% Generated from numbers.csv.\n" + "\n".join(lines) + "\n"


def _value(item: str, value: str) -> str:
    """A captured value in words: sizes exactly where that is short (`32 KiB`), rounded else (`25.3 GB`)."""
    if item.endswith("_bits_per_s"):
        return ", ".join(rate(int(v)) if v.isdigit() else v for v in value.split(", "))
    if not (item.endswith("_bytes") and value.isdigit()):
        return value
    exact = units.format_size(int(value))
    return exact if len(exact) <= 9 else units.human_size(float(value))


@FILE("table_environment", "environment")
def environment(table: pd.DataFrame) -> str:
    """What the machine captured; the last column counts the points where a value differs between points."""
    lines, total = [], {g: rows.groupby("item")["points"].sum().max() for g, rows in table.groupby("group")}
    ranks = ("environment", "clients", "store", "engine", "checks")
    for group in sorted(total, key=lambda g: ([*ranks, g.split()[0]].index(g.split()[0]), g)):
        rows = table[table["group"] == group]
        lines.append(title(3, escape(group[0].upper() + group[1:]), "textbf"))
        for name, same in rows.groupby("item", sort=False):
            path, *key = re.sub("_(bytes|bits_per_s)$", "", name).split(": ", 1)  # dots of a key are part of a name
            item = breakable(escape(": ".join([path.replace("_", " ").replace(".", ", "), *key])))
            values, counts = [_value(name, value) for value in same["value"]], list(same["points"])
            if len(values) > MOST_VALUES:  # an axis of the campaign
                by_number = sorted(values, key=lambda v: (not v.isdigit(), int(v) if v.isdigit() else 0, v))
                values = [f"{len(values)} values from {by_number[0]} to {by_number[-1]}"]
                counts = [sum(counts)]
            told = ["" if n == total[group] else str(n) for n in counts]
            lines += [row([item, breakable(escape(v)) or "--", n]) for v, n in zip(values, told, strict=True)]
    return longtable(
        f"{left(4.2, 10.0)}r",
        "Environment, systems and engines as captured with the records; "
        "a count of points stands where a value does not hold for all of its group. A dash: not set, or not known.",
        "tab:environment",
        ["Item", "Value", "Points"],
        lines,
    )
