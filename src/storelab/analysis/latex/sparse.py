"""LaTeX tables of reads of ROOT files: by volume, by entries, replayed; Table 2 beside the published one."""

from collections.abc import Iterator
from functools import partial

import pandas as pd

from storelab.analysis.latex import FILE, FILLED, FLAGS, HEADLINES, SECTION
from storelab.analysis.latex.headlines import Headline, closed, interval, runs, verdict
from storelab.analysis.latex.parts import THIN, escape, few, placed, row, stacked, title, unlimited
from storelab.analysis.parts import words
from storelab.analysis.tables.reads import entries_read, of_all_branches

HEADS = {"volume_fraction_percent": r"Volume [\%]", "entry_fraction_percent": r"Entries [\%]"}
SIZES = (("footnotesize", 9), ("scriptsize", 12))  # letters, and how many columns fit in them
COLUMNS = [
    ("Requests", "requests_median_per_read"),
    ("Needed [MB]", "needed_median_mb_per_read"),
    ("Wire [MB]", "wire_median_mb_per_read"),
    ("Wire/ needed", "amplification_median_ratio"),
]
IDLE = {
    "gap": ("thrift", "max_amplification"),
    "planned": ("max_range_gap_bytes",),
}  # axes without a meaning for a replay
SHARE, WORK, READS = (
    ("Wire/ share", "share_amplification_median_ratio"),
    ("Entries /s", "entries_median_per_s"),
    ("Selections /s", "reads_median_per_s"),
)


def _reads(table: pd.DataFrame, workload: str, first: str, columns: list[tuple[str, str]]) -> str:
    """One read of each selection at the least number of clients, by store and engine."""
    table = table[table["workload"] == workload]
    if table.empty:
        return ""
    axes = [c for c in words.axes_of(table) if c not in ("clients", first, "engine") and table[c].nunique() > 1]
    head = [
        stacked(h)
        for h in (HEADS[first], *(escape(words.heading(c)) for c in axes), "Entries", *(name for name, _ in columns))
    ]
    lines: list[str] = []
    for (store, engine), part in table.groupby(["store", "engine"]):
        part = part[part["clients"] == part["clients"].min()].sort_values([first, *axes], ascending=False)
        clients = words.plural(part["clients"].iloc[0], "client")
        said = f"{store}, {engine}, {clients}, median of {words.runs_text(part['n'])}{opening(part)}"
        lines.append(title(len(head), escape(said)))
        for _, r in part.iterrows():
            idle = IDLE.get(r.get("merge"), ())
            cells = [
                f"{r[first]:g}",
                *("--" if c in idle else escape(unlimited(c, r[c])) for c in axes),
                words.grouped(f"{r['entries']:.0f}", THIN),
            ]
            marks = (few(r) if c.endswith("per_s") else "" for _, c in columns)
            told = (words.number(r[c], gap=THIN) for _, c in columns)
            lines.append(row([*cells, *map("".join, zip(told, marks, strict=True))]))
    return placed("r" * len(head), head, lines, next((size for size, most in SIZES if len(head) <= most), "tiny"))


def opening(rows: pd.DataFrame) -> str:
    """`; opening the file: 3 requests, 0.216 MB, 41 ms`: medians over these groups; empty where nothing was opened."""
    each = [rows[f"opening_median_{unit}"].astype(float).median() for unit in ("requests", "mb", "s")]
    if any(pd.isna(v) for v in each):
        return ""
    requests, mb, ms = (words.number(v) for v in (each[0], each[1], 1000 * each[2]))
    return f"; opening the file: {requests} requests, {mb} MB, {ms} ms"


@FILE("table_volume", "sparse")
def volume(table: pd.DataFrame) -> str:
    """Reads by volume."""
    return _reads(table, "read_volume", "volume_fraction_percent", [*COLUMNS, WORK])


@FILE("table_replay", "sparse")
def replay(table: pd.DataFrame) -> str:
    """Replayed selections."""
    return _reads(table, "replay", "volume_fraction_percent", [*COLUMNS, READS])


@FILE("table_sparse", "sparse")
def entries(table: pd.DataFrame) -> str:
    """Reads by entries."""
    return _reads(table, "read_entries", "entry_fraction_percent", [*COLUMNS, SHARE, WORK])


FIRST = ("read_entries", "read_volume")  # the headline is of the first that was measured
FRACTIONS = ("entry_fraction_percent", "volume_fraction_percent")  # that tell their reads apart
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


@FILE("table_two", "table2")
@FILLED("table_two", "table2")
def table2(table: pd.DataFrame) -> str:
    """One read of a file newly opened, and again, by fraction of the entries; below them Table 2 of J. Phys.: Conf.
    Ser. 664 (2015) 022001."""
    ours, printed = (table[table["source"] == source] for source in ("measured", "published"))
    axes = [c for c in words.axes_of(ours.drop(columns="source")) if c not in ("entry_fraction_percent", "engine")]
    axes = [c for c in axes if ours[c].nunique() > 1]
    lines: list[str] = []
    for values, rows in ours.groupby(["store", "engine", *axes], dropna=False):
        said = [*values[:2], *(words.value_text(c, v) for c, v in zip(axes, values[2:], strict=True))]
        lines += _block(f"{', '.join(filter(None, said))}, median of {words.runs_text(rows['n'])}", "", rows)
    names = ", ".join(printed[["store", "engine"]].iloc[0])
    lines += [r"\midrule", *_block(f"Published: {names}, another file (ATLAS)", r" \cite{arsuaga}", printed)]
    return placed("r" * len(TABLE2), [stacked(name) for name, _ in TABLE2], lines)


def _block(said: str, cite: str, rows: pd.DataFrame) -> list[str]:
    """A line with the title, and one for each fraction."""
    lines = [title(len(TABLE2), f"{escape(said)}{cite}")]
    for _, r in rows.sort_values("entry_fraction_percent", ascending=False).iterrows():
        cells = [words.number(r[c], places=2 if "_mb" in c and r[c] >= 1 else None, gap=THIN) for _, c in TABLE2[1:]]
        lines.append(row([f"{r['entry_fraction_percent']:g}", *cells]))
    return lines


@SECTION("volume", "by_volume", "replayed")
@SECTION("entries", "sparse")
@FLAGS("sparse", "sparse")
def flags(table: pd.DataFrame) -> dict[str, bool]:
    """Which workloads read."""
    workloads = {"sparse": "read_entries", "by_volume": "read_volume", "replayed": "replay"}
    return {flag: workload in set(table["workload"]) for flag, workload in workloads.items()}


def _is_about(what: object, part: str, volume: str) -> bool:
    """Return whether a verdict is about this part of the file, of this part of the volume if it names one."""
    parts = str(what).split(", ")
    return part in parts and (volume in parts or not any(p.endswith(" of volume") for p in parts))


@HEADLINES("sparse", "sparse", "verdicts")
def headlines(table: pd.DataFrame, verdicts: pd.DataFrame) -> Iterator[Headline]:
    """Yield the fastest reading of the smallest part of a ROOT file, by entries that of all branches."""
    reads = closed(table)
    reads = reads[reads["entries_median_per_s"].notna()] if len(reads) else reads
    for system, own in reads.groupby("deployment") if len(reads) else []:
        for workload, fraction in zip(FIRST, FRACTIONS, strict=True):
            own_reads = own[own["workload"] == workload]
            own_reads = of_all_branches(own_reads) if workload == "read_entries" else own_reads
            known = own_reads[own_reads[fraction] < 100] if len(own_reads) else own_reads
            if known.empty:
                continue
            known = known[known[fraction] == known[fraction].min()]
            r = known.loc[known["entries_median_per_s"].astype(float).idxmax()]
            part = words.value_text(fraction, r[fraction])
            volume = words.value_text(FRACTIONS[-1], 100 if pd.isna(r.get(FRACTIONS[-1])) else r[FRACTIONS[-1]])
            told = verdicts["what"].map(partial(_is_about, part=part, volume=volume)).astype(bool)
            on = verdicts[told & (verdicts["workload"] == workload) & (verdicts["deployment"] == system)]
            counts = entries_read(r, own_reads) if workload == "read_entries" else None
            part = "{} of {} entries".format(*map(words.number, counts)) if counts else part
            lines = interval(r, "entries", "per_s")
            where = escape(f"{r['engine']}, {words.plural(r['clients'], 'client')}, ") + runs(r)
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
