"""Two systems beside each other: stores of this campaign or of others, point by point, as `storelab compare` has it."""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from storelab.analysis.compare import sides, terminal
from storelab.analysis.explore import pictures
from storelab.analysis.explore.opened import Menu, Opened, kept, named
from storelab.analysis.explore.things import Thing, escaped
from storelab.analysis.parts import speed, words
from storelab.analysis.records.campaign import read_plan

MOST = 40  # ratios in the picture
SIDE = tuple[Path, str]  # folder of a campaign, store
NONE = (
    "There is nothing to compare with: no other store, in this campaign or beside it, has a point with the same "
    "workload and axes."
)


def first(o: Opened) -> Menu:
    """The stores of this campaign."""
    return [(f"{o.name}: {store}", (o.folder, store)) for store in dict.fromkeys(o.table("points")["store"])]


def second(o: Opened, a: SIDE | None) -> Menu:
    """The other stores that have planned a point like one of A, of this campaign first."""
    if a is None:
        return []
    wanted = _planned(o.plan, a[1])
    found = []
    for folder in [o.folder, *(p for p in named() if p.resolve() != o.folder.resolve())]:
        plan = o.plan if folder == o.folder else read_plan(folder)
        for store in dict.fromkeys(p["store"] for p in plan["points"]):
            if (folder, store) != (a[0], a[1]) and wanted & _planned(plan, store):
                found.append((f"{folder.resolve().name}: {store}", (folder, store)))
    return found


def _planned(plan: Mapping[str, Any], store: str) -> set[tuple[str, frozenset[tuple[str, Any]]]]:
    """Workload and axes that are not at their default, of each point of a store."""
    usual = {(w, a["name"]): a["default"] for w, told in plan["workloads"].items() for a in told["axes"]}
    return {
        (p["workload"], frozenset((k, v) for k, v in p["axes"].items() if usual[p["workload"], k] != v))
        for p in plan["points"]
        if p["store"] == store
    }


@cache
def _side(folder: Path, store: str) -> sides.Side:
    return sides.read(f"{folder.resolve().name}:{store}", lambda: folder.resolve().parent)


def ratios(o: Opened, a: SIDE | None = None, b: SIDE | None = None) -> Iterator[Thing]:
    """B over A: a line for each comparable point and measure, then all of them together."""
    if a is None or b is None:
        yield NONE
        return
    table, alone = sides.compare(one := _side(*a), other := _side(*b))
    each = kept(table[table["workload"] != sides.ALL], {c: v for c, v in o.filters.items() if c != "store"})
    said = sides.described(each)
    shown = pd.DataFrame(
        {
            "point": said,
            "measure": [speed.said(m) for m in each["metric"]],
            "A": each["median_a"].to_numpy(float),
            "B": each["median_b"].to_numpy(float),
            "runs": [f"{x}, {y}" for x, y in zip(each["n_a"], each["n_b"], strict=True)],
            "B / A": each["ratio"].to_numpy(float),
            "low": each["low"].to_numpy(float),
            "high": each["high"].to_numpy(float),
            "B is": each["verdict_corrected"].to_numpy(),
        }
    )
    yield escaped(f"A is {one.name}, B is {other.name}")
    for row in table[table["workload"] == sides.ALL].to_dict("records"):
        ratio = words.spread([row["ratio"], row["low"], row["high"]])
        yield escaped(
            f"All {words.plural(row['points'], 'point')}, {row['metric'].replace('_', ' ')}: B / A is {ratio}, "
            f"{row['verdict_corrected']}"
        )
    if len(each):
        far = np.abs(np.log(shown["B / A"].clip(lower=1e-9))).sort_values(ascending=False).index[:MOST].sort_values()
        names = [f"{p}: {m.partition(' [')[0]}" for p, m in zip(shown["point"], shown["measure"], strict=True)]
        drawn = shown.loc[far, ["B / A", "low", "high", "B is"]].set_axis(["ratio", "low", "high", "verdict"], axis=1)
        left = f", the {MOST} farthest from 1 of {len(shown)}" if len(shown) > MOST else ""
        yield pictures.compared([names[i] for i in far], drawn, f"B, {other.name}, over A, {one.name}{left}: B is")
        yield shown
    for note in terminal.notes(table, one, other, alone, ()):
        yield escaped(note)
