"""LaTeX of storage_lab.csv: the two tables of the storage laboratory of 2010, as printed, and ours below."""

import pandas as pd

from storelab.analysis.latex import FILE, FILLED
from storelab.analysis.latex.parts import FEW, THIN, escape, left, longtable, row, title
from storelab.analysis.parts import words
from storelab.analysis.tables.earlier import MEASURED, NAVIGATION, PUBLISHED
from storelab.analysis.tables.reads import NAVIGATIONS

USE_CASE = {ours: theirs for theirs, ours in NAVIGATION.items()}
WHAT = {"mb_per_s": "throughput into the nodes [MB/s]", "events": "events processed"}


@FILE("table_storage_lab", "storage_lab")
@FILLED("storage_lab", "storage_lab")
def storage_lab(table: pd.DataFrame) -> str:
    """A table for each of WHAT: systems by jobs, the use cases side by side."""
    return "\n".join(_of(table, column, what) for column, what in WHAT.items())


def _of(table: pd.DataFrame, column: str, what: str) -> str:
    shown = [n for n in NAVIGATIONS if n in set(table["navigation"])]
    jobs = {
        source: {n: sorted(set(own.loc[own["navigation"] == n, "jobs"])) for n in shown}
        for source, own in table.groupby("source")
    }
    wide = {n: max(len(of[n]) for of in jobs.values()) for n in shown}
    columns = 1 + sum(wide.values())
    lines: list[str] = []
    measured = table[table["source"] == MEASURED]
    periods = f"{words.span(measured['period_s'], 's')}, median of {words.runs_text(measured['n'])}"
    heads = {
        PUBLISHED: "Published, HEPiX 2010: ten nodes, one undisclosed period",
        MEASURED: f"Here, by setting of the client: runs of {periods}",
    }
    for source in (s for s in heads if s in jobs):
        own = table[table["source"] == source]
        lines += [*([r"\midrule"] if lines else []), title(columns, heads[source], "textbf")]
        numbers = [_cells([f"{j:g}" for j in jobs[source][n]], wide[n]) for n in shown]
        lines.append(rf"\emph{{jobs}} & {' & '.join(c for cells in numbers for c in cells)} \\*")
        for (system, setting), mine in own.groupby(["system", "setting"], dropna=False, sort=False):
            cells = []
            for n in shown:
                of = mine[mine["navigation"] == n].set_index("jobs")
                cells += _cells(
                    [_value(of.loc[j], column) if j in of.index else "--" for j in jobs[source][n]], wide[n]
                )
            name = system if pd.isna(setting) else f"{system}, {setting}"
            lines.append(row([escape(name), *cells]))
    head = ["System"]
    for n in shown:
        head += [rf"\multicolumn{{{wide[n]}}}{{c}}{{{n} ({USE_CASE[n]})}}"]
    product = " (events/s times the seconds of a run)" if column == "events" else ""
    caption = (
        f"The storage laboratory, {what} by number of jobs: the table of 2010 as printed, for other systems, files and "
        f"machines, and ours{product}. A dash: not printed, lost, or not measured. Nothing is scaled."
    )
    return _spanned(f"{left(4.4)}{'r' * (columns - 1)}", caption, f"tab:lab_{column}", head, lines, columns)


def _value(r: pd.Series, column: str) -> str:
    """Return a cell: as printed, or our median with its interval."""
    ends = [f"mb_{part}_per_s" if column == "mb_per_s" else f"{column}_{part}" for part in ("low", "high")]
    if r["source"] == PUBLISHED:
        return words.number(r[column], gap=THIN)
    value = r[column]
    low, high = (r[c] for c in ends)
    mark = FEW if r["few"] == 1 else ""
    return (words.spread([value, low, high], THIN) if high > low else words.number(value, gap=THIN)) + mark


def _cells(values: list[str], wide: int) -> list[str]:
    return [*values, *[""] * (wide - len(values))]


def _spanned(spec: str, caption: str, label: str, head: list[str], lines: list[str], columns: int) -> str:
    """A long table, whose heading has fewer cells than columns."""
    text = longtable(spec, caption, label, head, lines, "tiny")
    return text.replace(
        rf"\multicolumn{{{len(head)}}}{{@{{}}r@{{}}}}{{continued}}",
        rf"\multicolumn{{{columns}}}{{@{{}}r@{{}}}}{{continued}}",
    )
