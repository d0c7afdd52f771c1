"""Then and now: what was printed from 2010 to 2015 next to what was measured here, and which findings hold.

Networks, clients and object sizes differ: no ratio is formed.
"""

from collections.abc import Iterator

import pandas as pd

from storelab.analysis.explore.opened import Opened, Thing, charted
from storelab.analysis.figures.systems import EARLIER
from storelab.analysis.statistics.judging import NOT_MEASURED, VERDICTS
from storelab.analysis.tables.verdicts.earlier import MEASURED

THREADS = ("operation", "object_size", "source", "system", "engine", "buckets", "workers", "n")
OF_THREADS = ("throughput_median_mb_per_s", "rate_median_per_s")
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


def statements(o: Opened) -> Iterator[Thing]:
    """Show the single statements of 2012 to 2015 next to our highest medians by the same measure."""
    table = o.whole("earlier")
    if table.empty:
        yield "Nothing in this campaign has a measure that the evaluations of 2012 to 2015 printed too."
        return
    if (found := charted({"earlier": (EARLIER, [table])})) is not None:
        yield found
    yield table.drop(columns="interval", errors="ignore")


def _ours(table: pd.DataFrame) -> bool:
    """Whether a table has more than what was printed."""
    return len(table) > 0 and bool((table["source"] == MEASURED).any())


def threads(o: Opened) -> Iterator[Thing]:
    """Show the threads of one client, 2012, next to ours."""
    table = o.whole("one_client")
    if not _ours(table):
        yield "No single client here worked with several threads, as that of 2012 did."
        return
    yield table[[*THREADS, *OF_THREADS]]


def laboratory(o: Opened) -> Iterator[Thing]:
    """Show the storage laboratory of HEPiX, 2010, next to ours."""
    table = o.whole("storage_lab")
    if not _ours(table):
        yield "No jobs here read as those of the storage laboratory of 2010 did."
        return
    yield table.dropna(axis="columns", how="all")


def reads(o: Opened) -> Iterator[Thing]:
    """Show reads of a part of the entries, 2015, next to ours."""
    table = o.whole("table2")
    if not _ours(table):
        yield "No reads in this campaign."
        return
    yield table.dropna(axis="columns", how="all")


def findings(o: Opened) -> Iterator[Thing]:
    """How many findings of 2010 to 2015 hold on each system, then those that this campaign can judge."""
    table = o.whole("claims")
    judged = table[table["verdict"] != NOT_MEASURED]
    counts = pd.crosstab(judged["system"].fillna(""), judged["verdict"])
    missing = table.loc[table["verdict"] == NOT_MEASURED, "claim"].nunique()
    yield f"{table['claim'].nunique()} findings were looked for; {missing} of them were not measured here."
    if judged.empty:
        return
    yield counts.reindex(columns=[v for v in VERDICTS if v in counts]).rename_axis(columns=None).reset_index()
    yield judged[list(FINDING)]
