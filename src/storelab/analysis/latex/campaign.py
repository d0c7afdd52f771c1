"""Numbers that the paper's text quotes, and LaTeX tables about the campaign as a whole.

The tables are about the environment, points that are not in a median, failed operations, and ceilings of the clients.
May import: the same packages as `latex`.
"""

import re

import pandas as pd

from storelab.analysis.latex.parts import THIN, breakable, escape, left, shares, stacked, tex_table, title
from storelab.analysis.latex.templates import Tex
from storelab.analysis.parts import labels
from storelab.analysis.records.links import rate
from storelab.analysis.tables import calibration
from storelab.analysis.tables.errors import error_labels
from storelab.analysis.tables.numbers import DEFINITIONS
from storelab.core import units
from storelab.core.axes import CLIENTS, ENGINE, KEYS, OBJECT_SIZE, WORKERS
from storelab.core.calibration import OPERATION

MAX_VALUES = 4  # maximum number of values of a captured setting that are listed


def shown(name: str, value: str, unit: str, source: str = "") -> str:
    """Return a number of `numbers.csv` as LaTeX, with its unit.

    Integers and constants of definitions are printed in full. Measured values are rounded to 3 digits.
    """
    if re.fullmatch(r"-?\d+(\.0)?", value):
        text = value.removesuffix(".0") if name == "seed" else labels.grouped(value.removesuffix(".0"), THIN)
    elif re.fullmatch(r"-?\d+\.\d+", value) and source == DEFINITIONS:
        text = value
    elif re.fullmatch(r"-?\d+(\.\d+)?(e[+-]?\d+)?", value):
        text = labels.number(float(value), gap=THIN)
    else:
        text = escape(value)
    return f"{text}~{escape(unit)}" if unit else text


def numbers(table: pd.DataFrame) -> dict[str, Tex]:
    """Return the numbers of `numbers.csv` by name, as LaTeX for the templates. A count of 0 is false in an `if`."""
    return {
        r.name: Tex(shown(r.name, r.value, r.unit, r.source), (r.value, r.unit) != ("0", ""))
        for r in table.itertuples(index=False)
    }


def _value(item: str, value: str) -> str:
    """Return a captured value as text. Sizes are exact if this is short (`32 KiB`), otherwise rounded (`25.3 GB`)."""
    if item.endswith("_bits_per_s"):
        return ", ".join(rate(int(v)) if v.isdigit() else v for v in value.split(", "))
    if not (item.endswith("_bytes") and value.isdigit()):
        return value
    exact = units.format_size(int(value))
    return exact if len(exact) <= 9 else units.human_size(float(value))


def environment(table: pd.DataFrame) -> str:
    """Return the table of the captured environment.

    The last column has the number of points if a value does not hold for all points of its group.
    """
    lines, total = [], {g: rows.groupby("item")["points"].sum().max() for g, rows in table.groupby("group")}
    ranks = ("environment", "clients", "store", "engine", "checks")
    for group in sorted(total, key=lambda g: ([*ranks, g.split()[0]].index(g.split()[0]), g)):
        rows = table[table["group"] == group]
        lines.append(title(3, escape(group[0].upper() + group[1:]), "textbf"))
        for name, same in rows.groupby("item", sort=False):
            path, *key = re.sub("_(bytes|bits_per_s)$", "", name).split(": ", 1)  # dots in a key are part of a name
            item = breakable(escape(": ".join([path.replace("_", " ").replace(".", ", "), *key])))
            values, counts = [_value(name, value) for value in same["value"]], list(same["points"])
            if len(values) > MAX_VALUES:  # many values are usually those of an axis of the campaign
                by_number = sorted(values, key=lambda v: (not v.isdigit(), int(v) if v.isdigit() else 0, v))
                values = [f"{len(values)} values from {by_number[0]} to {by_number[-1]}"]
                counts = [sum(counts)]
            shown_counts = ["" if n == total[group] else str(n) for n in counts]
            lines += [[item, breakable(escape(v)) or "--", n] for v, n in zip(values, shown_counts, strict=True)]
    caption = (
        "Environment, systems and engines as captured with the records; a count of points is given if a value does "
        "not hold for all points of its group. A dash: not set, or not known."
    )
    head = ["Item", "Value", "Points"]
    return tex_table(f"{left(4.2, 10.0)}r", head, lines, caption, "tab:environment", floats=False)


def _with_reasons(points: pd.DataFrame, state: str, caption: str) -> str:
    rows = points[points["state"] == state]
    lines = [[breakable(escape(r.key)), escape(r.reason)] for r in rows.itertuples(index=False)]
    return tex_table(left(7.5, 8.2), ["Point", "Reason"], lines, caption, f"tab:{state}", floats=False)


def failed(points: pd.DataFrame) -> str:
    """Return a table of all failed points with their reasons."""
    return _with_reasons(points, "failed", "Points that failed, with the recorded reason. No median includes them.")


def tried(points: pd.DataFrame) -> str:
    """Return a table of all points that were tried more than once, with the results of the tries that are not used."""
    rows = points[points["tries"] > 1]
    lines = [[breakable(escape(r.key)), escape(r.other_tries)] for r in rows.itertuples(index=False)]
    caption = "Points that were tried more than once, and the results of the tries that are not used."
    return tex_table(left(7.5, 8.2), ["Point", "Other tries"], lines, caption, "tab:tried", floats=False)


def invalid(points: pd.DataFrame) -> str:
    """Return a table of all invalid runs with their reasons."""
    caption = (
        "Invalid runs: measured, but with more failed operations than the budget of the campaign, or with too much of "
        "the workers' time lost to operations that hung. No median includes them."
    )
    return _with_reasons(points, "invalid", caption)


def errors(table: pd.DataFrame) -> str:
    """Return a table of failed operations by store, workload, op and class, over all runs."""
    found = table.assign(c=error_labels(table))
    lines = []
    for (store, workload, op, name), g in found.groupby(["store", "workload", "op", "c"], sort=True):
        cells = [store, workload, op, name, f"{g['key'].nunique()}", f"{g[g['state'] == 'invalid']['key'].nunique()}"]
        shares = [
            labels.number(g["operations"].sum(), gap=THIN),
            labels.number(100 * g["fraction"].max(), significant=2),
        ]
        times = [labels.number(g["first_s"].min(), places=1), labels.number(g["last_s"].max(), places=1)]
        lines.append([*map(escape, cells), *shares, *times])
    caption = (
        "Failed operations by class: the HTTP status, if there was one, with the error code of the response or the "
        "error of the engine; number of runs in which it occurred, how many of these are invalid, operations of all "
        "runs, the largest fraction of the operations of one run, and the earliest and the latest time in a run, "
        "counted from the agreed start. The class Hung contains operations that were abandoned some time after the "
        "deadline; for these, the time of abandonment is given."
    )
    head = ["Store", "Workload", "", "Class", "Runs", "Invalid", "Failed", r"Most [\%]", "First [s]", "Last [s]"]
    return tex_table(f"lll{left(4.2)}rrrrrr", head, lines, caption, "tab:errors", floats=False)


# Axes that distinguish ceilings, in addition to operation and engine. An axis with only its default is not shown.
AXES = tuple(c for c in calibration.AGREE if c not in (OPERATION.column, ENGINE.column))
CEILING_AXES = (OBJECT_SIZE.column, CLIENTS.column, WORKERS.column)


def _ceiling_cell(column: str, value: object) -> str:
    if column.endswith("_bytes"):
        return units.format_size(int(value)) if int(value) else "--"  # type: ignore[call-overload]
    return escape(str(value)) if value or column != KEYS.column else "--"


def ceilings(table: pd.DataFrame) -> str:
    """Return a table with one row per ceiling.

    The columns are the rates before and after the campaign, the drift, the throughput of the larger rate, and the CPU
    time of the clients for an operation.
    """
    axes = [c for c in AXES if c in CEILING_AXES or (table[c] != calibration.AGREE[c]).any()]
    lines = []
    for _, r in table.iterrows():
        numbers = [r["before_rate_per_s"], r["after_rate_per_s"], r["throughput_mb_per_s"]]
        before, after, throughput = (
            labels.number(v, places=0 if not pd.isna(v) and v >= 100 else None, gap=THIN) for v in numbers
        )
        drift = "--" if pd.isna(r["drift_percent"]) else f"{r['drift_percent']:+.0f}"
        cells = [
            escape(calibration.shown(r)),
            escape(r["engine"] if r["engine"] != "none" else "--"),
            *(_ceiling_cell(c, r[c]) if c != "scheme" or r["target"] == "network" else "--" for c in axes),
        ]
        lines.append(
            [
                *cells,
                before,
                after,
                drift,
                throughput,
                labels.number(r["client_cpu_ms_per_operation"], gap=THIN),
                shares(r),
            ]
        )
    head = [
        "",
        "Engine",
        *(labels.heading(c) for c in axes),
        "Before [1/s]",
        "After [1/s]",
        r"Drift [\%]",
        "MB/s",
        "CPU [ms]",
        r"CPU [\%]",
    ]
    caption = (
        "Ceilings of the clients: operations per second against a near-null S3 server, and of simple loops "
        "over memory and files, before and after the campaign; throughput of the larger rate; CPU of the clients for "
        "one operation; CPU of the clients / of the null server in percent of the host's cores."
    )
    heads = [stacked(h) for h in head]  # stacked headings make the columns narrow
    spec = "ll" + r"@{\hspace{6pt}}r" * (len(heads) - 2)
    return tex_table(spec, heads, lines, caption, "tab:calibration", floats=False)
