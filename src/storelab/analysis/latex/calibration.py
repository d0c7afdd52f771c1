"""The paper's table of ceilings."""

import pandas as pd

from storelab.analysis.latex import FILE, FILLED
from storelab.analysis.latex.parts import THIN, escape, longtable, row, shares, stacked
from storelab.analysis.parts import words
from storelab.analysis.tables import calibration
from storelab.core import units
from storelab.core.axes import CLIENTS, ENGINE, KEYS, OBJECT_SIZE, WORKERS
from storelab.core.calibration import OPERATION

# What tells ceilings apart beside operation and engine; left out where it does not vary from its default.
AXES = tuple(c for c in calibration.AGREE if c not in (OPERATION.column, ENGINE.column))
ALWAYS = (OBJECT_SIZE.column, CLIENTS.column, WORKERS.column)


def _cell(column: str, value: object) -> str:
    if column.endswith("_bytes"):
        return units.format_size(int(value)) if int(value) else "--"  # type: ignore[call-overload]
    return escape(str(value)) if value or column != KEYS.column else "--"


@FILE("table_calibration", "calibration")
@FILLED("calibration", "calibration")
def ceilings(table: pd.DataFrame) -> str:
    """A row per ceiling: rate before and after the campaign, drift, throughput of the larger one, CPU of the clients
    for an operation."""
    axes = [c for c in AXES if c in ALWAYS or (table[c] != calibration.AGREE[c]).any()]
    lines = []
    for _, r in table.iterrows():
        numbers = [r["before_rate_per_s"], r["after_rate_per_s"], r["throughput_mb_per_s"]]
        before, after, throughput = (
            words.number(v, places=0 if not pd.isna(v) and v >= 100 else None, gap=THIN) for v in numbers
        )
        drift = "--" if pd.isna(r["drift_percent"]) else f"{r['drift_percent']:+.0f}"
        cells = [
            escape(calibration.shown(r)),
            escape(r["engine"] if r["engine"] != "none" else "--"),
            *(_cell(c, r[c]) if c != "scheme" or r["target"] == "network" else "--" for c in axes),
        ]
        lines.append(
            row(
                [
                    *cells,
                    before,
                    after,
                    drift,
                    throughput,
                    words.number(r["client_cpu_ms_per_operation"], gap=THIN),
                    shares(r),
                ]
            )
        )
    head = [
        "",
        "Engine",
        *(words.heading(c) for c in axes),
        "Before [1/s]",
        "After [1/s]",
        r"Drift [\%]",
        "MB/s",
        "CPU [ms]",
        r"CPU [\%]",
    ]
    caption = (
        "What the clients could do at most: operations per second against a near-null S3 server, and of plain loops "
        "over memory and files, before the campaign and after it; throughput of the larger one; CPU of the clients for "
        "one operation; CPU of the clients / of the null server in percent of the host's cores."
    )
    heads = [stacked(h) for h in head]  # as narrow as the numbers below
    spec = "ll" + r"@{\hspace{6pt}}r" * (len(heads) - 2)
    return longtable(spec, caption, "tab:calibration", heads, lines)
