"""The findings of 2010-2015 and a campaign's own claims, judged: how many of each verdict, and their evidence."""

from collections.abc import Iterable, Mapping

import pandas as pd

from storelab.analysis.latex import FILE, FLAGS, SECTION
from storelab.analysis.latex.parts import THIN, escape, floating, interval, left, longtable, row, tabular
from storelab.analysis.parts import words
from storelab.analysis.statistics import judging
from storelab.analysis.statistics.judging import CANNOT_TELL, CONFIRMED, NOT_MEASURED, REFUTED
from storelab.analysis.tables import claims
from storelab.analysis.tables.claims import ALL_SYSTEMS, NARROWER_CLAIM
from storelab.core.axes.root_files import SCALE

SHOWN = {
    CONFIRMED: r"\textbf{confirmed}",
    REFUTED: r"\textbf{refuted}",
}
WHY = {  # what would decide a claim (`would_decide`) -> why it is undecided
    judging.MORE_RUNS: "There are too few runs",
    judging.NARROWER: "The runs scatter too much",
    judging.LONGER: "In some runs no operation ended",
    judging.MORE_TRIES: "There are too few tries",
    judging.ANSWERS: "The probe got neither a yes nor a no",
    claims.OWN_HOSTS: "The host that clients and store share was busy",
    claims.MORE_CLIENTS: "The clients were near their limit",
    claims.FASTER_LINKS: "The links were full",
    claims.KNOWN_LINKS: "The capacity of the links is not known",
    NARROWER_CLAIM: "Engines, sizes or settings contradict each other",
}
SHORT = 12  # rows that fit a page, each of several lines
A_FILE = SCALE.words.partition("{")[0]  # how the name of a file begins, as a system; stores have no space
NAMED = 3  # systems of an undecided claim that are named; of more the number
TOLD = 12  # claims of one verdict that the first page names; of more it has the number


def _title(name: str) -> str:
    return name.replace("_", " ")


def systems(table: pd.DataFrame) -> list[str]:
    """Those that a claim was judged on; then the files that were read, and all systems together."""
    return sorted(set(table["system"].dropna()), key=lambda name: (name == ALL_SYSTEMS, not _is_store(name), name))


def _is_store(system: str) -> bool:
    return system != ALL_SYSTEMS and not system.startswith(A_FILE)


@FILE("table_claims_short", "claims")
def short(table: pd.DataFrame) -> str:
    """A row per system and a column per verdict: how many claims, and which, where they are few. Where none could be
    decided, the end of a sentence that says why."""
    if len(table) and not table["verdict"].isin([CONFIRMED, REFUTED]).any():
        return _none(table[table["verdict"] == CANNOT_TELL])
    lines, elsewhere = [], table.loc[[not _is_store(s) for s in table["system"].fillna(ALL_SYSTEMS)], :]
    elsewhere = set(elsewhere.loc[elsewhere["verdict"] != NOT_MEASURED, "claim"])
    for system in systems(table):
        own = table[table["system"] == system]
        cells = [escape(system)]
        for verdict in (CONFIRMED, REFUTED, CANNOT_TELL):
            names = list(own.loc[own["verdict"] == verdict, "claim"])
            said = "; ".join(map(_title, names)) if 0 < len(names) <= TOLD and verdict != CANNOT_TELL else ""
            cells.append(f"{len(names)}{': ' if said else ''}{escape(said)}")
        missing = len({*table["claim"]} - {*own["claim"]} - elsewhere)
        lines.append(row([*cells, str(missing) if _is_store(system) else "--"]))
    head = ["System", "Confirmed", "Refuted", "Cannot tell", "Not measured"]
    body = tabular(left(2.6, 4.5, 4.5, 1.2, 1.4), head, lines, "scriptsize") if lines else ""
    return f"\\begin{{center}}\n{body}\\end{{center}}\n" if body else ""


def _none(undecided: pd.DataFrame) -> str:
    if undecided.empty:
        return ""
    counts = {text: undecided.loc[undecided["would_decide"] == d, "claim"].nunique() for d, text in WHY.items()}
    ordered = sorted(counts.items(), key=lambda pair: -pair[1])
    why = [f"{text[0].lower()}{text[1:]} ({n})" for text, n in ordered if n]
    number = undecided["claim"].nunique()
    said = "the one that was measured is not decided"
    if number > 1:
        said = f"none of the {number} that were measured is decided"
    return f"{said}: {'; '.join(why)}.\n"


@FILE("table_claims", "claims")
def claims(table: pd.DataFrame) -> str:
    """One row per claim and system that decided it; then in words those that are undecided, and those that
    were not measured."""
    measured = table[table["verdict"] != NOT_MEASURED]
    if measured.empty:
        return ""
    several = measured["system"].nunique() > 1
    rest = _undecided(measured) + _missing(table[table["verdict"] == NOT_MEASURED])
    measured = measured[measured["verdict"] != CANNOT_TELL]
    if measured.empty:
        return rest
    caption = (
        "The findings of the evaluations of 2010 to 2015, judged on what was measured here. Published: the number that "
        "was printed, for other systems. Here: what the rule compares, with its 95\\,\\% interval, and what the "
        "finding expects of it; of several cases the one least in favour of the verdict. The verdicts are corrected "
        "for the number of cases (Benjamini and Hochberg); in brackets the verdict on the case itself. "
        "\\texttt{claims.csv} names the query and the points of each."
    )
    lines = [_line(r, several) + r"\addlinespace[2pt]" for r in measured.to_dict("records")]
    head = ["Finding", "Published", "Here", "Evidence", "Verdict"]
    text = (floating if len(lines) <= SHORT else longtable)(
        left(4.1, 1.9, 2.7, 4.4, 1.9), caption, "tab:claims", head, lines
    )
    return text + rest


def _undecided(measured: pd.DataFrame) -> str:
    """One sentence for each reason why claims are undecided: what would decide them, and which these are."""
    several = sum(map(_is_store, systems(measured))) > 1
    own = measured[measured["verdict"] == CANNOT_TELL]
    said = []
    for decides, why in WHY.items():
        rows = own[own["would_decide"] == decides]
        names = [
            _title(str(claim)) + (f" ({some})" if several and (some := _some(part["system"])) else "")
            for claim, part in rows.groupby("claim", sort=False)
        ]
        if names:
            said.append(f"{why}; {decides} would decide: {escape('; '.join(names))}.")
    if not said:
        return ""
    return "\n\\noindent Measured, but undecided. " + " ".join(said) + "\n"


def _some(systems: Iterable[str]) -> str:
    """The stores among these systems, or their number."""
    names = list(dict.fromkeys(filter(_is_store, systems)))
    return ", ".join(names) if len(names) <= NAMED else f"{len(names)} systems"


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
    """How many findings were not measured, and how many of them each campaign measures."""
    if table.empty:
        return ""
    names = [name for said in table["campaigns"].dropna() for name in said.split(", ")]
    counts = pd.Series(names, dtype=object).value_counts(sort=False)
    said = f"{words.plural(len(table), 'finding')} {'was' if len(table) == 1 else 'were'} not measured here."
    if len(counts):
        known = words.listed([f"\\texttt{{{escape(name)}}} ({n})" for name, n in counts.items()])
        said += f" Campaigns that measure them at full size: {known}; \\texttt{{claims.csv}} names them."
    return f"\n\\noindent {said}\n"


@SECTION("claims", "claims")
@FLAGS("claims", "claims")
def flags(table: pd.DataFrame) -> dict[str, bool]:
    verdicts = set(table["verdict"]) - {NOT_MEASURED}
    return {"claims": bool(verdicts), "claims_decided": bool(verdicts - {CANNOT_TELL})}
