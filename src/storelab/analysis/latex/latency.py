"""The paper's tables of latency and of failed operations in LaTeX, from the CSV tables (level 3, analysis)."""

import pandas as pd

from storelab.analysis.latex.parts import THIN, breakable, escape, floating, longtable, spread
from storelab.analysis.latex.parts import row as line
from storelab.analysis.parts import words
from storelab.analysis.tables import errors as error_rates
from storelab.analysis.tables import latency
from storelab.core import units

_LEFT = r">{\raggedright\arraybackslash}p{"


def _load(row: pd.Series) -> str:
    if row["loop"] == "closed":
        return f"closed, {row['concurrency']:g}"
    behind = row["completed_percent"] < latency.KEPT_UP
    return f"open, {words.grouped(f'{row.arrival_rate:.0f}')}/s{'*' if behind else ''}"


def _ms(value: float) -> str:
    return words.number(value, gap=THIN)


def latencies(table: pd.DataFrame) -> str:
    """Latency of each system, op and size at the least and the most load, closed and open loop."""
    rows = latency.ends(table)
    if rows.empty:
        return ""
    engines = rows["engine"].nunique() > 1
    lines = []
    for _, r in rows.sort_values(["op", "store", "loop"], kind="stable").iterrows():
        size = next((units.format_size(int(r[c])) for c in latency.SIZES if c in r and not pd.isna(r[c])), "")
        cells = [words.deployment(r), *([str(r["engine"])] if engines else []), r["op"], size, _load(r), f"{r['n']:g}"]
        values = [_ms(r[f"latency_{m}_median_ms"]) for m in ("p90", "p99", "p999", "max")]
        lines.append(line([*map(escape, cells), spread(r, "latency_p50", "ms"), *values, _ms(r["ttfb_p50_median_ms"])]))
    marks = " A star: the system did not keep up with what was due." if any("*" in text for text in lines) else ""
    binned = f" Quantiles from histograms are known to {100 * (latency.WIDTH - 1):g} %." if rows["binned"].astype(bool).any() else ""
    caption = (
        "Latency in ms, by system, operation and size, at the least and at the most load: closed loop with so many operations in flight, open loop "
        "with so many operations due per second. Median of n runs of each run's quantile, for p50 with [low, high]; TTFB: median time to the first "
        "byte. A dash: too few operations, or not known to the engine." + escape(binned) + marks
    )
    head = ["System", *(["Engine"] if engines else []), "", "Size", "Loop, load", "n", "p50", "p90", "p99", "p99.9", "max", "TTFB"]
    return floating("l" * (len(head) - 9) + "lrl" + "rrrrrrr", caption, "tab:latency", head, lines)


def errors(table: pd.DataFrame) -> str:
    """Failed operations by store, workload, op and class, over all runs."""
    if table.empty:
        return ""
    found = table.assign(c=[error_rates.label(s, e) for s, e in zip(table["status"], table["error"], strict=True)])
    lines = []
    for (store, workload, op, name), g in found.groupby(["store", "workload", "op", "c"], sort=True):
        cells = [store, workload, op, name, f"{g['key'].nunique()}", f"{g[g['state'] == 'invalid']['key'].nunique()}"]
        shares = [words.number(g["operations"].sum(), gap=THIN), words.number(100 * g["fraction"].max(), significant=2)]
        times = [words.number(g["first_s"].min(), places=1), words.number(g["last_s"].max(), places=1)]
        lines.append(line([*map(escape, cells), *shares, *times]))
    caption = (
        "Failed operations by class: the HTTP status, where there was one, with the error code of the answer or the engine's error; runs in which it "
        "was seen, those of them that are invalid, operations of all runs, the largest fraction of the operations of one run, and the earliest and the "
        "latest time in a run, counted from the agreed start."
    )
    head = ["Store", "Workload", "", "Class", "Runs", "Invalid", "Failed", r"Most [\%]", "First [s]", "Last [s]"]
    return longtable(rf"lll{_LEFT}4.2cm}}rrrrrr", caption, "tab:errors", head, lines)


def invalid(points: pd.DataFrame) -> str:
    """Every invalid run with its reason."""
    rows = points[points["state"] == "invalid"]
    if rows.empty:
        return ""
    lines = [line([breakable(escape(r.key)), escape(r.reason)]) for r in rows.itertuples(index=False)]
    caption = "Runs that are invalid: measured, but with more failed operations than the campaign's budget. They are in no median."
    return longtable(rf"{_LEFT}7.5cm}}{_LEFT}8.2cm}}", caption, "tab:invalid", ["Point", "Reason"], lines)
