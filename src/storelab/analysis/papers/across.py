"""Parts of a paper about all its campaigns: list, differences in method, ratios, answers, limits.

May import: the same packages as `papers`.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import pandas as pd

from storelab.analysis import compare
from storelab.analysis.latex.parts import breakable, escape, interval, left, tex_table, title, upright
from storelab.analysis.latex.templates import Tex
from storelab.analysis.papers.fragments import UPRIGHT, Block, headings, wide_table
from storelab.analysis.papers.members import Member
from storelab.analysis.parts import groups, labels
from storelab.analysis.statistics import ratios
from storelab.core import units
from storelab.core.errors import UserError

LABEL = "tab:differences"
WIDTH, NAME, VALUE, GAP = 15.6, 2.7, 6.0, 0.28  # cm
LETTER, MAX_LINES = 0.15, 55  # width of a character in cm; maximum number of lines of a table on one page
NOT_RECORDED = "not recorded"
SILENT = ("date", "seed")  # items that are not part of the method


def items(member: Member) -> Iterator[tuple[str, str]]:
    """Yield the items of the method with their values in this campaign, in the order of the table."""
    points, plan = member.measured, member.plan["campaign"]

    def of(item: str) -> str:
        return words_of(member.captured("environment", item))

    yield "date", " to ".join(member.days)
    yield "processor", of("cpu_model")
    yield "cores", of("cores")
    yield "memory", words_of(units.human_size(float(v)) for v in member.captured("environment", "memory_bytes"))
    yield "operating system", of("platform")
    yield "kernel", of("kernel")
    yield "hosts of the clients", labels.span(points["nodes"].dropna(), "") or NOT_RECORDED
    yield "client and store", _shared(points)
    yield "storelab", of("storelab")
    yield "commit", of("git_commit")
    yield "Python", of("python")
    yield "stores", words_of(_versions(member, "store"))
    yield "engines", words_of(_versions(member, "engine"))
    yield "calibration", "measured" if len(member.table("calibration")) else "none"
    yield "runs of", labels.span(points["duration_s"], "s")
    yield "warm-up", labels.span(points["warm_up_s"], "s")
    yield "repetitions", labels.span(points["rep"].groupby(_group(points)).max(), "")
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
        yield item, labels.span(_known(points, column), "") or "none"
    yield "reads", words_of(points["access"].dropna().unique()) if "access" in points else NOT_RECORDED
    yield "loops", _loops(points)
    yield "seed", f"{plan['seed']}"


def words_of(values: Iterable[object]) -> str:
    """Return the distinct values, separated by commas, or NOT_RECORDED if there are none."""
    return ", ".join(dict.fromkeys(str(v) for v in values)) or NOT_RECORDED


def _versions(member: Member, what: str) -> Iterator[str]:
    """Yield the names and versions of stores or engines, such as `fsspec (fsspec 2026.9.0, s3fs 2026.9.0)`.

    what: `store` or `engine`. Stores that are only used by the calibration are excluded.
    """
    table = member.table("environment")
    measured_stores = set(member.measured["store"]) if what == "store" else None
    for name in sorted(g.removeprefix(f"{what} ") for g in table["group"].unique() if g.startswith(f"{what} ")):
        if name == "none" or (measured_stores is not None and name not in measured_stores):
            continue
        parts = [
            part.strip() for version in member.captured(f"{what} {name}", "version") for part in version.split(",")
        ]
        several = list(dict.fromkeys(parts))
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


def difference_table(members: Sequence[Member]) -> pd.DataFrame:
    """Return a table with one row per item: item, differs (True: campaigns differ in it), and a column per campaign."""
    by_campaign = {m.name: dict(items(m)) for m in members}
    rows = []
    for item in next(iter(by_campaign.values())):
        values = [of[item] for of in by_campaign.values()]
        rows.append({"item": item, "differs": len(set(values)) > 1, **dict(zip(by_campaign, values, strict=True))})
    return pd.DataFrame(rows)


def differing(found: pd.DataFrame, a: str, b: str) -> list[str]:
    """Return the items of the method in which two campaigns differ. found: the result of `difference_table`."""
    rows = found[(found[a] != found[b]) & ~found["item"].isin(SILENT)]
    return [str(item) for item in rows["item"]]


def _by_value(r: Mapping[str, str], names: Sequence[str]) -> Iterator[str]:
    """Yield one row for each value of an item, with the campaigns that have this value."""
    having: dict[str, list[str]] = {}
    for name in names:
        having.setdefault(r[name], []).append(name)
    for i, (value, those) in enumerate(having.items()):
        campaigns_text = ", ".join(rf"\texttt{{{breakable(escape(name))}}}" for name in those)
        yield ["" if i else escape(r["item"]), breakable(escape(value)), campaigns_text]


def latex(found: pd.DataFrame, names: Sequence[str], code: str) -> tuple[Block, str]:
    """Return the table of the differences, and a sentence about the items in which all campaigns are equal."""
    differs, alike = found[found["differs"]].to_dict("records"), found[~found["differs"]].to_dict("records")
    caption = (
        "Differences in method between the campaigns, from their plans and records. They may explain differences in "
        f"results. \\Code{{{code}}}"
    )
    if many := len(names) >= UPRIGHT:  # otherwise the columns would be too narrow
        spec, heads = left(NAME, VALUE, round(WIDTH - NAME - VALUE - 2 * GAP, 2)), ["", "Value", "Campaigns"]
        lines = [line for r in differs for line in _by_value(r, names)]
    else:
        wide = round((WIDTH - NAME) / len(names) - GAP, 2)
        spec, heads = left(NAME, *[wide] * len(names)), ["", *headings(names)]
        lines = [[escape(r["item"]), *(breakable(escape(r[name])) for name in names)] for r in differs]
        height = sum(max(math.ceil(len(r[name]) * LETTER / wide) for name in names) for r in differs)
    same = "; ".join(f"{r['item']} ({r[names[0]]})" for r in alike if r[names[0]] not in ("none", NOT_RECORDED))
    sentence = f"The same in all of them: {escape(same)}." if same and len(names) > 1 else ""
    if not lines:
        return Block(""), sentence
    if many or height > MAX_LINES:
        return Block(tex_table(spec, heads, lines, caption, LABEL, floats=False), True), sentence
    return Block(wide_table(caption, LABEL, tex_table(spec, heads, lines, caption=""))), sentence


COMPARISON_COLUMNS = ["a", "b", "measure", "points", "ratio", "low", "high", "verdict", "reason", "differs"]


def comparison_table(members: Sequence[Member], differences: pd.DataFrame) -> pd.DataFrame:
    """Return one row per pair of campaigns and measure: the ratio B / A over all points that both have.

    `verdict` is corrected as in `storelab compare`; `differs` lists the differences in method.
    """
    read = [(m, side) for m in members if (side := _side(m))]
    rows = []
    for (a, mine), (b, theirs) in combinations(read, 2):
        try:
            found, _ = compare.compare(mine, theirs)
        except UserError:
            continue  # no point or no store in common
        whole = found[found["workload"] == compare.ALL].to_dict("records")
        differs = ", ".join(differing(differences, a.name, b.name)) or None
        for r in whole:
            head = {"a": a.name, "b": b.name, "measure": r["metric"], "points": r["points"], "differs": differs}
            rows.append(
                head | {c: r[c] for c in ("ratio", "low", "high", "reason")} | {"verdict": r["verdict_corrected"]}
            )
    return pd.DataFrame(rows, columns=COMPARISON_COLUMNS)


def _side(member: Member) -> compare.Side | None:
    """Return the side of a comparison for a campaign, or None if no run has a rate."""
    try:
        return compare.read(str(member.folder), lambda: member.folder.parent)
    except UserError:
        return None


def comparison_rows(found: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the values for the template, for each pair of campaigns and measure."""
    return [
        {
            "a": r["a"],
            "b": r["b"],
            "what": "Speed" if r["measure"] == groups.SPEED else groups.metric_text(r["measure"]).capitalize(),
            "points": labels.counted(int(r["points"]), "point"),
            "ratio": Tex(interval(r["ratio"], r["low"], r["high"])),
            "is_decided": r["verdict"] != ratios.UNDECIDED,
            "verdict": r["verdict"],
            "reason": r["reason"] if isinstance(r["reason"], str) else "",
            "differs": r["differs"] if isinstance(r["differs"], str) else "",
        }
        for r in found.to_dict("records")
    ]


CAMPAIGN_COLUMNS = [
    "campaign",
    "title",
    "first_day",
    "last_day",
    "last_start",
    "stores",
    "points",
    "failed",
    "evidence",
]
SIDE_BY_SIDE = 18  # maximum number of systems in one table of answers
ANSWERS = {
    "yes": "+",
    "no": r"\textbf{no}",
    "differs": r"\textbf{d}",
    "unclear": "?",
    "error": "e",
    "not tried": "--",
}


def campaigns(members: Sequence[Member]) -> pd.DataFrame:
    """Return a table with one row per campaign: dates, systems, numbers of points, and the checksum of its records."""
    rows = []
    for m in members:
        points = m.table("points")
        stores = sorted(m.measured["store"].unique())
        days = m.days or [None]
        head = {"campaign": m.name, "title": m.title, "first_day": days[0], "last_day": days[-1]}
        head |= {"last_start": points["started"].dropna().max(), "stores": ", ".join(stores)}
        head |= {"points": len(m.measured), "failed": int((points["state"] == "failed").sum())}
        rows.append(head | {"evidence": m.sums})
    return pd.DataFrame(rows, columns=CAMPAIGN_COLUMNS)


def campaigns_latex(found: pd.DataFrame, code: str) -> str:
    """Return the LaTeX of the table of campaigns. code: the code of this table."""
    lines = []
    for r in found.to_dict("records"):
        days = " to ".join(dict.fromkeys(str(d) for d in (r["first_day"], r["last_day"]) if not pd.isna(d)))
        cells = [rf"\texttt{{{breakable(escape(r['campaign']))}}}", escape(r["title"]), escape(days)]
        lines.append([*cells, escape(r["stores"]), labels.grouped(str(r["points"]), r"\,"), str(r["failed"])])
    head = ["Campaign", "Title", "Measured", "Systems", "Points", "Failed"]
    body = tex_table(f"{left(2.4, 4.3, 2.1, 3.4)}rr", head, lines, caption="")
    return wide_table(f"The campaigns of this paper. \\Code{{{code}}}", "tab:campaigns", body)


def answers(members: Sequence[Member]) -> pd.DataFrame:
    """Return the answers of the probes of all campaigns: topic, check, campaign, deployment, answer."""
    parts = [groups.labelled(table).assign(campaign=m.name) for m in members if len(table := m.table("capabilities"))]
    columns = ["topic", "check", "campaign", "deployment", "answer"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def answers_latex(found: pd.DataFrame, code: str) -> Block | None:
    """Return the LaTeX of the answers with one row per question and one column per system, or None without answers.

    It is split into several tables, each as wide as a page.
    """
    if found.empty:
        return None
    systems = list(dict.fromkeys(zip(found["campaign"], found["deployment"], strict=True)))
    text = "\n".join(
        _answers(found, systems[i : i + SIDE_BY_SIDE], i == 0, code) for i in range(0, len(systems), SIDE_BY_SIDE)
    )
    return Block(text, True)


def _answers(found: pd.DataFrame, systems: Sequence[tuple[str, str]], first: bool, code: str) -> str:
    lines = []
    of = {(r.topic, r.check, r.campaign, r.deployment): r.answer for r in found.itertuples(index=False)}
    for topic, rows in found.groupby("topic", sort=False):
        lines.append(title(1 + len(systems), escape(topic.replace("_", " "))))
        for check in rows["check"].unique():
            cells = [ANSWERS.get(of.get((topic, check, *system), ""), "") for system in systems]
            lines.append([escape(check.replace("_", " ")), *cells])
    caption = (
        "Answers of the systems to the questions of the probe: + yes, d differs from the expected answer, "
        "e error, ? unclear, -- not tried; empty: no question for this protocol. \\texttt{capabilities.csv} of each "
        f"campaign has the evidence. \\Code{{{code}}}"
    )
    heads = upright([f"{campaign}: {deployment}" for campaign, deployment in systems])
    label = "tab:answers" if first else f"tab:answers:{systems[0][0]}:{systems[0][1]}"
    return tex_table("l" + "c" * len(systems), ["", *heads], lines, caption, label, floats=False)


def limits(member: Member) -> Tex:
    """Return a sentence about the limits of a campaign: for each verdict, the systems and in how many kinds of work."""
    table = member.table("verdicts")
    kinds = table.groupby("deployment").size()
    texts = []
    for verdict, rows in table.groupby("verdict", sort=False):
        each = [f"{escape(name)} ({n} of {kinds[name]})" for name, n in rows.groupby("deployment").size().items()]
        texts.append(f"\\emph{{{escape(verdict)}}}: {', '.join(each)}")
    return Tex("; ".join(texts), bool(texts))
