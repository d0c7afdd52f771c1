"""The findings of 2010-2015 and a campaign's own claims, judged: how many of each verdict, and what they rest on."""

from collections.abc import Mapping

import pandas as pd

from storelab.analysis.latex import FILE, FLAGS, SECTION
from storelab.analysis.latex.parts import THIN, escape, floating, interval, left, longtable, row, tabular
from storelab.analysis.parts import words
from storelab.analysis.statistics.judging import CANNOT_TELL, CONFIRMED, NOT_MEASURED, REFUTED
from storelab.analysis.tables.verdicts.cases import ALL_SYSTEMS

SHOWN = {
    CONFIRMED: r"\textbf{confirmed}",
    REFUTED: r"\textbf{refuted}",
    CANNOT_TELL: "cannot tell",
    NOT_MEASURED: "not measured here",
}
SHORT = 12  # rows that fit a page, each of several lines
TOLD = 12  # claims of one verdict that the first page names; of more it tells the number


def _title(name: str) -> str:
    return name.replace("_", " ")


def systems(table: pd.DataFrame) -> list[str]:
    """Those that a claim was judged on, all of them together last."""
    known = sorted(set(table["system"].dropna()) - {ALL_SYSTEMS})
    return [*known, *([ALL_SYSTEMS] if (table["system"] == ALL_SYSTEMS).any() else [])]


@FILE("table_claims_short", "claims")
def short(table: pd.DataFrame) -> str:
    """A row per system and a column per verdict: how many claims, and which, where they are few."""
    lines = []
    for system in systems(table):
        own = table[table["system"] == system]
        cells = [escape(system)]
        for verdict in (CONFIRMED, REFUTED, CANNOT_TELL):
            names = list(own.loc[own["verdict"] == verdict, "claim"])
            said = "; ".join(map(_title, names)) if 0 < len(names) <= TOLD and verdict != CANNOT_TELL else ""
            cells.append(f"{len(names)}{': ' if said else ''}{escape(said)}")
        missing = table["claim"].nunique() - own["claim"].nunique()
        lines.append(row([*cells, str(missing) if system != ALL_SYSTEMS else "--"]))
    head = ["System", "Confirmed", "Refuted", "Cannot tell", "Not measured"]
    body = tabular(left(2.6, 4.5, 4.5, 1.2, 1.4), head, lines, "scriptsize") if lines else ""
    return f"\\begin{{center}}\n{body}\\end{{center}}\n" if body else ""


@FILE("table_claims", "claims")
def claims(table: pd.DataFrame) -> str:
    """One row per claim and system that measured it, then in words those that nobody measured."""
    measured = table[table["verdict"] != NOT_MEASURED]
    if measured.empty:
        return ""
    several = measured["system"].nunique() > 1
    caption = (
        "The findings of the evaluations of 2010 to 2015, judged on what was measured here. Published: the number that "
        "was printed, for other systems. Here: what the rule compares, with its 95\\,\\% interval, and what the "
        "finding expects of it; of several cases the one least in favour of the verdict. The verdicts are corrected "
        "for the number of cases (Benjamini and Hochberg); in brackets what a case alone would say. "
        "\\texttt{claims.csv} names the query and the points of each."
    )
    lines = [_line(r, several) + r"\addlinespace[2pt]" for r in measured.to_dict("records")]
    head = ["Finding", "Published", "Here", "What it rests on", "Verdict"]
    text = (floating if len(lines) <= SHORT else longtable)(
        left(4.1, 1.9, 2.7, 4.4, 1.9), caption, "tab:claims", head, lines
    )
    return text + _missing(table[table["verdict"] == NOT_MEASURED])


def _line(r: Mapping[str, object], several: bool) -> str:
    source = f" \\emph{{({escape(r['source'])})}}"
    system = f"{escape(r['system'])}: " if several else ""
    unit = "" if pd.isna(r["unit"]) else f" {escape(r['unit'])}"
    value = "" if pd.isna(r["value"]) else f"{interval(r['value'], r['low'], r['high'])}{unit}"
    here = r"\newline ".join(filter(None, (value, f"\\emph{{{escape(r['expected'])}}}")))
    cases = f"; {r['confirmed']:.0f} of {words.plural(r['cases'], 'case')} confirm" if r["cases"] > 1 else ""
    rests = [str(r[c]) for c in ("evidence", "reason") if not pd.isna(r[c])]
    n = f"n = {r['n']:.0f}{cases}"
    alone = r["verdict_alone"] != r["verdict"] and r["verdict_alone"] in (CONFIRMED, REFUTED)
    said = SHOWN[str(r["verdict"])] + (f" ({r['verdict_alone']})" if alone else "")
    return row([f"{system}{escape(r['says'])}{source}", _published(r), here, escape("; ".join([*rests, n])), said])


def _published(r: Mapping[str, object]) -> str:
    if pd.isna(r["published"]):
        return "--"
    unit = "" if pd.isna(r["published_unit"]) else f" {r['published_unit']}"
    return f"{words.number(float(r['published']), gap=THIN)}{escape(unit)}"  # type: ignore[arg-type]


def _missing(table: pd.DataFrame) -> str:
    """What would measure the rest, by campaign."""
    if table.empty:
        return ""
    by: dict[str, list[str]] = {}
    for r in table.to_dict("records"):
        by.setdefault("" if pd.isna(r["campaigns"]) else r["campaigns"], []).append(_title(r["claim"]))
    said = [
        f"{escape('; '.join(names))}" + (f" (\\texttt{{{escape(campaigns)}}})" if campaigns else " (no campaign yet)")
        for campaigns, names in sorted(by.items(), key=lambda pair: not pair[0])
    ]
    return f"\n\\noindent Not measured here, with the campaigns that measure it: {'. '.join(said)}.\n"


@SECTION("claims", "claims")
@FLAGS("claims", "claims")
def flags(table: pd.DataFrame) -> dict[str, bool]:
    measured = table[table["verdict"] != NOT_MEASURED]
    return {"claims": len(measured) > 0}
