"""LaTeX of table1.csv: the systems of 2015 beside today's."""

import pandas as pd

from storelab.analysis.latex import FILE, FILLED
from storelab.analysis.latex.parts import THIN, escape, left, placed, row, stacked, title
from storelab.analysis.latex.systems.capabilities import ANSWERS
from storelab.analysis.parts import words
from storelab.analysis.tables.earlier import ASKED, PUBLISHED

NUMBERS = ("capacity_tb", "front_ends", "storage_nodes", "disk_tb")
HEAD = (
    "System",
    "Capacity [TB]",
    "Front-ends",
    "Storage nodes",
    "Disk [TB]",
    "Multipart upload",
    "Several ranges",
    "Redundancy",
)


@FILE("table_one", "table1")
@FILLED("table_one", "table1")
def table1(table: pd.DataFrame) -> str:
    """The printed systems, then ours."""
    lines: list[str] = []
    for source, rows in table.groupby("source", sort=False):
        said = "Published" if source == PUBLISHED else "Here: as deployed, and as the probe found them"
        lines += [*([r"\midrule"] if lines else []), title(len(HEAD), said)]
        lines += [_line(r, source == PUBLISHED) for _, r in rows.iterrows()]
    return placed(f"{left(5.0)}rrrrcc{left(1.7)}", [stacked(h) for h in HEAD], lines, "scriptsize")


def _line(r: pd.Series, printed: bool) -> str:
    version = "" if pd.isna(r["version"]) else str(r["version"]).partition(" ")[0][:18]
    name = r["name"] if printed else " ".join(filter(None, [f"{r['system']}:", str(r["name"]), version]))
    cells = [escape(name), *(words.number(r[c], gap=THIN) for c in NUMBERS)]
    cells += ["--" if pd.isna(r[c]) else ANSWERS.get(r[c], escape(r[c])) for c in ASKED]
    return row([*cells, "--" if pd.isna(r["redundancy"]) else escape(r["redundancy"])])
