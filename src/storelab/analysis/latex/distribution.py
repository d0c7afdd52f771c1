"""LaTeX about the distribution of software: starts of applications, and releases.

May import: the same packages as `latex`.
"""

from collections.abc import Iterator

import pandas as pd

from storelab.analysis.latex.headlines import Headline, cell_lines, runs
from storelab.analysis.latex.parts import THIN, escape, left, spread, stacked, tex_table
from storelab.analysis.parts import labels
from storelab.analysis.records import published
from storelab.analysis.tables import releases

CACHES = ("http_cache", "client_cache")


def launched(rows: pd.DataFrame) -> str:
    """Return a table with one row per group of points: clients, caches, times, and the sources of the objects."""
    apart = {"clients", *CACHES, *labels.DEPLOYMENT_NAMES}
    several = [c for c in labels.axes_of(rows) if rows[c].nunique() > 1 and c not in apart]
    lines = []
    for _, r in rows.sort_values(["store", "clients", *CACHES], kind="stable").iterrows():
        settings = [labels.deployment(r), *(labels.value_text(c, r[c]) for c in (*CACHES, *several))]
        cells = [escape("; ".join(filter(None, settings))), f"{r['clients']:g}", f"{r['n']:g}"]
        cells += [spread(r, "first", "s"), labels.number(r["slowest_median_s"]), spread(r, "start", "s")]
        cells += [
            labels.number(r[f"{name}_median_{unit}"], gap=THIN)
            for name, unit in (("files", "per_s"), ("kept", "percent"), ("hit", "percent"), ("origin", "mb"))
        ]
        lines.append(cells)
    caption = (
        "Starts of an application: time to first run of the median client and of the slowest client; all clients start "
        "together; time of any start; files per second of all clients; fraction of the objects that a client had kept, "
        "and of the requests that the HTTP cache answered without the store; data that the store sent. Medians over "
        "the runs."
    )
    head = ["System", "Clients", "n", "First [s]", "Slowest [s]", "Start [s]", "Files/s", r"Kept [\%]", r"Hits [\%]"]
    heads = [stacked(h) for h in (*head, "Store [MB]")]  # leaves room for nine columns of numbers
    return tex_table(f"{left(2.6)}rrrrrrrrr", heads, lines, caption, "tab:launches")


def launches_headlines(rows: pd.DataFrame) -> Iterator[Headline]:
    """Yield the time to first run with the most clients, for each system and HTTP cache.

    The times of the median client and of the slowest client are given. Cold clients are preferred.
    """
    known = rows[rows["first_median_s"].notna()] if len(rows) else rows
    known = known.assign(deployment=[labels.deployment(r) for _, r in known.iterrows()])
    for system, system_rows in known.groupby("deployment") if len(known) else []:
        most = system_rows[system_rows["clients"] == system_rows["clients"].max()]
        cold = most[most["client_cache"] == "none"]
        for cache, part in (cold if len(cold) else most).groupby("http_cache"):
            r = part.loc[part["first_median_s"].astype(float).idxmin()]
            lines, slowest = cell_lines(r, "first", "s"), f"slowest client {labels.number(r['slowest_median_s'])}~s"
            http_cache = labels.value_text("http_cache", cache)
            where = ", ".join([slowest, escape(labels.value_text("client_cache", r["client_cache"])), runs(r)])
            yield Headline(
                system=str(system),
                kind=f"Application start, {http_cache}",
                unit="s",
                asks="how long an application takes to start",
                lines=(*lines, where),
                value=f"{' '.join(lines)}~s",
                of=f"until an application ran on the median of {labels.plural(r['clients'], 'client')}",
                where=f"{escape(http_cache)}, {where}",
                size=-float(r["first_median_s"]),
                verb="needed",
            )


def released(rows: pd.DataFrame) -> str:
    """Return a table of releases by stratum: days, contents at the end, and times. The last row is published."""
    whole = releases.summary(rows)
    several = [c for c in labels.axes_of(rows) if rows[c].nunique() > 1 and c not in labels.DEPLOYMENT_NAMES]
    lines = []
    for _, r in whole.iterrows():
        settings = [_system(r), labels.value_text("workload", r["workload"])]
        settings += [labels.value_text(c, r[c]) for c in several]
        cells = [escape("; ".join(filter(None, settings))), f"{r['stratum']}", f"{r['n']:g}"]
        cells.append(f"{r['days_published']} of {r['days']}")
        cells += [labels.number(r[f"repository_median_{unit}"], gap=THIN) for unit in ("objects", "mb")]
        cells += [labels.number(r[name]) for name in ("day_s", "usual_lag_s", "longest_lag_s")]
        lines.append([*cells, *(labels.number(r[name], gap=THIN) for name in ("all_retries", "all_failures"))])
    files, volume = published.release_at_end()
    printed = ["0", "1", f"{published.release_days():g}"]
    printed += [f"$\\geq$ {labels.number(value, gap=THIN)}" for value in (files, 1000 * volume)]
    lines += [r"\midrule", ["Huawei UDS, 2015", *printed, *[""] * 5]]
    a_day = [
        rf"{labels.number(mean, gap=THIN)} $\pm$ {labels.number(deviation, gap=THIN)}"
        for mean, deviation in zip(published.release(), published.release_spread(), strict=True)
    ]
    caption = (
        "Releases of software: days that were published or replicated, of those that were tried; contents of a stratum "
        "at the end; medians over the days of the time per day and of the lag of stratum 1, and its longest lag; "
        "retries and failed requests of all days (medians over the runs). A day that is generated while it is "
        "published has no time here. Last row: "
        "values printed in 2015, at factor 1: "
        f"{a_day[0]} new files and {a_day[1]}~GB a day (mean and standard deviation over the days)."
    )
    head = ["System", "Stratum", "n", "Days", "Objects", "MB", "Day [s]", "Lag [s]", "Most [s]", "Retries", "Failed"]
    return tex_table(f"{left(3.4)}rrrrrrrrrr", head, lines, caption, "tab:releases")


def _system(r: pd.Series) -> str:
    """Return the name of the deployment that has the stratum of a row."""
    place = releases.place(r)
    return labels.deployment(r) if place == r["store"] else place


def releases_headlines(rows: pd.DataFrame) -> Iterator[Headline]:
    """Yield the time to publish a day, and the lag of the second stratum, for each system.

    If a system has several groups of points, the shortest time is used. Runs that only publish are preferred.
    """
    whole = releases.summary(rows) if len(rows) else rows
    axes = labels.axes_of(rows) if len(rows) else []
    several = [c for c in axes if rows[c].nunique() > 1 and c not in labels.DEPLOYMENT_NAMES]
    for kind, stratum, time, asks, of, verb in (
        ("Publishing", 0, "day_s", "how long it takes to publish a day of software", "to publish a day", "needed"),
        ("Replication", 1, "usual_lag_s", "how far a replica lags behind", "behind its source", "lagged"),
    ):
        known = whole[(whole["stratum"] == stratum) & whole[time].notna()] if len(whole) else whole
        only_publishing = known["workload"] == "publish" if len(known) else pd.Series(dtype=bool)
        known = known[only_publishing] if only_publishing.any() else known
        known = known.assign(deployment=[_system(r) for _, r in known.iterrows()])
        for system, system_rows in known.groupby("deployment") if len(known) else []:
            r = system_rows.loc[system_rows[time].astype(float).idxmin()]
            value = labels.number(r[time], gap=THIN)
            days = labels.plural(r["days_published"], "day")
            setting = escape(labels.settings((c, r[c]) for c in several if c != "days"))
            objects = f"{labels.number(r['repository_median_objects'], gap=THIN)} objects at the end"
            yield Headline(
                system=str(system),
                kind=kind,
                unit="s/day" if stratum == 0 else "s",
                asks=asks,
                lines=(value, f"{days}, {runs(r)}"),
                value=f"{value}~s",
                of=of,
                where=", ".join(filter(None, [setting, f"median of {days}", objects, runs(r)])),
                size=-float(r[time]),
                verb=verb,
            )
