"""Views of reads of ROOT files: requests of the reader, bytes on the network, and a model of more distant stores.

The read planner (`readplan`) is not part of the analysis, so that the notebook passes it as an argument.
"""

import textwrap
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from storelab.analysis.explore.opened import Displayable, Menu, Opened, charted, compact, escaped
from storelab.analysis.figures import catalogue, plots
from storelab.analysis.records import windows

NONE = "This campaign has no reads."
FIGURES = ("volume", "entries", "replay", "phases", "gaps", "front")
ONE_READ = (
    *("source", "store", "engine", "file_size", "entry_fraction_percent", "entries", "clusters", "ranges"),
    *("requests_first", "requests_again", "needed_mb", "wire_mb_first", "wire_mb_again", "amplification_again"),
    "part_percent",
)
SELECTION = (
    *("store", "workload", "engine", "merge", "file_size", "entry_fraction_percent", "volume_fraction_percent"),
    *("max_range_gap_bytes", "thrift", "max_amplification", "clients", "n"),
)
METRICS = (
    *("requests_median_per_read", "needed_median_mb_per_read", "wire_median_mb_per_read"),
    *("amplification_median_ratio", "entries_median_per_s"),
)
MADE_UP = {"rtt_s": 0.001, "first_s": 1e-4, "request_s": 1e-4, "bandwidth": 1e9, "stream": 3e8, "parallel": 64}
ROUND_TRIPS_MS = (0.0, 5.0, 20.0, 100.0)  # round-trip times that are added to that of the link
PARTS = (1, 0.1, 10, 50, 100)  # percent of the volume; the first is the initial choice


def reads(o: Opened) -> Iterator[Displayable]:
    """Show one read as in Table 2 of 2015, requests, bytes and time of each kind of read, and the figures.

    For a campaign without reads, show one line.
    """
    one, every = o.table("table2"), o.table("sparse")
    if one.empty and every.empty:
        yield NONE
        return
    yield "#### One read as in Table 2 of 2015: the first read opens the file, later reads use the open file"
    yield from compact(one, ONE_READ, SELECTION)
    yield "#### Means per read, medians over the runs"
    phases = (f"{p}_median_s_per_read" for p in windows.PHASES)
    yield from compact(every, (*SELECTION, *METRICS, *phases), SELECTION)
    yield charted({name: (catalogue.FIGURES[name], [every]) for name in FIGURES}) or "No figure of reads has data."


def links(o: Opened) -> Menu:
    """Return the menu of links that clients measured, one per point.

    If there are none, the only entry is an example of a link, which is labelled as made up.
    """
    found = []
    for key, run in o.campaign.runs.items():
        known = next((link for c in run["clients"] if (link := (c.get("engine") or {}).get("link"))), None)
        if known:
            link_text = f"{1000 * known['rtt_s']:.3g} ms, {known['bandwidth'] / 1e6:.4g} MB/s: measured in {key}"
            found.append((link_text, known))
    return found or [("made-up example, because no link was measured", MADE_UP)]


def files(o: Opened, **_: Any) -> Menu:
    """Return the menu of staged files whose baskets are known."""
    found = sorted((o.campaign.raw / "manifests").rglob("*.baskets.parquet"))
    return [(f"{path.parent.name}: {path.name.partition('.')[0]}", path) for path in found]


def parts(o: Opened, **_: Any) -> Menu:
    """Return the menu of parts of the volume to read, in percent."""
    return [(f"{part:g} % of the volume", part) for part in PARTS]


def chosen(baskets: pd.DataFrame, part: float) -> pd.DataFrame:
    """Return the baskets of the smallest branches that together have at most this part of the volume.

    part: percent of the volume. At least one branch is returned.
    """
    volume = baskets.groupby("branch", observed=True)["size"].sum().sort_values(kind="stable")
    within = max(1, int((volume.cumsum() <= volume.sum() * part / 100).sum()))
    return baskets[baskets["branch"].isin(volume.index[:within])]


def farther(link: Mapping[str, Any], added_s: float) -> dict[str, Any]:
    """Return a link with a longer round trip. added_s: seconds to add.

    The number of requests in flight does not change, so that each request costs at least its share of the added time.
    """
    curve = tuple(map(tuple, link.get("curve", ())))
    request_s = max(link["request_s"], added_s / link["parallel"])
    doubtful = tuple(link.get("doubtful", ()))
    return {**link, "curve": curve, "doubtful": doubtful, "rtt_s": link["rtt_s"] + added_s, "request_s": request_s}


def what_if(planner: ModuleType) -> Callable[..., Iterator[Displayable]]:
    """Return a view of the planner's model: expected time and bytes of the best plans, with added round-trip times.

    planner: the module `readplan`.
    """

    def view(
        o: Opened, link: Any = None, file: Any = None, part: float = PARTS[0], added_ms: Any = ROUND_TRIPS_MS
    ) -> Iterator[Displayable]:
        if file is None:
            yield "This campaign has no staged file whose baskets are known, so that there are no reads to plan."
            return
        baskets = chosen(pd.read_parquet(file), part)
        plans, rows = {}, []
        for added in added_ms:
            at = planner.Link(**farther(link, added / 1000))
            found = planner.front(baskets["offset"].to_numpy(), baskets["size"].to_numpy(), at)
            plans[f"+ {added:g} ms"] = (found.wire_bytes / 1e6, found.seconds)
            best = int(np.argmin(found.seconds))
            rows.append(
                {
                    "added round trip [ms]": added,
                    "quickest plan [s]": found.seconds[best],
                    "its wire [MB]": found.wire_bytes[best] / 1e6,
                    "its gap [B]": int(found.gap[best]),
                    "its requests": int(found.pieces[best]),
                    "fewest bytes [MB]": found.wire_bytes.min() / 1e6,
                    "time of that [s]": found.seconds[int(np.argmin(found.wire_bytes))],
                }
            )
        kind = "a MADE-UP link" if link is MADE_UP else "a measured link"
        title = f"{part:g} % of the volume of {file.name.partition('.')[0]}, {kind}"
        yield escaped(f"{title}: round trip {1000 * link['rtt_s']:.3g} ms, {link['bandwidth'] / 1e6:.4g} MB/s")
        yield front_picture(plans, title)
        yield pd.DataFrame(rows)

    return view


def front_picture(plans: Mapping[str, tuple[np.ndarray, np.ndarray]], title: str) -> Figure:
    """Return a picture of plans of the read planner, with a curve of seconds against MB on the wire for each link.

    plans: name of the link -> MB and seconds of its plans. A symbol marks the fastest plan.
    """
    with plots.style():
        fig = plots.sheet(3.4)
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
