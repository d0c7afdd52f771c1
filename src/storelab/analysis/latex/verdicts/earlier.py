"""Then and now: what was printed in 2012-2015 beside ours, by a measure that both have."""

import pandas as pd

from storelab.analysis.latex import FILE, FILLED, SECTION
from storelab.analysis.latex.parts import FEW, THIN, escape, few, floating, interval, left, row, title
from storelab.analysis.latex.verdicts import WITH_FEW
from storelab.analysis.parts import words
from storelab.analysis.tables.earlier import MEASURED, printed_name


@FILE("table_earlier", "earlier")
@SECTION("earlier", "earlier_numbers")
@FILLED("earlier_numbers", "earlier")
def earlier(table: pd.DataFrame) -> str:
    """A block per kind of work and measure: the printed statements, then our systems."""
    lines = []
    for (what, measure, unit), rows in table.groupby(["what", "measure", "unit"], sort=False):
        lines.append(title(4, escape(f"{what} {measure} [{unit}]")))
        lines += [_line(r) for _, r in rows.iterrows()]
    caption = (
        "Then and now. What was printed for other systems, divided by the clients that its setting names, per "
        "front-end or of the whole system as printed, or by the Gbit/s of the links that carried it (1~Gb/s is "
        "125~MB/s), and ours: the highest median over the clients, or the front-ends that they used, or as it is; by "
        "link, the share of the capacity of the client's busiest interface. Networks, "
        "clients and object sizes differ, so no ratio is formed."
    )
    if any(FEW in line for line in lines):
        caption += WITH_FEW
    head = ["", "Value", "Setting", "As printed"]
    return floating(left(4.5, 3.1, 5.4, 1.9), caption, "tab:earlier", head, lines)


def _line(r: pd.Series) -> str:
    if r["source"] == MEASURED:
        value = interval(r["median"], r["low"], r["high"]) + few(r)
        return row(
            [f"here: {escape(r['system'])}", rf"\textbf{{{value}}}", escape(f"{r['setting']}, n = {r['n']:.0f}"), ""]
        )
    value = words.number(r["median"], gap=THIN)
    as_printed = f"{words.number(r['printed'], gap=THIN)} {escape(r['printed_unit'])}"
    return row(
        [
            f"published: {escape(printed_name(r['system']))}, {escape(r['source'])}",
            value,
            escape(r["setting"]),
            as_printed,
        ]
    )
