"""`throughput.csv`: rates of each group of points, medians over the runs; and the classes of operations that the paper
shows."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from storelab.analysis.parts import cold, groups, speed, words
from storelab.analysis.statistics import steadiness
from storelab.analysis.tables import calibration
from storelab.core import units

RATES = (("throughput", "mb_per_s"), ("rate", "per_s"))
COLUMNS = (
    "n",
    "reps_planned",
    "reps_failed",
    "reps_invalid",
    "interval",
    "coverage_percent",
    "few",
    *groups.spread(RATES),
    "operations",
    "errors",
    "unsteady",
    "unsteady_how",
    "too_short",
    "tail_max_s",
    "lateness_max_ms",
    "connections_max",
    "nodes",
    "client_cpu_percent",
    "server_cpu_percent",
    "host_cpu_percent",
    "shared_host",
    *calibration.CEILING,
    "duration_s",
    "warm_up_s",
    "engine_version",
    "requests_per_operation",
    *cold.COLUMNS,
)


@dataclass(frozen=True)
class Class:
    """Objects of at least 1 MB (`large`, shown in MB/s) or below (objects/s), of one workload; None: of any size, for
    their bytes do not move (objects/s). `verb`: Download or Upload; `counted`: what its rate counts."""

    workload: str
    large: bool | None
    verb: str
    counted: str = "objects"

    @property
    def what(self) -> str:
        """Of a rate, in the plural: `Downloads`."""
        return self.verb if self.large else f"{self.verb}s"

    @property
    def what_within(self) -> str:
        """The same in the middle of a sentence."""
        return " ".join(word if word.isupper() else word.lower() for word in self.what.split())

    @property
    def metric(self) -> groups.Metric:
        return RATES[not self.large]

    @property
    def median(self) -> str:
        return "_median_".join(self.metric)

    @property
    def shown(self) -> str:
        return "MB/s" if self.large else f"{self.counted}/s"


CLASSES = {
    "throughput_download": Class("get", True, "Download"),
    "throughput_upload": Class("put", True, "Upload"),
    "metadata_download": Class("get", False, "Download"),
    "metadata_upload": Class("put", False, "Upload"),
    "metadata_stat": Class("stat", None, "HEAD request"),
    "metadata_list": Class("list", None, "Listing", "keys"),
}


def table(rated: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """One row per group of points that has a run, from the `overlap` windows: n counts runs, `reps_failed` those that
    failed.

    operations, errors: sums over the runs; unsteady, too_short: runs with such a label; unsteady_how: how many of
    which; *_max: of all runs; *_cpu_percent: medians.
    """
    ok = rated["state"] == "ok"
    tried = rated[ok.groupby([rated[c] for c in by], dropna=False).transform("any")] if len(rated) else rated
    rates = {"_".join(m): tried[f"overlap_{'_'.join(m)}"].where(ok) for m in RATES}
    return groups.summarised(tried.assign(**rates), by, RATES, [*by, *COLUMNS], _more, counted="rate_per_s")


def _more(group: pd.DataFrame) -> dict[str, Any]:
    ok = group[group["state"] == "ok"]
    return {
        "reps_planned": len(group),
        "reps_failed": int((group["state"] == "failed").sum()),
        "reps_invalid": int((group["state"] == "invalid").sum()),
        **{name: ok[name].sum() for name in ("operations", "errors")},
        "unsteady": int(ok["steadiness"].isin(steadiness.UNSTEADY).sum()),
        "unsteady_how": unsteady(ok["steadiness"]),
        "too_short": int((ok["steadiness"] == steadiness.TOO_SHORT).sum()),
        "tail_max_s": ok["tail_s"].max(),
        **{name: ok[name].max() for name in ("lateness_max_ms", "connections_max", "nodes")},
        **{name: ok[name].median() for name in (*groups.CPU, "host_cpu_percent")},
        "shared_host": bool(ok["shared_host"].any()),
        **calibration.of_group(ok, ok["rate_per_s"].astype(float).median()),
        **{name: group[name].iloc[0] for name in ("duration_s", "warm_up_s")},
        **{name: groups.joined(ok[name]) for name in ("engine_version", "requests_per_operation")},
        **cold.of_group(ok),
    }


def unsteady(labels: pd.Series) -> str | None:
    """How many runs are unsteady in which way: `stalled 2, swinging 1`; None where none is."""
    return ", ".join(f"{name} {n}" for name in steadiness.UNSTEADY if (n := (labels == name).sum())) or None


def of_class(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Rows of `throughput.csv` that belong to a class of CLASSES (empty where the campaign has none)."""
    if "object_size_bytes" not in table:
        return table.iloc[:0]
    size, wanted = table["object_size_bytes"].astype("Float64"), CLASSES[name]
    fits = size.notna() if wanted.large is None else (size >= speed.LARGE) == wanted.large
    return table[(table["workload"] == wanted.workload) & fits.fillna(False).astype(bool)]


def measured(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """`of_class`, where the class's median is known."""
    rows = of_class(table, name)
    return rows[rows[CLASSES[name].median].notna()] if len(rows) else rows


def side_by_side(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Rows of a class that compare systems, with `deployment`: of the largest number of clients, and the least of
    front-ends, buckets and accounts."""
    rows = measured(table, name)
    for column in ("front_ends", "buckets", "accounts", "clients"):
        if len(rows) and column in rows:
            rows = rows[rows[column] == rows[column].agg("max" if column == "clients" else "min")]
    return groups.labelled(rows) if len(rows) else rows


def numbers(table: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """The best group of each class: its median, spread, and where it was measured."""
    out: list[tuple[str, Any, str]] = []
    for name, of in CLASSES.items():
        rows = measured(table, name)
        if rows.empty:
            continue
        best = rows.loc[rows[of.median].astype(float).idxmax()]
        said = [c for c in ("engine", "clients", "workers", "front_ends") if c in best and not pd.isna(best[c])]
        out += [
            (f"best_{name}", best[of.median], of.shown),
            (f"best_{name}_spread", words.spread([best[c] for c in groups.spread([of.metric])]), of.shown),
            (f"best_{name}_object_size", units.format_size(int(best["object_size_bytes"])), ""),
            *((f"best_{name}_{c}", best[c], "") for c in ("store", "n", "interval")),
            *((f"best_{name}_{c}", words.value_text(c, best[c]), "") for c in said),
        ]
    return out
