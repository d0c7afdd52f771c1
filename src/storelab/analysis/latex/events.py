"""LaTeX of events.csv: events processed, by setting of the client."""

from collections.abc import Iterator

import pandas as pd

from storelab.analysis.latex import FILE, FILLED, HEADLINES, SECTION
from storelab.analysis.latex.headlines import Headline, closed, interval, runs, verdict
from storelab.analysis.latex.parts import THIN, escape, placed, row, spread, title
from storelab.analysis.parts import words
from storelab.analysis.tables.reads import CLIENT, NAVIGATIONS, setting
from storelab.core import units


@FILE("table_events", "events")
@FILLED("events_processed", "events")
@SECTION("events", "events_processed")
def events(table: pd.DataFrame) -> str:
    """By navigation and store, a row for each setting of the client at the most jobs: events/s and MB/s, and what moved
    for one event."""
    fixed = ("clients", "files", "navigation", *CLIENT)
    axes = [c for c in words.axes_of(table) if c not in fixed and table[c].nunique() > 1]
    head = [
        "Setting of the client",
        *(escape(words.heading(c)) for c in axes),
        "Events/s",
        "MB/s",
        "Bytes/event",
        "Requests/event",
        "Wire/needed",
        "Opening [MB]",
    ]
    lines: list[str] = []
    for navigation in NAVIGATIONS:
        for store, rows in table[table["navigation"] == navigation].groupby("store"):
            rows = rows[rows["clients"] == rows["clients"].max()].sort_values("events_median_per_s")
            jobs = words.plural(rows["clients"].iloc[0], "job")
            steps = words.span(rows["step"], "events")
            said = f"{navigation}, {store}, {jobs}, steps of {steps}, median of {words.runs_text(rows['n'])}"
            lines.append(title(len(head), escape(said)))
            lines += [
                row([escape(setting(r)), *(escape(words.cell(c, r[c])) for c in axes), *_cells(r)])
                for _, r in rows.iterrows()
            ]
    return placed("l" + "r" * (len(head) - 1), head, lines)


def _cells(r: pd.Series) -> list[str]:
    told = "wire" if not pd.isna(r["wire_median_mb_per_s"]) else "asked"
    moved = r["wire_median_bytes_per_event"]
    return [
        spread(r, "events", "per_s"),
        words.number(r[f"{told}_median_mb_per_s"], gap=THIN),
        "--" if pd.isna(moved) else escape(units.human_size(float(moved))),
        words.number(r["requests_median_per_event"], gap=THIN),
        words.number(r["amplification_median_ratio"], gap=THIN),
        words.number(r["opening_median_mb"], gap=THIN),
    ]


@HEADLINES("events", "events", "verdicts")
def headlines(table: pd.DataFrame, verdicts: pd.DataFrame) -> Iterator[Headline]:
    """The most events that jobs processed in each navigation."""
    jobs = closed(table)
    jobs = jobs[jobs["events_median_per_s"].notna()] if len(jobs) else jobs
    for (navigation, system), own in jobs.groupby(["navigation", "deployment"]) if len(jobs) else []:
        r = own.loc[own["events_median_per_s"].astype(float).idxmax()]
        on = verdicts[(verdicts["deployment"] == system) & (verdicts["workload"] == "events")]
        on = on[on["engine"] == r["engine"]]
        about = on[on["what"].fillna("").map(lambda what, part=navigation: part in what)] if len(on) else on
        lines = interval(r, "events", "per_s")
        jobs_said = escape(words.plural(r["clients"], "job"))
        yield Headline(
            system=str(system),
            kind=f"Jobs, {navigation}",
            unit="events/s",
            asks="how many events jobs process",
            lines=(*lines, f"{jobs_said}, {escape(setting(r))}, {runs(r)}"),
            value=f"{' '.join(lines)}~events/s",
            of={"scan": "in a scan", "random": "in random navigation"}.get(str(navigation), f"in {navigation}"),
            where=f"{jobs_said}, {escape(setting(r))}, {runs(r)}",
            size=float(r["events_median_per_s"]),
            verdict=verdict(about if len(about) else on),
        )
