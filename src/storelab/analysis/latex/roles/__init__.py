"""LaTeX of points with roles: their phases, what faults did and how stores recovered, what became of acknowledged
writes. May import: what `latex` may."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from storelab.analysis.latex import FILE, FILLED, FLAGS, HEADLINES, SECTION
from storelab.analysis.latex.headlines import Headline, runs
from storelab.analysis.latex.latency import AT_LEAST, WHY_AT_LEAST, at_least
from storelab.analysis.latex.parts import LINE_END, THIN, camel, escape, floating, left, row
from storelab.analysis.parts import groups, words
from storelab.analysis.records.roles import DURING
from storelab.analysis.tables.roles import durability, recovery

CHASSIS = "Huawei UDS, a chassis powered off"
DOES = {"put": "uploads", "get": "downloads"}  # of published rows, which have no name of a role


def settings(table: pd.DataFrame, r: Mapping[str, Any], whole: bool = False) -> str:
    """What tells a group of points from others of its sweep: the deployment, the fault, each axis that varies; whole:
    each that is not at its default, too."""
    rows = table[table["workload"] == r["workload"]]
    told = [
        c
        for c in words.axes_of(table)
        if rows[c].nunique() > 1 or c == "fault" or (whole and not words.is_default(c, r[c]))
    ]
    said = words.settings((c, r[c]) for c in told if c not in words.DEPLOYMENT_NAMES)
    return "; ".join(filter(None, [words.deployment(r), said]))


@SECTION("several", "roles_phases")
@FILE("table_roles", "roles")
@FILLED("roles_phases", "roles")
def phases(table: pd.DataFrame) -> str:
    """Rate and latency of each role and phase, and the ratios to `before`."""
    lines, last = [], None
    for _, r in table.iterrows():
        group = f"{words.value_text('workload', r['workload'])}: {settings(table, r, whole=True)}"
        if group != last:
            lines.append(rf"\multicolumn{{10}}{{@{{}}p{{15.5cm}}@{{}}}}{{\raggedright\emph{{{escape(group)}}}}} \\")
            last = group
        cells = [escape(r["role"]), r["phase"], f"{r['n']:g}", words.number(r["length_s"])]
        median = at_least(r, "latency_p50") + words.number(r["latency_p50_median_ms"])
        cells += [_short(r, "rate", "per_s"), median, at_least(r, "latency_p99") + _short(r, "latency_p99", "ms")]
        ratios = ("rate_over_before", "latency_p99_over_before")
        cells += [at_least(r, name) + _short(r, name, "ratio") for name in ratios]
        lines.append(row([*cells, words.number(r["errors"], gap=THIN)]))
    caption = (
        "Roles by phase: median [low, high] over n runs of the rate and of quantiles of the latency, and of the ratios "
        "of rate and p99 to those of the same run before the disturbance; failed operations of all runs. Length: "
        "median length of the phase in seconds."
    )
    caption += f" {WHY_AT_LEAST}" if any(AT_LEAST in line for line in lines) else ""
    head = ["Role", "Phase", "n", "Length", "Operations/s", "p50 [ms]", "p99 [ms]", "Rate ratio", "p99 ratio", "Failed"]
    return floating("llrrrrrrrr", caption, "tab:roles", head, lines)


@FILE("table_recovery", "recovery")
@FILLED("recovered", "recovery")
def recovered(table: pd.DataFrame) -> str:
    """What each fault did to each role, and when the store was whole again; then what was published."""
    own, lines = recovery.measured(table), []
    for _, r in table.iterrows():
        is_own = r["source"] == recovery.MEASURED
        if not is_own and len(lines) == len(own):
            lines.append(r"\midrule")
        name = f"{settings(own, r)}: {r['role']}" if is_own else f"{CHASSIS}: {DOES[r['does']]} ({r['source']})"
        name += ", more than the redundancy bears" if is_own and r["beyond_redundancy"] else ""
        never = [f"never in {r['never_served']:g}"] if is_own and r["never_served"] else []
        cells = [escape(name), f"{r['n']:g}" if is_own else "", words.number(r["failed_operations"], gap=THIN)]
        cells += [_below(r, name, "s") for name in ("pause", "noticed")]
        cells.append(_below(r, "service", "s", more=never))
        cells += [_below(r, name, "s") for name in ("whole", "whole_after")]
        cells += [_below(r, name, "ratio", 100) for name in ("degraded", "rebuilding")]
        lines.append(row(cells) + "[3pt]")  # between rows of several lines
    caption = (
        "Faults: failed operations of all n runs; then median [low, high] of the longest time without a completed "
        "operation, of the times from the fault until the store noticed it, until clients were served again, until "
        "redundancy was whole, and the last from when the fault was undone; and of the rate while the fault lasted "
        "and while the store rebuilt, in percent of that before."
    )
    head = [
        "System, fault: role",
        "n",
        "Failed",
        "Pause",
        "Noticed",
        "Served",
        "Whole",
        "\\dots{} after",
        "During",
        "Rebuilding",
    ]
    units = ["", "", "", *["[s]"] * 5, *[r"[\%]"] * 2]
    named = [_stacked([name, unit]) if unit else name for name, unit in zip(head, units, strict=True)]
    return floating(f"{left(2.6)}rrrrrrrrr", caption, "tab:recovery", named, lines)


def _stacked(cells: list[str]) -> str:
    """One below the other."""
    known = [cell for cell in cells if cell not in ("", "--")]
    return known[0] if len(known) == 1 else rf"\shortstack[r]{{{LINE_END.join(known)}}}" if known else "--"


def _below(r: Mapping[str, Any], name: str, unit: str, factor: float = 1.0, more: Sequence[str] = ()) -> str:
    """As `_short`, in lines of a narrow column."""
    median, _, spread = _short(r, name, unit, factor).partition(" ")
    return _stacked([median, spread, *more])


def _short(r: Mapping[str, Any], name: str, unit: str, factor: float = 1.0) -> str:
    """`4.01 [3.90, 4.22]`, all to the same decimals: the bare number where there is no spread."""
    median, low, high = (factor * r[f"{name}_{part}_{unit}"] for part in groups.PARTS)
    if pd.isna(median) or pd.isna(low) or low == high:
        return words.number(median, gap=THIN)
    places = words.decimals(median)
    return f"{words.number(median, places=places, gap=THIN)} " + (
        f"[{words.number(low, places=places, gap=THIN)}, {words.number(high, places=places, gap=THIN)}]"
    )


@SECTION("durability", "ledger")
@FILE("table_durability", "durability")
def kept(table: pd.DataFrame) -> str:
    """What became of acknowledged writes, by reading, with upper bounds."""
    when = {"down": "while down", "recovered": "afterwards", "end": "at the end"}
    lines = []
    for _, r in table.iterrows():
        acknowledged = sum(r[f"acknowledged_{kind}"] for kind in durability.KINDS)
        counts = [acknowledged, r["read"], *(r[name] for name in durability.WRONG), r["unreadable"]]
        lines.append(
            row(
                [
                    escape(f"{words.value_text('workload', r['workload'])}: {settings(table, r)}"),
                    escape(when.get(r["when"], r["when"])),
                    f"{r['n']:g}",
                    *(words.number(count, gap=THIN) for count in counts),
                    words.number(r["wrong_upper95_percent"], significant=2),
                ]
            )
        )
    caption = (
        "Durability: writes and deletions that were acknowledged, what was read back of them in all n runs, and how "
        "much of it was wrong; bound: the upper 95\\,\\% bound (Clopper and Pearson, one-sided) of the part that is "
        "wrong, in percent. "
        "What could not be read is neither right nor wrong."
    )
    wrong = [w.capitalize() for w in durability.WRONG]
    head = ["System, fault", "Read", "n", _stacked(["Acknow-", "ledged"]), "Objects", *wrong, "Unreadable", "Bound"]
    return floating(f"{left(3.0)}lrrrrrrrrr", caption, "tab:durability", head, lines)


@FILE("timelines", "timeline", "drawn")
def timelines(table: pd.DataFrame, drawn: Mapping[str, Any]) -> str:
    """The figures over time, in the order of the plan."""
    names = [name for name, entry in drawn.items() if entry["table"] == "timeline.csv"]
    return "".join(f"\\Fig{camel(name)}\n" for name in names)


@FLAGS("several", "recovery", "drawn")
def flags(faults: pd.DataFrame, drawn: Mapping[str, Any]) -> dict[str, bool]:
    """What the section's prose rests on."""
    own = recovery.measured(faults)
    return {
        "timelines": any(entry["table"] == "timeline.csv" for entry in drawn.values()),
        "recovery_failed": bool(len(own)) and bool(own["failed_operations"].sum()),
        "recovery_states": bool(len(own)) and bool(own["states_told"].sum()),
        "recovery_stuck": bool(len(own)) and bool(own[["never_whole", "never_served"]].sum().sum()),
    }


@HEADLINES("roles", "roles")
def of_roles(table: pd.DataFrame) -> Iterator[Headline]:
    """What the role that lost most kept of its rate while others worked; faults are those of `of_faults`."""
    name = "rate_over_before"
    rows = table[(table["phase"] == DURING) & table[f"{name}_median_ratio"].notna()] if len(table) else table
    rows = rows[rows["fault"] == "none"] if "fault" in rows else rows
    same = list(table.columns[: table.columns.get_loc("n")]) if len(rows) else []
    for system, own in groups.labelled(rows).groupby("deployment") if len(rows) else []:
        r = own.loc[own[f"{name}_median_ratio"].astype(float).idxmin()]
        group = table[table[same].astype(str).eq(r[same].astype(str)).all(axis=1)]
        others = group[(group["phase"] == DURING) & (group["role"] != r["role"])]
        did = [f"{o['role']} ran at {_short(o, 'rate', 'per_s')} operations/s" for _, o in others.iterrows()]
        meanwhile = f" while {escape(words.listed(did))}" if did else ""
        median, _, rest = _short(r, name, "ratio", 100).partition(" [")
        lines = (median, *([f"[{rest}"] if rest else []))
        longer = r["latency_p99_over_before_median_ratio"]
        p99 = "" if pd.isna(longer) else f", with {words.number(longer)} times the 99th percentile of the latency"
        yield Headline(
            system=str(system),
            kind="Rate beside others",
            unit="%",
            asks="what workloads cost each other",
            lines=(*lines, f"{escape(r['role'])}, {runs(r)}"),
            value=f"{' '.join(lines)}~\\%",
            of=f"of the rate of {escape(r['role'])}{p99}{meanwhile}",
            where=runs(r),
            size=float(r[f"{name}_median_ratio"]),
            verb="kept",
        )


@HEADLINES("recovery", "recovery")
def of_faults(table: pd.DataFrame) -> Iterator[Headline]:
    """Failed operations of all faults, and the longest pause and the longest time until redundancy was whole."""
    own = recovery.measured(table)
    for system, rows in groups.labelled(own).groupby("deployment") if len(own) else []:
        beyond = rows["beyond_redundancy"].astype(bool)
        failed, more = (rows.loc[own, "failed_operations"].sum() for own in (~beyond, beyond))
        value = f"{words.number(failed, gap=THIN)} failed operations"
        if beyond.any():
            value += f" within its redundancy and {words.number(more, gap=THIN)} beyond"
        lines = [f"{words.number(failed + more, gap=THIN)} failed"]
        for name, said in (("pause", "a pause of up to"), ("whole", "whole redundancy after up to")):
            known = rows[rows[f"{name}_median_s"].notna()]
            if len(known):
                worst = known.loc[known[f"{name}_median_s"].astype(float).idxmax()]
                lines.append(f"{name} {words.number(worst[f'{name}_median_s'], gap=THIN)}~s")
                value += f", {said} {_short(worst, name, 's')}~s"
        never = int(rows["never_served"].sum())
        if never:
            value += f", and was never served again in {words.plural(never, 'run')}"
        yield Headline(
            system=str(system),
            kind="Faults",
            unit="",
            asks="what a fault costs",
            lines=tuple(lines),
            value=value,
            of="",
            where=f"{words.plural(len(rows), 'case')}, n~=~{words.span(rows['n'], '')}",
            size=-float(failed),
            verb="had",
        )


@HEADLINES("durability", "durability")
def of_ledgers(table: pd.DataFrame) -> Iterator[Headline]:
    """The acknowledged writes that were wrong in the end."""
    last = table[table["when"].isin(durability.LAST)] if len(table) else table
    for system, rows in groups.labelled(last).groupby("deployment") if len(last) else []:
        read, wrong = int(rows["read"].sum()), int(rows["wrong"].sum())
        counts = f"{words.number(wrong, gap=THIN)} of {words.number(read, gap=THIN)}"
        yield Headline(
            system=str(system),
            kind="Acknowledged, then wrong",
            unit="objects",
            asks="whether acknowledged objects stay",
            lines=(counts,),
            value=counts,
            of="acknowledged objects wrong",
            where="",
            size=-wrong / max(read, 1),
            verb="had",
        )
