"""LaTeX about points with roles: phases, faults and recovery, acknowledged writes, series, garbage collections.

May import: the same packages as `latex`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from storelab.analysis.latex.headlines import Headline, runs, wrong_headline
from storelab.analysis.latex.parts import LINE_END, THIN, escape, few, left, row, tex_table
from storelab.analysis.latex.rates import AT_LEAST, WHY_AT_LEAST, at_least
from storelab.analysis.parts import groups, labels
from storelab.analysis.records.roles import DURING
from storelab.analysis.statistics.steadiness import FALLS, RISES
from storelab.analysis.tables import guarantees, releases, roles, soak
from storelab.analysis.tables.guarantees import upper_bound
from storelab.analysis.tables.latency import BOUNDS
from storelab.analysis.tables.releases import COLLECTS
from storelab.analysis.tables.roles import ALL

CHASSIS = "Huawei UDS, a chassis powered off"
DOES = {"put": "uploads", "get": "downloads"}  # names for published rows, which do not have a role
UNSERVED = 0.95  # a pause of at least this fraction of the duration of a fault counts as long as the fault
RATE_KEPT = 0.9  # the text mentions a rate during or after a fault only if it is below this fraction
PART = "part"  # axis of a series
CM, GAP, WIDEST = 0.12, 0.28, 15.5  # in cm: width of a letter, gap between columns, maximum width of a table


def settings(table: pd.DataFrame, r: Mapping[str, Any], whole: bool = False) -> str:
    """Return the settings that distinguish a group of points in its sweep: deployment, fault, and axes that vary.

    whole: also include all axes with a value other than the default.
    """
    rows = table[table["workload"] == r["workload"]]
    varying = [
        c
        for c in labels.axes_of(table)
        if rows[c].nunique() > 1 or c == "fault" or (whole and not labels.is_default(c, r[c]))
    ]
    axis_texts = labels.settings((c, r[c]) for c in varying if c not in labels.DEPLOYMENT_NAMES)
    return "; ".join(filter(None, [labels.deployment(r), axis_texts]))


def _summed(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of roles.csv with the parts of each series combined into one row, without the axis `part`.

    The interval of a median is the range over the parts. Counts are added up.
    """
    if PART not in table or table[PART].nunique() < 2:
        return table
    same = [c for c in labels.axes_of(table) if c != PART]
    rows = []
    for _, parts in table.groupby(["store", "workload", *same, "role", "phase"], dropna=False, sort=False):
        r = parts.iloc[0].drop(PART)
        for name, unit in ALL:
            values = parts[f"{name}_median_{unit}"].astype(float)
            for end, value in zip(groups.PARTS, (values.median(), values.min(), values.max()), strict=True):
                r[f"{name}_{end}_{unit}"] = value
        r["n"], r["errors"], r["few"] = parts["n"].sum(), parts["errors"].sum(), bool(parts["few"].any())
        r[BOUNDS] = groups.joined(name for bounds in parts[BOUNDS].dropna() for name in bounds.split(", "))
        rows.append(r)
    return pd.DataFrame(rows).reset_index(drop=True)


def phases(table: pd.DataFrame) -> str:
    """Return a table of rate and latency of each role and phase, and of their ratios to `before`."""
    rows = _summed(table)
    ratios = [n for n in ("rate_over_before", "latency_p99_over_before") if rows[f"{n}_median_ratio"].notna().any()]
    found = []
    for _, r in rows.iterrows():
        cells = [escape(r["role"]), r["phase"], f"{r['n']:g}", labels.number(r["length_s"])]
        median = at_least(r, "latency_p50") + labels.number(r["latency_p50_median_ms"])
        rate = _short(r, "rate", "per_s") + few(r)
        cells += [rate, median, at_least(r, "latency_p99") + _short(r, "latency_p99", "ms")]
        cells += [at_least(r, name) + _short(r, name, "ratio") for name in ratios]
        group = f"{labels.value_text('workload', r['workload'])}: {settings(rows, r, whole=True)}"
        found.append((group, [*cells, labels.number(r["errors"], gap=THIN)]))
    named = {"rate_over_before": "Rate ratio", "latency_p99_over_before": "p99 ratio"}
    head = ["Role", "Phase", "n", "Length", "Operations/s", "p50 [ms]", "p99 [ms]"]
    head += [*(named[name] for name in ratios), "Failed"]
    lines, last, wide = [], None, _width([head, *(cells for _, cells in found)])
    for group, cells in found:
        if group != last:
            text = rf"\raggedright\emph{{{escape(group)}}}"
            lines.append(rf"\multicolumn{{{len(head)}}}{{@{{}}p{{{wide}cm}}@{{}}}}{{{text}}} \\*")
            last = group
        lines.append(row(cells))
    of = "parts of a series: median [minimum, maximum] over the n parts" if rows is not table else ""
    caption = (
        f"Roles by phase{', over the ' + of if of else ': median [low, high] over n runs'} of the rate and of "
        "quantiles of the latency"
    )
    caption += ", and of the ratios of rate and p99 to those of the same run before the disturbance" if ratios else ""
    caption += "; failed operations of all runs. Length: median length of the phase in seconds."
    caption += f" {WHY_AT_LEAST}" if any(AT_LEAST in line for line in lines) else ""
    return tex_table(f"ll{'r' * (len(head) - 2)}", head, lines, caption, "tab:roles")


def _width(rows: Sequence[Sequence[str]]) -> float:
    """Return the approximate width of a table with these cells in cm.

    It is used for lines across the table: a wider line would widen the last column.
    """
    letters = [max(len(re.sub(r"\\[a-z]+|[{}$\\]", "", cell)) for cell in column) for column in zip(*rows, strict=True)]
    return round(min(WIDEST, sum(CM * n + GAP for n in letters) - GAP), 1)


def recovered(table: pd.DataFrame) -> str:
    """Return a table of the effect of each fault on each role, and of the recovery.

    The last rows are the published values.
    """
    measured_rows, lines = roles.measured(table), []
    for _, r in table.iterrows():
        is_own = r["source"] == roles.MEASURED
        if not is_own and len(lines) == len(measured_rows):
            lines.append(r"\midrule")
        name = (
            f"{settings(measured_rows, r)}: {r['role']}" if is_own else f"{CHASSIS}: {DOES[r['does']]} ({r['source']})"
        )
        name += ", more than the redundancy tolerates" if is_own and r["beyond_redundancy"] else ""
        never = [f"never in {r['never_served']:g}"] if is_own and r["never_served"] else []
        cells = [escape(name), f"{r['n']:g}" if is_own else "", labels.number(r["failed_operations"], gap=THIN)]
        cells += [_below(r, name, "s") for name in ("pause", "noticed")]
        cells.append(_below(r, "service", "s", more=never))
        cells.append(_below(r, "whole_after", "s"))
        cells += [_below(r, name, "ratio", 100) for name in roles.RECOVERY_PHASES]
        lines.append(row(cells) + "[3pt]")  # separates rows of several lines
    caption = (
        "Faults: failed operations of all n runs; then median [low, high] of the longest time without a completed "
        "operation, of the time from the fault until the store noticed it, from the act that caused the longest pause "
        "until clients were served again, and from the end of the fault until redundancy was restored; and of the "
        "rate during the fault, during the rebuild, and afterwards, in percent of the rate before."
    )
    head = [
        "System, fault: role",
        "n",
        "Failed",
        "Pause",
        "Noticed",
        "Served",
        "Whole",
        "During",
        "Rebuilding",
        "After",
    ]
    units = ["", "", "", *["[s]"] * 4, *[r"[\%]"] * 3]
    named = [_stacked([name, unit]) if unit else name for name, unit in zip(head, units, strict=True)]
    return tex_table(f"{left(2.6)}rrrrrrrrr", named, lines, caption, "tab:recovery")


def _stacked(cells: list[str]) -> str:
    """Return one cell in which these cells are below each other. Empty cells are omitted."""
    known = [cell for cell in cells if cell not in ("", "--")]
    return known[0] if len(known) == 1 else rf"\shortstack[r]{{{LINE_END.join(known)}}}" if known else "--"


def _below(r: Mapping[str, Any], name: str, unit: str, factor: float = 1.0, more: Sequence[str] = ()) -> str:
    """Return the text of `_short` in several lines, for a narrow column. more: further lines."""
    median, _, spread = _short(r, name, unit, factor).partition(" ")
    return _stacked([median, spread, *more])


def _short(r: Mapping[str, Any], name: str, unit: str, factor: float = 1.0) -> str:
    """Return a median with its interval, such as `4.01 [3.90, 4.22]`, all with the same number of decimals.

    If there is no interval, return only the median. factor: multiplied with all values.
    """
    median, low, high = (factor * r[f"{name}_{part}_{unit}"] for part in groups.PARTS)
    if pd.isna(median) or pd.isna(low) or low == high:
        return labels.number(median, gap=THIN)
    places = labels.decimals(median)
    return f"{labels.number(median, places=places, gap=THIN)} " + (
        f"[{labels.number(low, places=places, gap=THIN)}, {labels.number(high, places=places, gap=THIN)}]"
    )


def kept(table: pd.DataFrame) -> str:
    """Return a table of the acknowledged writes that were read back, by stage of reading, with upper bounds."""
    when = {"down": "while down", "recovered": "afterwards", "end": "at the end"}
    lines, table = [], guarantees.summed(table)
    for _, r in table.iterrows():
        acknowledged = sum(r[f"acknowledged_{kind}"] for kind in guarantees.KINDS)
        counts = [acknowledged, r["read"], *(r[name] for name in guarantees.WRONG), r["unreadable"]]
        lines.append(
            [
                escape(f"{labels.value_text('workload', r['workload'])}: {settings(table, r)}"),
                escape(when.get(r["when"], r["when"])),
                f"{r['n']:g}",
                *(labels.number(count, gap=THIN) for count in counts),
                labels.number(r["wrong_upper95_percent"], significant=2),
            ]
        )
    caption = (
        "Durability: writes and deletions that were acknowledged, objects that were read back in all n runs, and how "
        "many of them were wrong; bound: the upper 95\\,\\% bound (Clopper and Pearson, one-sided) of the wrong "
        "fraction, in percent. "
        "Unreadable objects are neither right nor wrong."
    )
    wrong = [w.capitalize() for w in guarantees.WRONG]
    head = ["System, fault", "Read", "n", _stacked(["Acknow-", "ledged"]), "Objects", *wrong, "Unreadable", "Bound"]
    return tex_table(f"{left(3.0)}lrrrrrrrrr", head, lines, caption, "tab:durability")


def role_headlines(table: pd.DataFrame) -> Iterator[Headline]:
    """Yield the rate relative to before of the role that was slowed down most by other roles, for each system.

    The range over the other cases of the sweep is also given. `fault_headlines` covers faults, and
    `collections_headlines` garbage collections.
    """
    name, p99 = "rate_over_before", "latency_p99_over_before"
    rows = table[(table["phase"] == DURING) & table[f"{name}_median_ratio"].notna()] if len(table) else table
    rows = rows[rows["fault"] == "none"] if "fault" in rows else rows
    if len(rows):
        rows = rows[~rows["workload"].isin(table.loc[table["does"] == COLLECTS, "workload"])]
    same = list(table.columns[: table.columns.get_loc("n")]) if len(rows) else []
    for system, own in groups.labelled(rows).groupby("deployment") if len(rows) else []:
        r = own.loc[own[f"{name}_median_ratio"].astype(float).idxmin()]
        group = table[table[same].astype(str).eq(r[same].astype(str)).all(axis=1)]
        others = group[(group["phase"] == DURING) & (group["role"] != r["role"])]
        did = [f"{o['role']} ran at {_short(o, 'rate', 'per_s')} operations/s" for _, o in others.iterrows()]
        meanwhile = f" while {escape(labels.listed(did))}" if did else ""
        median, _, rest = _short(r, name, "ratio", 100).partition(" [")
        lines = (median, *([f"[{rest}"] if rest else []))
        longer = ""
        if pd.notna(r[f"{p99}_median_ratio"]):
            longer = f", with {at_least(r, p99)}{_short(r, p99, 'ratio')} times the 99th percentile of the latency"
        sweep = own[(own["workload"] == r["workload"]) & (own["role"] == r["role"])]
        axes = [c for c in labels.axes_of(table) if sweep[c].nunique() > 1 and c not in labels.DEPLOYMENT_NAMES]
        case = escape(labels.settings((c, r[c]) for c in axes))
        where = [*filter(None, ["; ".join([case, *_rest_of_sweep(sweep.drop(index=r.name), axes)])]), runs(r)]
        yield Headline(
            system=str(system),
            kind="Rate with other roles",
            unit="%",
            asks="how workloads slow each other down",
            lines=(*lines, ", ".join(filter(None, [escape(r["role"]), case, runs(r)]))),
            value=f"{' '.join(lines)}~\\%",
            of=f"of the rate of {escape(r['role'])}{longer}{meanwhile}",
            where=", ".join(where),
            size=float(r[f"{name}_median_ratio"]),
            verb="kept",
        )


def _rest_of_sweep(rows: pd.DataFrame, axes: Sequence[str]) -> Iterator[str]:
    """Yield a text about the other cases of a sweep: the range of the rates and of the 99th percentile."""
    if rows.empty:
        return
    kept, longer = (rows[f"{n}_median_ratio"].dropna() for n in ("rate_over_before", "latency_p99_over_before"))
    text = f"{_range(100 * kept)}~\\%"
    if len(longer):
        text += f" with {_range(longer)} times the 99th percentile"
    if len(axes) == 1 and pd.api.types.is_numeric_dtype(rows[axes[0]]):
        yield f"{text} at {escape(labels.heading(axes[0]).lower())} {_range(rows[axes[0]])}"
    else:
        yield f"{text} in {labels.counted(len(rows), 'other case')}"


def _range(values: "pd.Series[float]") -> str:
    """Return the smallest and the largest value as text, such as `2.58 to 44.9`."""
    return " to ".join(dict.fromkeys(labels.number(v, gap=THIN) for v in (values.min(), values.max())))


def fault_headlines(table: pd.DataFrame) -> Iterator[Headline]:
    """Yield the effect of the faults on each system.

    The headline has the cost of each fault, the longest time until redundancy was restored, and the number of runs in
    which the store did not report the fault.
    """
    own = roles.measured(table)
    for system, rows in groups.labelled(own).groupby("deployment") if len(own) else []:
        clauses, lines, points = [], [], roles.once(rows)
        worst = rows["degraded_median_ratio"].astype(float).min()
        if not rows["failed_operations"].sum():
            clauses.append("no failed operation")
        for fault, rows_of_fault in rows.groupby("fault", sort=False):
            costs = list(_cost(rows_of_fault, worst))
            versions = (
                f" ({escape(rows_of_fault['versions'].iloc[0])})" if pd.notna(rows_of_fault["versions"].iloc[0]) else ""
            )
            beyond = " (beyond its redundancy)" if rows_of_fault["beyond_redundancy"].any() else ""
            named = rf"{'in the upgrade' if versions else 'with'} \emph{{{escape(fault)}}}{versions}{beyond}"
            clauses += [f"{named} {labels.listed(costs)}"] if costs else []
            lines.append(f"{escape(fault)}: {_failed(rows_of_fault)}")
        known = points[points["whole_after_median_s"].notna()]
        if len(known):
            after = _most(known, "whole_after")
            whole = f"up to {after}~s after the fault was undone" if after != "0" else "when the fault was over"
            of_all = f" (in {len(known)} of {labels.plural(len(points), 'case')})" if len(known) < len(points) else ""
            clauses.append(f"redundancy whole {whole}{of_all}")
            lines += [f"whole after {after}~s"] if after != "0" else []
        value = ", ".join(clauses)
        for count, text in (
            (points["never_noticed"].sum(), "did not report the fault in"),
            (points["never_whole"].sum(), "was not whole again in"),
            (rows["never_served"].sum(), "was never served again in"),
        ):
            value += f", and {text} {labels.plural(count, 'run')}" if count else ""
        yield Headline(
            system=str(system),
            kind="Faults",
            unit="",
            asks="what a fault costs",
            lines=(*lines, f"n~=~{labels.span(rows['n'], '')}"),
            value=value,
            of="",
            where=f"n~=~{labels.span(rows['n'], '')}",
            size=-float(rows["failed_operations"].sum()),
            verb="had",
        )


def _failed(rows: pd.DataFrame) -> str:
    """Return the percentage of operations that failed after the start of the fault, as text."""
    failed, done = (int(rows[name].sum()) for name in ("failed_operations", "operations"))
    return f"{labels.number(100 * failed / (failed + done))}~\\% failed" if failed else "none failed"


def _most(rows: pd.DataFrame, name: str) -> str:
    """Return the highest value of all runs as text. name: a metric in seconds."""
    ends = rows[[f"{name}_median_s", f"{name}_high_s"]].astype(float)
    return labels.number(ends.max(axis=None), gap=THIN)


def _cost(rows: pd.DataFrame, worst: float) -> Iterator[str]:
    """Yield texts about the cost of a fault for its roles.

    The costs are failed operations, the longest interruption, and the lowest rates during and after the fault. worst:
    the lowest rate of all faults, which the text always mentions.
    """
    failed = int(rows["failed_operations"].sum())
    if failed:
        of_all = _failed(rows).removesuffix(" failed")
        yield f"{labels.number(failed, gap=THIN)} failed operations ({of_all} of all from then on)"
    known = rows[rows["pause_median_s"].notna()]
    unserved = known[(known["pause_median_s"] >= UNSERVED * known["undone_median_s"]).fillna(False)]
    if len(unserved):
        undone = labels.number(unserved["undone_median_s"].max())
        who = labels.listed([escape(role) for role in dict.fromkeys(unserved["role"])])
        yield f"{who} not served until the fault was undone ({undone}~s)"
    elif (known["service_median_s"].isna() | (known["service_median_s"] > 0)).any():
        yield f"a pause of up to {_most(known, 'pause')}~s"
    for name, when in (("degraded", "meanwhile"), ("after", "afterwards")):
        known = rows[rows[f"{name}_median_ratio"].notna()]
        known = known.drop(index=unserved.index, errors="ignore") if name == "degraded" else known
        if known.empty:
            continue
        r = known.loc[known[f"{name}_median_ratio"].astype(float).idxmin()]
        if r[f"{name}_median_ratio"] >= RATE_KEPT and r[f"{name}_median_ratio"] != worst:
            continue
        sentence = f"{when} {escape(r['role'])} at {_short(r, name, 'ratio', 100)}~\\% of the rate before"
        p99 = r["after_latency_p99_median_ratio"]
        yield f"{sentence} with {labels.number(p99)} times the p99" if name == "after" and pd.notna(p99) else sentence


def ledger_headlines(table: pd.DataFrame) -> Iterator[Headline]:
    """Yield, for each system, the number of acknowledged writes that were wrong at the end, with its upper bound."""
    last = table[table["when"].isin(guarantees.LAST)] if len(table) else table
    for system, rows in groups.labelled(last).groupby("deployment") if len(last) else []:
        read, wrong = int(rows["read"].sum()), int(rows["wrong"].sum())
        bound = f"at most {labels.number(100 * upper_bound(wrong, read))}~\\%"
        asks = "whether acknowledged objects remain"
        yield wrong_headline(
            system, (wrong, read), "Acknowledged, then wrong", asks, "acknowledged objects wrong", bound
        )


def trends(table: pd.DataFrame) -> str:
    """Return a table of the metrics of each series: median, slope with its interval, and trend."""
    lines, last, named = [], None, soak.titles(table["series"])
    for _, r in table.iterrows():
        if r["series"] != last:
            last = r["series"]
            text = rf"\raggedright\emph{{{escape(named[last])}}}"
            lines.append(rf"\multicolumn{{6}}{{@{{}}p{{13cm}}@{{}}}}{{{text}}} \\*")
        unit = r["unit"].replace("1/s", "operations/s")
        cells = [escape(f"{soak.in_words(r)} [{unit}]"), f"{r['n']:g}", labels.number(r["level"], gap=THIN)]
        cells.append(labels.spread([r[f"slope_{part}per_hour"] for part in ("", "low_", "high_")], THIN))
        lines.append([*cells, soak.change_text(r, gap=THIN), escape(r["trend"])])
    caption = (
        "Series of parts: number of parts, median over them, Theil-Sen slope per hour with its 95\\,\\% interval, "
        "change from the first to the last part in percent of the start of the fitted line, and the result of the test "
        "of Mann and Kendall. Within a part: the growth of "
        "clients during one part, the median over the parts."
    )
    head = ["", "Parts", "Median", "Slope per hour", r"Change [\%]", "Trend"]
    return tex_table(f"{left(5.6)}rrrrl", head, lines, caption, "tab:soak")


def soak_headlines(table: pd.DataFrame, parts: pd.DataFrame) -> Iterator[Headline]:
    """Yield the rate of the series of each store, and the quantities that rose or fell over the parts, if any."""
    for store, rows in table.groupby("store") if len(table) else []:
        moving = rows[rows["trend"].isin([RISES, FALLS])]
        moving = moving.loc[moving["change_percent"].abs().sort_values(ascending=False).index]
        moved = [escape(soak.moved(r)) for _, r in moving.iterrows()]
        rate = rows[rows["metric"] == "rate"].sort_values("level").iloc[-1]
        level = labels.number(rate["level"], gap=THIN)
        parts_text, hours = (
            labels.plural(rate["n"], "part"),
            labels.number(soak.hours(parts[parts["store"] == store]).max()),
        )
        yield Headline(
            system=str(store),
            kind="Rate over hours",
            unit="operations/s",
            asks="what changes over hours",
            lines=(level, f"{soak.change_text(rate, gap=THIN)}~\\% over {hours}~h"),
            value=f"{level}~operations/s over {hours}~h",
            of=f"while {labels.listed(moved)}" if moved else "while nothing rose or fell",
            where=f"median of {parts_text}",
            size=float(rate["level"]),
            verb="held",
        )


def collected(rows: pd.DataFrame) -> str:
    """Return a table of the points that collected garbage: amount, rate, effect on uploads, and remaining objects."""
    found = releases.collections_summary(rows)
    several = [c for c in releases.AXES if rows[c].nunique() > 1]
    lines = []
    for _, r in found.iterrows():
        settings_text = [r["system"], labels.settings((c, r[c]) for c in several)]
        cells = [escape("; ".join(filter(None, settings_text))), f"{r['n']:g}"]
        cells += [labels.number(r[name], gap=THIN) for name in ("alive", "dead", "dead_mb")]
        cells += [_times(r, "deletes_per_s"), labels.number(r["sweep_s_median"])]
        cells += [_times(r, name, 100) for name in releases.UPLOAD_RATIOS]
        lines.append([*cells, *(labels.number(r[name], gap=THIN) for name in ("retries", "lingering", "left"))])
    caption = (
        "Garbage collected from a repository of software: objects that the kept days need, objects that only "
        "older days need and their size; deletions per second and seconds of the sweep; the rate of concurrent uploads "
        "during and after the sweep, in percent of that before: median [low, high] over n runs. Then requests that "
        "were sent again, and dead objects that still existed right after the sweep and some time later, in all runs."
    )
    head = ["System", "n", "Alive", "Dead", "MB", "Deleted/s", "Sweep [s]", r"During [\%]", r"After [\%]"]
    head += ["Retries", "Lingering", "Left"]
    return tex_table(f"{left(2.8)}rrrrrrrrrrr", head, lines, caption, "tab:collections")


def _times(r: Mapping[str, Any], name: str, factor: float = 1.0) -> str:
    """Return a median with its interval, such as `950 [900, 990]`, or only the median for one run."""
    return labels.spread([factor * r[f"{name}_{part}"] for part in groups.PARTS], THIN)


def collections_headlines(rows: pd.DataFrame) -> Iterator[Headline]:
    """Yield the fastest sweep of each system, and the rate of uploads during this sweep."""
    found = releases.collections_summary(rows) if len(rows) else rows
    for system, system_rows in found.groupby("system") if len(found) else []:
        for kind, name, factor, unit, of, verb in (
            ("Garbage collection", "deletes_per_s", 1.0, "deletions/s", "in garbage collection", "reached"),
            ("Uploads meanwhile", "uploads_during_ratio", 100.0, r"\%", "of its rate of uploads meanwhile", "kept"),
        ):
            known = system_rows[system_rows[f"{name}_median"].notna()]
            if known.empty:
                continue
            r = known.loc[known["deletes_per_s_median"].astype(float).idxmax()]
            median, _, rest = _times(r, name, factor).partition(" [")
            lines = (median, *([f"[{rest}"] if rest and r["n"] > 1 else []))
            dead = f"{labels.number(r['dead'], gap=THIN)} dead objects, {runs(r)}"
            yield Headline(
                system=str(system),
                kind=kind,
                unit=unit.replace("\\", ""),
                asks="what garbage collection costs",
                lines=(*lines, dead),
                value=f"{' '.join(lines)}~{unit}",
                of=of,
                where=dead,
                size=float(r[f"{name}_median"]),
                verb=verb,
            )
