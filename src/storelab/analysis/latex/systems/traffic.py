"""LaTeX of traffic.csv: what each front-end carried of the whole."""

import pandas as pd

from storelab.analysis.latex import FILE, FLAGS
from storelab.analysis.latex.parts import THIN, below, escape, floating, left, row
from storelab.analysis.parts import groups, words
from storelab.analysis.tables.resources import CLIENTS, COUNTERS, evenly_given

SAID = {COUNTERS: "own counters", CLIENTS: "clients"}
FROM = {COUNTERS: "the front-ends' own counters of bytes", CLIENTS: "what the clients recorded"}


@FILE("table_traffic", "traffic")
def traffic(table: pd.DataFrame) -> str:
    """A row per group of points whose front-ends were given to as many clients each: the share of each front-end, and
    their spread; below a line for each system and workload. Of the others a sentence."""
    by, shown = list(table.columns[: table.columns.get_loc("front_end")]), evenly_given(table)
    if shown.empty:
        return ""
    rows, lines = groups.labelled(shown), []
    sources = {_from(source) for source in rows["source"]}
    moving = [c for c in by[2:] if rows[c].nunique() > 1 and c not in ("front_ends", *words.DEPLOYMENT_NAMES)]
    for _, own in rows.groupby(by, dropna=False, sort=False):
        first = own.iloc[0]
        of = f"{first['deployment']}, {words.value_text('workload', first['workload'])}"
        said = [words.value_text(c, first[c]) for c in moving]
        given = list(dict.fromkeys(f"{n:g}" for n in own["given_to"]))
        shares = [words.number(s, places=1, gap=THIN) for s in own["share_median_percent"]]
        cells = [escape(", ".join(filter(None, said))), f"{first['front_ends']:g}"]
        median, low, high = (words.number(first[f"spread_{part}_percent"], places=1) for part in groups.PARTS)
        spread = f"{median} [{low}, {high}]" if low != high else median
        cells += [" or ".join(given), ", ".join(shares), spread, f"{first['n']:g}"]
        cells += [escape(_from(first["source"]))] if len(sources) > 1 else []
        lines.append((escape(of), row(cells)))
    caption = (
        "Was the load balanced? What each front-end carried of what all of them did, in percent (medians over n runs), "
        "in the order of their numbers, and their spread in a run: the most less the least, over the mean (median "
        "[low, high]; 0: all the same). Clients: how many were given each front-end. "
    )
    caption += (
        f"From {' or from '.join(text for source, text in FROM.items() if rows['source'].str.contains(source).any())}."
    )
    head = ["", "Front-ends", "Clients", r"Shares [\%]", r"Spread [\%]", "n", *(["From"] if len(sources) > 1 else [])]
    columns = f"{left(4.9)}rr{left(2.8)}r@{{\\hspace{{4pt}}}}r{left(1.5) if len(sources) > 1 else ''}"
    text = floating(columns, caption, "tab:traffic", head, below(len(head), lines))
    rest = len(table[by].drop_duplicates()) - len(shown[by].drop_duplicates())
    if not rest:
        return text
    said = f"{words.plural(rest, 'further group')} of points gave the front-ends to unequal numbers of clients"
    return text + f"\n\\noindent {said}; \\texttt{{traffic.csv}} has their shares.\n"


def _from(source: str) -> str:
    return " and ".join(SAID.get(s, s) for s in source.split(", "))


@FLAGS("traffic", "traffic")
def flags(table: pd.DataFrame) -> dict[str, bool]:
    """Whether the table has a row."""
    return {"traffic": len(evenly_given(table)) > 0}
