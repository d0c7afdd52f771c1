"""LaTeX of collections.csv: garbage of a release, collected beside uploads. May import: what `latex` may."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from storelab.analysis.latex import FILE, FILLED, FLAGS, HEADLINES
from storelab.analysis.latex.headlines import Headline, runs
from storelab.analysis.latex.parts import THIN, escape, floating, left, row
from storelab.analysis.parts import groups, words
from storelab.analysis.tables import releases


@FILE("table_collections", "collections")
@FILLED("collected", "collections")
def table(rows: pd.DataFrame) -> str:
    """Each point that collected: how much, how fast, what uploads felt of it, what was left."""
    found = releases.collections_summary(rows)
    several = [c for c in releases.AXES if rows[c].nunique() > 1]
    lines = []
    for _, r in found.iterrows():
        said = [r["system"], words.settings((c, r[c]) for c in several)]
        cells = [escape("; ".join(filter(None, said))), f"{r['n']:g}"]
        cells += [words.number(r[name], gap=THIN) for name in ("alive", "dead", "dead_mb")]
        cells += [_spread(r, "deletes_per_s"), words.number(r["sweep_s_median"])]
        cells += [_spread(r, name, 100) for name in releases.FELT]
        lines.append(row([*cells, *(words.number(r[name], gap=THIN) for name in ("retries", "lingering", "left"))]))
    caption = (
        "Garbage collected from a repository of software: objects that the days which are kept need, objects that only "
        "older days need and their size; deletions per second and seconds of the sweep; the rate of uploads beside it, "
        "in percent of that before, meanwhile and afterwards: median [low, high] over n runs. Then requests that were "
        "sent again, and dead objects that were there right afterwards and a while later, in all runs."
    )
    head = ["System", "n", "Alive", "Dead", "MB", "Deleted/s", "Sweep [s]", r"During [\%]", r"After [\%]"]
    return floating(
        f"{left(2.8)}rrrrrrrrrrr", caption, "tab:collections", [*head, "Retries", "Lingering", "Left"], lines
    )


def _spread(r: Mapping[str, Any], name: str, factor: float = 1.0) -> str:
    """`950 [900, 990]`; the bare number where there is one run."""
    return words.spread([factor * r[f"{name}_{part}"] for part in groups.PARTS], THIN)


@FLAGS("collections", "collections")
def flags(rows: pd.DataFrame) -> dict[str, bool]:
    """What the section's prose rests on."""
    found = releases.collections_summary(rows)
    return {
        "collected_beside": bool(len(found)) and bool(found["uploads_during_ratio_median"].notna().any()),
        "collected_lingering": bool(len(found)) and bool(found["lingering"].sum()),
    }


@HEADLINES("collections", "collections")
def headlines(rows: pd.DataFrame) -> Iterator[Headline]:
    """The fastest sweep, and the rate that it left to uploads."""
    found = releases.collections_summary(rows) if len(rows) else rows
    for system, own in found.groupby("system") if len(found) else []:
        for kind, name, factor, unit, of, verb in (
            ("Garbage collection", "deletes_per_s", 1.0, "deletions/s", "in garbage collection", "reached"),
            ("Uploads meanwhile", "uploads_during_ratio", 100.0, r"\%", "of its rate of uploads meanwhile", "kept"),
        ):
            known = own[own[f"{name}_median"].notna()]
            if known.empty:
                continue
            r = known.loc[known["deletes_per_s_median"].astype(float).idxmax()]
            median, _, rest = _spread(r, name, factor).partition(" [")
            lines = (median, *([f"[{rest}"] if rest and r["n"] > 1 else []))
            dead = f"{words.number(r['dead'], gap=THIN)} dead objects, {runs(r)}"
            yield Headline(
                system=str(system),
                kind=kind,
                unit=unit.replace("\\", ""),
                asks="what garbage collection costs",
                lines=(*lines, dead),
                value=f"{' '.join(lines)}~{unit}",
                of=of,
                where=dead,
                size=float(r[f"{name}_median"]),
                verb=verb,
            )
