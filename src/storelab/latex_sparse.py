"""LaTeX tables of reads of ROOT files: by volume, by entries beside the published ones, replayed (level 3, analysis)."""

import pandas as pd

from storelab import published, words
from storelab.latex_parts import THIN, escape, tabular
from storelab.latex_parts import row as line

HEADS = {"volume_fraction_percent": r"Volume [\%]", "entry_fraction_percent": r"Entries [\%]"}
COLUMNS = [
    ("Requests", "requests_median_per_read"),
    ("Needed [MB]", "needed_median_mb_per_read"),
    ("Wire [MB]", "wire_median_mb_per_read"),
    ("Wire/needed", "amplification_median_ratio"),
]
SHARE, WORK, READS = (
    ("Wire/share", "share_amplification_median_ratio"),
    ("Entries/s", "entries_median_per_s"),
    ("Selections/s", "reads_median_per_s"),
)


def _rows(table: pd.DataFrame, workload: str, first: str, columns: list[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """(head, lines): one read of each selection at the least number of clients, by store and engine."""
    table = table[table["workload"] == workload]
    if table.empty:
        return [], []
    axes = [c for c in words.axes_of(table) if c not in ("clients", first, "engine") and table[c].nunique() > 1]
    head = [HEADS[first], *(escape(words.heading(c)) for c in axes), "Entries", *(name for name, _ in columns)]
    lines: list[str] = []
    for (store, engine), part in table.groupby(["store", "engine"]):
        part = part[part["clients"] == part["clients"].min()].sort_values([first, *axes], ascending=False)
        title = f"{store}, {engine}, {words.plural(part['clients'].iloc[0], 'client')}, median of {words.runs_text(part['n'])}"
        lines.append(rf"\multicolumn{{{len(head)}}}{{@{{}}l@{{}}}}{{\emph{{{escape(title)}}}}} \\")
        for _, r in part.iterrows():
            cells = [f"{r[first]:g}", *(escape(words.cell(c, r[c])) for c in axes), words.grouped(f"{r['entries']:.0f}", THIN)]
            lines.append(line([*cells, *(words.number(r[c], gap=THIN) for _, c in columns)]))
    return head, lines


def volume(table: pd.DataFrame) -> str:
    """Reads by volume."""
    head, lines = _rows(table, "read_volume", "volume_fraction_percent", [*COLUMNS, WORK])
    return tabular("r" * len(head), head, lines) if lines else ""


def replay(table: pd.DataFrame) -> str:
    """Replayed selections."""
    head, lines = _rows(table, "replay", "volume_fraction_percent", [*COLUMNS, READS])
    return tabular("r" * len(head), head, lines) if lines else ""


def entries(table: pd.DataFrame) -> str:
    """Reads by entries, beside Table 2 of J. Phys.: Conf. Ser. 664 (2015) 022001."""
    head, lines = _rows(table, "read_entries", "entry_fraction_percent", [*COLUMNS, SHARE, WORK])
    if not lines:
        return ""
    blank = [""] * (len(head) - 8)
    lines += [
        r"\midrule",
        rf"\multicolumn{{{len(head)}}}{{@{{}}l@{{}}}}{{\emph{{Published: another file (ATLAS) on another system (Huawei UDS), "
        r"ROOT with davix \cite{arsuaga}}} \\",
    ]
    for _, r in published.share_amplification().iterrows():
        cells = [f"{r['percent_of_entries']:g}", *blank, words.grouped(f"{r['entries']:.0f}", THIN), f"{r['read_calls']:g}", "--"]
        lines.append(line([*cells, f"{r['volume_mb']:.2f}", "--", words.number(r["share_amplification_ratio"], gap=THIN), "--"]))
    return tabular("r" * len(head), head, lines)
