"""Groups of points and what is said of each: counts, medians over the runs with their interval. May import:
`statistics`, `words`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from storelab.analysis.parts import words
from storelab.analysis.statistics import medians

PARTS = ("median", "low", "high")
COUNTS = ("n", "interval", "coverage_percent")
FEW = 10  # operations of a run, below which its rate is marked
CPU = ("client_cpu_percent", "server_cpu_percent")  # of the host; median over the runs, for figures of a shared host
Metric = tuple[
    str, str
]  # name and unit: the column `<name>_<unit>` of runs, `<name>_<median, low, high>_<unit>` of groups


def alike(values: Iterable[Any]) -> list[Any]:
    """Values that are equal where they say the same, whether they come from a record or from CSV, where whole numbers
    may be floats; None for no value."""
    return [None if pd.isna(v) else str(v) if isinstance(v, str | bool | np.bool_) else float(v) for v in values]


def joined(values: Iterable[Any]) -> str | None:
    """Distinct non-null values as text, in order of appearance."""
    return ", ".join(dict.fromkeys(str(v) for v in values if not pd.isna(v))) or None


def labelled(rows: pd.DataFrame) -> pd.DataFrame:
    """Add `deployment`: the store and what its deployment is, in words."""
    told = rows[[c for c in ("store", *words.DEPLOYMENT_NAMES) if c in rows]].to_dict("records")
    return with_column(rows, "deployment", map(words.deployment, told))


def with_column(rows: pd.DataFrame, name: str, values: Iterable[Any]) -> pd.DataFrame:
    """A column beside the others: `assign` warns of frames that have a hundred columns of nullable types."""
    column = pd.Series(list(values), index=rows.index, name=name, dtype=None if len(rows) else object)
    return pd.concat([rows.drop(columns=name, errors="ignore"), column], axis=1)


def grouped(rows: pd.DataFrame, by: Sequence[str]) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """(identity, rows) per group, sorted by identity; null axes (of other workloads) group together."""
    if not len(rows):
        return
    # Most axes have one value in all rows: to group by some sixty of those takes longer than all else.
    one = {c: rows[c].iat[0] for c in by if _is_one(rows[c])}
    several = [c for c in by if c not in one]
    for key, group in rows.groupby(several, dropna=False, sort=True) if several else [((), rows)]:
        told = one | dict(zip(several, key, strict=True))
        yield {c: told[c] for c in by}, group


def _is_one(values: pd.Series) -> bool:
    """Whether all of these values, at least one, are the same, or all of them null."""
    first = values.iat[0]
    return bool(values.isna().all() if pd.isna(first) else (values == first).fillna(False).all())


def spread(metrics: Iterable[Metric]) -> list[str]:
    """The columns of these metrics in a table of groups."""
    return [f"{name}_{part}_{unit}" for name, unit in metrics for part in PARTS]


def summarised(
    rows: pd.DataFrame,
    by: Sequence[str],
    metrics: Iterable[Metric],
    columns: Sequence[str],
    more: Callable[[pd.DataFrame], Mapping[str, Any]],
    counted: str | None = None,
    complete: bool = False,
) -> pd.DataFrame:
    """One row per group (columns `by`) of runs, with exactly these `columns`: COUNTS, `spread(metrics)`, and what
    `more` says of the group. COUNTS are n (finite values), interval (what low and high are) and coverage_percent (of
    the true median).

    counted: the column whose finite values are counted as runs; else all rows are. complete: a metric is null where it
    is null in one of the runs. A column `few`, if it is asked for: the rate of a run depends on fewer than FEW
    operations (`rate_operations`).
    """
    metrics, out, rows = list(metrics), [], rows.reset_index(drop=True)
    values = {m: rows["_".join(m)].astype("Float64").to_numpy(float, na_value=np.nan) for m in metrics if len(rows)}
    for key, group in grouped(rows, by):
        of = medians.summarise(range(len(group)) if counted is None else group[counted].astype(float))
        row = key | dict(zip(COUNTS, (of.n, of.kind, 100 * of.coverage), strict=True))
        for name, unit in metrics:
            of = medians.summarise(values[name, unit][group.index])
            known = of.n == len(group) or not complete
            row |= {f"{name}_{part}_{unit}": getattr(of, part) if known else np.nan for part in PARTS}
        if "few" in columns:
            row["few"] = bool((group["rate_operations"].astype(float) < FEW).any())
        out.append(row | dict(more(group)))
    return pd.DataFrame(out, columns=list(columns)).astype({c: rows.dtypes[c] for c in by if c in rows})
