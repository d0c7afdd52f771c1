"""What each system did, in numbers: the abstract, the table of the first page, and the conclusions.

The functions of HEADLINES return what their tables hold of each system; a campaign has the headlines of the tables
that have rows. May import: what `latex` may.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from storelab.analysis.latex import HEADLINES, load
from storelab.analysis.latex.parts import FEW, THIN, escape, left, spread, tex_table
from storelab.analysis.parts import groups, words
from storelab.analysis.statistics.judging import CONFIRMED, REFUTED
from storelab.analysis.tables.verdicts import DISTURBED, NOT_KNOWN

WIDTH = 15.8  # cm: of the text
NAME, LIMIT, WIDEST, GAP = 1.9, 3.4, 3.2, 0.28  # cm: first and last column, one of the others at most, between two
MANY = 6  # systems or kinds from which on the letters are smaller
BY_SYSTEM = 3  # systems with a sentence each; with more systems, a sentence has one kind of work of all systems
SHORT = 5  # kinds of work of each system in the abstract; with more than BY_SYSTEM systems one less


@dataclass(frozen=True)
class Headline:
    """The best that a system did of one kind of work, or the one answer that a table has on it.

    `kind` is the heading of its column and `lines` its cell; as a sentence it is the system, `verb`, `value`, `of`, and
    `where` in brackets. `size` orders the systems, the highest first.
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
    reach: tuple[float, float] | None = None  # the interval of `size`, of several runs
    verdict: str = ""

    @property
    def clause(self) -> str:
        return f"{self.number} {self.of}".strip()

    @property
    def number(self) -> str:
        """The value in a sentence, where `places` says what a mark means."""
        return self.value.replace(FEW, "")

    @property
    def places(self) -> list[str]:
        """What is in brackets behind it."""
        few = [f"fewer than {groups.FEW} operations a run"] if FEW in self.value else []
        return [*few, *filter(None, self.where.split(", "))]


Known = Mapping[str, Sequence[Headline]]
NO_LIMIT = {  # verdicts that name no limit -> how a sentence begins
    NOT_KNOWN: "The limit is not known",
    DISTURBED: "Disturbed by other programs",
    "unsteady": "Not steady at the best rate",
    "errors": "With failed operations at the best rate",
}


def cell_lines(r: Mapping[str, object], name: str, unit: str) -> tuple[str, ...]:
    """The median, and its interval in brackets where there is more than one run."""
    median, _, rest = spread(r, name, unit).partition(" [")  # type: ignore[arg-type]
    return (median, *([f"[{rest}"] if r["n"] > 1 else []))  # type: ignore[operator]


def reach(r: pd.Series, name: str, unit: str) -> tuple[float, float] | None:
    """The ends of the interval; None of a single run."""
    return (float(r[f"{name}_low_{unit}"]), float(r[f"{name}_high_{unit}"])) if r["n"] > 1 else None


def runs(r: Mapping[str, object]) -> str:
    return f"n~=~{r['n']:g}"


def closed(table: pd.DataFrame) -> pd.DataFrame:
    """With `deployment`; of closed loops only, because the rate of an open one is that of its arrivals."""
    if "arrival_rate" in table:
        table = table[table["arrival_rate"].fillna(0) == 0]
    return groups.labelled(table) if len(table) else table.assign(deployment="")


def verdict(on: pd.DataFrame) -> str:
    """That of the fastest of these subjects."""
    return str(on.loc[on["best"].idxmax(), "verdict"]) if len(on) else NOT_KNOWN


def of_wrong(system: object, counts: tuple[int, int], kind: str, asks: str, of: str, bound: str = "") -> Headline:
    """How many of those that were judged were wrong, with the upper bound."""
    wrong, judged = counts
    said = f"{words.number(wrong, gap=THIN)} of {words.number(judged, gap=THIN)}"
    return Headline(
        system=str(system),
        kind=kind,
        unit="objects" if bound else "",
        asks=asks,
        lines=(said, *filter(None, [bound])),
        value=said,
        of=of,
        where=bound,
        size=-wrong / max(judged, 1),
        verb="had",
    )


def headlines(tables: Mapping[str, pd.DataFrame]) -> dict[str, list[Headline]]:
    """The headlines of each system, by name."""
    found = [h for function, *needs in HEADLINES for h in load(function)(*(tables[name] for name in needs))]
    return {system: [h for h in found if h.system == system] for system in sorted({h.system for h in found})}


def kinds(known: Known) -> list[str]:
    return list(dict.fromkeys(h.kind for h in _all(known)))


def _all(known: Known) -> list[Headline]:
    """All headlines in the order of their kinds."""
    found = [h for of in known.values() for h in of]
    order = list(dict.fromkeys(h.kind for of in sorted(known.values(), key=len, reverse=True) for h in of))
    return sorted(found, key=lambda h: order.index(h.kind))


def question(known: Known) -> str:
    """What the campaign asks: a sentence; empty where no table has an answer."""
    if not known:
        return ""
    asked = list(dict.fromkeys(h.asks for h in _all(known)))
    limits = ["what limits these rates"] if any(_judged(h) for h in _all(known)) else []
    names = words.listed(_names(known)) if len(known) <= BY_SYSTEM else words.counted(len(known), "storage system")
    return f"We ask of {names} {words.listed([*asked, *limits])}."


def _names(systems: Iterable[str]) -> list[str]:
    return [rf"\texttt{{{escape(name)}}}" for name in systems]


def answers(known: Known) -> Iterator[str]:
    """Sentences with what each system did: up to three systems one after the other, of more the kinds of work one
    after the other."""
    if len(known) <= BY_SYSTEM:
        for name, of in known.items():
            yield _of_system(name, of)
        by_kind = {kind: [h for h in _all(known) if h.kind == kind] for kind in kinds(known)}
        if alike := [f"{_short(found[0])} ({said})" for found in by_kind.values() if (said := _overlap(found))]:
            yield f"Ranges overlap: {'; '.join(alike)}."
    else:
        for kind in kinds(known):
            yield of_kind([h for h in _all(known) if h.kind == kind])


def _apart(found: Sequence[Headline]) -> tuple[list[str], str]:
    """The brackets behind each, and what all have in common at the end of theirs, which is at the end of the
    sentence."""
    parts = [h.places for h in found]
    common: list[str] = []
    while len(parts) > 1 and all(parts) and len({p[-1] for p in parts}) == 1:
        common.insert(0, parts[0][-1])
        parts = [p[:-1] for p in parts]
    return [f" ({', '.join(p)})" if p else "" for p in parts], f"; {', '.join(common)} for all" if common else ""


def _of_system(name: str, found: Sequence[Headline]) -> str:
    each, common = _apart(found)
    said: dict[str, list[str]] = {}
    for h, where in zip(found, each, strict=True):
        said.setdefault(h.verb, []).append(h.clause + where)
    done = ", and ".join(f"{verb} {_listed(clauses)}" for verb, clauses in said.items())
    return f"{_names([name])[0]} {done}{common}."


def of_kind(found: Sequence[Headline]) -> str:
    """A sentence with what all systems did of one kind, the highest first."""
    ranked = sorted(found, key=lambda h: -h.size)
    each, common = _apart(ranked)
    said, of = [], None
    for h, where in zip(ranked, each, strict=True):
        what = h.number if h.of == of else h.clause
        said.append(f"{_names([h.system])[0]} {'' if said else f'{h.verb} '}{what}{where}")
        of = h.of
    return f"{_listed(said)}{common}{f'; ranges overlap: {alike}' if (alike := _overlap(found)) else ''}."


def _overlap(found: Sequence[Headline]) -> str:
    """Neighbours in the order of the systems whose intervals overlap: their order may be chance."""
    known = sorted((h for h in found if h.reach), key=lambda h: -h.size)
    ends = [h.reach for h in known if h.reach]
    if len(found) == len(known) > 2 and max(low for low, _ in ends) <= min(high for _, high in ends):
        return "all systems"
    pairs = [
        f"{words.listed(_names([a.system, b.system]))}"
        for a, b, upper, lower in zip(known, known[1:], ends, ends[1:], strict=False)
        if max(upper[0], lower[0]) <= min(upper[1], lower[1])
    ]
    return ", ".join(pairs)


def _listed(clauses: Sequence[str]) -> str:
    """Clauses that have commas are separated by semicolons."""
    apart = any(", " in re.sub(r"\[.*?\]|\(.*?\)", "", clause) for clause in clauses)
    return "; ".join(clauses) if apart else words.listed(clauses)


def limits(known: Known) -> Iterator[str]:
    """Sentences with what limited which systems in which kinds of work."""
    about: dict[str, dict[str, list[str]]] = {}
    for h in filter(_judged, _all(known)):
        about.setdefault(h.verdict, {}).setdefault(h.system, []).append(_short(h))
    for verdict, systems in sorted(about.items(), key=lambda pair: pair[0] in NO_LIMIT):
        which: dict[tuple[str, ...], list[str]] = {}
        for name, own in systems.items():
            which.setdefault(tuple(own), []).append(name)
        where = "; ".join(f"{words.listed(_names(names))} ({', '.join(own)})" for own, names in which.items())
        yield f"{NO_LIMIT.get(verdict, f'Limited by {escape(verdict)}')}: {where}."


def _judged(h: Headline) -> bool:
    return bool(h.verdict)


def _short(h: Headline) -> str:
    """`Download, large` as `large download`."""
    name, _, size = h.kind.lower().partition(", ")
    return f"{size} {name}".strip()


def findings(claims: pd.DataFrame) -> str:
    """How many findings of earlier evaluations hold here; empty where none could be decided."""
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
    said = words.listed([f"{n} {one if n == 1 else several}" for n, one, several in counts if n])
    return f"Of the findings of earlier evaluations, {len(by)} could be decided: {said}."


def abstract(known: Known, claims: pd.DataFrame) -> str:
    """The abstract: the question, the answer of each system, and what limited it."""
    kept = shortened(known, SHORT)
    return "\n".join(filter(None, [question(kept), *answers(kept), *limits(kept), findings(claims)]))


def shortened(known: Known, most: int) -> dict[str, list[Headline]]:
    """This number of headlines of each system, first of the kinds that all systems have. In sentences about kinds of
    work one kind less, and of a system that has none of them its first headline."""
    common = set(kinds(known)).intersection(*({h.kind for h in of} for of in known.values()))
    if len(known) <= BY_SYSTEM:
        first = {name: sorted(of, key=lambda h: h.kind not in common)[:most] for name, of in known.items()}
        return {name: [h for h in of if h in first[name]] for name, of in known.items()}
    wanted = sorted(kinds(known), key=lambda kind: kind not in common)[: max(most - 1, 1)]
    return {name: [h for h in of if h.kind in wanted] or list(of[:1]) for name, of in known.items()}


def conclusions(known: Known) -> list[str]:
    """The conclusions: a sentence for each kind of work with all systems, and what limited them."""
    said = [of_kind([h for h in _all(known) if h.kind == kind]) for kind in kinds(known)]
    return list(filter(None, [*said, " ".join(limits(known))]))


def summary(known: Known) -> str:
    """One row per system and a column for each kind of work; of many kinds the other way round."""
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
    """The lines of a cell; in a wide one the interval is behind the median."""
    lines = [" ".join(h.lines[:-1]), h.lines[-1]] if wide else h.lines
    return r"\newline ".join(filter(None, lines))


def _limits(of: Iterable[Headline]) -> str:
    """Each verdict with what it is about; without that where it is about all."""
    about: dict[str, list[str]] = {}
    for h in filter(_judged, of):
        about.setdefault(h.verdict, []).append(h.kind.lower().replace(",", ""))
    if len(about) <= 1:
        return escape(next(iter(about), "--"))
    return r"\newline ".join(f"{escape(verdict)} \\emph{{({', '.join(of)})}}" for verdict, of in about.items())
