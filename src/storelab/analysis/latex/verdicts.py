"""LaTeX about judgements: limits of systems, findings of 2010 to 2015, published numbers, and comparisons.

May import: the same packages as `latex`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from storelab.analysis import compare
from storelab.analysis.latex.parts import (
    FEW,
    THIN,
    below,
    escape,
    few,
    interval,
    left,
    row,
    tex_table,
    title,
)
from storelab.analysis.parts import groups, labels
from storelab.analysis.statistics import judging, ratios
from storelab.analysis.statistics.judging import CONFIRMED, NOT_MEASURED, REFUTED, UNDECIDED
from storelab.analysis.tables.claims import (
    ALL_SYSTEMS,
    FASTER_LINKS,
    KNOWN_LINKS,
    MORE_CLIENTS,
    NARROWER_CLAIM,
    SEPARATE_HOSTS,
)
from storelab.analysis.tables.earlier import MEASURED, printed_name
from storelab.analysis.tables.verdicts import NOT_KNOWN
from storelab.core.axes.root_files import FILE_SIZE

WITH_FEW = f" {FEW}: fewer than {groups.FEW} operations."  # end of the caption of a table with these marks
NAMED = 3  # up to this number, kinds of work of a system are named; otherwise only their number is given


def verdicts(table: pd.DataFrame) -> str:
    """Return a table of limits with one row per workload and size whose limit is known, grouped by system.

    A row has the best median, its setting, the verdict and its evidence. Sentences below the table list the work whose
    limit is not known.
    """
    lines = []
    for r in table[table["verdict"] != NOT_KNOWN].itertuples(index=False):
        also = f" \\emph{{{escape(f'also {r.also}')}}}" if isinstance(r.also, str) and r.also else ""
        mark = FEW if r.few else ""
        best = f"{labels.number(r.best, gap=THIN)}{mark} {escape(r.unit)}; {escape(r.where)}"
        cells = [escape(_work(r)), best, escape(r.verdict), escape(r.evidence) + also]
        lines.append((escape(r.deployment), cells))
    rest = _unknown(table[table["verdict"] == NOT_KNOWN])
    if not lines:
        return rest
    caption = (
        "Limits of each system at the best median rate that was measured, and the evidence. Rules and thresholds "
        "are in the documentation; the first rule that applies gives the verdict, others that apply are in italics."
    )
    caption += WITH_FEW if table.loc[table["verdict"] != NOT_KNOWN, "few"].any() else ""
    head = ["Workload", "Best", "Limited by", "Evidence"]
    return tex_table(left(4.4, 3.0, 2.3, 5.4), head, below(4, lines), caption, "tab:verdicts", floats=False) + rest


def _work(r: Any) -> str:
    return ", ".join(str(v) for v in (r.workload, r.engine, r.what) if isinstance(v, str) and v)


def _unknown(table: pd.DataFrame) -> str:
    """Return sentences about the work whose limit is not known, grouped by the data that would show the limit."""
    sentences = []
    for measurement, rows in table.groupby(table["would_decide"].fillna(""), sort=False):
        systems_of_group = []
        for system, system_rows in rows.groupby("deployment", sort=False):
            works = [_work(r) for r in system_rows.itertuples(index=False)]
            systems_of_group.append(
                f"{system} ({'; '.join(works) if len(works) <= NAMED else f'{len(works)} kinds of work'})"
            )
        more = f" Missing data: {escape(measurement)}." if measurement else ""
        sentences.append(f"The limit is not known for {escape(labels.listed(systems_of_group))}.{more}")
    return f"\n\\noindent {' '.join(sentences)}\n" if sentences else ""


SHOWN = {
    CONFIRMED: r"\textbf{confirmed}",
    REFUTED: r"\textbf{refuted}",
}
WHY = {  # data that would decide a claim (`would_decide`) -> reason why the claim is undecided
    judging.MORE_RUNS: "There are too few runs",
    judging.NARROWER: "The runs scatter too much",
    judging.LONGER: "In some runs no operation ended",
    judging.MORE_TRIES: "There are too few tries",
    judging.ANSWERS: "The probe got neither a yes nor a no",
    SEPARATE_HOSTS: "The host that clients and store share was busy",
    MORE_CLIENTS: "The clients were near their limit",
    FASTER_LINKS: "The links were full",
    KNOWN_LINKS: "The capacity of the links is not known",
    NARROWER_CLAIM: "Engines, sizes or settings contradict each other",
}
SHORT = 12  # number of rows of several lines that fit on a page
A_FILE = FILE_SIZE.words.partition("{")[0]  # prefix of a file that is judged as a system; names of stores have no space
NAMED_SYSTEMS = 3  # up to this number, systems of an undecided claim are named; otherwise only their number is given
MAX_NAMED_CLAIMS = 12  # up to this number, the first page names the claims of a verdict; otherwise it counts them


def _claim_title(name: str) -> str:
    return name.replace("_", " ")


def systems(table: pd.DataFrame) -> list[str]:
    """Return the systems for which claims were judged. Files that were read are last, followed by ALL_SYSTEMS."""
    return sorted(set(table["system"].dropna()), key=lambda name: (name == ALL_SYSTEMS, not _is_store(name), name))


def _is_store(system: str) -> bool:
    return system != ALL_SYSTEMS and not system.startswith(A_FILE)


def short(table: pd.DataFrame) -> str:
    """Return a table of claims with one row per system and one column per verdict.

    A cell has the number of claims, and their names if there are few. If no claim could be decided, return the reasons
    as the end of a sentence.
    """
    if len(table) and not table["verdict"].isin([CONFIRMED, REFUTED]).any():
        return _reasons_undecided(table[table["verdict"] == UNDECIDED])
    lines, elsewhere = [], table.loc[[not _is_store(s) for s in table["system"].fillna(ALL_SYSTEMS)], :]
    elsewhere = set(elsewhere.loc[elsewhere["verdict"] != NOT_MEASURED, "claim"])
    for system in systems(table):
        system_rows = table[table["system"] == system]
        cells = [escape(system)]
        for verdict in (CONFIRMED, REFUTED, UNDECIDED):
            names = list(system_rows.loc[system_rows["verdict"] == verdict, "claim"])
            claim_names = (
                "; ".join(map(_claim_title, names))
                if 0 < len(names) <= MAX_NAMED_CLAIMS and verdict != UNDECIDED
                else ""
            )
            cells.append(f"{len(names)}{': ' if claim_names else ''}{escape(claim_names)}")
        missing = len({*table["claim"]} - {*system_rows["claim"]} - elsewhere)
        lines.append([*cells, str(missing) if _is_store(system) else "--"])
    head = ["System", "Confirmed", "Refuted", "Undecided", "Not measured"]
    body = tex_table(left(2.6, 4.4, 4.4, 1.5, 1.4), head, lines, caption="") if lines else ""
    return f"\\begin{{center}}\n{body}\\end{{center}}\n" if body else ""


def _reasons_undecided(undecided: pd.DataFrame) -> str:
    if undecided.empty:
        return ""
    counts = {text: undecided.loc[undecided["would_decide"] == d, "claim"].nunique() for d, text in WHY.items()}
    ordered = sorted(counts.items(), key=lambda pair: -pair[1])
    why = [f"{text[0].lower()}{text[1:]} ({n})" for text, n in ordered if n]
    number = undecided["claim"].nunique()
    text = "the one that was measured is not decided"
    if number > 1:
        text = f"none of the {number} that were measured is decided"
    return f"{text}: {'; '.join(why)}.\n"


def claims(table: pd.DataFrame) -> str:
    """Return a table with one row per claim and system for which it was decided.

    Sentences below the table list undecided claims and claims that were not measured.
    """
    measured = table[table["verdict"] != NOT_MEASURED]
    if measured.empty:
        return ""
    several = measured["system"].nunique() > 1
    rest = _undecided(measured) + _not_measured(table[table["verdict"] == NOT_MEASURED])
    measured = measured[measured["verdict"] != UNDECIDED]
    if measured.empty:
        return rest
    caption = (
        "Findings of the evaluations of 2010 to 2015, judged on the measurements of this paper. Published: the printed "
        "number, for other systems. Here: the number that the rule compares, with its 95\\,\\% interval, and the "
        "number that the finding expects; if there are several cases, the case least in favour of the verdict. The "
        "verdicts are corrected for the number of cases (Benjamini and Hochberg); in brackets, the uncorrected "
        "verdict. \\texttt{claims.csv} has the query and the points of each finding."
    )
    lines = [_claim_line(r, several) + r"\addlinespace[2pt]" for r in measured.to_dict("records")]
    head = ["Finding", "Published", "Here", "Evidence", "Verdict"]
    text = tex_table(left(4.1, 1.9, 2.7, 4.4, 1.9), head, lines, caption, "tab:claims", most=SHORT)
    return text + rest


def _undecided(measured: pd.DataFrame) -> str:
    """Return one sentence for each reason why claims are undecided, with the data that would decide them."""
    several = sum(map(_is_store, systems(measured))) > 1
    undecided = measured[measured["verdict"] == UNDECIDED]
    sentences = []
    for decides, why in WHY.items():
        rows = undecided[undecided["would_decide"] == decides]
        names = [
            _claim_title(str(claim))
            + (f" ({listed_systems})" if several and (listed_systems := _names_or_count(part["system"])) else "")
            for claim, part in rows.groupby("claim", sort=False)
        ]
        if names:
            sentences.append(f"{why}; {decides} would decide: {escape('; '.join(names))}.")
    if not sentences:
        return ""
    return "\n\\noindent Measured, but undecided. " + " ".join(sentences) + "\n"


def _names_or_count(systems: Iterable[str]) -> str:
    """Return the names of the stores among these systems, or their number if there are many."""
    names = list(dict.fromkeys(filter(_is_store, systems)))
    return ", ".join(names) if len(names) <= NAMED_SYSTEMS else f"{len(names)} systems"


def _claim_line(r: Mapping[str, Any], several: bool) -> str:
    source = f" \\emph{{({escape(r['source'])})}}"
    system = f"{escape(r['system'])}: " if several else ""
    here = r"\newline ".join(filter(None, (judged_number(r), f"\\emph{{{escape(r['expected'])}}}")))
    cases = f"; {r['confirmed']:.0f} of {labels.plural(r['cases'], 'case')} confirm" if r["cases"] > 1 else ""
    evidence = [str(r[c]) for c in ("evidence", "reason") if not pd.isna(r[c])]
    n = f"n = {r['n']:.0f}{cases}"
    uncorrected = r["verdict_uncorrected"] != r["verdict"] and r["verdict_uncorrected"] in (CONFIRMED, REFUTED)
    verdict_text = SHOWN[str(r["verdict"])] + (f" ({r['verdict_uncorrected']})" if uncorrected else "")
    return row(
        [
            f"{system}{escape(r['statement'])}{source}",
            published(r),
            here,
            escape("; ".join([*evidence, n])),
            verdict_text,
        ]
    )


def published(r: Mapping[str, Any]) -> str:
    """Return the published number of a claim with its unit, or a dash."""
    if pd.isna(r["published"]):
        return "--"
    unit = "" if pd.isna(r["published_unit"]) else f" {r['published_unit']}"
    return f"{labels.number(float(r['published']), gap=THIN)}{escape(unit)}"


def judged_number(r: Mapping[str, Any]) -> str:
    """Return the judged number with its interval and unit, or an empty string if the rule has no number."""
    unit = "" if pd.isna(r["unit"]) else f" {escape(r['unit'])}"
    return "" if pd.isna(r["value"]) else f"{interval(r['value'], r['low'], r['high'])}{unit}"


def _not_measured(table: pd.DataFrame) -> str:
    """Return sentences about how many findings were not measured, and which campaigns would measure them."""
    if table.empty:
        return ""
    names = [name for sentence in table["campaigns"].dropna() for name in sentence.split(", ")]
    counts = pd.Series(names, dtype=object).value_counts(sort=False)
    sentence = f"{labels.plural(len(table), 'finding')} {'was' if len(table) == 1 else 'were'} not measured here."
    if len(counts):
        known = labels.listed([f"\\texttt{{{escape(name)}}} ({n})" for name, n in counts.items()])
        sentence += f" Campaigns that measure them at full size: {known}; \\texttt{{claims.csv}} lists the findings."
    return f"\n\\noindent {sentence}\n"


def earlier(table: pd.DataFrame) -> str:
    """Return a table with one block per kind of work and measure: the published results, followed by our systems."""
    lines = []
    for (what, measure, unit), rows in table.groupby(["what", "measure", "unit"], sort=False):
        lines.append(title(4, escape(f"{what} {measure} [{unit}]")))
        lines += [_earlier_line(r) for _, r in rows.iterrows()]
    caption = (
        "Published values and ours. Values printed for other systems: divided by the number of clients of their "
        "setting, per front-end or for the whole system as printed, or divided by the Gbit/s of the links used (1~Gb/s "
        "is 125~MB/s). Our values: the highest median, divided by the clients, divided by the front-ends in use, or "
        "undivided; per link, the fraction of the capacity of the client's busiest interface. Networks, "
        "clients and object sizes differ, so that no ratio is given."
    )
    if any(FEW in line for line in lines):
        caption += WITH_FEW
    head = ["", "Value", "Setting", "As printed"]
    return tex_table(left(4.5, 3.1, 5.4, 1.9), head, lines, caption, "tab:earlier")


def _earlier_line(r: pd.Series) -> str:
    if r["source"] == MEASURED:
        value = interval(r["median"], r["low"], r["high"]) + few(r)
        return row(
            [f"here: {escape(r['system'])}", rf"\textbf{{{value}}}", escape(f"{r['setting']}, n = {r['n']:.0f}"), ""]
        )
    value = labels.number(r["median"], gap=THIN)
    as_printed = f"{labels.number(r['printed'], gap=THIN)} {escape(r['printed_unit'])}"
    return row(
        [
            f"published: {escape(printed_name(r['system']))}, {escape(r['source'])}",
            value,
            escape(r["setting"]),
            as_printed,
        ]
    )


VERDICTS = {ratios.FASTER: r"\textbf{faster}", ratios.SLOWER: r"\textbf{slower}", ratios.UNDECIDED: "undecided"}


def comparison(table: pd.DataFrame) -> str:
    """Return the LaTeX of a comparison (`compare.compare`), with one row per point and metric.

    The rows over all points are below a rule. The LaTeX needs the packages booktabs and longtable.
    """
    points, whole = table[table["workload"] != compare.ALL], table[table["workload"] == compare.ALL]
    lines = [_compared(point, r) for point, r in zip(compare.described(points), points.to_dict("records"), strict=True)]
    lines += [r"\midrule", *(_compared(f"all {r['points']} points", r) for r in whole.to_dict("records"))]
    a, b = (", ".join(escape(s) for s in points[c].unique()) for c in ("store_a", "store_b"))
    same = "; ".join(compare.in_common(points))
    caption = (
        f"A: {a}; B: {b}.{f' Held fixed: {escape(same)}.' if same else ''} Medians of the runs, the ratio B over A "
        "with its 95\\,\\% interval, and the verdict on B, corrected for the number of rows (Benjamini and Hochberg; "
        "in brackets the uncorrected verdict); for a latency, lower is faster. Below the rule: the geometric mean "
        "over all points, with repetitions as runs."
    )
    head = ["Point", "Measure", "A", "B", "Runs", "B / A", "B is"]
    return tex_table(f"{left(4.6)}lrrrrl", head, lines, caption, "tab:comparison", floats=False)


def _compared(point: str, r: dict[str, Any]) -> str:
    medians = [labels.number(r[c], gap=THIN) if pd.notna(r[c]) else "" for c in ("median_a", "median_b")]
    uncorrected = f" ({r['verdict']})" if r["verdict"] != r["verdict_corrected"] else ""
    return [
        escape(point),
        escape(groups.metric_text(r["metric"])),
        *medians,
        f"{r['n_a']}, {r['n_b']}",
        interval(r["ratio"], r["low"], r["high"]),
        VERDICTS[r["verdict_corrected"]] + uncorrected,
    ]
