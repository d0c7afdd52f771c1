"""LaTeX of launches.csv: starts of an application, by caches. May import: what `latex` may."""

from collections.abc import Iterator

import pandas as pd

from storelab.analysis.latex import FILE, FILLED, FLAGS, HEADLINES, SECTION
from storelab.analysis.latex.headlines import Headline, interval, runs
from storelab.analysis.latex.parts import THIN, escape, floating, left, row, spread, stacked
from storelab.analysis.parts import words
from storelab.analysis.tables.distribution import launches

CACHES = ("http_cache", "client_cache")


@SECTION("launches", "launched")
@FILE("table_launches", "launches")
@FILLED("launched", "launches")
def table(rows: pd.DataFrame) -> str:
    """Each group of points: clients, caches, times, what came from where."""
    apart = {"clients", *CACHES, *words.DEPLOYMENT_NAMES}
    several = [c for c in words.axes_of(rows) if rows[c].nunique() > 1 and c not in apart]
    lines = []
    for _, r in rows.sort_values(["store", "clients", *CACHES], kind="stable").iterrows():
        said = [words.deployment(r), *(words.value_text(c, r[c]) for c in (*CACHES, *several))]
        cells = [escape("; ".join(filter(None, said))), f"{r['clients']:g}", f"{r['n']:g}"]
        cells += [spread(r, "first", "s"), words.number(r["slowest_median_s"]), spread(r, "start", "s")]
        cells += [
            words.number(r[f"{name}_median_{unit}"], gap=THIN)
            for name, unit in (("files", "per_s"), ("kept", "percent"), ("hit", "percent"), ("origin", "mb"))
        ]
        lines.append(row(cells))
    caption = (
        "Starts of an application: time to first run of the median client and of the slowest one, all of which begin "
        "together; time of any start; files per second of all clients; part of the objects that a client had kept, and "
        "of the requests for which the HTTP cache asked nothing of the store; what the store sent. Medians over the "
        "runs."
    )
    head = ["System", "Clients", "n", "First [s]", "Slowest [s]", "Start [s]", "Files/s", r"Kept [\%]", r"Hits [\%]"]
    heads = [stacked(h) for h in (*head, "Store [MB]")]  # nine columns of numbers stand beside the words
    return floating(f"{left(2.6)}rrrrrrrrr", caption, "tab:launches", heads, lines)


@FLAGS("launches", "launches")
def flags(rows: pd.DataFrame) -> dict[str, bool]:
    """What the section's prose rests on."""
    return {"launch_cached": len(launches.beside(rows)) > 0}


@HEADLINES("launches", "launches")
def headlines(rows: pd.DataFrame) -> Iterator[Headline]:
    """The time to first run of the most clients, at least with what one cache brought."""
    known = rows[rows["first_median_s"].notna()] if len(rows) else rows
    known = known.assign(deployment=[words.deployment(r) for _, r in known.iterrows()])
    for system, own in known.groupby("deployment") if len(known) else []:
        most = own[own["clients"] == own["clients"].max()]
        for name, pick in (("slowest", "idxmax"), ("fastest", "idxmin"))[: len(most)]:
            r = most.loc[getattr(most["first_median_s"].astype(float), pick)()]
            caches = ", ".join(filter(None, (words.value_text(c, r[c]) for c in CACHES)))
            lines = interval(r, "first", "s")
            where = ", ".join(filter(None, [escape(caches), runs(r)]))
            yield Headline(
                system=str(system),
                kind=f"Application start, {name}",
                unit="s",
                asks="how long an application takes to start",
                lines=(*lines, where),
                value=f"{' '.join(lines)}~s",
                of=f"until an application ran on {words.plural(r['clients'], 'client')}",
                where=where,
                size=-float(r["first_median_s"]),
                verb="needed",
            )
