"""LaTeX about reads of ROOT files: by volume, by entries, replays, and events, together with published values.

May import: the same packages as `latex`.
"""

from collections.abc import Iterator
from functools import partial

import pandas as pd

from storelab.analysis.latex.headlines import Headline, cell_lines, closed, runs, verdict
from storelab.analysis.latex.parts import (
    FEW,
    PAGE,
    THIN,
    escape,
    few,
    left,
    spread,
    stacked,
    tex_table,
    title,
    unlimited,
)
from storelab.analysis.parts import labels
from storelab.analysis.tables.earlier import MEASURED, NAVIGATION, PUBLISHED
from storelab.analysis.tables.reads import CLIENT, NAVIGATIONS, all_branch_reads, entries_read, setting
from storelab.core import units

HEADS = {"volume_fraction_percent": r"Volume [\%]", "entry_fraction_percent": r"Entries [\%]"}
SIZES = (("footnotesize", 9), ("scriptsize", 12))  # font size, and the number of columns that fit
COLUMNS = [
    ("Requests", "requests_median_per_read"),
    ("Needed [MB]", "needed_median_mb_per_read"),
    ("Wire [MB]", "wire_median_mb_per_read"),
    ("Wire/ needed", "amplification_median_ratio"),
]
IDLE = {
    "gap": ("thrift", "max_amplification"),
    "planned": ("max_range_gap_bytes",),
}  # axes that do not apply to a replay
SHARE, WORK, READS = (
    ("Wire/ share", "share_amplification_median_ratio"),
    ("Entries /s", "entries_median_per_s"),
    ("Selections /s", "reads_median_per_s"),
)


def _reads(table: pd.DataFrame, workload: str, first: str, columns: list[tuple[str, str]]) -> str:
    """Return a table of one read of each selection, at the smallest number of clients, by store and engine.

    first: the axis of the first column; columns: heading and column of sparse.csv of the last columns.
    """
    table = table[table["workload"] == workload]
    if table.empty:
        return ""
    axes = [c for c in labels.axes_of(table) if c not in ("clients", first, "engine") and table[c].nunique() > 1]
    head = [
        stacked(h)
        for h in (HEADS[first], *(escape(labels.heading(c)) for c in axes), "Entries", *(name for name, _ in columns))
    ]
    lines: list[str] = []
    for (store, engine), part in table.groupby(["store", "engine"]):
        part = part[part["clients"] == part["clients"].min()].sort_values([first, *axes], ascending=False)
        clients = labels.plural(part["clients"].iloc[0], "client")
        heading = f"{store}, {engine}, {clients}, median of {labels.runs_text(part['n'])}{opening(part)}"
        lines.append(title(len(head), escape(heading)))
        for _, r in part.iterrows():
            idle = IDLE.get(r.get("merge"), ())
            cells = [
                f"{r[first]:g}",
                *("--" if c in idle else escape(unlimited(c, r[c])) for c in axes),
                labels.grouped(f"{r['entries']:.0f}", THIN),
            ]
            marks = (few(r) if c.endswith("per_s") else "" for _, c in columns)
            values = (labels.number(r[c], gap=THIN) for _, c in columns)
            lines.append([*cells, *map("".join, zip(values, marks, strict=True))])
    size = next((size for size, most in SIZES if len(head) <= most), "tiny")
    return tex_table("r" * len(head), head, lines, size=size, most=PAGE)


def opening(rows: pd.DataFrame) -> str:
    """Return the median cost of opening a file as text: `; opening the file: 3 requests, 0.216 MB, 41 ms`.

    If no file was opened, the text is empty.
    """
    medians = [rows[f"opening_median_{unit}"].astype(float).median() for unit in ("requests", "mb", "s")]
    if any(pd.isna(v) for v in medians):
        return ""
    requests, mb, ms = (labels.number(v) for v in (medians[0], medians[1], 1000 * medians[2]))
    return f"; opening the file: {requests} requests, {mb} MB, {ms} ms"


def volume(table: pd.DataFrame) -> str:
    """Return the table of reads by volume."""
    return _reads(table, "read_volume", "volume_fraction_percent", [*COLUMNS, WORK])


def replay(table: pd.DataFrame) -> str:
    """Return the table of replayed selections."""
    return _reads(table, "replay", "volume_fraction_percent", [*COLUMNS, READS])


def entries(table: pd.DataFrame) -> str:
    """Return the table of reads by entries."""
    return _reads(table, "read_entries", "entry_fraction_percent", [*COLUMNS, SHARE, WORK])


FIRST = ("read_entries", "read_volume")  # the headline uses the first workload that was measured
FRACTIONS = ("entry_fraction_percent", "volume_fraction_percent")  # axes that distinguish the reads of these workloads
TABLE2 = (
    (r"Entries [\%]", "entry_fraction_percent"),
    ("Entries", "entries"),
    ("Calls", "clusters"),
    ("Baskets", "ranges"),
    ("Requests", "requests_first"),
    ("again", "requests_again"),
    ("Needed [MB]", "needed_mb"),
    ("Wire [MB]", "wire_mb_first"),
    ("again", "wire_mb_again"),
    ("Wire/ needed", "amplification_again"),
    (r"Part [\%]", "part_percent"),
    ("Wire/ share", "share_amplification"),
)


def table2(table: pd.DataFrame) -> str:
    """Return a table of first and later reads of a file, by fraction of the entries.

    The last rows are Table 2 of J. Phys.: Conf. Ser. 664 (2015) 022001.
    """
    ours, printed = (table[table["source"] == source] for source in ("measured", "published"))
    axes = [c for c in labels.axes_of(ours.drop(columns="source")) if c not in ("entry_fraction_percent", "engine")]
    axes = [c for c in axes if ours[c].nunique() > 1]
    lines: list[str] = []
    for values, rows in ours.groupby(["store", "engine", *axes], dropna=False):
        heading = [*values[:2], *(labels.value_text(c, v) for c, v in zip(axes, values[2:], strict=True))]
        lines += _table2_block(f"{', '.join(filter(None, heading))}, median of {labels.runs_text(rows['n'])}", "", rows)
    names = ", ".join(printed[["store", "engine"]].iloc[0])
    lines += [r"\midrule", *_table2_block(f"Published: {names}, another file (ATLAS)", r" \cite{arsuaga}", printed)]
    return tex_table("r" * len(TABLE2), [stacked(name) for name, _ in TABLE2], lines, size="footnotesize", most=PAGE)


def _table2_block(heading: str, cite: str, rows: pd.DataFrame) -> list[str]:
    """Return a line with the title, followed by one line for each fraction."""
    lines = [title(len(TABLE2), f"{escape(heading)}{cite}")]
    for _, r in rows.sort_values("entry_fraction_percent", ascending=False).iterrows():
        cells = [labels.number(r[c], places=2 if "_mb" in c and r[c] >= 1 else None, gap=THIN) for _, c in TABLE2[1:]]
        lines.append([f"{r['entry_fraction_percent']:g}", *cells])
    return lines


def _is_about(what: object, part: str, volume: str) -> bool:
    """Return True if a verdict is about this part of the file.

    what: the settings of the verdict in words. If they include a part of the volume, it must be `volume`.
    """
    parts = str(what).split(", ")
    return part in parts and (volume in parts or not any(p.endswith(" of volume") for p in parts))


def sparse_headlines(table: pd.DataFrame, verdicts: pd.DataFrame) -> Iterator[Headline]:
    """Yield the fastest read of the smallest part of a ROOT file for each system.

    Reads by entries are only used if they read all branches.
    """
    reads = closed(table)
    reads = reads[reads["entries_median_per_s"].notna()] if len(reads) else reads
    for system, system_reads in reads.groupby("deployment") if len(reads) else []:
        for workload, fraction in zip(FIRST, FRACTIONS, strict=True):
            own_reads = system_reads[system_reads["workload"] == workload]
            own_reads = all_branch_reads(own_reads) if workload == "read_entries" else own_reads
            known = own_reads[own_reads[fraction] < 100] if len(own_reads) else own_reads
            if known.empty:
                continue
            known = known[known[fraction] == known[fraction].min()]
            r = known.loc[known["entries_median_per_s"].astype(float).idxmax()]
            part = labels.value_text(fraction, r[fraction])
            volume = labels.value_text(FRACTIONS[-1], 100 if pd.isna(r.get(FRACTIONS[-1])) else r[FRACTIONS[-1]])
            applies = verdicts["what"].map(partial(_is_about, part=part, volume=volume)).astype(bool)
            on = verdicts[applies & (verdicts["workload"] == workload) & (verdicts["deployment"] == system)]
            counts = entries_read(r, own_reads) if workload == "read_entries" else None
            part = "{} of {} entries".format(*map(labels.number, counts)) if counts else part
            lines = cell_lines(r, "entries", "per_s")
            where = escape(f"{r['engine']}, {labels.plural(r['clients'], 'client')}, ") + runs(r)
            yield Headline(
                system=str(system),
                kind="Sparse reads",
                unit="entries/s",
                asks="how fast parts of a ROOT file are read",
                lines=(*lines, f"{escape(part)}, {where}"),
                value=f"{' '.join(lines)}~entries/s",
                of=f"in reads of {escape(part)}",
                where=where,
                size=float(r["entries_median_per_s"]),
                verdict=verdict(on[on["engine"] == r["engine"]]),
            )
            break


def events(table: pd.DataFrame) -> str:
    """Return a table by navigation and store, with one row for each client setting at the largest number of jobs.

    The columns are events/s, MB/s, and the bytes and requests of one event.
    """
    fixed = ("clients", "files", "navigation", *CLIENT)
    axes = [c for c in labels.axes_of(table) if c not in fixed and table[c].nunique() > 1]
    head = [
        "Setting of the client",
        *(escape(labels.heading(c)) for c in axes),
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
            jobs = labels.plural(rows["clients"].iloc[0], "job")
            steps = labels.span(rows["step"], "events")
            heading = f"{navigation}, {store}, {jobs}, steps of {steps}, median of {labels.runs_text(rows['n'])}"
            lines.append(title(len(head), escape(heading)))
            lines += [
                [escape(setting(r)), *(escape(labels.cell(c, r[c])) for c in axes), *_event_cells(r)]
                for _, r in rows.iterrows()
            ]
    return tex_table("l" + "r" * (len(head) - 1), head, lines, size="footnotesize", most=PAGE)


def _event_cells(r: pd.Series) -> list[str]:
    counted = "wire" if not pd.isna(r["wire_median_mb_per_s"]) else "asked"
    moved = r["wire_median_bytes_per_event"]
    return [
        spread(r, "events", "per_s"),
        labels.number(r[f"{counted}_median_mb_per_s"], gap=THIN),
        "--" if pd.isna(moved) else escape(units.human_size(float(moved))),
        labels.number(r["requests_median_per_event"], gap=THIN),
        labels.number(r["amplification_median_ratio"], gap=THIN),
        labels.number(r["opening_median_mb"], gap=THIN),
    ]


def events_headlines(table: pd.DataFrame, verdicts: pd.DataFrame) -> Iterator[Headline]:
    """Yield the highest rate of events for each navigation and system."""
    jobs = closed(table)
    jobs = jobs[jobs["events_median_per_s"].notna()] if len(jobs) else jobs
    for (navigation, system), system_jobs in jobs.groupby(["navigation", "deployment"]) if len(jobs) else []:
        r = system_jobs.loc[system_jobs["events_median_per_s"].astype(float).idxmax()]
        on = verdicts[(verdicts["deployment"] == system) & (verdicts["workload"] == "events")]
        on = on[on["engine"] == r["engine"]]
        about = on[on["what"].fillna("").map(lambda what, part=navigation: part in what)] if len(on) else on
        lines = cell_lines(r, "events", "per_s")
        jobs_text = escape(labels.plural(r["clients"], "job"))
        yield Headline(
            system=str(system),
            kind=f"Jobs, {navigation}",
            unit="events/s",
            asks="how many events jobs process",
            lines=(*lines, f"{jobs_text}, {escape(setting(r))}, {runs(r)}"),
            value=f"{' '.join(lines)}~events/s",
            of={"scan": "in a scan", "random": "in random navigation"}.get(str(navigation), f"in {navigation}"),
            where=f"{jobs_text}, {escape(setting(r))}, {runs(r)}",
            size=float(r["events_median_per_s"]),
            verdict=verdict(about if len(about) else on),
        )


USE_CASE = {ours: theirs for theirs, ours in NAVIGATION.items()}
WHAT = {"mb_per_s": "throughput into the nodes [MB/s]", "events": "events processed"}


def storage_lab(table: pd.DataFrame) -> str:
    """Return one table for each of WHAT: systems by number of jobs, with the use cases side by side."""
    return "\n".join(_lab_table(table, column, what) for column, what in WHAT.items())


def _lab_table(table: pd.DataFrame, column: str, what: str) -> str:
    shown = [n for n in NAVIGATIONS if n in set(table["navigation"])]
    jobs = {
        source: {n: sorted(set(source_rows.loc[source_rows["navigation"] == n, "jobs"])) for n in shown}
        for source, source_rows in table.groupby("source")
    }
    wide = {n: max(len(of[n]) for of in jobs.values()) for n in shown}
    columns = 1 + sum(wide.values())
    lines: list[str] = []
    measured = table[table["source"] == MEASURED]
    periods = f"{labels.span(measured['period_s'], 's')}, median of {labels.runs_text(measured['n'])}"
    heads = {
        PUBLISHED: "Published, HEPiX 2010: ten nodes, one undisclosed period",
        MEASURED: f"Here, by setting of the client: runs of {periods}",
    }
    for source in (s for s in heads if s in jobs):
        source_rows = table[table["source"] == source]
        lines += [*([r"\midrule"] if lines else []), title(columns, heads[source], "textbf")]
        numbers = [_padded([f"{j:g}" for j in jobs[source][n]], wide[n]) for n in shown]
        lines.append(rf"\emph{{jobs}} & {' & '.join(c for cells in numbers for c in cells)} \\*")
        for (system, client), of_system in source_rows.groupby(["system", "setting"], dropna=False, sort=False):
            cells = []
            for n in shown:
                by_jobs = of_system[of_system["navigation"] == n].set_index("jobs")
                cells += _padded(
                    [_lab_value(by_jobs.loc[j], column) if j in by_jobs.index else "--" for j in jobs[source][n]],
                    wide[n],
                )
            name = system if pd.isna(client) else f"{system}, {client}"
            lines.append([escape(name), *cells])
    head = ["System"]
    for n in shown:
        head += [rf"\multicolumn{{{wide[n]}}}{{c}}{{{n} ({USE_CASE[n]})}}"]
    product = " (events/s times the seconds of a run)" if column == "events" else ""
    caption = (
        f"The storage laboratory, {what} by number of jobs: the table of 2010 as printed, for other systems, files and "
        f"machines, and ours{product}. A dash: not printed, lost, or not measured. Values are not scaled."
    )
    spec = f"{left(4.4)}{'r' * (columns - 1)}"
    return tex_table(spec, head, lines, caption, f"tab:lab_{column}", size="tiny", floats=False)


def _lab_value(r: pd.Series, column: str) -> str:
    """Return the text of a cell: the published value, or our median with its interval."""
    ends = [f"mb_{part}_per_s" if column == "mb_per_s" else f"{column}_{part}" for part in ("low", "high")]
    if r["source"] == PUBLISHED:
        return labels.number(r[column], gap=THIN)
    value = r[column]
    low, high = (r[c] for c in ends)
    mark = FEW if r["few"] == 1 else ""
    return (labels.spread([value, low, high], THIN) if high > low else labels.number(value, gap=THIN)) + mark


def _padded(values: list[str], wide: int) -> list[str]:
    return [*values, *[""] * (wide - len(values))]
