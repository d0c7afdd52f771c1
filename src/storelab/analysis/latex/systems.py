"""LaTeX about capabilities, consistency and space of systems, and about distributions of times and resources.

May import: the same packages as `latex`.
"""

import re
from collections.abc import Iterator

import pandas as pd

from storelab.analysis.latex.headlines import Headline, wrong_headline
from storelab.analysis.latex.parts import (
    PAGE,
    THIN,
    below,
    breakable,
    escape,
    left,
    spread,
    stacked,
    tex_table,
    title,
    upright,
)
from storelab.analysis.parts import groups, labels
from storelab.analysis.parts.groups import labelled
from storelab.analysis.tables.earlier import PROBE_QUESTIONS, PUBLISHED
from storelab.analysis.tables.guarantees import SCENARIOS, upper_bound
from storelab.analysis.tables.resources import CLIENTS, COUNTERS, PLACE, SPACE_METRICS, UNITS, evenly_distributed, shown
from storelab.core import units

ANSWERS = {
    "yes": "yes",
    "no": "\\textbf{no}",
    "differs": "\\textbf{differs}",
    "not tried": "--",
    "error": "error",
    "unclear": "unclear",
}


def capabilities(table: pd.DataFrame) -> str:
    """Return a table of answers with one row per question, grouped by topic, and one column per deployment.

    A dash means that the question was not tried.
    """
    rows = labelled(table)
    deployments, lines = list(rows["deployment"].unique()), []
    for topic, group in rows.groupby("topic", sort=False):
        lines.append(title(1 + len(deployments), escape(_plain(topic))))
        for check, answers in group.groupby("check", sort=False):
            answer_of = answers.set_index("deployment")["answer"]
            lines.append([escape(_plain(check)), *(ANSWERS.get(answer_of.get(d), "") for d in deployments)])
    caption = (
        "Capabilities of the systems, found by sending requests and verifying every answer: yes, no, or "
        "differs from the expected answer; a dash: not tried; empty: no question for this protocol. "
        "Table~\\ref{tab:evidence} has the evidence of all answers that are not a yes."
    )
    head = ["", *upright(deployments)]
    return tex_table("l" + "c" * len(deployments), head, lines, caption, "tab:capabilities", floats=False)


def _plain(name: str) -> str:
    return name.replace("_", " ")


def evidence(table: pd.DataFrame) -> str:
    """Return a table of the answers other than yes, with their evidence."""
    rows = labelled(table[table["answer"].isin(["no", "differs", "unclear", "error"])]) if len(table) else table
    if rows.empty:
        return ""
    lines = [
        [
            escape(r.deployment),
            escape(_plain(r.check)),
            escape(r.answer),
            breakable(escape(re.sub(r"\s+", " ", str(r.evidence))[:400])),
        ]
        for r in rows.itertuples(index=False)
    ]
    spec = f"{left(2.2, 3.8)}l{left(7.6)}"
    head, caption = ["System", "Question", "Answer", "Evidence"], "Evidence of answers other than yes."
    return tex_table(spec, head, lines, caption, "tab:evidence", floats=False)


def capabilities_headlines(table: pd.DataFrame) -> Iterator[Headline]:
    """Yield for each system how many of the tried questions it answered with yes."""
    tried = table[table["answer"] != "not tried"] if len(table) else table
    for system, rows in labelled(tried).groupby("deployment") if len(tried) else []:
        yes = int((rows["answer"] == "yes").sum())
        yield Headline(
            system=str(system),
            kind="Answered with yes",
            unit="",
            asks="how many questions of the probe get a yes",
            lines=(f"{yes} of {len(rows)}",),
            value=f"{yes} of {len(rows)} questions",
            of="with yes",
            where="",
            size=yes / len(rows),
            verb="answered",
        )


def consistency(table: pd.DataFrame) -> str:
    """Return a table of anomalies and tries per scenario and deployment, for the same and for another front-end.

    The last rows are the upper bound over all scenarios, and the number of failed operations.
    """
    rows = groups.labelled(table)
    deployments, lines = list(rows["deployment"].unique()), []
    for scenario, group in rows.groupby("scenario", sort=False):
        for front_end in ("same", "other"):
            part = group[group["front_end"] == front_end]
            if part.empty:
                continue
            sums = part.groupby("deployment")[["anomalies", "tried"]].sum()
            cells = []
            for d in deployments:
                n, tried = (int(v) for v in sums.loc[d]) if d in sums.index else (0, 0)
                text = f"{n} of {labels.grouped(str(tried), THIN)}"
                cells.append("" if not tried else f"\\textbf{{{text}}}" if n else text)
            scenario_text = SCENARIOS.get(scenario, scenario.replace("_", " ")) + (
                ", another front-end" if front_end == "other" else ""
            )
            lines.append([escape(scenario_text), *cells])
    total = rows.groupby("deployment")[["anomalies", "tried", "errors"]].sum()
    bounds = [upper_bound(int(total.loc[d, "anomalies"]), int(total.loc[d, "tried"])) for d in deployments]
    lines += [
        r"\midrule",
        ["Upper 95\\,\\% bound of the fraction, all scenarios", *(f"{100 * b:.2g}\\,\\%" for b in bounds)],
    ]
    lines.append(
        ["Operations that failed", *(labels.grouped(str(int(total.loc[d, "errors"])), THIN) for d in deployments)]
    )
    caption = (
        "Anomalies of the judged answers under load, by scenario. An operation that fails is an error, not a try. "
        "The bound is the exact one-sided bound of Clopper and Pearson."
    )
    head = ["", *upright(deployments)]
    return tex_table("l" + "r" * len(deployments), head, lines, caption, "tab:consistency", floats=False)


def consistency_headlines(table: pd.DataFrame) -> Iterator[Headline]:
    """Yield for each system how many judged answers were wrong."""
    for system, rows in groups.labelled(table).groupby("deployment") if len(table) else []:
        counts = (int(rows["anomalies"].sum()), int(rows["tried"].sum()))
        yield wrong_headline(system, counts, "Wrong answers", "whether answers are right under load", "answers wrong")


def space(table: pd.DataFrame) -> str:
    """Return a table of raw bytes used per byte stored, by deployment and object size, and the time of reclaiming."""
    rows, lines = groups.labelled(table), []
    for _, r in rows.sort_values(["object_size_bytes", "deployment"]).iterrows():
        cells = [
            escape(r["deployment"]),
            units.format_size(int(r["object_size_bytes"])),
            labels.number(r["stored_mb"], gap=THIN),
            f"{r['n']:g}",
        ]
        lines.append([*cells, *(spread(r, *metric) for metric in SPACE_METRICS), labels.number(r["reclaim_s"])])
    head = [
        "System",
        "Objects",
        "Stored [MB]",
        "n",
        "After uploads",
        "After deletion",
        "After reclaiming",
        "Reclaim [s]",
    ]
    return tex_table(f"{left(3.6)}lrrrrrr", [stacked(h) for h in head], lines, size="footnotesize", most=PAGE)


TABLE1_NUMBERS = ("capacity_tb", "front_ends", "storage_nodes", "disk_tb")
TABLE1_HEAD = (
    "System",
    "Capacity [TB]",
    "Front-ends",
    "Storage nodes",
    "Disk [TB]",
    "Multipart upload",
    "Several ranges",
    "Redundancy",
)


def table1(table: pd.DataFrame) -> str:
    """Return the table of the published systems, followed by our systems."""
    lines: list[str] = []
    for source, rows in table.groupby("source", sort=False):
        heading = "Published" if source == PUBLISHED else "Here: as deployed, with the results of the probe"
        lines += [*([r"\midrule"] if lines else []), title(len(TABLE1_HEAD), heading)]
        lines += [_system_line(r, source == PUBLISHED) for _, r in rows.iterrows()]
    return tex_table(f"{left(5.0)}rrrrcc{left(1.7)}", [stacked(h) for h in TABLE1_HEAD], lines, most=PAGE)


def _system_line(r: pd.Series, printed: bool) -> str:
    version = "" if pd.isna(r["version"]) else str(r["version"]).partition(" ")[0][:18]
    name = r["name"] if printed else " ".join(filter(None, [f"{r['system']}:", str(r["name"]), version]))
    cells = [escape(name), *(labels.number(r[c], gap=THIN) for c in TABLE1_NUMBERS)]
    cells += ["--" if pd.isna(r[c]) else ANSWERS.get(r[c], escape(r[c])) for c in PROBE_QUESTIONS]
    return [*cells, "--" if pd.isna(r["redundancy"]) else escape(r["redundancy"])]


SOURCES = {COUNTERS: "own counters", CLIENTS: "clients"}
FROM_SOURCES = {COUNTERS: "the byte counters of the front-ends", CLIENTS: "the records of the clients"}


def traffic(table: pd.DataFrame) -> str:
    """Return a table of the shares of front-ends in the traffic, and their spread, with one row per group of points.

    The table has only groups that assign the same number of clients to each front-end. A sentence below the table
    states the number of other groups.
    """
    by, shown = list(table.columns[: table.columns.get_loc("front_end")]), evenly_distributed(table)
    if shown.empty:
        return ""
    rows, lines = groups.labelled(shown), []
    sources = {_from(source) for source in rows["source"]}
    moving = [c for c in by[2:] if rows[c].nunique() > 1 and c not in ("front_ends", *labels.DEPLOYMENT_NAMES)]
    for _, group in rows.groupby(by, dropna=False, sort=False):
        first = group.iloc[0]
        heading = f"{first['deployment']}, {labels.value_text('workload', first['workload'])}"
        settings = [labels.value_text(c, first[c]) for c in moving]
        given = list(dict.fromkeys(f"{n:g}" for n in group["given_to"]))
        shares = [labels.number(s, places=1, gap=THIN) for s in group["share_median_percent"]]
        cells = [escape(", ".join(filter(None, settings))), f"{first['front_ends']:g}"]
        median, low, high = (labels.number(first[f"spread_{part}_percent"], places=1) for part in groups.PARTS)
        spread = f"{median} [{low}, {high}]" if low != high else median
        cells += [" or ".join(given), ", ".join(shares), spread, f"{first['n']:g}"]
        cells += [escape(_from(first["source"]))] if len(sources) > 1 else []
        lines.append((escape(heading), cells))
    caption = (
        "Balance of the load: the share of each front-end in the total traffic, in percent (medians over n runs), "
        "in the order of their numbers, and their spread in a run: largest minus smallest share, over the mean (median "
        "[low, high]; 0: all equal). Clients: number of clients assigned to each front-end. "
    )
    sources_text = [text for source, text in FROM_SOURCES.items() if rows["source"].str.contains(source).any()]
    caption += f"From {' or from '.join(sources_text)}."
    head = ["", "Front-ends", "Clients", r"Shares [\%]", r"Spread [\%]", "n", *(["From"] if len(sources) > 1 else [])]
    columns = f"{left(4.9)}rr{left(2.8)}r@{{\\hspace{{4pt}}}}r{left(1.5) if len(sources) > 1 else ''}"
    text = tex_table(columns, head, below(len(head), lines), caption, "tab:traffic")
    rest = len(table[by].drop_duplicates()) - len(shown[by].drop_duplicates())
    if not rest:
        return text
    sentence = f"{labels.plural(rest, 'further group')} of points assigned unequal numbers of clients to the front-ends"
    return text + f"\n\\noindent {sentence}; \\texttt{{traffic.csv}} has their shares.\n"


def _from(source: str) -> str:
    return " and ".join(SOURCES.get(s, s) for s in source.split(", "))


QUANTITIES = {
    "operation_time": "time of an operation",
    "sent": "sent by a host",
    "received": "received by a host",
    "traffic": "sent and received, loopback",
    "cpu": "CPU of a client",
    "memory": "memory of a client",
}
QUANTILES = ("p5", "p25", "p50", "p75", "p95", "most")


def distributions(table: pd.DataFrame) -> str:
    """Return a table of distributions with one row per quantity.

    Each deployment, operation, size and setting has a block of rows. The table has the same groups as the figure.
    """
    rows, lines = groups.labelled(shown(table)), []
    axes = [c for c in labels.axes_of(table) if c not in PLACE]
    moving = [c for c in axes if rows[c].nunique() > 1 or c in ("engine", "clients", "workers")]
    place = ["deployment", "workload", *(c for c in ("object_size_bytes",) if c in rows), *axes]
    for _, group in rows.groupby(place, dropna=False, sort=False):
        first = group.iloc[0]
        size = first.get("object_size_bytes")
        heading = [first["deployment"], labels.value_text("workload", first["workload"])]
        heading[-1] += "" if pd.isna(size) else f" of {units.format_size(int(size))}"
        heading += [labels.value_text(c, first[c]) for c in moving]
        lines.append(title(4 + len(QUANTILES), escape(", ".join(filter(None, heading)))))
        for name in (n for n in UNITS if n in set(group["quantity"])):
            r = group[group["quantity"] == name].iloc[0]
            cells = [escape(f"{QUANTITIES[name]} [{UNITS[name]}]"), labels.number(r["samples"], gap=THIN)]
            zero = 100 * r["zeros"] / r["samples"]
            cells += [labels.number(zero, places=0) if r["zeros"] else "", labels.number(r["mean"], gap=THIN)]
            lines.append([*cells, *(labels.number(r[p], gap=THIN) for p in QUANTILES)])
    caption = (
        "Distributions of the times of operations, and of the resources that the clients used, at the largest number "
        "of clients: number of samples of all runs in the window in which all clients are active, percentage of zeros, "
        "mean, quantiles and largest. Bytes, CPU and memory: samples of the monitor, up to five per second."
    )
    head = ["", "Samples", r"0 [\%]", "Mean", r"5 \%", r"25 \%", "Median", r"75 \%", r"95 \%", "Most"]
    return tex_table(f"{left(4.6)}rrrrrrrrr", head, lines, caption, "tab:distributions")
