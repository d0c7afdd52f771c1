"""LaTeX of space.csv: raw bytes used for each byte stored."""

import pandas as pd

from storelab.analysis.latex import FILE, FILLED
from storelab.analysis.latex.parts import THIN, escape, left, placed, row, spread, stacked
from storelab.analysis.parts import groups, words
from storelab.analysis.tables.resources import SPACE_METRICS
from storelab.core import units


@FILE("table_space", "space")
@FILLED("space_used", "space")
def space(table: pd.DataFrame) -> str:
    """Raw bytes used per byte stored by deployment and object size, and how long giving back took."""
    rows, lines = groups.labelled(table), []
    for _, r in rows.sort_values(["object_size_bytes", "deployment"]).iterrows():
        cells = [
            escape(r["deployment"]),
            units.format_size(int(r["object_size_bytes"])),
            words.number(r["stored_mb"], gap=THIN),
            f"{r['n']:g}",
        ]
        lines.append(row([*cells, *(spread(r, *metric) for metric in SPACE_METRICS), words.number(r["reclaim_s"])]))
    head = [
        "System",
        "Objects",
        "Stored [MB]",
        "n",
        "After uploads",
        "After deletion",
        "After reclaiming",
        "Reclaim [s]",
    ]
    return placed(f"{left(3.6)}lrrrrrr", [stacked(h) for h in head], lines)
