"""Views of the limits of systems: the verdict, its evidence, advice what to try next, and the best run over time."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from storelab.analysis.explore.opened import Charts, Displayable, Menu, Opened, escaped
from storelab.analysis.parts import labels
from storelab.analysis.report import details
from storelab.analysis.report.build import behind
from storelab.analysis.tables.verdicts import NOT_KNOWN, described

NONE = "This campaign has no verdict, because no point has a rate."
SUMMARY = ("deployment", "workload", "engine", "what", "best", "unit", "where", "n", "verdict")
RATES = ("throughput_median_mb_per_s", "rate_median_per_s")
USED = ("client_cpu_percent", "server_cpu_percent", "other_cpu_percent", "bound_by", "steadiness", "errors")
TRY = {  # first words of a verdict -> what the user can try
    "errors": "Look at the failed operations in the notebook `drill`; measure again with fewer clients or workers.",
    "unsteady": "Measure longer (`duration`) and more often (`repetitions`); look at one run over its time below.",
    "sockets": "Use more front-ends, an engine that keeps its connections open, or clients on several hosts.",
    "client memory": "Use fewer workers for each client, smaller objects, or clients on several hosts.",
    "client ceiling": "Use a faster engine (loadgen) or clients on several hosts; the store can do more.",
    "clients' links": "Use more clients or faster links for them; the store can do more.",
    "front-ends' links": "Use more front-ends or faster links for them; more clients do not increase the rate.",
    "links of clients": "Use faster links for both clients and front-ends; the store can do more.",
    "client network": "Use clients on several hosts or a faster link; the store can do more.",
    "disturbed": "Stop other programs on the host and measure again.",
    "client CPU (one thread)": "Use more clients, or an engine that can use several threads.",
    "client CPU": "Use clients on several hosts, or an engine that needs less CPU (loadgen).",
    "server CPU": "Use more cores for the server, or run the clients on other hosts.",
    "CPU of the host that both share": "Run clients and server on different hosts; on one host, they limit each other.",
    "buckets": "Measure with more buckets.",
    "accounts": "Measure with more accounts.",
    "front-ends": "Measure with more front-ends, and with clients that can use them.",
    "concurrency": "Measure with more clients or workers, until the rate stops rising.",
}


def limits(o: Opened, subject: Any = None) -> Iterator[Displayable]:
    """Show how often each limit was found, the verdicts by system, workload and size, and one verdict in detail."""
    rows = o.table("verdicts")
    if subject is None:
        yield NONE
        return
    counts = pd.crosstab(rows["deployment"], rows["verdict"])
    yield counts[counts.sum().sort_values(ascending=False).index].rename_axis(columns=None).reset_index()
    yield rows[list(SUMMARY)]
    yield f"#### {escaped(next(name for name, place in subjects(o) if place == subject))}"
    yield from one(o, subject)


def subjects(o: Opened) -> Menu:
    """Return the menu of subjects of the verdicts. Subjects with a known limit are first."""
    rows = o.table("verdicts")
    rows = rows.loc[(rows["verdict"] == NOT_KNOWN).sort_values(kind="stable").index]
    names = zip(rows["deployment"], rows["workload"], rows["engine"], rows["what"], rows.index, strict=True)
    return [(", ".join([store, labels.value_text("workload", w), *rest]), place) for store, w, *rest, place in names]


def advice(verdict: str, would_decide: Any = None) -> str:
    """Return advice on what to try after a verdict; for an unknown limit, the data that would show it."""
    if verdict == NOT_KNOWN and isinstance(would_decide, str):
        return f"Missing data that would show the limit: {would_decide}."
    return next((text for begin, text in TRY.items() if verdict.startswith(begin)), "")


def one(o: Opened, subject: Any) -> Iterator[Displayable]:
    """Show one verdict: the limit, its evidence, other findings, advice, its points, and the best run over time."""
    row = o.full_table("verdicts").loc[subject]
    best = f"{labels.number(row['best'])} {row['unit']} with {row['where']} ({labels.runs_text([row['n']])})"
    facts = {"Best": best, "Limited by": row["verdict"], "Evidence": row["evidence"], "Also": row["also"]}
    facts["Try"] = advice(row["verdict"], row["would_decide"])
    yield "\n".join(f"* **{name}:** {escaped(text)}" for name, text in facts.items() if isinstance(text, str) and text)
    groups = _groups(o, row)
    yield "#### All groups of points, the best first"
    axes = [c for c in labels.axes_of(groups) if groups[c].nunique(dropna=False) > 1]
    yield groups[[c for c in (*axes, "n", *RATES, *USED) if c in groups]].dropna(axis="columns", how="all")
    every = o.full_table("points")
    key = every["key"].iloc[int(behind(groups.head(1), every)[0].split()[0])]
    yield f"#### First run of the best group: {escaped(', '.join(labels.key_text(key)))}"
    panels = details.panels(o.campaign, key)
    yield Charts({key: {"panels": panels, "legends": "of each panel"}}) if panels else "No time series was recorded."


def _groups(o: Opened, row: pd.Series) -> pd.DataFrame:
    """Return the rows of throughput.csv that a verdict is about. The best is first."""
    every = o.full_table("throughput")
    every = every[(every["store"] == row["store"]) & (every["workload"] == row["workload"])]
    same = []
    for axes in every[["store", "workload", *labels.axes_of(every)]].to_dict("records"):
        known = {column: None if pd.isna(value) else value for column, value in axes.items()}
        subject = (labels.deployment(known), known.get("engine"), ", ".join(described(known)))
        same.append(subject == (row["deployment"], row["engine"], row["what"]))
    return every[same].sort_values(RATES[0] if row["unit"] == "MB/s" else RATES[1], ascending=False)
