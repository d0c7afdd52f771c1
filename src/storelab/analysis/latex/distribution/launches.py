"""LaTeX of launches.csv: starts of an application, by caches. May import: what `latex` may."""

from collections.abc import Iterator

import pandas as pd

from storelab.analysis.latex import FILE, FILLED, FLAGS, HEADLINES, SECTION
from storelab.analysis.latex.headlines import Headline, interval, runs
from storelab.analysis.latex.parts import THIN, escape, floating, left, row, spread, stacked
from storelab.analysis.parts import words
from storelab.analysis.tables import releases

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
    return {"launch_cached": len(releases.with_and_without_cache(rows)) > 0}


@HEADLINES("launches", "launches")
def headlines(rows: pd.DataFrame) -> Iterator[Headline]:
    """Yield the time to first run of the most clients, cold ones where there are some, with each HTTP cache: of the
    median client and of the slowest one."""
    known = rows[rows["first_median_s"].notna()] if len(rows) else rows
    known = known.assign(deployment=[words.deployment(r) for _, r in known.iterrows()])
    for system, own in known.groupby("deployment") if len(known) else []:
        most = own[own["clients"] == own["clients"].max()]
        cold = most[most["client_cache"] == "none"]
        for cache, part in (cold if len(cold) else most).groupby("http_cache"):
            r = part.loc[part["first_median_s"].astype(float).idxmin()]
            lines, slowest = interval(r, "first", "s"), f"slowest client {words.number(r['slowest_median_s'])}~s"
            said = words.value_text("http_cache", cache)
            where = ", ".join([slowest, escape(words.value_text("client_cache", r["client_cache"])), runs(r)])
            yield Headline(
                system=str(system),
                kind=f"Application start, {said}",
                unit="s",
                asks="how long an application takes to start",
                lines=(*lines, where),
                value=f"{' '.join(lines)}~s",
                of=f"until an application ran on the median of {words.plural(r['clients'], 'client')}",
                where=f"{escape(said)}, {where}",
                size=-float(r["first_median_s"]),
                verb="needed",
            )
