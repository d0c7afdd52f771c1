"""LaTeX of throughput.csv: the best rates, all groups of points, systems side by side."""

from collections.abc import Collection, Iterator

import pandas as pd

from storelab.analysis.latex import FILE, FILLED, FLAGS, HEADLINES, SECTION
from storelab.analysis.latex.headlines import Headline, closed, interval, reach, runs, verdict
from storelab.analysis.latex.parts import (
    THIN,
    escape,
    left,
    longtable,
    placed,
    row,
    shares,
    spread,
    stacked,
    tabular,
    unlimited,
)
from storelab.analysis.parts import groups, words
from storelab.analysis.tables.throughput import CLASSES, measured, of_class, side_by_side
from storelab.analysis.tables.verdicts import units_of
from storelab.core import units

MANY = 6  # columns of axes beyond which they stand in one, in words
SIDE_BY_SIDE = 5  # columns of rates that fit beside the names of a system and an engine
RAW = ("put", "get")
COUNTED = {"list": "keys/s"}  # where a rate counts no operations


def _bound(r: pd.Series) -> str:
    """`c` or `l` where the client, or its link, was near what it can do at most."""
    return "" if pd.isna(r.get("bound_by")) else str(r["bound_by"])[0]


@FILE("table_best", "throughput")
def best(table: pd.DataFrame) -> str:
    """The highest median per operation, object size and store, where it was seen, and the CPU of both sides."""
    rows = []
    engines = table["engine"].nunique() > 1
    for name, of in CLASSES.items():
        known = measured(table, name)
        for (store, size), part in known.groupby(["store", "object_size_bytes"]) if len(known) else []:
            top = part.loc[part[of.median].idxmax()]
            axes = [words.cell(c, top[c]) for c in ("clients", "workers", "front_ends")]
            engine = [top["engine"]] if engines else []
            cells = [of.verb, units.format_size(int(size)), store, *engine, *axes, f"{top['n']:g}"]
            rows.append(row([*map(escape, cells), spread(top, *of.metric), of.shown, shares(top), _bound(top)]))
    head = ["", "Objects", "Store", *(["Engine"] if engines else []), "Clients", "Workers", "Front-ends", "n"]
    head += ["Median [low, high]", "", r"CPU [\%]", ""]
    return (
        placed(f"lll{'l' * engines}rrrrrlrl", head, rows, "scriptsize" if engines else "footnotesize") if rows else ""
    )


def _all_of(table: pd.DataFrame, workload: str) -> str:
    rows = table[table["workload"] == workload]
    axes = [c for c in words.axes_of(table) if rows[c].notna().any()]
    moving = ["store", *(c for c in axes if rows[c].nunique() > 1)]
    still = list(filter(None, (words.value_text(c, rows[c].iloc[0]) for c in axes if c not in moving)))
    worded = len(moving) > MANY
    lines = []
    for _, r in rows.iterrows():
        labels = "".join(mark for mark, column in (("u", "unsteady"), ("s", "too_short")) if r[column]) + _bound(r)
        cells = [r["store"], _apart(r, moving[1:])] if worded else [unlimited(c, r[c]) for c in moving]
        n = f"{r['n']:g}" + (f" of {r['reps_planned']:g}" if r["n"] < r["reps_planned"] else "")
        lines.append(
            row(
                [escape(c) for c in [*cells, n]]
                + [
                    spread(r, "throughput", "mb_per_s"),
                    spread(r, "rate", "per_s"),
                    words.number(r["errors"], places=0, gap=THIN),
                    words.number(r["tail_max_s"], places=2),
                    shares(r),
                    labels,
                ]
            )
        )
    useful = "useful MB/s" if workload not in RAW else "MB/s"
    names = ["Store", "Settings"] if worded else [stacked(escape(words.heading(c))) for c in moving]
    head = [
        *names,
        "n",
        useful,
        COUNTED.get(workload, "operations/s"),
        "Errors",
        "Tail [s]",
        r"CPU [\%]",
        "",
    ]
    caption = (
        f"All groups of points of the workload \\texttt{{{escape(workload)}}} ({escape('; '.join(still))}): median "
        "[low, high] over n runs in the window in which all clients are active; errors of all runs together; longest "
        "tail; CPU of the clients / of the server in percent of the host's cores (median). Marks: u, a run is "
        "not steady; s, a run is too short to judge its steadiness; c, bound by the client, l, by its link: near what "
        "the clients could do at most."
    )
    first = f"l{left(5.2)}" if worded else "l" + "r" * (len(moving) - 1)
    size = "scriptsize" if len(moving) < MANY else "tiny"
    return longtable(f"{first}rrrrrrl", caption, f"tab:all_{workload}", head, lines, size)


def _apart(r: pd.Series, axes: Collection[str]) -> str:
    """The axes of a group of points in words, without those at their defaults."""
    told = (words.value_text(c, r[c]) for c in axes if not words.is_default(c, r[c]))
    return ", ".join(filter(None, told)) or "defaults"


@FILE("table_throughput", "throughput")
@FILLED("rates", "throughput")
def throughput(table: pd.DataFrame) -> str:
    """All groups of points, one table per workload; axes that do not vary stand in the caption."""
    return "\n".join(_all_of(table, w) for w in table["workload"].unique())


def _colder(table: pd.DataFrame) -> pd.DataFrame:
    """The groups of points whose accesses are not warm by wish."""
    return table[table["access"].notna() & (table["access"] != groups.WARM)] if "access" in table else table.iloc[:0]


@FILE("table_cold", "throughput")
def accesses(table: pd.DataFrame) -> str:
    """Accesses as they were asked for and as they were proven, beside the warm ones that differ in nothing else."""
    rows = _colder(table)
    if rows.empty:
        return ""
    apart = [c for c in ("store", "workload", *words.axes_of(table)) if c != "access"]
    asked = {tuple(map(str, values)) for values in rows[apart].to_numpy()}
    rows = table[[tuple(map(str, values)) in asked for values in table[apart].to_numpy()]]
    moving = [c for c in apart[2:] if rows[c].nunique() > 1]
    lines = []
    for _, r in rows.sort_values([*apart, "access"], kind="stable").iterrows():
        known = not pd.isna(r["access_proven"])
        cells = [r["store"], words.value_text("workload", r["workload"]), _apart(r, moving), r["access"]]
        cells += [r["access_proven"] if known else "not shown", words.number(r["disk_reads_percent"], places=0)]
        rates = [spread(r, "throughput", "mb_per_s"), spread(r, "rate", "per_s")]
        lines.append(row([*map(escape, cells), *rates, words.number(r["first_over_again"], significant=2)]))
    head = ["Store", "", "Settings", "Asked", "Proven", r"Disk [\%]", "MB/s", "operations/s", "Step"]
    return placed(f"l{left(2.2, 3.2)}llrrrr", head, lines, "scriptsize")


@FILE("table_systems", "throughput")
def systems(table: pd.DataFrame) -> str:
    """One row per deployment and engine: rates of small objects and throughput of large ones, up and down, median [low,
    high]."""
    cells: dict[tuple[str, str], dict[str, str]] = {}
    heads = {}
    for name, of in reversed(CLASSES.items()):
        rows = side_by_side(table, name)
        for (deployment, engine, size), part in (
            rows.groupby(["deployment", "engine", "object_size_bytes"]) if len(rows) else []
        ):
            column = f"{name} {int(size)}"
            heads[column] = f"{of.what} {units.format_size(int(size))} [{of.shown}]"
            cells.setdefault((deployment, engine), {})[column] = spread(part.loc[part[of.median].idxmax()], *of.metric)
    if not cells:
        return ""
    every = list(heads)
    tables = [
        (
            left(2.8) + "l" + "r" * len(part),
            ["System", "Engine", *(stacked(escape(heads[c])) for c in part)],
            [
                row([escape(d), escape(e), *(found.get(c, "--") for c in part)])
                for (d, e), found in sorted(cells.items())
                if found.keys() & part
            ],
        )
        for part in (every[i : i + SIDE_BY_SIDE] for i in range(0, len(every), SIDE_BY_SIDE))
    ]
    return placed(*tables[0], "scriptsize", below=[tabular(*further, "scriptsize") for further in tables[1:]])


@SECTION("systems", "compared")
@SECTION("threads", "threads")
@SECTION("raw", "raw")
@SECTION("cold", "cold_access")
@FLAGS("throughput", "drawn", "throughput")
def flags(drawn: Collection[str], table: pd.DataFrame) -> dict[str, bool]:
    kinds = {k: any(name.startswith(f"{k}_") for name in drawn if name in CLASSES) for k in ("throughput", "metadata")}
    classes = [of_class(table, name) for name in CLASSES]
    return kinds | {
        "raw": any(rows.size for rows in classes),  # the best rates are in a table, whatever has a figure
        "cold_access": len(_colder(table)) > 0,
        "scaling": "front_ends" in drawn or "buckets" in drawn,
        "one_front_end": not any(rows["front_ends"].nunique() > 1 for rows in classes if rows.size),
    }


@HEADLINES("throughput", "throughput", "verdicts")
def headlines(table: pd.DataFrame, verdicts: pd.DataFrame) -> Iterator[Headline]:
    """The highest median of each class of operations, with the verdict on it."""
    rates = closed(table)
    for name, of in CLASSES.items():
        known = measured(rates, name) if len(rates) else rates
        for system, own in known.groupby("deployment") if len(known) else []:
            top = own.loc[own[of.median].astype(float).idxmax()]
            on = verdicts[(verdicts["deployment"] == system) & (verdicts["workload"] == of.workload)]
            lines = interval(top, *of.metric)
            engine = [escape(top["engine"])] if rates["engine"].nunique() > 1 else []
            where = ", ".join([escape(units.format_size(int(top["object_size_bytes"]))), *engine, runs(top)])
            size = "" if of.large is None else "large" if of.large else "small"
            plural = " ".join(word if word.isupper() else word.lower() for word in f"{of.verb}s".split())
            yield Headline(
                system=str(system),
                kind=", ".join(filter(None, (of.verb, size))),
                unit=of.shown,
                asks="how fast objects move",
                lines=(*lines, where),
                value=f"{' '.join(lines)}~{of.shown}",
                of=f"in {size} {plural}".replace("  ", " "),
                where=where,
                size=float(top[of.median]),
                reach=reach(top, *of.metric),
                verdict=verdict(on[on["unit"] == units_of(of.workload, bool(of.large))]),
            )
