"""LaTeX of series: what rose or fell over their parts. May import: what `latex` may."""

from collections.abc import Iterator

import pandas as pd

from storelab.analysis.latex import FILE, FILLED, FLAGS, HEADLINES, SECTION
from storelab.analysis.latex.headlines import Headline
from storelab.analysis.latex.parts import THIN, escape, floating, left, row
from storelab.analysis.parts import words
from storelab.analysis.statistics import steadiness as trend
from storelab.analysis.tables import soak


@SECTION("soak", "soaked")
@FILE("table_soak", "soak_trends")
@FILLED("soaked", "soak_trends")
def trends(table: pd.DataFrame) -> str:
    """Each metric of each series: its median, its slope with the interval, and what that is called."""
    lines, last, named = [], None, soak.titles(table["series"])
    for _, r in table.iterrows():
        if r["series"] != last:
            last = r["series"]
            text = rf"\raggedright\emph{{{escape(named[last])}}}"
            lines.append(rf"\multicolumn{{6}}{{@{{}}p{{13cm}}@{{}}}}{{{text}}} \\*")
        unit = r["unit"].replace("1/s", "operations/s")
        cells = [escape(f"{soak.in_words(r)} [{unit}]"), f"{r['n']:g}", words.number(r["level"], gap=THIN)]
        cells.append(words.spread([r[f"slope_{part}per_hour"] for part in ("", "low_", "high_")], THIN))
        lines.append(row([*cells, soak.change_text(r, gap=THIN), escape(r["trend"])]))
    caption = (
        "Series of parts: number of parts, median over them, Theil-Sen slope per hour with its 95\\,\\% interval, "
        "change from the first to the last part in percent of where the fitted line begins, and what the test of Mann "
        "and Kendall says. Within a part: what "
        "clients gathered in one, the median over the parts."
    )
    head = ["", "Parts", "Median", "Slope per hour", r"Change [\%]", "Trend"]
    return floating(f"{left(5.6)}rrrrl", caption, "tab:soak", head, lines)


@FLAGS("soak", "soak", "soak_trends")
def flags(parts: pd.DataFrame, table: pd.DataFrame) -> dict[str, bool]:
    """What the section's prose rests on."""
    moving, ok = table["trend"].isin(["rises", "falls"]), parts[parts["state"] == "ok"]
    return {
        "soak_moving": bool(moving.any()),
        "soak_few": bool((table["trend"] == "too few").any()),
        "soak_own": bool(ok["client_rss_mb_more"].notna().any()),
        "soak_own_files": bool(ok["client_files_more"].notna().any()),
    }


@HEADLINES("soak", "soak_trends", "soak")
def headlines(table: pd.DataFrame, parts: pd.DataFrame) -> Iterator[Headline]:
    """What rose or fell over the parts of the longest series; else that nothing did."""
    for store, rows in table.groupby("store") if len(table) else []:
        moving = rows[rows["trend"].isin([trend.RISES, trend.FALLS])]
        moving = moving.loc[moving["change_percent"].abs().sort_values(ascending=False).index]
        said = [escape(soak.moved(r)) for _, r in moving.iterrows()]
        rate = rows[rows["metric"] == "rate"].sort_values("level").iloc[-1]
        level = words.number(rate["level"], gap=THIN)
        parts_said, hours = (
            words.plural(rate["n"], "part"),
            words.number(soak.hours(parts[parts["store"] == store]).max()),
        )
        yield Headline(
            system=str(store),
            kind="Rate over hours",
            unit="operations/s",
            asks="what changes over hours",
            lines=(level, f"{soak.change_text(rate, gap=THIN)}~\\% over {hours}~h"),
            value=f"{level}~operations/s over {hours}~h",
            of=f"while {words.listed(said)}" if said else "while nothing rose or fell",
            where=f"median of {parts_said}",
            size=float(rate["level"]),
            verb="held",
        )
