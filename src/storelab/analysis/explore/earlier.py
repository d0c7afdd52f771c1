"""Views that compare this campaign with published measurements of 2010 to 2015, and show which findings hold.

Networks, clients and object sizes differ, so that no ratios are shown.
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
    "statement",
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
    """Show single statements of 2012 to 2015 together with the highest medians of this campaign in the same measure."""
    table = o.full_table("earlier")
    if table.empty:
        yield "This campaign has no result in a measure that the evaluations of 2012 to 2015 printed."
        return
    if (found := charted({"earlier": (EARLIER, [table])})) is not None:
        yield found
    yield table.drop(columns="interval", errors="ignore")


def threads(o: Opened) -> Iterator[Displayable]:
    """Show the measurement of 2012 with threads of one client together with the measurement of this campaign."""
    missing = "This campaign has no measurement of one client with several threads, as in 2012."
    yield from _next_to_ours(o, "one_client", missing, (*THREADS, *THREAD_COLUMNS))


def laboratory(o: Opened) -> Iterator[Displayable]:
    """Show the results of the storage laboratory of HEPiX (2010) together with those of this campaign."""
    yield from _next_to_ours(o, "storage_lab", "This campaign has no jobs as in the storage laboratory of 2010.")


def reads(o: Opened) -> Iterator[Displayable]:
    """Show the reads of a part of the entries of 2015 together with those of this campaign."""
    yield from _next_to_ours(o, "table2", "This campaign has no reads.")


def _next_to_ours(o: Opened, name: str, missing: str, columns: tuple[str, ...] = ()) -> Iterator[Displayable]:
    """Show a table, or only these columns of it. If it has only published rows, show the text `missing`."""
    table = o.full_table(name)
    if table.empty or not (table["source"] == MEASURED).any():
        yield missing
    else:
        yield table[list(columns)] if columns else table.dropna(axis="columns", how="all")


def findings(o: Opened) -> Iterator[Displayable]:
    """Show how many findings of 2010 to 2015 hold on each system, and the findings that this campaign measured."""
    table = o.full_table("claims")
    judged = table[table["verdict"] != NOT_MEASURED]
    counts = pd.crosstab(judged["system"].fillna(""), judged["verdict"])
    missing = table.loc[table["verdict"] == NOT_MEASURED, "claim"].nunique()
    yield f"There are {table['claim'].nunique()} findings; {missing} of them were not measured here."
    if judged.empty:
        return
    yield counts.reindex(columns=[v for v in VERDICTS if v in counts]).rename_axis(columns=None).reset_index()
    yield judged[list(FINDING)]
