"""LaTeX about rates and latencies: best rates, all groups of points, knees of curves, threads of one client.

May import: the same packages as `latex`.
"""

import math
from collections.abc import Collection, Iterator

import pandas as pd

from storelab.analysis.latex.headlines import Headline, cell_lines, closed, reach, runs, verdict
from storelab.analysis.latex.parts import (
    FEW,
    PAGE,
    THIN,
    below,
    escape,
    interval,
    left,
    row,
    shares,
    spread,
    stacked,
    tex_table,
    title,
    unlimited,
)
from storelab.analysis.parts import groups, labels
from storelab.analysis.statistics.knees import KNEE, PEAK, UNDECIDED
from storelab.analysis.tables import latency
from storelab.analysis.tables.earlier import MEASURED
from storelab.analysis.tables.throughput import CLASSES, CURVE_AXES, TOGETHER, linearity, measured, side_by_side
from storelab.analysis.tables.verdicts import units_of
from storelab.core import units

MANY = 6  # if there are more columns of axes, they are replaced by one column with their values in words
SIDE_BY_SIDE = 5  # number of columns of rates that fit on a page in addition to the names of a system and an engine
RAW = ("put", "get")
COUNTED = {"list": "keys/s"}  # rates that do not count operations


def _bound(r: pd.Series) -> str:
    """Return `c` if the client was near its limit, `l` if its link was, otherwise an empty string."""
    return "" if pd.isna(r.get("bound_by")) else str(r["bound_by"])[0]


def best(table: pd.DataFrame) -> str:
    """Return a table of the highest median per operation, object size and store.

    The other columns are the setting of this group of points, and the CPU use of clients and server.
    """
    rows = []
    engines = table["engine"].nunique() > 1
    for name, of in CLASSES.items():
        known = measured(table, name)
        for (store, size), part in known.groupby(["store", "object_size_bytes"]) if len(known) else []:
            top = part.loc[part[of.median].idxmax()]
            axes = [labels.cell(c, top[c]) for c in ("clients", "workers", "front_ends")]
            engine = [top["engine"]] if engines else []
            cells = [of.verb, units.format_size(int(size)), store, *engine, *axes, f"{top['n']:g}"]
            rows.append([*map(escape, cells), spread(top, *of.metric), of.shown, shares(top), _bound(top)])
    head = ["", "Objects", "Store", *(["Engine"] if engines else []), "Clients", "Workers", "Front-ends", "n"]
    head += ["Median [low, high]", "", r"CPU [\%]", ""]
    size = "scriptsize" if engines else "footnotesize"
    return tex_table(f"lll{'l' * engines}rrrrrlrl", head, rows, size=size, most=PAGE)


def _all_rates(table: pd.DataFrame, workload: str) -> str:
    rows = table[table["workload"] == workload]
    axes = [c for c in labels.axes_of(table) if rows[c].notna().any()]
    moving = ["store", *(c for c in axes if rows[c].nunique() > 1)]
    still = list(filter(None, (labels.value_text(c, rows[c].iloc[0]) for c in axes if c not in moving)))
    worded = len(moving) > MANY
    lines = []
    for _, r in rows.iterrows():
        marks = "".join(mark for mark, column in (("u", "unsteady"), ("s", "too_short")) if r[column]) + _bound(r)
        cells = [r["store"], _group_axes(r, moving[1:])] if worded else [unlimited(c, r[c]) for c in moving]
        n = f"{r['n']:g}" + (f" of {r['reps_planned']:g}" if r["n"] < r["reps_planned"] else "")
        lines.append(
            [escape(c) for c in [*cells, n]]
            + [
                spread(r, "throughput", "mb_per_s"),
                spread(r, "rate", "per_s"),
                labels.number(r["errors"], places=0, gap=THIN),
                labels.number(r["tail_max_s"], places=2),
                shares(r),
                marks,
            ]
        )
    useful = "useful MB/s" if workload not in RAW else "MB/s"
    names = ["Store", "Settings"] if worded else [stacked(escape(labels.heading(c))) for c in moving]
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
        "[low, high] over n runs in the window in which all clients are active; errors of all runs; longest "
        "tail; CPU of the clients / of the server in percent of the host's cores (median). Marks: u, a run is "
        "not steady; s, a run is too short to judge its steadiness; c, the client was near its limit; l, the link was "
        "near its limit."
    )
    first = f"l{left(5.2)}" if worded else "l" + "r" * (len(moving) - 1)
    size = "scriptsize" if len(moving) < MANY else "tiny"
    return tex_table(f"{first}rrrrrrl", head, lines, caption, f"tab:all_{workload}", size=size, floats=False)


def _group_axes(r: pd.Series, axes: Collection[str]) -> str:
    """Return the axes of a group of points in words. Values that are the default are omitted."""
    settings = (labels.value_text(c, r[c]) for c in axes if not labels.is_default(c, r[c]))
    return ", ".join(filter(None, settings)) or "defaults"


def throughput(table: pd.DataFrame) -> str:
    """Return the tables of all groups of points, one per workload. The caption states the axes that do not vary."""
    return "\n".join(_all_rates(table, w) for w in table["workload"].unique())


def _colder(table: pd.DataFrame) -> pd.DataFrame:
    """Return the groups of points whose requested access is not warm."""
    return table[table["access"].notna() & (table["access"] != groups.WARM)] if "access" in table else table.iloc[:0]


def accesses(table: pd.DataFrame) -> str:
    """Return a table of requested and proven accesses.

    Groups of points with warm accesses are included if they have otherwise the same settings.
    """
    rows = _colder(table)
    if rows.empty:
        return ""
    apart = [c for c in ("store", "workload", *labels.axes_of(table)) if c != "access"]
    requested = {tuple(map(str, values)) for values in rows[apart].to_numpy()}
    rows = table[[tuple(map(str, values)) in requested for values in table[apart].to_numpy()]]
    moving = [c for c in apart[2:] if rows[c].nunique() > 1]
    lines = []
    for _, r in rows.sort_values([*apart, "access"], kind="stable").iterrows():
        known = not pd.isna(r["access_proven"])
        cells = [r["store"], labels.value_text("workload", r["workload"]), _group_axes(r, moving), r["access"]]
        cells += [r["access_proven"] if known else "not shown", labels.number(r["disk_reads_percent"], places=0)]
        rates = [spread(r, "throughput", "mb_per_s"), spread(r, "rate", "per_s")]
        lines.append([*map(escape, cells), *rates, labels.number(r["first_over_again"], significant=2)])
    head = ["Store", "", "Settings", "Asked", "Proven", r"Disk [\%]", "MB/s", "operations/s", "Step"]
    return tex_table(f"l{left(2.2, 3.2)}llrrrr", head, lines, most=PAGE)


def systems(table: pd.DataFrame) -> str:
    """Return a table with one row per deployment and engine.

    The columns are the rates of small objects and the throughput of large objects, for uploads and downloads, as median
    [low, high].
    """
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
                [escape(d), escape(e), *(found.get(c, "--") for c in part)]
                for (d, e), found in sorted(cells.items())
                if found.keys() & part
            ],
        )
        for part in (every[i : i + SIDE_BY_SIDE] for i in range(0, len(every), SIDE_BY_SIDE))
    ]
    return tex_table(*tables[0], below=[tex_table(*further, caption="") for further in tables[1:]], most=PAGE)


def throughput_headlines(table: pd.DataFrame, verdicts: pd.DataFrame) -> Iterator[Headline]:
    """Yield the highest median of each class of operations for each system, with its verdict."""
    rates = closed(table)
    for name, of in CLASSES.items():
        known = measured(rates, name) if len(rates) else rates
        for system, system_rows in known.groupby("deployment") if len(known) else []:
            top = system_rows.loc[system_rows[of.median].astype(float).idxmax()]
            on = verdicts[(verdicts["deployment"] == system) & (verdicts["workload"] == of.workload)]
            lines = cell_lines(top, *of.metric)
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


def _axis_name(axis: str) -> str:
    """Return the name of the axis of a curve. For coupled axes, the first one is followed by the others in brackets."""
    first, *others = map(labels.heading, axis.split(TOGETHER))
    return f"{first} (with {', '.join(others).lower()})" if others else first


def knees(table: pd.DataFrame) -> str:
    """Return a table with one row per curve of `scaling.csv`: knee, plateau and linearity.

    Curves whose shape is undecided are excluded. If all are excluded, the result is empty.
    """
    axes = [
        c for c in table.columns[2 : table.columns.get_loc("axis")] if c not in CURVE_AXES and table[c].nunique() > 1
    ]
    held = [c for c in CURVE_AXES if c in table and table[c].nunique() > 1]
    lines, plateaus = [], bool((table["curve"] == KNEE).any())
    for r in table[table["curve"] != UNDECIDED].sort_values(["workload", "axis"], kind="stable").to_dict("records"):
        settings_text = ", ".join(
            filter(None, (labels.value_text(c, r[c]) for c in (*axes, *held) if not pd.isna(r[c])))
        )
        ended = r["curve"] in (KNEE, PEAK)
        knee = interval(r["knee_value"], r["knee_low"], r["knee_high"]) if ended else ""
        later = not ended and r["knee_low"] > r["least"]
        beyond = f" (knee beyond {labels.number(r['knee_low'])}, if any)" if later else ""
        plateau = (
            f"{interval(r['plateau_value'], r['plateau_low'], r['plateau_high'])}~{groups.UNITS[r['metric']]}"
            if r["curve"] == KNEE
            else ""
        )
        curve_text = escape(f"{r['store']}, {r['workload'].replace('_', ' ')}: {_axis_name(r['axis'])} ")
        curve_text += f"{r['least']:g}--{r['most']:g}"
        shape = f"{PEAK} {knee}" if r["curve"] == PEAK else knee or escape(f"{r['curve']}{beyond}")
        cells = [escape(settings_text), f"{r['n']:g}", shape, *([plateau] if plateaus else []), linearity(r)]
        lines.append((curve_text, cells))
    if not lines:
        return ""
    head = ["Held fixed", "Runs", "Knee", *(["Plateau"] if plateaus else []), "Linearity"]
    beyond = "with the rate on the plateau (a peak has none: the rate falls after it), " if plateaus else ""
    caption = f"Knees of the scaling curves {beyond}and linearity, each with its 95\\,\\% interval."
    spec = f"{left(5.2)}r{left(3.4)}l{'l' * plateaus}"
    return tex_table(spec, head, below(len(head), lines), caption, "tab:knees", floats=False)


def linearity_headlines(table: pd.DataFrame, rates: pd.DataFrame) -> Iterator[Headline]:
    """Yield the highest linearity over front-ends of each system, with the rates.

    If all curves of a system are undecided, the headline states this.
    """
    curves = closed(table)
    curves = curves[curves["axis"].str.split(TOGETHER).str[0] == "front_ends"] if len(curves) else curves
    for system, system_curves in curves.groupby("deployment") if len(curves) else []:
        known = system_curves[(system_curves["curve"] != UNDECIDED) & system_curves["linearity_low"].notna()]
        best = (known if len(known) else system_curves).sort_values(["linearity_value", "most"]).iloc[-1]
        runs_text = runs({"n": best["n"] / best["values"]})
        common = {
            "system": str(system),
            "kind": "Linearity over front-ends",
            "unit": "",
            "asks": "how rates scale with front-ends",
        }
        if known.empty:
            undecided = {"verb": "had", "value": "runs that do not decide", "of": "how rates scale with front-ends"}
            yield Headline(**common, **undecided, lines=("not decided", runs_text), where=runs_text, size=-math.inf)
            continue
        many = f"{best['least']:g} to {best['most']:g} front-ends"
        what = [labels.value_text(c, best[c]) for c in ("workload", "object_size_bytes", "clients")]
        where = ", ".join([*map(escape, filter(None, [*what, _rates(best, rates)])), runs_text])
        yield Headline(
            **common,
            lines=(linearity(best), f"over {many}", where),
            value=f"a linearity of {linearity(best)}",
            of=f"over {many}",
            where=where,
            size=float(best["linearity_value"]),
            reach=(float(best["linearity_low"]), float(best["linearity_high"])),
        )


def _rates(curve: pd.Series, rates: pd.DataFrame) -> str:
    """Return the medians along a curve, such as `18.0 to 35.9 to 71.7 MB/s`. For coupled axes, the text is empty."""
    name = "throughput_median_mb_per_s" if curve["metric"] == groups.THROUGHPUT else "rate_median_per_s"
    if TOGETHER in curve["axis"] or name not in rates:
        return ""
    held = [c for c in curve.index[: curve.index.get_loc("axis")] if c != curve["axis"] and c in rates]
    same = [groups.comparable(values) == groups.comparable(curve[held]) for values in rates[held].to_numpy()]
    along = rates[same].sort_values(curve["axis"])[name].astype(float)
    return f"{' to '.join(labels.number(v, gap=THIN) for v in along)} {groups.UNITS[curve['metric']]}"


FURTHER_METRICS = ("latency_p90", "latency_p99", "latency_p999", "latency_max", "ttfb_p50")  # columns after the median

AT_LEAST, PAUSED = r"$\geq$", r"$^\dagger$"
WHY_AT_LEAST = f"{AT_LEAST}: some operations hung, or were due and never began; the value is a lower bound."


def at_least(r: pd.Series, metric: str) -> str:
    """Return the mark of lower bounds if a metric is one in a row of latency.csv, otherwise an empty string."""
    bounds = r[latency.BOUNDS]
    return AT_LEAST if not pd.isna(bounds) and metric in str(bounds).split(", ") else ""


def _load(r: pd.Series) -> str:
    if r["loop"] == "closed":
        return f"closed, {r['concurrency']:g}"
    behind = r["completed_percent"] < latency.KEPT_UP
    return f"open, {labels.grouped(f'{r.arrival_rate:.0f}')}/s{'*' if behind else ''}"


def latencies(table: pd.DataFrame) -> str:
    """Return a table of the latency of each system, op, size and loop, at the lowest and the highest load."""
    rows = latency.ends(table)
    if rows.empty:
        return ""
    engines = rows["engine"].nunique() > 1
    settings = rows["setting"].nunique() > 1
    lines = []
    for _, r in rows.sort_values(["op", "store", "loop"], kind="stable").iterrows():
        size = next((units.format_size(int(r[c])) for c in latency.SIZES if c in r and not pd.isna(r[c])), "")
        cells = [labels.deployment(r), *([str(r["engine"])] if engines else []), latency.operation(r), size]
        cells += [*([r["setting"]] if settings else []), _load(r), f"{r['n']:g}"]
        values = [at_least(r, m) + labels.number(r[f"{m}_median_ms"], gap=THIN) for m in FURTHER_METRICS]
        if not pd.isna(r["paused_percent"]) and r["paused_percent"] >= latency.PAUSED:
            values[FURTHER_METRICS.index("latency_p99")] += PAUSED
        median = at_least(r, "latency_p50") + spread(r, "latency_p50", "ms")
        lines.append(row([*map(escape, cells), median, *values]))
    marks = " A star: the system did not keep up with the due operations." if any("*" in text for text in lines) else ""
    if any(PAUSED in text for text in lines):
        marks += (
            f" {PAUSED}: in one of the runs, the client itself paused during {latency.PAUSED:g} \\% or more of the "
            "operations that took longer than this."
        )
    if any(AT_LEAST in text for text in lines):
        marks += f" {WHY_AT_LEAST}"
    binned = (
        f" Quantiles from histograms are known to {100 * (latency.WIDTH - 1):g} %."
        if rows["binned"].astype(bool).any()
        else ""
    )
    caption = (
        "Latency in ms, by system, operation and size, at the lowest and the highest load: closed loop with the number "
        "of operations in flight, open loop with the number of operations due per second"
        + ("" if settings or not rows["setting"].iloc[0] else f"; all with {escape(rows['setting'].iloc[0])}")
        + ". Median of n runs of each run's "
        "quantile, for p50 with [low, high]; TTFB: median time to the first byte. A dash: too few operations, "
        "or not recorded by the engine." + escape(binned) + marks
    )
    head = [
        "System",
        *(["Engine"] if engines else []),
        "",
        "Size",
        *(["Setting"] if settings else []),
        "Loop, load",
        "n",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "max",
        "TTFB",
    ]
    return tex_table("l" * (len(head) - 8) + "r" * 8, head, lines, caption, "tab:latency")


def latency_headlines(table: pd.DataFrame) -> Iterator[Headline]:
    """Yield p50 and p99 of each system, for the smallest operations and the fewest operations in flight.

    Downloads are preferred.
    """
    rows = closed(latency.ends(table))
    rows = rows[rows["workload"].isin(groups.MOVING)] if len(rows) else rows
    for system, known in rows.groupby("deployment") if len(rows) else []:
        sizes = known.reindex(columns=["range_size_bytes", "object_size_bytes"]).astype(float).bfill(axis=1).iloc[:, 0]
        order = known.assign(moved=sizes, first=known["op"].map({"GET": 0, "PUT": 1}).fillna(2))
        r = order.sort_values(["first", "moved", "concurrency", "latency_p50_median_ms"], kind="stable").iloc[0]
        quantiles = [
            f"{q}~{at_least(r, f'latency_{q}')}{' '.join(cell_lines(r, f'latency_{q}', 'ms'))}"
            for q in ("p50", "p99")
            if pd.notna(r[f"latency_{q}_median_ms"])
        ]
        load = ", ".join(filter(None, [r["setting"], f"{r['concurrency']:g} in flight, "]))
        size = units.format_size(int(r["moved"]))
        yield Headline(
            system=str(system),
            kind="Latency",
            unit="ms",
            asks="how long an operation takes",
            lines=(*quantiles, escape(f"{r['op']} {size}, {load}") + runs(r)),
            value=f"{' and '.join(quantiles)}~ms",
            of=f"for a {labels.value_text('workload', r['workload'])}",
            where=escape(f"{size}, {load}") + runs(r),
            size=-float(r["latency_p50_median_ms"]),
            verb="needed",
        )


RATE = {"4 kB": ("rate", "per_s", "files/s"), "10 MB": ("throughput", "mb_per_s", "MB/s")}  # size -> rate of our rows
MAX_COLUMNS = 5  # maximum number of columns with our results
MIN_THREADS = 3  # a setting needs at least this number of values of threads


def one_client(table: pd.DataFrame) -> str:
    """Return a table per measured system, with a block per operation and size: published rates, and ours by engine.

    A system is excluded if none of its settings has at least MIN_THREADS values of threads. `earlier.csv` compares
    these systems with the published numbers.
    """
    parts = []
    for number, (system, system_rows) in enumerate(_systems_with_threads(table)):
        every = _settings(system_rows)
        settings = sorted(every[:MAX_COLUMNS])
        lines: list[str] = []
        for (operation, size), mine in system_rows.groupby(["operation", "object_size"], sort=False):
            printed = table[
                (table["source"] != MEASURED) & (table["operation"] == operation) & (table["object_size"] == size)
            ]
            unit = RATE[str(size)][2]
            lines.append(title(3 + len(settings), escape(f"{operation} of {size}, ours in {unit}")))
            lines += _block(printed.set_index("workers"), mine, settings, str(size))
        head = ["Threads", "Published files/s", "Published MB/s"]
        head += [
            ", ".join(filter(None, [f"{engine} {labels.plural(buckets, 'bucket').replace(' ', '~')}", more]))
            for engine, buckets, more in settings
        ]
        caption = (
            f"One client and its threads: {escape(system)}, next to the table published in 2012 for another system, "
            "network and client (Huawei UDS, first generation, one bucket; the client had 1~Gb/s), as printed, with "
            "the printed spread. Ours: median [low, high]. A dash: not printed, or not measured."
        )
        if len(every) > MAX_COLUMNS:
            caption += f" Shown: {MAX_COLUMNS} of {len(every)} settings; all are in one\\_client.csv."
        label = "tab:one_client" + (f"_{number}" if number else "")
        heads = [stacked(escape(h).replace(r"\textasciitilde{}", "~")) for h in head]
        parts.append(tex_table("rrr" + "r" * len(settings), heads, lines, caption, label, floats=False))
    return "\n".join(parts)


def _systems_with_threads(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Return (system, our rows) for the systems that have a setting with at least MIN_THREADS values of threads."""
    by = ["operation", "object_size", "engine", "buckets", "setting"]
    systems = table[table["source"] == MEASURED].groupby("system", sort=False)
    return [
        (str(name), group)
        for name, group in systems
        if group.groupby(by, dropna=False)["workers"].nunique().max() >= MIN_THREADS
    ]


def _settings(rows: pd.DataFrame) -> list[tuple[str, int, str]]:
    """Return (engine, buckets, other settings) for each column.

    Default settings are first, followed by settings with many points.
    """
    counts = rows.astype({"setting": object}).fillna({"setting": ""}).groupby(["engine", "buckets", "setting"]).size()
    return sorted(counts.index, key=lambda key: (key[2] != "", -counts[key]))


def _block(printed: pd.DataFrame, mine: pd.DataFrame, settings: list[tuple[str, int, str]], size: str) -> list[str]:
    name, unit, _ = RATE[size]
    lines = []
    for threads in sorted({*printed.index, *mine["workers"]}):
        theirs = printed.loc[threads] if threads in printed.index else None
        cells = [f"{threads:g}", _printed(theirs, "rate", "per_s"), _printed(theirs, "throughput", "mb_per_s")]
        for engine, buckets, more in settings:
            cell = mine[(mine["engine"] == engine) & (mine["buckets"] == buckets) & (mine["workers"] == threads)]
            cell = cell[cell["setting"].astype(object).fillna("") == more]
            values = cell[[f"{name}_{part}_{unit}" for part in ("median", "low", "high")]]
            mark = FEW if (cell["few"] == True).any() else ""  # noqa: E712 (of a column of objects)
            cells.append(interval(*values.iloc[0]) + mark if len(values) else "--")
        lines.append(cells)
    return lines


def _printed(r: "pd.Series | None", name: str, unit: str) -> str:
    r"""Return the LaTeX of a published rate and its spread, such as `7.3 $\\pm$ 0.5`, with the digits of the source."""
    if r is None or pd.isna(r[f"{name}_median_{unit}"]):
        return "--"
    value, spread = (f"{r[f'{name}_{part}_{unit}']:g}" for part in ("median", "spread"))
    return rf"{labels.grouped(value, THIN)} $\pm$ {spread}"
