"""Figures over time: points with roles, their phases, and series of parts over hours.

The plan determines the timelines (`figures_of_plan`). There is one for each sweep with roles. A figure has at most
MAX_GROUPS groups of points; further figures show the remaining groups. Thin lines are single runs, thick lines their
median. Phases are bands, acts are labelled lines, and states that the store reported are marks above the panel. If some
groups are disturbed, the figures show only these groups.
"""

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from storelab.analysis.figures.specification import (
    MIN_VALUES,
    Curve,
    Function,
    Measure,
    Reference,
    Specification,
    figure_name,
)
from storelab.analysis.parts import groups, labels
from storelab.analysis.records import roles
from storelab.analysis.statistics import steadiness
from storelab.analysis.tables.soak import titles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# --- phases of points with roles ---

AFTERWARDS = (roles.DURING, roles.REBUILDING, roles.AFTER)


def _in_order(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the phases that have a ratio, in order of time, with the column `deployment`.

    If a deployment has several points with the same fault, its name includes the settings that distinguish them.
    """
    rows = rows[rows["rate_over_before_median_ratio"].notna()]
    rows = groups.labelled(rows if "fault" in rows else rows.assign(fault="none"))
    axes = [c for c in labels.axes_of(rows) if c not in {*labels.DEPLOYMENT_NAMES, "fault"} and rows[c].nunique() > 1]
    several = rows.duplicated(["deployment", "fault", "role", "phase"], keep=False)
    for place, r in rows[several].iterrows():
        more = [labels.value_text("workload", r["workload"]), labels.settings((c, r[c]) for c in axes)]
        rows.loc[place, "deployment"] = ", ".join(filter(None, [r["deployment"], *more]))
    rows = rows.assign(
        phase=pd.Categorical(rows["phase"], AFTERWARDS, ordered=True),
        deployment=pd.Categorical(rows["deployment"], list(dict.fromkeys(rows["deployment"])), ordered=True),
    )
    if rows.groupby("fault")["deployment"].nunique().max() < MIN_VALUES:
        return rows  # `_BY_PHASE` draws them
    rows = rows.sort_values(["role", "phase", "deployment"], kind="stable")
    series = (f"{role}, {phase}" for role, phase in zip(rows["role"], rows["phase"], strict=True))
    return groups.with_column(rows, "series", series)


_BY_SYSTEM = Specification(
    table="roles",
    where={"phase": list(AFTERWARDS)},
    measures=(
        Measure((Curve("rate_over_before", "ratio"),), "Rate relative to before", log_from=float("inf")),
        Measure((Curve("latency_p99_over_before", "ratio"),), "p99 relative to before"),
    ),
    prepare=_in_order,
    x="deployment",
    panels=("fault",),
    references=lambda *_: [Reference(1.0)],
    columns=True,
    title="Each phase relative to the time before the disturbance",
    caption="Rate and p99 of the latency of each role in the phases of its runs, relative to the time before the "
    "disturbance; 1 (dashed) means no change. Medians; {bars}. {shared}",
    height=1.2,
    line=0.25,
)
_BY_PHASE = replace(_BY_SYSTEM, x="phase", hue=("role",), within=True, panels=("store", "workload"), height=1.6)
ROLE_PHASES = replace(_BY_SYSTEM, otherwise=_BY_PHASE)


# --- series of parts over hours ---

MAX_SERIES = 3  # maximum number of series side by side
# Rows of panels: label, and the columns of soak.csv with the corresponding metrics of soak_trends.csv.
ROWS = (
    ("Operations/s", {"rate_per_s": "rate"}),
    ("p99 [ms]", {"latency_p99_ms": "latency_p99"}),
    ("Failed [%]", {"errors_percent": "errors"}),
    ("Memory [MB]", {"client_rss_mb": "client_rss", "server_rss_mb": "server_rss"}),
    ("Open files", {"client_files": "client_files", "server_files": "server_files"}),
)
STORE = "black"


def soak(table: pd.DataFrame, *further: pd.DataFrame) -> "Figure | None":
    """Return the figure of soak.csv, with a column of panels for each of the first series.

    A dashed line shows the slope of a quantity that rises or falls. further: the table soak_trends.csv. The result is
    None without a valid part.
    """
    from storelab.analysis.figures import plots

    if table.empty:
        return None
    rows = table[table["state"] == "ok"].fillna({"role": ""})
    names = list(dict.fromkeys(rows["series"]))[:MAX_SERIES]
    if not names:
        return None
    rows, found = rows[rows["series"].isin(names)], further[0].fillna({"role": ""})
    shown = [row for row in ROWS if any(c in rows and rows[c].notna().any() for c in row[1])]
    colours = plots.role_colours(rows["role"])
    with plots.style():
        fig = plots.sheet(1.15 * len(shown) + 1.1)
        cells = fig.subplots(len(shown), len(names), squeeze=False, sharex="col")
        for (label, columns), axes in zip(shown, cells, strict=True):
            drawn = []
            for ax, name in zip(axes, names, strict=True):
                cells_of_series, trends = rows[rows["series"] == name], found[found["series"] == name]
                lines = list(_part_lines(cells_of_series, trends, columns, colours))
                for hours, values, slope, look in lines:
                    ax.plot(hours, values, markersize=2.5, linewidth=0.8, **look)
                    if slope is not None:
                        ax.plot(hours, slope, color=look["color"], linestyle=(0, (4, 2)), linewidth=1.4)
                drawn.append(pd.Series(np.concatenate([np.array([]), *(line[1] for line in lines)]), dtype=float))
            plots.value_axis(list(axes), drawn, label, float("inf"))
            for ax, values in zip(axes, drawn, strict=True):
                if label.startswith("Failed") and not values.sum():
                    plots.write_inside(ax, "no failed operation", 6.5, va="center")
        named = titles(table["series"])
        for ax, name in zip(cells[0], names, strict=True):
            cells_of_series = rows[rows["series"] == name]
            parts, lasts = (
                labels.plural(cells_of_series["part"].nunique(), "part"),
                labels.span(cells_of_series["duration_s"], "s"),
            )
            ax.set_title(textwrap.fill(f"{named[name]} ({parts} of {lasts})", 70 // len(names)), fontsize=7)
        for ax in cells[-1]:
            ax.set_xlabel("Hours since the start of the first part")
        for cells_of_series in cells:
            for ax in cells_of_series[1:]:
                ax.set_ylabel("")
        fig.align_ylabels(cells[:, 0])
        look = {"marker": "o", "markersize": 3}
        handles = [plots.Line2D([], [], color=c, label=role or "clients", **look) for role, c in colours.items()]
        if any(c in rows and rows[c].notna().any() for c in ("server_rss_mb", "server_files")):
            handles.append(plots.Line2D([], [], color=STORE, marker="s", markersize=3, label="store"))
        if found[found["series"].isin(names)]["trend"].isin([steadiness.RISES, steadiness.FALLS]).any():
            handles.append(plots.Line2D([], [], color="0.3", linestyle=(0, (4, 2)), label="slope of a rise or fall"))
        plots.key(fig, handles, "Part by part")
    return fig


def _part_lines(
    rows: pd.DataFrame, found: pd.DataFrame, columns: dict[str, str], colours: dict[str, Any]
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None, dict[str, Any]]]:
    """Yield (hours, values, slope, look) for each line of a panel. The slope is None without a trend."""
    for column, metric in columns.items():
        if column.startswith("server_"):
            once = rows.drop_duplicates("key").sort_values("hour")
            yield *_part_line(once, found, "", column, metric), {"color": STORE, "marker": "s"}
        else:
            for role, role_rows in rows.groupby("role", sort=False):
                yield (
                    *_part_line(role_rows, found, str(role), column, metric),
                    {"color": colours[str(role)], "marker": "o"},
                )


def _part_line(
    rows: pd.DataFrame, found: pd.DataFrame, role: str, column: str, metric: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    hours, values = (rows[c].to_numpy(float) for c in ("hour", column))
    trend = found[(found["role"] == role) & (found["metric"] == metric)]
    trend = trend[trend["trend"].isin([steadiness.RISES, steadiness.FALLS])]
    if trend.empty:
        return hours, values, None
    slope = float(trend["slope_per_hour"].iloc[0])
    return hours, values, np.nanmedian(values - slope * hours) + slope * hours


SOAK = Function(
    table="soak",
    further_tables=("soak_trends",),
    where={"part": ">= 1"},
    function=soak,
    count=lambda table: int(table.loc[table["state"] == "ok", "series"].nunique()) if len(table) else 0,
    most=MAX_SERIES,
    counted_as="series",
    caption="Results of each part over time: rate, p99 of the latency, failed operations, memory and open files of "
    "clients and store, by role, at the middle of each part. Clients are started again for each part; the store "
    "runs through all of them. Dashed: the Theil-Sen slope of a rise or fall. {shared}",
)

# --- points with roles over time ---

MAX_GROUPS = 6  # maximum number of groups of points in one figure
POINTS = 600  # maximum number of positions of a line, because print cannot resolve more
MIN_OPERATIONS, MIN_STEPS = 5, 40  # minimum number of operations in a step of a line, and of steps of a line
HEIGHTS = (3.0, 2.2, 1.2)  # relative heights of the panels of rates, latency and failed operations
LINE = 2.85  # height of the three panels together in inches
APART = 5  # roles have separate panels if their highest rates differ by more than this factor
NUMBERS = ("", "_two", "_three", "_four", "_five", "_six", "_seven", "_eight", "_nine")
BANDS = {roles.DURING: "#f8ddd2", roles.REBUILDING: "#d9e6f5"}
MARKS = {"clean": ("o", "white"), "degraded": ("v", "black"), "recovering": ("D", "0.6"), "down": ("X", "black")}
OTHER_STATE = (".", "black")  # mark of all other states
NEAR = 0.035  # fraction of the duration; names of acts that are nearer than this would overlap


STEM = "timeline"  # prefix of the names of these figures; a campaign cannot use it


def name(sweep: str) -> str:
    """Return the name of the figure of a sweep: `timeline_<sweep>`."""
    return figure_name(STEM, sweep)


def figures_of_plan(plan: Mapping[str, Any]) -> dict[str, Function]:
    """Return the figures over time that a campaign with this plan can have."""
    having, found = roles.workloads(plan), {}
    for workload in having:
        if any(axis["name"] == "part" for axis in plan["workloads"][workload]["axes"]):
            continue  # the figure `soak` shows them
        points = {_group(p["key"]): p for p in plan["points"] if p["workload"] == workload}
        marked = {group: p for group, p in points.items() if is_disturbed(p, having[workload])}
        titles_of, common = _titles(plan["workloads"][workload]["axes"], marked or points)
        shown = sorted(titles_of.items())
        about = "Points without a disturbance are only in timeline.csv. " if 0 < len(marked) < len(points) else ""
        about += "Bands: phases, at the median of the runs. " if marked else ""
        if any(p["axes"].get("fault", "none") != "none" for p in points.values()):
            about += "Marks above a panel: states that the store reported in each run. "
        about += f"Common settings: {common}. " if common else ""
        stem = name(next(iter(points.values()))["sweep"])
        stem += "_again" * (stem in found)  # sweeps whose names differ only in punctuation have the same stem
        parts = [dict(shown[i : i + MAX_GROUPS]) for i in range(0, len(shown), MAX_GROUPS)][: len(NUMBERS)]
        about += f"One of {labels.plural(len(parts), 'figure')} of this sweep. " if len(parts) > 1 else ""
        for number, part in zip(NUMBERS, parts, strict=False):
            found[stem + number] = _figure(workload, part, about)
    return found


def _titles(axes: Sequence[Mapping[str, Any]], points: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, str], str]:
    """Return a title for each group, and a text with the common settings of all groups that are not the default.

    A title has the deployment, the fault, and the settings that distinguish the group.
    """
    several = [a for a in axes if len({p["axes"][a["name"]] for p in points.values()}) > 1]
    distinguishing = [a for a in several if a["name"] not in labels.DEPLOYMENT_NAMES]
    distinguishing += [a for a in axes if a["name"] == "fault" and a not in several]
    titles_of = {}
    for group, p in points.items():
        settings = labels.settings((a["column"], p["axes"][a["name"]]) for a in distinguishing)
        titles_of[group] = "; ".join(filter(None, [labels.deployment(p["axes"] | {"store": p["store"]}), settings]))
    one = next(iter(points.values()))["axes"]
    common = [a for a in axes if a not in several and a not in distinguishing and one[a["name"]] != a["default"]]
    return titles_of, labels.settings((a["column"], one[a["name"]]) for a in common)


def _group(key: str) -> str:
    return key.rpartition("rep~")[0]


def is_disturbed(point: Mapping[str, Any], having: Mapping[str, Any]) -> bool:
    """Return True if a planned point has a fault, or a role that begins late or ends early.

    having: the roles of its workload in the plan.
    """
    lasts = point["fixed"]["duration_ns"]
    return point["axes"].get("fault", "none") != "none" or any(
        role["begin_ns"] > 0 or role["end_ns"] < lasts for role in having.values()
    )


def _figure(workload: str, groups: Mapping[str, str], about: str) -> Function:
    return Function(
        table="timeline",
        further_tables=("disturbances",),
        where={"workload": workload},
        function=partial(draw, groups),
        caption="Operations per second and latency over the time from the agreed start, by role.{published} Thin "
        "lines: single runs; thick lines: their median. " + about.replace("{", "{{").replace("}", "}}") + "{shared}",
        published=partial(_further_caption, groups),
    )


def _further_caption(groups: Mapping[str, str], rows: pd.DataFrame) -> str:
    """Return the sentences of the caption about panels that only some figures have."""
    rows = _chosen(groups, rows)
    sentences = []
    if rows["errors"].sum():
        sentences.append("Failed operations, by status: the mean of the runs.")
    if len(rows) and len(_levels(_every(rows, list(dict.fromkeys(rows["group"])), "latency_max_ms"))) > 1:
        sentences.append(f"Roles whose rates differ by more than a factor of {APART} have separate panels.")
    return " ".join(sentences)


def _chosen(groups: Mapping[str, str], timeline: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of valid runs of these groups of points, with the column `group`."""
    rows = timeline.assign(group=timeline["key"].map(_group))
    return rows[rows["group"].isin(groups) & (rows["state"] == "ok")]


def _every(rows: pd.DataFrame, shown: Sequence[str], high: str) -> "list[dict[str, Lines]]":
    """Return the lines of each role, one mapping for each group. high: column of the high quantile of the latency."""
    names, out = list(dict.fromkeys(rows["role"])), []
    for group in shown:
        part = rows[rows["group"] == group]
        out.append({r: _role_lines(role_rows, high) for r in names if len(role_rows := part[part["role"] == r])})
    return out


@dataclass(frozen=True)
class Lines:
    """The runs of one role in one group, on a common grid of seconds.

    seconds: shape (positions,); rate, p50 and high (a quantile of the latency): shape (runs, positions).
    """

    seconds: np.ndarray
    rate: np.ndarray
    p50: np.ndarray
    high: np.ndarray


def draw(groups: Mapping[str, str], timeline: pd.DataFrame, disturbances: pd.DataFrame) -> "Figure | None":
    """Return the figure of these groups of points, or None if they have no valid run.

    groups: key of the points without the repetition -> title of the group.
    """
    from storelab.analysis.figures import plots

    if timeline.empty:
        return None
    rows = _chosen(groups, timeline)
    shown = [g for g in groups if (rows["group"] == g).any()]
    if not shown:
        return None
    happened = disturbances.assign(group=disturbances["key"].map(_group))
    happened = happened[happened["group"].isin(shown) & (happened["state"] == "ok")]
    timed = rows[rows["latency_p50_ms"].notna()]
    high = "latency_p99_ms" if timed["latency_p99_ms"].notna().mean() >= 0.5 else "latency_max_ms"
    colours, tones = plots.role_colours(rows["role"]), plots.tones()
    statuses = [c for c in rows if c.startswith("errors_") and rows[c].sum() > 0]
    looks = {status: [tones[i] for i in (3, 7, 8, 6, 9)][i % 5] for i, status in enumerate(statuses)}
    with plots.style():
        every = _every(rows, shown, high)
        levels = _levels(every)
        heights = (*[HEIGHTS[0] / len(levels) ** 0.5] * len(levels), *HEIGHTS[1 : 3 if statuses else 2])
        count = len(heights)
        columns = min(len(shown), 2)
        lines = -(-len(shown) // columns)
        fig = plots.sheet(LINE * lines + 0.9, textwrap.fill(_note(rows), 110))
        cells = fig.subplots(count * lines, columns, squeeze=False, height_ratios=heights * lines)
        panels = [
            [cells[count * (i // columns) + j, i % columns] for j in range(count)] for i in range(lines * columns)
        ]
        for unused in panels[len(shown) :]:
            for ax in unused:
                ax.remove()
        latencies = []
        for axes_of_group, group, found in zip(panels, shown, every, strict=False):
            part = rows[rows["group"] == group]
            for ax, level in zip(axes_of_group, levels, strict=False):
                for role in found.keys() & level:
                    _median_line(ax, found[role].seconds, found[role].rate, colours[role])
            latencies.append(_latencies(axes_of_group[len(levels)], found, colours))
            if statuses:
                _failed(axes_of_group[-1], part, looks)
            _mark(axes_of_group, happened[happened["group"] == group], float(part["duration_s"].max()))
            runs = f"(n = {labels.plural(part['key'].nunique(), 'run')})".replace(" ", "\u00a0")  # stays on one line
            axes_of_group[0].set_title(textwrap.fill(f"{groups[group]} {runs}", 52), fontsize=7, pad=11)
        _axes(panels[: len(shown)], every, levels, latencies)
        quantile = "p99" if high == "latency_p99_ms" else "longest"
        heading = labels.value_text("workload", rows["workload"].iloc[0]).capitalize() + " over time"
        plots.key(fig, _handles(colours, looks, happened, quantile), heading)
    return fig


def _role_lines(rows: pd.DataFrame, high: str) -> Lines:
    """Return the runs of a role on a common grid.

    The steps of the grid are long enough for print, and for several operations of a slow role in each step.
    """
    rows = rows[rows["second"] < rows["duration_s"]]
    width = float(rows["step_s"].iloc[0])
    steps, expected = (rows["second"].max() - rows["second"].min()) / width, rows["rate_per_s"].mean() * width
    several = min(math.ceil(MIN_OPERATIONS / expected), int(steps / MIN_STEPS)) if expected > 0 else 1
    width *= max(1, math.ceil(steps / POINTS), several)
    place = (rows["second"] / width + 1e-6).astype(int)
    place = place[place < max(1, int(rows["duration_s"].max() / width + 1e-6))]  # an incomplete last step is not used
    steps_of_run = rows.loc[place.index].assign(place=place).groupby(["key", "place"])
    known = steps_of_run.agg({"rate_per_s": "mean", "latency_p50_ms": "median", high: "max"})
    wide = [known[c].unstack("place").to_numpy(float) for c in known]
    return Lines((np.sort(place.unique()) + 0.5) * width, *wide)


def _median(runs: np.ndarray) -> np.ndarray:
    """Return the median over the runs at each position, or NaN if fewer than half of the runs have a value there."""
    enough = np.isfinite(runs).sum(0) * 2 >= len(runs)
    return np.array([np.nanmedian(column) if ok else np.nan for column, ok in zip(runs.T, enough, strict=True)])


def _median_line(ax: "Axes", seconds: np.ndarray, runs: np.ndarray, colour: Any, dash: str = "-") -> np.ndarray:
    median, look = _median(runs), {"linestyle": dash, "drawstyle": "steps-mid"}
    if len(runs) > 1:
        ax.plot(seconds, runs.T, color=colour, linewidth=0.4, alpha=0.4, **look)
    ax.plot(seconds, median, color=colour, linewidth=1.3 if dash == "-" else 0.9, **look)
    return median


def _levels(every: Sequence[Mapping[str, Lines]]) -> list[list[str]]:
    """Return the roles of each panel of rates, the fastest first. Roles with similar highest rates share a panel.

    The highest rate of a role is the 95th percentile of the steps with operations, because a role can be idle most of
    the time.
    """
    usual: dict[str, float] = {}
    for role, lines in ((role, lines) for found in every for role, lines in found.items()):
        worked = lines.rate[lines.rate > 0]
        usual[role] = max(usual.get(role, 0.0), float(np.percentile(worked, 95)) if len(worked) else 0.0)
    levels: list[list[str]] = []
    for role in sorted(usual, key=lambda role: -usual[role]):
        if levels and usual[levels[-1][0]] <= APART * usual[role]:
            levels[-1].append(role)
        else:
            levels.append([role])
    return levels


def _latencies(ax: "Axes", found: Mapping[str, Lines], colours: Mapping[str, Any]) -> pd.Series:
    values = [np.array([])]
    for role, lines in found.items():
        values.append(_median_line(ax, lines.seconds, lines.p50, colours[role]))
        values.append(_median_line(ax, lines.seconds, lines.high, colours[role], (0, (2, 1))))  # type: ignore[arg-type]
    return pd.Series(np.concatenate(values), dtype=float).dropna()


def _failed(ax: "Axes", rows: pd.DataFrame, looks: Mapping[str, Any]) -> None:
    """Draw failed operations per second as the mean over the runs, stacked by status."""
    from storelab.analysis.figures import plots

    runs, width = rows["key"].nunique(), float(rows["step_s"].iloc[0])
    edges = np.arange(0, round(float(rows["duration_s"].max()) / width) + 1) * width
    place = (rows["second"] / width + 1e-6).astype(int)
    below = np.zeros(len(edges) - 1)
    for status, colour in looks.items():
        sums = rows.groupby(place)[status].sum().reindex(range(len(below)), fill_value=0).to_numpy(float)
        top = below + sums / runs / width
        ax.stairs(top, edges, baseline=below, fill=True, color=colour, linewidth=0)
        below = top
    ax.set_ylim(0, max(1.1 * below.max(), 1.0))
    if not rows["errors"].sum():
        plots.write_inside(ax, "no failed operation", 6.5, va="center")


def _mark(panels: Sequence["Axes"], happened: pd.DataFrame, duration: float) -> None:
    """Draw phases as bands, actions as lines with their names, and states as marks."""
    bands = happened[happened["kind"] == "phase"].groupby("name")[["begin_s", "end_s"]].median()
    acts = happened[happened["kind"].isin([roles.ACT, roles.UNDONE]) & (happened["begin_s"] < duration)]
    acts = acts.assign(number=acts.groupby(["key", "name", "actor"], dropna=False).cumcount())
    at = acts.fillna({"actor": ""}).groupby(["name", "actor", "number"])["begin_s"].median().sort_values()
    for ax in panels:
        for phase, colour in BANDS.items():
            if phase in bands.index:
                ax.axvspan(*bands.loc[phase], color=colour, linewidth=0, zorder=0)
        for second in at:
            ax.axvline(second, color="0.25", linewidth=0.6, linestyle=":", zorder=1)
        ax.set_xlim(0, duration)
    rate = panels[0]
    for text, second in _texts(at, NEAR * duration):
        late = second > 0.9 * duration
        rate.annotate(
            text,
            (second, 0.98),
            (-2 if late else 2, 0),
            xycoords=rate.get_xaxis_transform(),
            textcoords="offset points",
            rotation=90,
            fontsize=5.5,
            color="0.25",
            va="top",
            ha="right" if late else "left",
            ma="right",
            bbox={"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 0.4},
        )
    for state, state_rows in happened[happened["kind"] == roles.STATE].groupby("name"):
        marker, face = MARKS.get(str(state), OTHER_STATE)
        inside = state_rows[state_rows["begin_s"].between(0, duration)]
        if inside.empty:  # matplotlib would treat an empty line that is not clipped as a mark, and shrink the panels
            continue
        rate.plot(
            inside["begin_s"],
            np.full(len(inside), 1.06),
            transform=rate.get_xaxis_transform(),
            linestyle="none",
            marker=marker,
            markersize=3.5,
            markeredgewidth=0.6,
            color="black",
            markerfacecolor=face,
            clip_on=False,
        )


def _texts(at: "pd.Series[float]", near: float) -> list[tuple[str, float]]:
    """Return the texts with the names of acts, and the second at which each text is written.

    Acts that are nearer to each other than `near` seconds share one text, at the first of them.
    """
    texts: list[tuple[str, float]] = []
    last = -math.inf
    for (act, actor, _), second in at.items():
        name = f"{act} {actor}".strip().replace("_", " ")
        if second - last < near:
            texts[-1] = (f"{texts[-1][0]}\n{name}", texts[-1][1])
        else:
            texts.append((name, second))
        last = second
    return texts


def _axes(
    panels: Sequence[Sequence["Axes"]],
    every: Sequence[Mapping[str, Lines]],
    levels: Sequence[Sequence[str]],
    latencies: Sequence[pd.Series],
) -> None:
    """Set the same range for each kind of panel in all groups, so that readers can compare them."""
    from storelab.analysis.figures import plots

    for i, level in enumerate(levels):
        rates = [[_median(found[role].rate) for role in found.keys() & level] for found in every]
        values = [pd.Series(np.concatenate([*rates_of_group, []]), dtype=float) for rates_of_group in rates]
        plots.value_axis([axes_of_panel[i] for axes_of_panel in panels], values, "Operations/s", float("inf"))
    if any(len(values) for values in latencies):
        plots.time_axis([axes_of_panel[len(levels)] for axes_of_panel in panels], latencies, "Latency [ms]")
    if len(panels[0]) > len(levels) + 1:
        plots.value_axis(
            [axes_of_panel[-1] for axes_of_panel in panels],
            [pd.Series([axes_of_panel[-1].get_ylim()[1]]) for axes_of_panel in panels],
            "Failed/s",
            float("inf"),
        )
    for axes_of_panel in panels:
        axes_of_panel[-1].set_xlabel("Seconds from the agreed start")
        for ax in axes_of_panel:
            ax.tick_params(labelbottom=ax is axes_of_panel[-1])
            ax.yaxis.label.set_size(7 if len(panels) <= 4 else 6)
        axes_of_panel[0].figure.align_ylabels(axes_of_panel)


def _note(rows: pd.DataFrame) -> str:
    failed = "Failed operations: mean of the runs" if rows["errors"].sum() else "No operation failed"
    return (
        f"Thin: single runs, thick: their median; steps of {labels.span(1000 * rows['step_s'], 'ms')} or more. {failed}"
    )


def _handles(colours: Mapping[str, Any], looks: Mapping[str, Any], happened: pd.DataFrame, quantile: str) -> list[Any]:
    from storelab.analysis.figures import plots

    out: list[Any] = [plots.Line2D([], [], color=colour, label=role) for role, colour in colours.items()]
    out.append(plots.Line2D([], [], color="0.3", label="latency: p50"))
    out.append(plots.Line2D([], [], color="0.3", linestyle=(0, (2, 1)), label=f"latency: {quantile}"))
    phases = happened.loc[happened["kind"] == "phase", "name"].unique()
    out += [plots.Patch(color=colour, label=phase) for phase, colour in BANDS.items() if phase in phases]
    for status, colour in looks.items():
        number = status.removeprefix("errors_")
        out.append(plots.Patch(color=colour, label="failed: no status" if number == "0" else f"failed: {number}"))
    for state in happened.loc[happened["kind"] == roles.STATE, "name"].unique():
        marker, face = MARKS.get(state, OTHER_STATE)
        look = {"color": "black", "markerfacecolor": face, "markersize": 4, "markeredgewidth": 0.6}
        out.append(plots.Line2D([], [], linestyle="none", marker=marker, label=f"store: {state}", **look))
    return out
