"""Figures that compare systems: front-ends, buckets, space, earlier results, and software releases.

They follow experiments 4, 5 and 9 of the evaluations (docs/evaluations.md). The growth of a repository is drawn as in
figure 15 of J. Phys. Conf. Ser. 664 022001. The numbers of the published curve are not known. The reference line is its
mean per day, times the factor of our release.
"""

import re
import textwrap
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import pandas as pd

from storelab.analysis.figures.panels import PAGE, limits, varying
from storelab.analysis.figures.specification import MIN_VALUES, Curve, Function, Measure, Reference, Specification
from storelab.analysis.figures.throughput import class_filter
from storelab.analysis.parts import labels
from storelab.analysis.parts.groups import labelled
from storelab.analysis.records import published
from storelab.analysis.tables import releases
from storelab.analysis.tables.earlier import MEASURED, MEASURES, printed_name
from storelab.analysis.tables.resources import SPACE_METRICS, STATES
from storelab.analysis.tables.throughput import CLASSES, side_by_side
from storelab.core import units

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def _comparable(table: pd.DataFrame) -> pd.DataFrame:
    """Return the comparable rows of all classes of operations, at the largest number of clients.

    The result is empty with fewer than two deployments. An object size is used only if at least three deployments have
    it, or both if there are only two.
    """
    found = [rows for name in reversed(CLASSES) if len(rows := side_by_side(table, name))]
    rows = pd.concat(found or [table.iloc[:0]])
    if rows.empty or rows["deployment"].nunique() < 2:
        return table.iloc[:0]
    several = rows.groupby(["workload", "object_size_bytes"])["deployment"].transform("nunique")
    rows = rows[several >= min(MIN_VALUES, rows["deployment"].nunique())]
    return rows.assign(series=rows["engine"]).sort_values("series", kind="stable")


def measures_of_classes(label: str) -> tuple[Measure, ...]:
    """Return one measure for each class of operations. Classes of small objects are first.

    label: template of the label of the axis, with the fields `what` and `unit`.
    """
    return tuple(
        Measure((Curve(*of.metric),), label.format(what=of.what, unit=of.shown), of.what_within, class_filter(name))
        for name, of in reversed(CLASSES.items())
    )


def heading_of(first: pd.Series, _: pd.DataFrame) -> str:
    """Return the title of a panel: the deployment, the operation, and the object size, if there is one."""
    size = first["object_size_bytes"]
    return f"{first['deployment']}, {{what}}" + ("" if pd.isna(size) else f" of {units.format_size(int(size))}")


def _note_on_front_ends(rows: pd.DataFrame) -> str:
    blind = rows["shared_host"].astype(bool).any() and not limits(rows).any()
    return "; it cannot show the effect of more front-ends" if blind else ""


def _against(column: str, hue: str, title: str, caption: str) -> Specification:
    """Return the figure of rates against a count, with one panel per class of operations, deployment and size."""
    return Specification(
        table="throughput",
        where={"workload": ("put", "get", "stat")},
        several=(column,),
        prepare=labelled,
        measures=measures_of_classes("{unit}"),
        x=column,
        hue=(hue,),
        within=True,
        swept=True,
        panels=("deployment", "object_size_bytes"),
        heading=heading_of,
        note=_note_on_front_ends if column == "front_ends" else None,
        height=2.2,
        title=title,
        caption=caption,
    )


SYSTEMS = Specification(
    table="throughput",
    further_tables=("points",),
    where={"workload": ("put", "get", "stat")},
    prepare=_comparable,
    measures=measures_of_classes("{what} of {{sizes}} [{unit}]"),
    x="deployment",
    panels=(),
    height=0.6,
    line=0.2,
    several=("deployment",),
    title="Systems side by side, {clients}; by engine",
    caption="The systems and deployments of the campaign side by side: operations per second on small objects, "
    "throughput of large ones, at the largest number of clients and the smallest numbers of front-ends, buckets and "
    "accounts; by engine. Medians; {bars}. {shared}",
)
FRONT_ENDS = _against(
    "front_ends",
    "clients",
    "Scaling with front-ends",
    "Rates against the number of front-ends; clients are spread over them in turn. Medians; {bars}. {scaling}",
)
BUCKETS = _against(
    "buckets",
    "accounts",
    "Scaling with buckets and accounts",
    "Rates against the number of buckets that the objects are spread over, by the number of accounts that own them. "
    "Medians; {bars}. {shared}",
)
SPACE = Specification(
    table="space",
    where={"workload": "space"},
    prepare=labelled,
    measures=(
        Measure(
            tuple(Curve(*metric, name) for metric, name in zip(SPACE_METRICS, STATES.values(), strict=True)),
            "Raw bytes used for each byte stored",
        ),
    ),
    x="deployment",
    by_curve=True,
    panels=("object_size_bytes",),
    references=lambda *_: [Reference(1)],
    note=lambda _: "; dashed: one raw byte for each byte stored",
    height=0.6,
    line=0.28,
    title="Space",
    caption="Raw bytes that a store uses for each byte stored, including all copies and parity: after the uploads, "
    "some seconds after their deletion, and after the store was asked to free space. Medians; {bars}.",
)


# --- comparison with published results ---

PARTS_OF_TITLE = re.compile(
    r"(per front-end|(up|down)load( throughput| 4 kB| 100 MB)|network limit, reached)(, )?"
)  # words that the title of the panel contains
# the same for a title of several measures
PARTS_OF_SHARED_TITLE = re.compile(PARTS_OF_TITLE.pattern.replace("per front-end|", ""))
# height of a line and of the texts of a panel in inches; maximum number of characters of a name
LINE, HEAD, WIDE = 0.115, 0.66, 38
OTHERS = "0.35"


def name_of(r: pd.Series) -> str:
    """Return the name of a row: the deployment if it was measured, else such as `published 2013: UDS 1, 5 clients`."""
    if r["source"] == MEASURED:
        return str(r["system"])
    year = re.search(r"\d{4}", str(r["source"]))
    system = printed_name(str(r["system"]))
    removed = PARTS_OF_TITLE if r["measure"] in MEASURES.values() else PARTS_OF_SHARED_TITLE
    setting = removed.sub("", str(r["setting"])).strip(", ")
    return f"published {year[0] if year else ''}: " + ", ".join(filter(None, [system, setting]))


def earlier(table: pd.DataFrame) -> "Figure | None":
    """Return the figure that compares published values with measured ones, or None without data.

    There is one panel for each kind of work and measure, with a line for each published value and measured system.
    """
    from storelab.analysis.figures import plots

    if table.empty:
        return None
    parts = [(key, rows) for key, rows in table.groupby(["what", "measure", "unit"], sort=False)]
    pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
    heights = [LINE * max(_places(_names(rows))[-1] for _, rows in pair) + HEAD for pair in pairs]
    ours = list(dict.fromkeys(table.loc[table["source"] == MEASURED, "system"]))
    looks = plots.looks(ours)
    with plots.style():
        fig = plots.sheet(min(sum(heights) + 0.6, PAGE))
        cells = fig.subplots(len(pairs), 2, squeeze=False, height_ratios=heights)
        for ax in cells.ravel()[len(parts) :]:
            ax.remove()
        for ax, ((what, measure, unit), rows) in zip(cells.ravel(), parts, strict=False):
            _panel(ax, rows, looks)
            ax.set_title(textwrap.fill(f"{what}, {measure}", 32), fontsize=7)
            ax.set_xlabel(f"{'MB/s' if 'Gbit' in measure else unit} {measure}", fontsize=6.5)
        handles: list[Any] = [
            plots.Line2D([], [], color=c, marker=m, linestyle="none", label=f"here: {name}")
            for name, (c, m) in looks.items()
        ]
        look = {"color": OTHERS, "markerfacecolor": "white", "linestyle": "none", "marker": "o"}
        plots.key(
            fig, [*handles, plots.Line2D([], [], label="published, other systems and networks", **look)], "Then and now"
        )
    return fig


def _names(rows: pd.DataFrame) -> list[str]:
    return [textwrap.fill(name_of(r), WIDE, break_on_hyphens=False) for _, r in rows.iterrows()]


def _places(names: list[str]) -> list[float]:
    """Return the centre of each line, counted from the top, and the end of the last line.

    The height of a line depends on the number of lines of its name.
    """
    ends = list(accumulate((0.5 + (1 + name.count("\n")) for name in names), initial=0.0))
    return [*((a + b) / 2 for a, b in pairwise(ends)), ends[-1]]


def _panel(ax: "Axes", rows: pd.DataFrame, looks: Any) -> None:
    from storelab.analysis.figures import plots

    names = _names(rows)
    places = _places(names)
    heights = [places[-1] - at for at in places]
    for y, (_, r) in zip(heights, rows.iterrows(), strict=False):
        if r["source"] == MEASURED:
            colour, marker = looks[r["system"]]
            reach = [[r["median"] - r["low"]], [r["high"] - r["median"]]]
            ax.errorbar(r["median"], y, xerr=reach, color=colour, marker=marker, capsize=2, elinewidth=1, markersize=4)
        else:
            ax.plot(r["median"], y, marker="o", color=OTHERS, mfc="white", ls="none", markersize=4)
    values = rows[["median", "low", "high"]].astype(float).stack()
    known = values[values > 0]
    span = known.max() / known.min() if len(known) else 1
    if span > 20:
        ax.set_xscale("log")
    else:
        ax.set_xlim(0, 1.08 * known.max() if len(known) else 1)
    plots.plain_numbers(ax.xaxis, 0 if span <= 20 else span if span < 60 else max(span, 300), 5)
    ax.set_yticks(heights[:-1], names, fontsize=5)
    ax.set_ylim(0, places[-1])
    ax.tick_params(axis="x", labelsize=6.5)


EARLIER = Function(
    table="earlier",
    where={"workload": ("put", "get")},
    function=earlier,
    caption="Then and now: hollow and grey: values published in the years in the labels, divided by the "
    "number of clients of their setting, per front-end or for the whole system as printed, or by the Gbit/s of the "
    "links used (1 Gb/s is 125 MB/s); coloured: the highest medians measured here, in the same measure. "
    "Networks, clients and object sizes differ, so that the figure shows no ratios and connects no points.",
)


# --- launches and releases of software ---

LAUNCHES = Specification(
    table="launches",
    where={"workload": "launch"},
    measures=(
        Measure((Curve("first", "s"),), "Time to first run [s]"),
        Measure((Curve("files", "per_s"),), "Files/s"),
    ),
    hue=("http_cache",),
    panels=("store",),
    columns=True,
    title="Starts of an application",
    caption="Starts of an application from a repository of software, against the number of clients that start at "
    "once, by the cache in front of the store. Left: time to first run of the median client, which starts with "
    "empty caches; right: files that all starts read per second. Medians; {bars}. {shared}",
)


GROWTH = {"repository_mb": 1000.0, "repository_objects": 1.0}  # measure -> factor from the unit of published.release()


def _named(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the column `series`: the stratum, its store, and the other axes that vary."""
    several = varying(rows, (), {"day", "days", "stratum0"})
    names = []
    for _, r in rows.iterrows():
        settings = [labels.value_text(c, r[c]) for c in several]
        names.append(", ".join(filter(None, [f"stratum {r['stratum']} on {releases.place(r)}", *settings])))
    return rows.assign(series=names).sort_values(["series", "day"], kind="stable")


def _printed(rows: pd.DataFrame, measure: Measure) -> Iterator[Reference]:
    """Yield the published mean growth, day by day, times the factor of the release.

    If the rows have several factors, there is no such line.
    """
    factors = rows["factor"].unique()
    if len(factors) != 1:
        return
    files, volume_gb = published.release()
    metric = f"{measure.curves[0].metric}_{measure.curves[0].unit}"
    a_day = {"repository_objects": files, "repository_mb": volume_gb}[metric] * GROWTH[metric] * factors[0]
    days = sorted({0, *(int(d) for d in rows["day"])})
    yield Reference(pd.Series([a_day * d for d in days], index=days, dtype=float), "--", f"2015, × {factors[0]:g}")


def _measure(unit: str, label: str) -> Measure:
    return Measure((Curve("repository", unit),), label, log_from=float("inf"))


RELEASES = Specification(
    table="releases",
    where={"workload": ("publish", "replicate")},
    prepare=_named,
    measures=(_measure("mb", "Volume [MB]"), _measure("objects", "Objects")),
    x="day",
    x_label="Day",
    x_scale="linear",
    panels=("workload",),
    heading=lambda first, _: "",
    columns=True,
    references=_printed,
    title="Growth of a repository of software",
    caption="Growth of a repository of nightly software releases over its days, by stratum. Dashed: the mean of "
    "new data per day in 2015, times the factor of this release. A day that failed is flat; the next one "
    "sends the missing data. Medians; {bars}. {shared}",
)
