"""LaTeX of traffic.csv: what each front-end carried of the whole."""

import pandas as pd

from storelab.analysis.latex import FILE, FILLED, FLAGS
from storelab.analysis.latex.parts import THIN, below, escape, floating, left, row, spread
from storelab.analysis.parts import groups, words
from storelab.analysis.tables.systems.traffic import CLIENTS, COUNTERS, evenly_given

SAID = {COUNTERS: "own counters", CLIENTS: "clients"}


@FILE("table_traffic", "traffic")
@FILLED("traffic", "traffic")
def traffic(table: pd.DataFrame) -> str:
    """A row per group of points: the share of each front-end, and their spread; below a line for each system and
    workload."""
    rows, lines = groups.labelled(table), []
    by = list(table.columns[: table.columns.get_loc("front_end")])
    moving = [c for c in by[2:] if rows[c].nunique() > 1 and c not in ("front_ends", *words.DEPLOYMENT_NAMES)]
    for _, own in rows.groupby(by, dropna=False, sort=False):
        first = own.iloc[0]
        of = f"{first['deployment']}, {words.value_text('workload', first['workload'])}"
        said = [words.value_text(c, first[c]) for c in moving]
        given = list(dict.fromkeys(f"{n:g}" for n in own["given_to"]))
        shares = [words.number(s, places=1, gap=THIN) for s in own["share_median_percent"]]
        cells = [escape(", ".join(filter(None, said))), f"{first['front_ends']:g}"]
        cells += [" or ".join(given), ", ".join(shares), spread(first, "spread", "percent"), f"{first['n']:g}"]
        cells.append(escape(" and ".join(SAID.get(s, s) for s in first["source"].split(", "))))
        lines.append((escape(of), row(cells)))
    caption = (
        "Was the load balanced? What each front-end carried of what all of them did, in percent (medians over n runs), "
        "in the order of their numbers, and their spread in a run: the most less the least, over the mean (median "
        "[low, high]; 0: all the same). Clients: how many were given each front-end. From the front-ends' own counters "
        "of bytes, or from what the clients recorded."
    )
    head = ["", "Front-ends", "Clients", r"Shares [\%]", r"Spread [\%]", "n", "From"]
    return floating(
        f"{left(4.9)}rr{left(2.8)}r@{{\\hspace{{4pt}}}}r{left(1.5)}", caption, "tab:traffic", head, below(7, lines)
    )


@FLAGS("traffic", "traffic")
def flags(table: pd.DataFrame) -> dict[str, bool]:
    return {"traffic_even": len(evenly_given(table)) > 0}
