"""LaTeX of consistency.csv: anomalies of the answers that were judged."""

from collections.abc import Iterator

import pandas as pd

from storelab.analysis.latex import FILE, FILLED, HEADLINES
from storelab.analysis.latex.headlines import Headline
from storelab.analysis.latex.parts import THIN, escape, longtable, row, upright
from storelab.analysis.parts import groups, words
from storelab.analysis.tables.guarantees import SCENARIOS, upper_bound


@FILE("table_consistency", "consistency")
@FILLED("consistency", "consistency")
def consistency(table: pd.DataFrame) -> str:
    """Anomalies of tries per scenario and deployment, through the same / through another front-end, and the bound of
    all."""
    rows = groups.labelled(table)
    deployments, lines = list(rows["deployment"].unique()), []
    for scenario, group in rows.groupby("scenario", sort=False):
        for front_end in ("same", "other"):
            part = group[group["front_end"] == front_end]
            if part.empty:
                continue
            sums = part.groupby("deployment")[["anomalies", "tried"]].sum()
            cells = []
            for d in deployments:
                n, tried = (int(v) for v in sums.loc[d]) if d in sums.index else (0, 0)
                text = f"{n} of {words.grouped(str(tried), THIN)}"
                cells.append("" if not tried else f"\\textbf{{{text}}}" if n else text)
            said = SCENARIOS.get(scenario, scenario.replace("_", " ")) + (
                ", another front-end" if front_end == "other" else ""
            )
            lines.append(row([escape(said), *cells]))
    total = rows.groupby("deployment")[["anomalies", "tried", "errors"]].sum()
    bounds = [upper_bound(int(total.loc[d, "anomalies"]), int(total.loc[d, "tried"])) for d in deployments]
    lines += [
        r"\midrule",
        row(["Upper 95\\,\\% bound of the fraction, all scenarios", *(f"{100 * b:.2g}\\,\\%" for b in bounds)]),
    ]
    lines.append(
        row(["Operations that failed", *(words.grouped(str(int(total.loc[d, "errors"])), THIN) for d in deployments)])
    )
    caption = (
        "Anomalies of the answers that were judged, under load, by scenario. An operation that fails is an error and "
        "no try. The bound is the one-sided exact one of Clopper and Pearson."
    )
    return longtable("l" + "r" * len(deployments), caption, "tab:consistency", ["", *upright(deployments)], lines)


@HEADLINES("consistency", "consistency")
def headlines(table: pd.DataFrame) -> Iterator[Headline]:
    """How many answers that were judged were wrong."""
    for system, rows in groups.labelled(table).groupby("deployment") if len(table) else []:
        wrong, tried = int(rows["anomalies"].sum()), int(rows["tried"].sum())
        counts = f"{words.number(wrong, gap=THIN)} of {words.number(tried, gap=THIN)}"
        yield Headline(
            system=str(system),
            kind="Wrong answers",
            unit="",
            asks="whether answers are right under load",
            lines=(counts,),
            value=counts,
            of="answers wrong",
            where="",
            size=-wrong / max(tried, 1),
            verb="had",
        )
