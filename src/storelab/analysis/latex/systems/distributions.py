"""LaTeX of distributions.csv: how operation times, traffic, CPU and memory of the clients are spread."""

import pandas as pd

from storelab.analysis.latex import FILE, FILLED, SECTION
from storelab.analysis.latex.parts import THIN, escape, floating, left, row, title
from storelab.analysis.parts import groups, words
from storelab.analysis.tables.resources import PLACE, UNITS, shown
from storelab.core import units

SAID = {
    "operation_time": "time of an operation",
    "sent": "sent by a host",
    "received": "received by a host",
    "traffic": "sent and received, loopback",
    "cpu": "CPU of a client",
    "memory": "memory of a client",
}
PARTS = ("p5", "p25", "p50", "p75", "p95", "most")


@FILE("table_distributions", "distributions")
@FILLED("distributed", "distributions")
@SECTION("distributions", "distributed")
def distributions(table: pd.DataFrame) -> str:
    """A block per deployment, operation, size and setting, a row per quantity: the groups that the figure shows."""
    rows, lines = groups.labelled(shown(table)), []
    axes = [c for c in words.axes_of(table) if c not in PLACE]
    moving = [c for c in axes if rows[c].nunique() > 1 or c in ("engine", "clients", "workers")]
    place = ["deployment", "workload", *(c for c in ("object_size_bytes",) if c in rows), *axes]
    for _, own in rows.groupby(place, dropna=False, sort=False):
        first = own.iloc[0]
        size = first.get("object_size_bytes")
        said = [first["deployment"], words.value_text("workload", first["workload"])]
        said[-1] += "" if pd.isna(size) else f" of {units.format_size(int(size))}"
        said += [words.value_text(c, first[c]) for c in moving]
        lines.append(title(4 + len(PARTS), escape(", ".join(filter(None, said)))))
        for name in (n for n in UNITS if n in set(own["quantity"])):
            r = own[own["quantity"] == name].iloc[0]
            cells = [escape(f"{SAID[name]} [{UNITS[name]}]"), words.number(r["samples"], gap=THIN)]
            zero = 100 * r["zeros"] / r["samples"]
            cells += [words.number(zero, places=0) if r["zeros"] else "", words.number(r["mean"], gap=THIN)]
            lines.append(row([*cells, *(words.number(r[p], gap=THIN) for p in PARTS)]))
    caption = (
        "How times of operations are spread, and what the clients used meanwhile, at the most clients that were "
        "measured: samples of all runs in the window in which all clients are active, how many of them are zero, "
        "mean, quantiles and largest. Bytes, CPU and memory: the monitor's samples, up to five a second."
    )
    head = ["", "Samples", r"0 [\%]", "Mean", r"5 \%", r"25 \%", "Median", r"75 \%", r"95 \%", "Most"]
    return floating(f"{left(4.6)}rrrrrrrrr", caption, "tab:distributions", head, lines)
