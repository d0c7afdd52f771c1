"""The paper's tables of systems: side by side, capabilities with their evidence, consistency, space (level 3, analysis)."""

import re
from collections.abc import Iterable

import pandas as pd

from storelab.analysis.figures import systems as figures_systems
from storelab.analysis.latex.parts import THIN, breakable, escape, longtable, row, spread, tabular
from storelab.analysis.parts import words
from storelab.analysis.tables import consistency as anomalies
from storelab.core import units

ANSWERS = {"yes": "yes", "no": "\\textbf{no}", "differs": "\\textbf{differs}", "not tried": "--", "error": "error", "unclear": "unclear"}


def systems(table: pd.DataFrame) -> str:
    """One row per deployment and engine: rates of small objects and throughput of large ones, up and down, median [low, high]."""
    cells: dict[tuple[str, str], dict[str, str]] = {}
    heads = {}
    for name, (what, (metric, unit), shown) in figures_systems.METRICS.items():
        rows = figures_systems.comparable(table, name)
        for (deployment, engine, size), part in rows.groupby(["deployment", "engine", "object_size_bytes"]) if len(rows) else []:
            column = f"{name} {int(size)}"
            heads[column] = f"{what} {units.format_size(int(size))} [{shown}]"
            best = part.loc[part[f"{metric}_median_{unit}"].idxmax()]
            cells.setdefault((deployment, engine), {})[column] = spread(best, metric, unit)
    if not cells:
        return ""
    lines = [row([escape(d), escape(e), *(found.get(c, "--") for c in heads)]) for (d, e), found in sorted(cells.items())]
    return tabular("ll" + "r" * len(heads), ["System", "Engine", *map(escape, heads.values())], lines, "scriptsize")


def _short(names: Iterable[str]) -> dict[str, str]:
    """Deployment -> heading, turned upright: many systems stand side by side."""
    return {name: rf"\rotatebox{{90}}{{{escape(name)}}}" for name in names}


def capabilities(table: pd.DataFrame) -> str:
    """A row per question, grouped by topic, and a column per deployment: yes, no, differs, or -- where it was not tried."""
    if table.empty:
        return ""
    rows = figures_systems.labelled(table)
    heads, lines = _short(rows["deployment"].unique()), []
    for topic, group in rows.groupby("topic", sort=False):
        lines.append(rf"\multicolumn{{{1 + len(heads)}}}{{@{{}}l@{{}}}}{{\emph{{{escape(_said(topic))}}}}} \\*")
        for check, answers in group.groupby("check", sort=False):
            of = answers.set_index("deployment")["answer"]
            lines.append(row([escape(_said(check)), *(ANSWERS.get(of.get(d), "") for d in heads)]))
    caption = (
        "What the systems can do, as found by asking them over the wire and verifying every answer: yes, no, or differs from what the "
        "question expects; a dash: not tried; empty: no question for this protocol. The evidence of what is not a yes stands in "
        "Table~\\ref{tab:evidence}."
    )
    return longtable("l" + "c" * len(heads), caption, "tab:capabilities", ["", *heads.values()], lines)


def _said(name: str) -> str:
    return name.replace("_", " ")


def evidence(table: pd.DataFrame) -> str:
    """What the systems answered where it is not a plain yes."""
    rows = figures_systems.labelled(table[table["answer"].isin(["no", "differs", "unclear", "error"])]) if len(table) else table
    if rows.empty:
        return ""
    left = r">{\raggedright\arraybackslash}p{"
    lines = [
        row([escape(r.deployment), escape(_said(r.check)), escape(r.answer), breakable(escape(re.sub(r"\s+", " ", str(r.evidence))[:400]))])
        for r in rows.itertuples(index=False)
    ]
    spec = rf"{left}2.2cm}}{left}3.8cm}}l{left}7.6cm}}"
    return longtable(
        spec, "Evidence of answers that are not a plain yes.", "tab:evidence", ["System", "Question", "Answer", "Evidence"], lines
    )


def consistency(table: pd.DataFrame) -> str:
    """Anomalies of tries per scenario and deployment, through the same / through another front-end, and the bound of all."""
    if table.empty:
        return ""
    rows = figures_systems.labelled(table)
    heads, lines = _short(rows["deployment"].unique()), []
    for scenario, group in rows.groupby("scenario", sort=False):
        for front_end in ("same", "other"):
            part = group[group["front_end"] == front_end]
            if part.empty:
                continue
            sums = part.groupby("deployment")[["anomalies", "tried"]].sum()
            cells = []
            for d in heads:
                n, tried = (int(v) for v in sums.loc[d]) if d in sums.index else (0, 0)
                text = f"{n} of {words.grouped(str(tried), THIN)}"
                cells.append("" if not tried else f"\\textbf{{{text}}}" if n else text)
            said = anomalies.SCENARIOS.get(scenario, _said(scenario)) + (", another front-end" if front_end == "other" else "")
            lines.append(row([escape(said), *cells]))
    total = rows.groupby("deployment")[["anomalies", "tried", "errors"]].sum()
    bounds = [anomalies.upper_bound(int(total.loc[d, "anomalies"]), int(total.loc[d, "tried"])) for d in heads]
    lines += [r"\midrule", row(["Upper 95\\,\\% bound of the fraction, all scenarios", *(f"{100 * b:.2g}\\,\\%" for b in bounds)])]
    lines.append(row(["Operations that failed", *(words.grouped(str(int(total.loc[d, "errors"])), THIN) for d in heads)]))
    caption = (
        "Anomalies of the answers that were judged, under load, by scenario. An operation that fails is an error and no try. The bound is the "
        "one-sided exact one of Clopper and Pearson."
    )
    return longtable("l" + "r" * len(heads), caption, "tab:consistency", ["", *heads.values()], lines)


def space(table: pd.DataFrame) -> str:
    """Raw bytes used per byte stored by deployment and object size, and how long giving back took."""
    if table.empty:
        return ""
    rows, lines = figures_systems.labelled(table), []
    for _, r in rows.sort_values(["object_size_bytes", "deployment"]).iterrows():
        ratios = [spread(r, f"raw_per_byte_after_{state}", "ratio") for state in figures_systems.STATES]
        cells = [
            escape(r["deployment"]),
            units.format_size(int(r["object_size_bytes"])),
            words.number(r["stored_mb"], gap=THIN),
            f"{r['n']:g}",
        ]
        lines.append(row([*cells, *ratios, words.number(r["reclaim_s"])]))
    head = ["System", "Objects", "Stored [MB]", "n", "After uploads", "After deletion", "After reclaiming", "Reclaim [s]"]
    return tabular("llrrrrrr", head, lines)
