"""What differs in method between the campaigns of a paper, from their plans and records.

May import: what `papers` may.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pandas as pd

from storelab.analysis.latex.parts import breakable, escape, left, longtable, row, tabular
from storelab.analysis.papers.fragments import UPRIGHT, Block, headings, wide_table
from storelab.analysis.papers.members import Member
from storelab.analysis.parts import words
from storelab.core import units

LABEL = "tab:differences"
WIDTH, NAME, VALUE, GAP = 15.6, 2.7, 6.0, 0.28  # cm
LETTER, MOST_LINES = 0.15, 55  # cm of a letter in a cell; lines of a table on one page
NOT_RECORDED = "not recorded"
SILENT = ("date", "seed")  # that these differ is no difference in method


def items(member: Member) -> Iterator[tuple[str, str]]:
    """(item, what the campaign says of it), in the order of the table."""
    points, plan = member.measured, member.plan["campaign"]

    def of(item: str) -> str:
        return words_of(member.captured("environment", item))

    yield "date", " to ".join(member.days)
    yield "processor", of("cpu_model")
    yield "cores", of("cores")
    yield "memory", words_of(units.human_size(float(v)) for v in member.captured("environment", "memory_bytes"))
    yield "operating system", of("platform")
    yield "kernel", of("kernel")
    yield "hosts of the clients", words.span(points["nodes"].dropna(), "") or NOT_RECORDED
    yield "client and store", _shared(points)
    yield "storelab", of("storelab")
    yield "commit", of("git_commit")
    yield "Python", of("python")
    yield "stores", words_of(_versions(member, "store"))
    yield "engines", words_of(_versions(member, "engine"))
    yield "calibration", "measured" if len(member.table("calibration")) else "none"
    yield "runs of", words.span(points["duration_s"], "s")
    yield "warm-up", words.span(points["warm_up_s"], "s")
    yield "repetitions", words.span(points["rep"].groupby(_group(points)).max(), "")
    yield "scale", f"{plan.get('scale', 1.0):g}"
    yield "budget of failures", _budget(plan)
    yield "workloads", ", ".join(sorted(points["workload"].unique()))
    yield "objects", ", ".join(units.format_size(int(v)) for v in _known(points, "object_size_bytes")) or "none"
    for item, column in (
        ("clients", "clients"),
        ("workers of a client", "workers"),
        ("front-ends", "front_ends"),
        ("buckets", "buckets"),
        ("accounts", "accounts"),
    ):
        yield item, words.span(_known(points, column), "") or "none"
    yield "reads", words_of(points["access"].dropna().unique()) if "access" in points else NOT_RECORDED
    yield "loops", _loops(points)
    yield "seed", f"{plan['seed']}"


def words_of(values: Iterable[object]) -> str:
    return ", ".join(dict.fromkeys(str(v) for v in values)) or NOT_RECORDED


def _versions(member: Member, what: str) -> Iterator[str]:
    """`seaweedfs 4.48`, `fsspec (fsspec 2026.9.0, s3fs 2026.9.0)`: of what was measured, not of what calibrates."""
    table = member.table("environment")
    own = set(member.measured["store"]) if what == "store" else None
    for name in sorted(g.removeprefix(f"{what} ") for g in table["group"].unique() if g.startswith(f"{what} ")):
        if name == "none" or (own is not None and name not in own):
            continue
        told = [part.strip() for version in member.captured(f"{what} {name}", "version") for part in version.split(",")]
        several = list(dict.fromkeys(told))
        yield f"{name} ({', '.join(several)})" if len(several) > 1 else " ".join([name, *several])


def _group(points: pd.DataFrame) -> pd.Series:
    return points["key"].str.rpartition("_rep~")[0]


def _shared(points: pd.DataFrame) -> str:
    shared = points["shared_host"].dropna().astype(bool)
    if shared.empty:
        return NOT_RECORDED
    if not shared.any():
        return "apart"
    return "share a host" if shared.all() else f"share a host in {shared.sum()} of {len(shared)} points"


def _budget(plan: Mapping[str, float]) -> str:
    return f"{100 * plan['failure_budget']:g} %" if "failure_budget" in plan else NOT_RECORDED


def _known(points: pd.DataFrame, column: str) -> list[float]:
    return sorted(points[column].dropna().unique()) if column in points else []


def _loops(points: pd.DataFrame) -> str:
    rates = points["arrival_rate"].fillna(0) if "arrival_rate" in points else pd.Series([0.0])
    return words_of(loop for loop, there in (("closed", (rates == 0).any()), ("open", (rates > 0).any())) if there)


def table(members: Sequence[Member]) -> pd.DataFrame:
    """One row per item: whether the campaigns differ in it, and what each says, a column per campaign."""
    said = {m.name: dict(items(m)) for m in members}
    rows = []
    for item in next(iter(said.values())):
        values = [of[item] for of in said.values()]
        rows.append({"item": item, "differs": len(set(values)) > 1, **dict(zip(said, values, strict=True))})
    return pd.DataFrame(rows)


def differing(found: pd.DataFrame, a: str, b: str) -> list[str]:
    """The items in which two campaigns differ in method."""
    rows = found[(found[a] != found[b]) & ~found["item"].isin(SILENT)]
    return [str(item) for item in rows["item"]]


def _by_value(r: Mapping[str, str], names: Sequence[str]) -> Iterator[str]:
    """A row for each value of an item, with the campaigns that have it."""
    having: dict[str, list[str]] = {}
    for name in names:
        having.setdefault(r[name], []).append(name)
    for i, (value, those) in enumerate(having.items()):
        told = ", ".join(rf"\texttt{{{breakable(escape(name))}}}" for name in those)
        yield row(["" if i else escape(r["item"]), breakable(escape(value)), told])


def latex(found: pd.DataFrame, names: Sequence[str], code: str) -> tuple[Block, str]:
    """The table of what differs, over pages where it is long, and the sentence of what does not."""
    differs, alike = found[found["differs"]].to_dict("records"), found[~found["differs"]].to_dict("records")
    caption = (
        "What differs in method between the campaigns, from their plans and records. Where results differ, so do "
        f"these. \\Code{{{code}}}"
    )
    if many := len(names) >= UPRIGHT:  # too narrow a column each
        spec, heads = left(NAME, VALUE, round(WIDTH - NAME - VALUE - 2 * GAP, 2)), ["", "Value", "Campaigns"]
        lines = [line for r in differs for line in _by_value(r, names)]
    else:
        wide = round((WIDTH - NAME) / len(names) - GAP, 2)
        spec, heads = left(NAME, *[wide] * len(names)), ["", *headings(names)]
        lines = [row([escape(r["item"]), *(breakable(escape(r[name])) for name in names)]) for r in differs]
        height = sum(max(math.ceil(len(r[name]) * LETTER / wide) for name in names) for r in differs)
    same = "; ".join(f"{r['item']} ({r[names[0]]})" for r in alike if r[names[0]] not in ("none", NOT_RECORDED))
    said = f"Alike in all of them: {escape(same)}." if same and len(names) > 1 else ""
    if not lines:
        return Block(""), said
    if many or height > MOST_LINES:
        return Block(longtable(spec, caption, LABEL, heads, lines), True), said
    return Block(wide_table(caption, LABEL, tabular(spec, heads, lines, "scriptsize"))), said
