"""The pictures that only notebooks show, in the style of the figures: data in, matplotlib Figure out."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from storelab.analysis.figures import panels, plots
from storelab.analysis.parts import words
from storelab.analysis.statistics import ratios
from storelab.analysis.statistics.medians import WIDTH, enough, of_histogram

MOST_CURVES = 12  # panels of scaling curves
MOST_CLIENTS = 10  # in the legend of a point over its time
MOST_OPS, CELLS = 4, 40  # of a point: panels of latency, and cells from the least latency to the longest
LEVELS = {"p50": 0.5, "p99": 0.99}
VERDICTS = {ratios.FASTER: ("#029e73", "^"), ratios.SLOWER: ("#d55e00", "v"), ratios.CANNOT_TELL: ("0.45", "o")}


def over_time(series: pd.DataFrame, overlap: tuple[float, float]) -> Figure:
    """series: as `windows.completions` gives it. overlap: seconds in which the rates are taken (NaN: of
    no window)."""
    with plots.style():
        fig = Figure(figsize=(plots.WIDTH, 2.8), layout="constrained")
        ax = fig.subplots()
        if pd.notna(overlap[0]):
            ax.axvspan(*overlap, color="0.92", zorder=0)
        clients = list(dict.fromkeys(series["client"]))
        looks = plots.looks([str(c) for c in clients], ordered=len(clients) > MOST_CLIENTS)
        for client in clients:
            own = series[series["client"] == client]
            colour = looks[str(client)][0]
            ax.plot(own["second"], own["operations_per_s"], color=colour, drawstyle="steps-mid", linewidth=1)
        ax.set(xlabel="Seconds from the agreed start", ylabel="Operations/s of one client", ylim=(0, None))
        if 1 < len(clients) <= MOST_CLIENTS:
            handles = [Line2D([], [], color=looks[str(c)][0], label=f"client {c}") for c in clients]
            plots.key(fig, handles, "")
    return fig


def latencies(buckets: pd.DataFrame, overlap: tuple[float, float]) -> Figure:
    """Latency over the time of a point, a panel for each kind of operation: a cell is darker where it has a larger
    share of the operations of its step; lines are quantiles of each step.

    buckets: as `operations.latencies` gives them. overlap: as in `over_time`.
    """
    ops = buckets.groupby("op")["operations"].sum().sort_values(ascending=False).index[:MOST_OPS]
    edges = np.geomspace(buckets["upper_ns"].min() / WIDTH, buckets["upper_ns"].max(), CELLS + 1) / 1e6
    step = (buckets["second"] / (buckets["step"] + 0.5)).iloc[0]
    sides = step * np.arange(buckets["step"].max() + 2)
    with plots.style():
        fig = Figure(figsize=(plots.WIDTH, 2.4 * len(ops) + 0.2), layout="constrained")
        for ax, op in zip(fig.subplots(len(ops), squeeze=False).ravel(), ops, strict=True):
            own = buckets[buckets["op"] == op]
            middle = own["upper_ns"] / np.sqrt(WIDTH) / 1e6
            count, *_ = np.histogram2d(own["second"], middle, [sides, edges], weights=own["operations"].astype(float))
            share = np.divide(count, count.sum(1, keepdims=True), where=count > 0, out=np.full(count.shape, np.nan))
            ax.pcolormesh(sides, edges, share.T, cmap="Blues", norm=PowerNorm(0.4, vmin=0), rasterized=True)
            values = np.full((len(LEVELS), len(sides) - 1), np.nan)  # a step without operations interrupts the line
            for at, part in own.groupby("step"):
                upper, counts = part["upper_ns"].to_numpy(float), part["operations"].to_numpy()
                known = [enough(counts.sum(), level) for level in LEVELS.values()]
                values[known, at] = of_histogram(upper, counts, [*LEVELS.values()])[known] / 1e6
            for name, line, colour in zip(LEVELS, values, ("#d55e00", "0.15"), strict=True):
                if np.isfinite(line).any():
                    ax.plot((sides[1:] + sides[:-1]) / 2, line, color=colour, linewidth=1, marker=".", ms=2, label=name)
            for edge in overlap if pd.notna(overlap[0]) else ():
                ax.axvline(edge, color="0.5", linewidth=0.8, linestyle=":")
            ax.set(yscale="log", xlabel="Seconds from the agreed start", ylabel=f"Latency of {op} [ms]")
            plots.plain_numbers(ax.yaxis, edges[-1] / edges[0], 6)
            ax.legend(loc="upper right", fontsize=6.5)
    return fig


def compared(names: Sequence[str], rows: pd.DataFrame, title: str) -> Figure:
    """Ratios with their intervals, a line each. rows: `ratio`, `low`, `high`, `verdict`."""
    with plots.style():
        fig = Figure(figsize=(plots.WIDTH, 1.1 + 0.2 * len(rows)), layout="constrained")
        ax = fig.subplots()
        places = np.arange(len(rows))[::-1]
        for at, row in zip(places, rows.to_dict("records"), strict=True):
            colour, marker = VERDICTS[row["verdict"]]
            if pd.notna(row["low"]):
                ax.plot([row["low"], row["high"]], [at, at], color=colour, linewidth=1)
            ax.plot(row["ratio"], at, color=colour, marker=marker, markersize=4, linestyle="none")
        ax.axvline(1, color="0.3", linewidth=0.8, linestyle="--", zorder=1.5)
        values = rows[["ratio", "low", "high"]].astype(float).to_numpy()
        if np.nanmin(values) > 0:
            ax.set_xscale("log")
            plots.plain_numbers(ax.xaxis, np.nanmax(values) / np.nanmin(values), 6)
        ax.set_yticks(places, [textwrap.shorten(n, 100) for n in names], fontsize=6.5)
        ax.set_ylim(-0.7, len(rows) - 0.3)
        ax.set_xlabel("B / A, with its 95 % interval")
        handles = [Line2D([], [], color=c, marker=m, label=said) for said, (c, m) in VERDICTS.items()]
        plots.key(fig, handles, title)
    return fig


def scaling(curves: Sequence[tuple[str, Mapping[str, Any], np.ndarray, np.ndarray, str]]) -> Figure:
    """A panel for each curve: title, its row of scaling.csv, values of the axis and speeds of the runs, label of the
    speed. Dots are runs, the line joins their means; the band is the interval of the knee or peak."""
    with plots.style():
        small = "dots: runs; line: their mean; band: 95 % interval of the knee or peak, dashed where it is"
        fig, cells = plots.grid(len(curves), 2.1, small)
        colour = plots.tones(1)[0]
        for ax, (title, row, x, y, label) in zip(cells, curves, strict=True):
            values = np.unique(x)
            ax.plot(values, [y[x == v].mean() for v in values], color=colour)
            ax.plot(x, y, color=colour, marker="o", markersize=3, linestyle="none", alpha=0.5)
            if pd.notna(row["knee_value"]):
                ax.axvspan(row["knee_low"], row["knee_high"], color="#f8ddd2", linewidth=0, zorder=0)
                ax.axvline(row["knee_value"], color="#d55e00", linewidth=1, linestyle="--")
            plots.count_axis(ax, values, words.heading(str(row["axis"]).partition(",")[0]), 6)
            ax.set_ylim(0, 1.1 * y.max())
            ax.set_ylabel(label)
            plots.plain_numbers(ax.yaxis)
            plots.title(ax, f"{title}: {row['curve']}", panels.side_by_side(len(curves)))
    return fig


def fronts(plans: Mapping[str, tuple[np.ndarray, np.ndarray]], title: str) -> Figure:
    """Plans of the read planner: a curve for each link, MB on the wire against seconds, by ascending gap."""
    with plots.style():
        fig = Figure(figsize=(plots.WIDTH, 3.4), layout="constrained")
        ax = fig.subplots()
        looks = plots.looks(list(plans), ordered=True)
        for name, (wire, seconds) in plans.items():
            colour, marker = looks[name]
            ax.plot(wire, seconds, color=colour, linewidth=1)
            best = int(np.argmin(seconds))
            ax.plot(wire[best], seconds[best], color=colour, marker=marker, linestyle="none")
        ax.set(xscale="log", yscale="log", xlabel="Wire [MB]", ylabel="Time [s]")
        for axis, values in ((ax.xaxis, 0), (ax.yaxis, 1)):
            every = np.concatenate([pair[values] for pair in plans.values()])
            plots.plain_numbers(axis, every.max() / every.min(), 6)
        plots.key(fig, looks, textwrap.fill(title, 90))
    return fig
