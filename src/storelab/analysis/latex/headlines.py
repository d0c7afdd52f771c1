"""Headlines, the main results of each system, for the abstract, the table of the first page, and the conclusions.

The functions named in HEADLINES make headlines from their tables, if these have rows. May import: the same packages as
`latex`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from storelab.analysis.latex import HEADLINES, load
from storelab.analysis.latex.parts import FEW, THIN, escape, left, spread, tex_table
from storelab.analysis.parts import groups, labels
from storelab.analysis.statistics.judging import CONFIRMED, REFUTED
from storelab.analysis.tables.verdicts import DISTURBED, NOT_KNOWN

WIDTH = 15.8  # width of the text in cm
# widths in cm: first column, last column, maximum of the other columns, gap between columns
NAME, LIMIT, WIDEST, GAP = 1.9, 3.4, 3.2, 0.28
MANY = 6  # from this number of systems or kinds of work on, the letters are smaller
BY_SYSTEM = 3  # up to this number of systems, each system has a sentence; otherwise each kind of work has one
SHORT = 5  # kinds of work of each system in the abstract; one less if there are more than BY_SYSTEM systems


@dataclass(frozen=True)
class Headline:
    """The best result of a system in one kind of work, or the only result that a table has about the system.

    `kind` is the heading of the column, and `lines` is the text of the cell. A sentence consists of the system, `verb`,
    `value`, `of`, and `where` in brackets. `asks` is the question that the result answers. `size` orders the systems,
    the highest first.
    """

    system: str
    kind: str
    unit: str
    asks: str
    lines: tuple[str, ...]
    value: str
    of: str
    where: str
    size: float
    verb: str = "reached"
    reach: tuple[float, float] | None = None  # the interval of `size` if there are several runs
    verdict: str = ""

    @property
    def clause(self) -> str:
        return f"{self.number} {self.of}".strip()

    @property
    def number(self) -> str:
        """The value for a sentence, without the mark of few operations, which `places` explains instead."""
        return self.value.replace(FEW, "")

    @property
    def places(self) -> list[str]:
        """The texts that follow the value in brackets."""
        few = [f"fewer than {groups.FEW} operations a run"] if FEW in self.value else []
        return [*few, *filter(None, self.where.split(", "))]


Known = Mapping[str, Sequence[Headline]]
NO_LIMIT = {  # verdicts that do not name a limit -> start of a sentence
    NOT_KNOWN: "The limit is not known",
    DISTURBED: "Disturbed by other programs",
    "unsteady": "Not steady at the best rate",
    "errors": "With failed operations at the best rate",
}


def cell_lines(r: Mapping[str, object], name: str, unit: str) -> tuple[str, ...]:
    """Return the lines of a cell: the median, and its interval in brackets if there are several runs."""
    median, _, rest = spread(r, name, unit).partition(" [")  # type: ignore[arg-type]
    return (median, *([f"[{rest}"] if r["n"] > 1 else []))  # type: ignore[operator]


def reach(r: pd.Series, name: str, unit: str) -> tuple[float, float] | None:
    """Return the ends of the interval of a metric, or None for a single run."""
    return (float(r[f"{name}_low_{unit}"]), float(r[f"{name}_high_{unit}"])) if r["n"] > 1 else None


def runs(r: Mapping[str, object]) -> str:
    """Return the number of runs as LaTeX, such as `n~=~5`."""
    return f"n~=~{r['n']:g}"


def closed(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of closed loops with the column `deployment`.

    Open loops are excluded, because their rate is the arrival rate.
    """
    if "arrival_rate" in table:
        table = table[table["arrival_rate"].fillna(0) == 0]
    return groups.labelled(table) if len(table) else table.assign(deployment="")


def verdict(on: pd.DataFrame) -> str:
    """Return the verdict on the fastest of these subjects. on: rows of verdicts.csv."""
    return str(on.loc[on["best"].idxmax(), "verdict"]) if len(on) else NOT_KNOWN


def wrong_headline(system: object, counts: tuple[int, int], kind: str, asks: str, of: str, bound: str = "") -> Headline:
    """Return a headline that states how many judged items were wrong.

    counts: numbers of wrong items and of all judged items; bound: text about the upper bound of the fraction.
    """
    wrong, judged = counts
    counts_text = f"{labels.number(wrong, gap=THIN)} of {labels.number(judged, gap=THIN)}"
    return Headline(
        system=str(system),
        kind=kind,
        unit="objects" if bound else "",
        asks=asks,
        lines=(counts_text, *filter(None, [bound])),
        value=counts_text,
        of=of,
        where=bound,
        size=-wrong / max(judged, 1),
        verb="had",
    )


def headlines(tables: Mapping[str, pd.DataFrame]) -> dict[str, list[Headline]]:
    """Return the headlines of each system: name of the system -> headlines."""
    found = [h for function, *needs in HEADLINES for h in load(function)(*(tables[name] for name in needs))]
    return {system: [h for h in found if h.system == system] for system in sorted({h.system for h in found})}


def kinds(known: Known) -> list[str]:
    """Return the kinds of work of these headlines, without repetition."""
    return list(dict.fromkeys(h.kind for h in _all(known)))


def _all(known: Known) -> list[Headline]:
    """Return all headlines in the order of their kinds."""
    found = [h for of in known.values() for h in of]
    order = list(dict.fromkeys(h.kind for of in sorted(known.values(), key=len, reverse=True) for h in of))
    return sorted(found, key=lambda h: order.index(h.kind))


def question(known: Known) -> str:
    """Return the question of the campaign as a sentence, or an empty string if there is no headline."""
    if not known:
        return ""
    requested = list(dict.fromkeys(h.asks for h in _all(known)))
    limits = ["what limits these rates"] if any(_judged(h) for h in _all(known)) else []
    names = labels.listed(_names(known)) if len(known) <= BY_SYSTEM else labels.counted(len(known), "storage system")
    return f"We ask of {names} {labels.listed([*requested, *limits])}."


def _names(systems: Iterable[str]) -> list[str]:
    return [rf"\texttt{{{escape(name)}}}" for name in systems]


def answers(known: Known) -> Iterator[str]:
    """Yield sentences with the results of all systems.

    For up to BY_SYSTEM systems, there is one sentence per system, otherwise one sentence per kind of work.
    """
    if len(known) <= BY_SYSTEM:
        for name, of in known.items():
            yield _system_text(name, of)
        by_kind = {kind: [h for h in _all(known) if h.kind == kind] for kind in kinds(known)}
        if overlapping := [
            f"{_short(found[0])} ({overlap})" for found in by_kind.values() if (overlap := _overlap(found))
        ]:
            yield f"Ranges overlap: {'; '.join(overlapping)}."
    else:
        for kind in kinds(known):
            yield kind_text([h for h in _all(known) if h.kind == kind])


def _split_brackets(found: Sequence[Headline]) -> tuple[list[str], str]:
    """Return the text in brackets after each headline, and a text for the end of the sentence.

    The texts at the end of all brackets are moved to the end of the sentence if they are equal.
    """
    parts = [h.places for h in found]
    common: list[str] = []
    while len(parts) > 1 and all(parts) and len({p[-1] for p in parts}) == 1:
        common.insert(0, parts[0][-1])
        parts = [p[:-1] for p in parts]
    return [f" ({', '.join(p)})" if p else "" for p in parts], f"; {', '.join(common)} for all" if common else ""


def _system_text(name: str, found: Sequence[Headline]) -> str:
    brackets, common = _split_brackets(found)
    clauses_by_verb: dict[str, list[str]] = {}
    for h, where in zip(found, brackets, strict=True):
        clauses_by_verb.setdefault(h.verb, []).append(h.clause + where)
    done = ", and ".join(f"{verb} {_listed(clauses)}" for verb, clauses in clauses_by_verb.items())
    return f"{_names([name])[0]} {done}{common}."


def kind_text(found: Sequence[Headline]) -> str:
    """Return a sentence with the results of all systems in one kind of work. The highest result is first."""
    ranked = sorted(found, key=lambda h: -h.size)
    brackets, common = _split_brackets(ranked)
    clauses, of = [], None
    for h, where in zip(ranked, brackets, strict=True):
        what = h.number if h.of == of else h.clause
        clauses.append(f"{_names([h.system])[0]} {'' if clauses else f'{h.verb} '}{what}{where}")
        of = h.of
    return (
        f"{_listed(clauses)}{common}{f'; ranges overlap: {overlapping}' if (overlapping := _overlap(found)) else ''}."
    )


def _overlap(found: Sequence[Headline]) -> str:
    """Return the systems whose order can be chance, because their intervals overlap, as text.

    Only neighbours in the order of the results are compared.
    """
    known = sorted((h for h in found if h.reach), key=lambda h: -h.size)
    ends = [h.reach for h in known if h.reach]
    if len(found) == len(known) > 2 and max(low for low, _ in ends) <= min(high for _, high in ends):
        return "all systems"
    pairs = [
        f"{labels.listed(_names([a.system, b.system]))}"
        for a, b, upper, lower in zip(known, known[1:], ends, ends[1:], strict=False)
        if max(upper[0], lower[0]) <= min(upper[1], lower[1])
    ]
    return ", ".join(pairs)


def _listed(clauses: Sequence[str]) -> str:
    """Return clauses as a list in prose. If one of them contains a comma, they are separated by semicolons."""
    apart = any(", " in re.sub(r"\[.*?\]|\(.*?\)", "", clause) for clause in clauses)
    return "; ".join(clauses) if apart else labels.listed(clauses)


def limits(known: Known) -> Iterator[str]:
    """Yield sentences with the limits of each system in its kinds of work."""
    about: dict[str, dict[str, list[str]]] = {}
    for h in filter(_judged, _all(known)):
        about.setdefault(h.verdict, {}).setdefault(h.system, []).append(_short(h))
    for verdict, systems in sorted(about.items(), key=lambda pair: pair[0] in NO_LIMIT):
        which: dict[tuple[str, ...], list[str]] = {}
        for name, limits_of_system in systems.items():
            which.setdefault(tuple(limits_of_system), []).append(name)
        where = "; ".join(
            f"{labels.listed(_names(names))} ({', '.join(limits_of_system)})"
            for limits_of_system, names in which.items()
        )
        yield f"{NO_LIMIT.get(verdict, f'Limited by {escape(verdict)}')}: {where}."


def _judged(h: Headline) -> bool:
    return bool(h.verdict)


def _short(h: Headline) -> str:
    """Return the kind of work for use in a sentence, such as `large download` for `Download, large`."""
    name, _, size = h.kind.lower().partition(", ")
    return f"{size} {name}".strip()


def findings(claims: pd.DataFrame) -> str:
    """Return a sentence about how many findings of earlier evaluations hold here.

    If none could be decided, the text is empty.
    """
    decided = claims[claims["verdict"].isin([CONFIRMED, REFUTED])] if len(claims) else claims
    if decided.empty:
        return ""
    by = decided.groupby("claim")["verdict"].agg(set)
    counts = [
        (sum(verdicts == of for verdicts in by), one, several)
        for of, one, several in (
            ({CONFIRMED}, "holds", "hold"),
            ({REFUTED}, "does not hold", "do not hold"),
            ({CONFIRMED, REFUTED}, "holds for some systems only", "hold for some systems only"),
        )
    ]
    counts_text = labels.listed([f"{n} {one if n == 1 else several}" for n, one, several in counts if n])
    return f"Of the findings of earlier evaluations, {len(by)} could be decided: {counts_text}."


def abstract(known: Known, claims: pd.DataFrame) -> str:
    """Return the abstract: the question, the results and limits of each system, and the findings that hold."""
    kept = shortened(known, SHORT)
    return "\n".join(filter(None, [question(kept), *answers(kept), *limits(kept), findings(claims)]))


def shortened(known: Known, most: int) -> dict[str, list[Headline]]:
    """Return up to `most` headlines of each system, preferably of the kinds of work that all systems have.

    If there is one sentence per kind of work, up to `most` - 1 kinds are used. A system that has none of these kinds
    gets its first headline.
    """
    common = set(kinds(known)).intersection(*({h.kind for h in of} for of in known.values()))
    if len(known) <= BY_SYSTEM:
        first = {name: sorted(of, key=lambda h: h.kind not in common)[:most] for name, of in known.items()}
        return {name: [h for h in of if h in first[name]] for name, of in known.items()}
    wanted = sorted(kinds(known), key=lambda kind: kind not in common)[: max(most - 1, 1)]
    return {name: [h for h in of if h.kind in wanted] or list(of[:1]) for name, of in known.items()}


def conclusions(known: Known) -> list[str]:
    """Return the conclusions: one sentence with all systems for each kind of work, and a text about their limits."""
    sentences = [kind_text([h for h in _all(known) if h.kind == kind]) for kind in kinds(known)]
    return list(filter(None, [*sentences, " ".join(limits(known))]))


def summary(known: Known) -> str:
    """Return a table with one row per system and one column per kind of work.

    If there are many kinds of work, rows and columns are exchanged.
    """
    units = {h.kind: f"{h.kind} [{escape(h.unit)}]" if h.unit else h.kind for h in _all(known)}
    limited = any(map(_judged, _all(known)))
    across = len(units) >= MANY
    cells = {name: {h.kind: _cell(h, across) for h in of} for name, of in known.items()}
    if across:
        lines = [[units[k], *(of.get(k, "--") for of in cells.values())] for k in units]
        lines += [["Limited by", *map(_limits, known.values())]] if limited else []
        head, widths, last = ["", *map(escape, known)], len(known), []
    else:
        lines = [
            [escape(name), *(cells[name].get(k, "--") for k in units), *([_limits(of)] if limited else [])]
            for name, of in known.items()
        ]
        head, widths, last = ["System", *units.values()], len(units), [LIMIT] if limited else []
        head += ["Limited by"] if limited else []
    wide = min((WIDTH - NAME - sum(last)) / widths - GAP, WIDTH if across else WIDEST)
    small = max(len(known), widths) >= MANY
    body = tex_table(
        left(NAME, *[round(wide, 2)] * widths, *last), head, lines, caption="", size="tiny" if small else "scriptsize"
    )
    return f"\\begin{{center}}\n{body}\\end{{center}}\n"


def _cell(h: Headline, wide: bool) -> str:
    """Return the lines of a cell. In a wide cell, the interval is on the same line as the median."""
    lines = [" ".join(h.lines[:-1]), h.lines[-1]] if wide else h.lines
    return r"\newline ".join(filter(None, lines))


def _limits(of: Iterable[Headline]) -> str:
    """Return each verdict on a system with its kinds of work. If there is only one verdict, return only this."""
    about: dict[str, list[str]] = {}
    for h in filter(_judged, of):
        about.setdefault(h.verdict, []).append(h.kind.lower().replace(",", ""))
    if len(about) <= 1:
        return escape(next(iter(about), "--"))
    return r"\newline ".join(f"{escape(verdict)} \\emph{{({', '.join(of)})}}" for verdict, of in about.items())
