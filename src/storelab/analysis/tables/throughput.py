"""Rates of each group of points, and tables derived from the speeds (`parts.groups`) of runs. See docs/statistics.md.

* `throughput.csv`: medians over the runs; this module also defines the classes of operations in the paper.
* `noise.csv`: the noise floor, from an A/A test of each group. Within a group, the even repetitions are compared with
  the odd ones, which were measured alternately. Ratio, interval and verdict are computed as for two campaigns
  (`compare`). Both halves have the same settings, so that every difference is noise. The noise floor of the campaign is
  the 95th percentile over the groups of the larger of ratio and 1 / ratio, minus 1, in percent. With fewer than 20
  groups, it is the maximum. A half has half of the runs. The scatter between two whole groups is therefore smaller by a
  factor of the square root of 2. Spread is the standard deviation of the logarithm over the runs of a group, in
  percent.
* `scaling.csv`: the value of an axis at which each scaling curve stops rising, or falls, with its interval, and the
  linearity of the curve. A curve is the speed of the points that differ only in one axis. The unit is the run.
  `statistics.knees` has the definitions.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import pandas as pd

from storelab.analysis.parts import groups, labels
from storelab.analysis.records import selection
from storelab.analysis.statistics import knees, ratios, steadiness
from storelab.analysis.tables import calibration
from storelab.core import units
from storelab.core.axes import ALL

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
    *groups.COLD,
)
_OF_VALID = {  # columns combined over the valid runs
    **dict.fromkeys(("operations", "errors"), "sum"),
    **dict.fromkeys(("lateness_max_ms", "connections_max", "nodes"), "max"),
    **groups.SHARED,
    "host_cpu_percent": "median",
    "warm_up_s": "first",
    **dict.fromkeys(("engine_version", "requests_per_operation"), "joined"),
    **groups.COLD,
}


@dataclass(frozen=True)
class Class:
    """A class of operations of one workload.

    large: True: objects of at least 1 MB (shown in MB/s); False: smaller objects (shown in objects/s); None: objects of
    any size, because their bytes are not moved. verb: name of the operation; counted: noun for the objects per second.
    """

    workload: str
    large: bool | None
    verb: str
    counted: str = "objects"

    @property
    def what(self) -> str:
        """The name of the rate. It is in the plural for numbers of operations, such as `Downloads`."""
        return self.verb if self.large else f"{self.verb}s"

    @property
    def what_within(self) -> str:
        """The name of the rate for use in the middle of a sentence."""
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
    """Return `throughput.csv`: one row per group of points that has a valid run, from the `overlap` windows.

    n: number of runs; reps_failed: number of failed runs; operations, errors: sums over the runs; unsteady, too_short:
    numbers of runs that are not steady, or too short; unsteady_how: the number of runs with each label; *_max: maximum
    over the runs; *_cpu_percent: medians.
    """
    ok = rated["state"] == "ok"
    tried = rated[ok.groupby([rated[c] for c in by], dropna=False).transform("any")] if len(rated) else rated
    rates = {"_".join(m): tried[f"overlap_{'_'.join(m)}"].where(ok) for m in RATES}
    return groups.summarised(tried.assign(**rates), by, RATES, [*by, *COLUMNS], more=_more, counted="rate_per_s")


def _more(group: pd.DataFrame) -> dict[str, Any]:
    ok = group[group["state"] == "ok"]
    return {
        "reps_planned": len(group),
        "reps_failed": int((group["state"] == "failed").sum()),
        "reps_invalid": int((group["state"] == "invalid").sum()),
        **groups.aggregated(ok, _OF_VALID),
        "unsteady": int(ok["steadiness"].isin(steadiness.UNSTEADY).sum()),
        "unsteady_how": unsteady(ok["steadiness"]),
        "too_short": int((ok["steadiness"] == steadiness.TOO_SHORT).sum()),
        "tail_max_s": ok["tail_s"].max(),
        **calibration.ceiling_columns(ok, ok["rate_per_s"].astype(float).median()),
        "duration_s": group["duration_s"].median(),  # windows can be extended
    }


def unsteady(kinds: pd.Series) -> str | None:
    """Return the numbers of unsteady runs by label, such as `stalled 2, swinging 1`, or None if all are steady."""
    return ", ".join(f"{name} {n}" for name in steadiness.UNSTEADY if (n := (kinds == name).sum())) or None


def rows_of_class(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the rows of `throughput.csv` that belong to a class of CLASSES."""
    if "object_size_bytes" not in table:
        return table.iloc[:0]
    size, wanted = table["object_size_bytes"].astype("Float64"), CLASSES[name]
    fits = size.notna() if wanted.large is None else (size >= groups.LARGE) == wanted.large
    return table[(table["workload"] == wanted.workload) & fits.fillna(False).astype(bool)]


def measured(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the rows of `rows_of_class` with a known median."""
    rows = rows_of_class(table, name)
    return rows[rows[CLASSES[name].median].notna()] if len(rows) else rows


def side_by_side(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the rows of a class by which systems are compared, with the column `deployment`.

    These rows have the largest number of clients, and the smallest numbers of front-ends, buckets and accounts.
    """
    rows = measured(table, name)
    for column in ("front_ends", "buckets", "accounts", "clients"):
        if len(rows) and column in rows:
            rows = rows[rows[column] == rows[column].agg("max" if column == "clients" else "min")]
    return groups.labelled(rows) if len(rows) else rows


def numbers(table: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """Return name, value and unit of the best group of each class: its median, spread, and settings."""
    out: list[tuple[str, Any, str]] = []
    for name, kind in CLASSES.items():
        rows = measured(table, name)
        if rows.empty:
            continue
        best = rows.loc[rows[kind.median].astype(float).idxmax()]
        settings = [c for c in ("engine", "clients", "workers", "front_ends") if c in best and not pd.isna(best[c])]
        out += [
            (f"best_{name}", best[kind.median], kind.shown),
            (f"best_{name}_spread", labels.spread([best[c] for c in groups.spread([kind.metric])]), kind.shown),
            (f"best_{name}_object_size", units.format_size(int(best["object_size_bytes"])), ""),
            *((f"best_{name}_{c}", best[c], "") for c in ("store", "n", "interval")),
            *((f"best_{name}_{c}", labels.value_text(c, best[c]), "") for c in settings),
        ]
    return out


PERCENTILE = 0.95
WHOLE = "all"  # `workload` of the rows over all groups


def halves(rows: pd.DataFrame) -> tuple[dict[int, float], dict[int, float]]:
    """Return the runs of the odd and of the even repetitions: repetition -> value."""
    runs = {int(rep): float(value) for rep, value in zip(rows["rep"], rows["value"], strict=True)}
    return {r: v for r, v in runs.items() if r % 2}, {r: v for r, v in runs.items() if not r % 2}


def noise_table(points: pd.DataFrame, axes: Mapping[str, str]) -> pd.DataFrame:
    """Return one row per group of points and metric, followed by rows over all groups for speed and each latency.

    Columns: n, n_odd, n_even, spread_percent (null below 2 runs), the ratio even / odd with low, high,
    coverage_percent, verdict and reason. The rows over all groups have the `workload` all. Their n_odd and n_even are
    numbers of repetitions, and `groups` is the number of groups. points: points.csv of workloads with a rate; axes:
    column -> dtype of the plan's axes.
    """
    by = ["store", "workload", *axes]
    rows: list[dict[str, Any]] = []
    found: dict[str, list[tuple[dict[int, float], dict[int, float]]]] = {}
    for key, group in groups.grouped(groups.with_latencies(points), [*by, "metric"]):
        odd, even = halves(group)
        values = np.array([*odd.values(), *even.values()])
        spread = 100 * float(np.std(np.log(values), ddof=1)) if len(values) > 1 and values.min() > 0 else math.nan
        counts = {"groups": 1, "n": len(values), "n_odd": len(odd), "n_even": len(even), "spread_percent": spread}
        rows.append(
            key | ratios.ratio(odd.values(), even.values(), groups.lower_is_better(key["metric"])).row() | counts
        )
        found.setdefault(groups.kind(key["metric"]), []).append((odd, even))
    for metric, pairs in found.items():
        r = ratios.overall_ratio([p[0] for p in pairs], [p[1] for p in pairs], groups.lower_is_better(metric))
        counts = {"groups": len(pairs), "n": r.n_a + r.n_b, "n_odd": r.n_a, "n_even": r.n_b, "spread_percent": math.nan}
        rows.append({"workload": WHOLE, "metric": metric} | r.row() | counts)
    columns = [*by, "metric", "groups", "n", "n_odd", "n_even", "spread_percent", *ratios.COLUMNS]
    return pd.DataFrame(rows, columns=columns).astype(dict(axes))


def noise_numbers(found: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """Return name, value and unit of the numbers about noise of speeds. Without data, the list is empty.

    The numbers are noise_floor, noise_groups, run_spread (median over the groups), aa_compared (groups with enough runs
    for an interval), aa_undecided (compared groups with the correct verdict UNDECIDED), aa_too_few, and the ratio over
    all groups.
    """
    rows = found[(found["workload"] != WHOLE) & found["metric"].isin(groups.SPEEDS) & found["ratio"].notna()]
    if rows.empty:
        return []
    with_interval = rows[rows["low"].notna()]
    ratio = rows["ratio"].astype(float)
    apart = 100 * (np.maximum(ratio, 1 / ratio) - 1)
    out = [
        ("noise_floor", float(np.quantile(apart, PERCENTILE, method="inverted_cdf")), "%"),
        ("noise_groups", labels.plural(len(rows), "group"), ""),
        ("run_spread", rows["spread_percent"].astype(float).median(), "%"),
        ("aa_compared", len(with_interval), ""),
        ("aa_undecided", int((with_interval["verdict"] == ratios.UNDECIDED).sum()), ""),
        ("aa_too_few", len(rows) - len(with_interval), ""),
    ]
    whole = found[(found["workload"] == WHOLE) & (found["metric"] == groups.SPEED)]
    if len(whole) and whole["low"].notna().all():
        spread = labels.spread(whole[["ratio", "low", "high"]].iloc[0].tolist())
        out += [("aa_whole", spread, ""), ("aa_whole_verdict", whole["verdict"].iloc[0], "")]
    return out


CURVE_AXES = tuple(a.column for a in ALL.values() if a.curve)
TOGETHER = ", "  # separates axes that vary together
SHAPES = {  # text in a sentence; {0}: number of curves, {1} and {2}: ending of the verb
    knees.KNEE: "{0} reach{2} a knee",
    knees.PEAK: "{0} peak{1}",
    knees.RISING: "{0} still rise{1} at the end",
    knees.BENDING: "{0} bend{1} (the last step rises, but less than the steps before)",
    knees.LEVEL: "{0} do{2} not rise",
    knees.UNDECIDED: "{0} cannot be judged by the runs (scaling.csv only)",
}
# Columns of the quantities of a curve: value and interval of each.
CURVE_PARTS = tuple(f"{n}_{p}" for n in ("knee", "plateau", "slope", "linearity") for p in ("value", "low", "high"))


def couplings(plan: Mapping[str, Any]) -> list[selection.Coupling]:
    """Return the couplings of a plan: axes that vary together."""
    return selection.couplings_of(plan)


def scaling_table(
    points: pd.DataFrame, axes: Mapping[str, str], coupled: Sequence[selection.Coupling] = ()
) -> pd.DataFrame:
    """Return one row per curve along CURVE_AXES.

    Columns: the columns that identify a group (the axis of the curve is null), axis, metric, values, least, most, n,
    curve (the shape), and knee_, plateau_, slope_ and linearity_ with value, low and high each. knee_ is the peak if
    the shape is `peak`. The plateau is in MB/s or 1/s (`metric`), the slope in this unit per unit of the axis. If axes
    vary together, and the first of them is one of CURVE_AXES, the curve is along the first. `axis` then lists all of
    them (`front_ends, clients`), and their columns are null.

    points: points.csv of workloads with a rate (runs with a speed of 0 are excluded); axes: column -> dtype of the
    plan's axes.
    """
    rows = []
    for head, x, y in curves(points, axes, coupled):
        curve = knees.fit(x, y)
        parts = {column: attrgetter(column.replace("_", "."))(curve) for column in CURVE_PARTS}
        rows.append(head | {"curve": curve.shape, "reason": curve.reason or None} | parts)
    columns = [
        "store",
        "workload",
        *axes,
        "axis",
        "metric",
        "values",
        "least",
        "most",
        "n",
        "curve",
        *CURVE_PARTS,
        "reason",
    ]
    return pd.DataFrame(rows, columns=columns).astype(dict(axes))


def curves(
    points: pd.DataFrame, axes: Mapping[str, str], coupled: Sequence[selection.Coupling] = ()
) -> Iterator[tuple[dict[str, Any], np.ndarray, np.ndarray]]:
    """Yield for each curve the first columns of its row, and for its runs the axis values and speeds, shapes (n,)."""
    by = ["store", "workload", *axes]
    runs = groups.point_rows(points)
    runs = runs[runs["value"] > 0]
    for axis in (a for a in CURVE_AXES if a in by):
        yield from _curves(runs[runs[axis].notna()], (axis,), by)
    for coupling in coupled:
        if coupling.axes[0] in CURVE_AXES and len({row[0] for row in coupling.rows}) == len(coupling.rows):
            yield from _curves(runs[coupling.along(runs)], coupling.axes, by)


def _curves(
    runs: pd.DataFrame, axes: Sequence[str], by: Sequence[str]
) -> Iterator[tuple[dict[str, Any], np.ndarray, np.ndarray]]:
    """Yield the curves along the first of these axes, which vary together, in the form of `curves`."""
    others = [c for c in [*by, "metric"] if c not in axes]
    for key, group in groups.grouped(runs, others):
        x = group[axes[0]].to_numpy(dtype=float)
        values = np.unique(x)
        if len(values) >= knees.MIN_VALUES:
            head = {"axis": TOGETHER.join(axes), "values": len(values), "n": len(x)}
            head |= {"least": int(values[0]), "most": int(values[-1])}
            yield key | head, x, group["value"].to_numpy(dtype=float)


def scaling_numbers(found: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """Return name, value and unit of the numbers about curves. Without data, the list is empty.

    The numbers are the number of curves, the number of curves of each shape in words, and the lowest and highest
    linearity of the curves of front-ends that can be judged.
    """
    if found.empty:
        return []
    counts = {text: int((found["curve"] == shape).sum()) for shape, text in SHAPES.items()}
    shapes = labels.listed([text.format(n, *(("s", "es") if n == 1 else ("", ""))) for text, n in counts.items() if n])
    out: list[tuple[str, Any, str]] = [("curves", len(found), ""), ("curves_shapes", shapes, "")]
    known = (found["curve"] != knees.UNDECIDED) & found["linearity_low"].notna()
    rows = found[(found["axis"].str.split(TOGETHER).str[0] == "front_ends") & known]
    if len(rows):
        worst, best = (rows.loc[rows["linearity_value"].astype(float).agg(which)] for which in ("idxmin", "idxmax"))
        out.append(("linearity_front_ends", " to ".join(dict.fromkeys(map(linearity, (worst, best)))), ""))
    return out


def linearity(row: Mapping[str, Any]) -> str:
    """Return the linearity of a curve with its interval, to two decimals (1: proportional).

    The text is empty if the linearity is not known.
    """
    value, low, high = (labels.number(row[f"linearity_{part}"], places=2) for part in ("value", "low", "high"))
    return "" if pd.isna(row["linearity_value"]) else f"{value} [{low}, {high}]"
