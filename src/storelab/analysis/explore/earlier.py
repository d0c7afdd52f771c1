"""Then and now: what was printed from 2010 to 2015 next to what was measured here, and which findings hold.

Networks, clients and object sizes differ: no ratio is formed.
"""

from collections.abc import Iterator

import pandas as pd

from storelab.analysis.explore.opened import Displayable, Opened, charted
from storelab.analysis.figures.systems import EARLIER
from storelab.analysis.statistics.judging import NOT_MEASURED, VERDICTS
from storelab.analysis.tables.earlier import MEASURED

THREADS = ("operation", "object_size", "source", "system", "engine", "buckets", "workers", "n")
THREAD_COLUMNS = ("throughput_median_mb_per_s", "rate_median_per_s")
FINDING = (
    "says",
    "source",
    "published",
    "published_unit",
    "system",
    "verdict",
    "value",
    "low",
    "high",
    "unit",
    "reason",
)


def statements(o: Opened) -> Iterator[Displayable]:
    """Show the single statements of 2012 to 2015 next to our highest medians by the same measure."""
    table = o.full_table("earlier")
    if table.empty:
        yield "Nothing in this campaign has a measure that the evaluations of 2012 to 2015 printed too."
        return
    if (found := charted({"earlier": (EARLIER, [table])})) is not None:
        yield found
    yield table.drop(columns="interval", errors="ignore")


def threads(o: Opened) -> Iterator[Displayable]:
    """Show the threads of one client, 2012, next to ours."""
    missing = "No single client here worked with several threads, as that of 2012 did."
    yield from _next_to_ours(o, "one_client", missing, (*THREADS, *THREAD_COLUMNS))


def laboratory(o: Opened) -> Iterator[Displayable]:
    """Show the storage laboratory of HEPiX, 2010, next to ours."""
    yield from _next_to_ours(o, "storage_lab", "No jobs here read as those of the storage laboratory of 2010 did.")


def reads(o: Opened) -> Iterator[Displayable]:
    """Show reads of a part of the entries, 2015, next to ours."""
    yield from _next_to_ours(o, "table2", "No reads in this campaign.")


def _next_to_ours(o: Opened, name: str, missing: str, columns: tuple[str, ...] = ()) -> Iterator[Displayable]:
    """Show a table, or these columns of it; say what is missing where it has only what was printed."""
    table = o.full_table(name)
    if table.empty or not (table["source"] == MEASURED).any():
        yield missing
    else:
        yield table[list(columns)] if columns else table.dropna(axis="columns", how="all")


def findings(o: Opened) -> Iterator[Displayable]:
    """How many findings of 2010 to 2015 hold on each system, then those that this campaign can judge."""
    table = o.full_table("claims")
    judged = table[table["verdict"] != NOT_MEASURED]
    counts = pd.crosstab(judged["system"].fillna(""), judged["verdict"])
    missing = table.loc[table["verdict"] == NOT_MEASURED, "claim"].nunique()
    yield f"{table['claim'].nunique()} findings were looked for; {missing} of them were not measured here."
    if judged.empty:
        return
    yield counts.reindex(columns=[v for v in VERDICTS if v in counts]).rename_axis(columns=None).reset_index()
    yield judged[list(FINDING)]
