"""Ceilings: the highest rates that clients and links allow, and the points that were near them.

See docs/calibration.md and docs/tables.md.

* `calibration.csv`: one row per target and operation, engine, sizes, clients, workers and scheme. The columns are the
  rates before and after the campaign, the ceiling (the larger of the two), the CPU time of clients per operation, the
  use of the processors, and `over_link` (true: the bytes went over a link).
* `ceiling_rate_per_s` of points.csv and throughput.csv: the ceiling of the same engine, operation, sizes, clients (in
  total and per node), workers and scheme.
* `ceiling_percent`: the rate in percent of the ceiling.
* `ceiling_of`: the cause of the ceiling: LINK, CLIENT, or SHARED cores, for which the ceiling means little.
* `bound_by`: the limit of the point. It is LINK if a known link was used by at least LINK_FULL percent. It is LINK or
  CLIENT if the rate is above BOUND percent of the ceiling (and at most EXCEEDED). Otherwise it is null. On a shared
  host, client and server share cores and memory, but not a link, so that LINK can be the limit there too.
* `link_*` (LINK_COLUMNS): the capacity of the links between clients and store. If a link carried more than its
  capacity, this is a contradiction, which `link_problem` reports. No point of this store then has this limit. For a
  link of the clients, this applies to all points of the campaign.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from storelab.analysis.parts import groups, labels
from storelab.analysis.records import links
from storelab.analysis.records.campaign import Campaign, client_cpu_s
from storelab.analysis.records.links import BOTH, CLIENTS, FRONT_ENDS, Links, over_link
from storelab.core import calibration, engines, units
from storelab.core.axes import SCHEME
from storelab.core.calibration import AFTER, BEFORE, NETWORK, WORKLOAD

SLACK = 1.02  # traffic above this factor times the capacity is a contradiction; token buckets exceed it by less
# Percent of the capacity of links in one direction. Headers use 4 % of it, and the start and end of a run a bit more.
# In all sealed campaigns, links that were the only limit were used by 94 % to 97 %.
LINK_FULL = 92.0
LINK_COLUMNS = {
    "link_bits_per_s": "Float64",  # total capacity of the links of clients and front-ends
    "link_of": "string",  # the side whose links are the limit
    "link_each": "string",  # capacity of each link in words: `2 × 300 Mbit/s`
    "link_used_percent": "Float64",
    "link_demand_ratio": "Float64",  # capacity of the clients' links over that of the front-ends' links
    "link_unknown": "string",  # the side whose links have no known capacity, if the bytes went over a link
    "link_problem": "string",
}
BOUND = 80  # percent of the ceiling
EXCEEDED = 105  # a rate above this percentage of the ceiling contradicts the ceiling
LINK, CLIENT, SHARED = "link", "client", "shared cores"
IDLE = 50  # percent; if the processors were less busy than this at a ceiling, its cause is the link
# Axes that must agree between a point and its ceiling -> the value used if a workload, or an older plan, does not have
# the axis.
AGREE: dict[str, Any] = {a.column: a.default for a in calibration.AGREE} | {SCHEME.column: "http"}
_CEILING_COLUMNS = ("ceiling_rate_per_s", "ceiling_percent", "ceiling_of", "bound_by")
CEILING = (*_CEILING_COLUMNS, *LINK_COLUMNS)  # columns of points and groups
COLUMNS = [
    "target",
    *AGREE,
    "before_rate_per_s",
    "after_rate_per_s",
    "rate_per_s",
    "throughput_mb_per_s",
    "drift_percent",
    "runs",
    "client_cpu_ms_per_operation",
    "client_cpu_percent",
    "server_cpu_percent",
    "over_link",
    "busy_percent",
    "duration_s",
]


def _agreeing(campaign: Campaign, points: pd.DataFrame) -> pd.DataFrame:
    """Return the columns AGREE of rows of points.csv, with null values replaced by the defaults.

    The scheme is taken from the endpoints that the clients used.
    """
    out = pd.DataFrame(index=points.index)
    for name, default in AGREE.items():
        column = points[name] if name in points else pd.Series(default, index=points.index)
        out[name] = column.astype(object).where(column.notna(), default)
    calibrates = points["workload"] == WORKLOAD
    out["operation"] = out["operation"].where(calibrates, points["workload"])
    clients = {key: run["clients"] for key, run in campaign.runs.items()}
    ends = [(clients[k][0].get("endpoint") or "") if clients.get(k) else "" for k in points["key"]]
    out["scheme"] = ["https" if end.startswith("https:") else "http" for end in ends]
    return out


def table(campaign: Campaign, points: pd.DataFrame) -> pd.DataFrame:
    """Return `calibration.csv`, from rows of points.csv.

    Rates are medians over the valid runs of a phase, in the `overlap` window.
    """
    rows = points[(points["workload"] == WORKLOAD) & (points["state"] == "ok") & points["overlap_rate_per_s"].notna()]
    if rows.empty:
        return pd.DataFrame(columns=COLUMNS)
    rows = rows.assign(**_agreeing(campaign, rows))
    out = []
    for key, group in rows.groupby(["target", *AGREE], sort=True):
        rate = {
            phase: group.loc[group["phase"] == phase, "overlap_rate_per_s"].astype(float).median()
            for phase in (BEFORE, AFTER)
        }
        drift = 100 * (rate[AFTER] / rate[BEFORE] - 1) if rate[BEFORE] and rate[BEFORE] > 0 else np.nan
        best = group[group["phase"] == max(rate, key=lambda phase: -1 if np.isnan(rate[phase]) else rate[phase])]
        cost = 1000 * best["client_cpu_s"].astype(float) / best["operations"].astype(float).replace(0, np.nan)
        out.append(
            dict(zip(["target", *AGREE], key, strict=True))
            | {f"{phase}_rate_per_s": value for phase, value in rate.items()}
            | {
                "rate_per_s": np.nanmax(list(rate.values())),
                "throughput_mb_per_s": best["overlap_throughput_mb_per_s"].astype(float).median(),
                "drift_percent": drift,
                "runs": len(group),
                "client_cpu_ms_per_operation": cost.median(),
                "client_cpu_percent": best["client_cpu_percent"].astype(float).median(),
                "server_cpu_percent": best["server_cpu_percent"].astype(float).median(),
                "over_link": all(over_link(campaign.runs[key]) for key in best["key"]),
                "busy_percent": best["key"].map(lambda key: busy_percent(campaign.runs[key])).astype(float).median(),
                "duration_s": best["duration_s"].max(),
            }
        )
    return pd.DataFrame(out, columns=COLUMNS)


def with_ceilings(campaign: Campaign, points: pd.DataFrame, ceilings: pd.DataFrame) -> pd.DataFrame:
    """Return points.csv with the columns CEILING. ceilings: the result of `table`."""
    known = ceilings[ceilings["target"] == NETWORK].set_index(list(AGREE))
    rate = known["rate_per_s"].to_dict()
    linked = (known["over_link"].eq(True) & (known["busy_percent"] < IDLE)).to_dict()
    found: list[tuple[float | None, str | None]] = []
    wanted = _agreeing(campaign, points).itertuples(index=False, name=None)
    for row, p in zip(wanted, points.itertuples(index=False), strict=True):
        if p.workload not in calibration.OPERATIONS or row not in rate:
            found.append((None, None))
        elif p.key not in campaign.runs:
            found.append((rate[row], None))
        elif linked[row] and over_link(campaign.runs[p.key]):
            found.append((rate[row], LINK))
        else:
            found.append((rate[row], SHARED if p.shared_host else CLIENT))
    out = points.assign(ceiling_rate_per_s=pd.array([r for r, _ in found], dtype="Float64"))
    out["ceiling_percent"] = 100 * out["overlap_rate_per_s"].astype("Float64") / out["ceiling_rate_per_s"]
    out["ceiling_of"] = pd.array([limit for _, limit in found], dtype="string")
    out = with_links(campaign, out)
    rows = zip(out["ceiling_of"], out["ceiling_percent"], out["link_used_percent"], strict=True)
    return out.assign(bound_by=pd.array([_bound(*row) for row in rows], dtype="string"))


def _bound(ceiling_of: Any, ceiling_percent: Any, link_used_percent: Any) -> str | None:
    if pd.notna(link_used_percent) and link_used_percent >= LINK_FULL:
        return LINK
    near = pd.notna(ceiling_percent) and BOUND < ceiling_percent <= EXCEEDED
    return str(ceiling_of) if near and pd.notna(ceiling_of) and ceiling_of != SHARED else None


def ceiling_columns(runs: pd.DataFrame, rate_per_s: float) -> dict[str, Any]:
    """Return the columns CEILING for the median rate of a group of runs (rows of points.csv).

    If the runs have ceilings with different causes, the weakest statement is used: SHARED, then CLIENT, then LINK.
    """
    link, known = links_of_group(runs), runs["ceiling_rate_per_s"].dropna()
    ceiling, percent, limit = None, None, None
    if len(known) and np.isfinite(rate_per_s):
        ceiling, percent = float(known.max()), 100 * rate_per_s / float(known.max())
        limit = next(word for word in (SHARED, CLIENT, LINK) if (runs["ceiling_of"] == word).any())
    bound = _bound(limit, percent, link["link_used_percent"])
    return dict(zip(_CEILING_COLUMNS, (ceiling, percent, limit, bound), strict=True)) | link


def busy_percent(run: Mapping[str, Any]) -> float | None:
    """Return how busy the processors were in a run, in percent, or None if the CPU time of a side is not known.

    It is the larger of two values: the CPU time of clients and server relative to the workers' time, and the use of the
    cores of the busiest host.
    """
    host = run.get("host") or {}
    server = host if run.get("shared_machine", True) else run.get("coordinator") or {}
    axes = run["point"]["axes"]
    one = engines.CATALOGUE[axes["engine"]].one_thread if axes["engine"] in engines.CATALOGUE else False
    threads = axes["clients"] * (1 if one else axes["workers"])
    cpu = host.get("client_cpu_s", client_cpu_s(run))
    if None in (server.get("server_cpu_s"), host.get("cpu_busy_s")) or not all(
        h.get("seconds") for h in (host, server)
    ):
        return None
    both = (cpu / host["seconds"] + server["server_cpu_s"] / server["seconds"]) / threads
    return 100 * max(both, *(h["cpu_busy_s"] / h["seconds"] / h["cores"] for h in (host, server)))


def numbers(points: pd.DataFrame, throughput: pd.DataFrame, ceilings: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """Return name, value and unit of the numbers about ceilings. Without a calibration, only constants are returned."""
    known = ceilings[ceilings["target"] == NETWORK]
    out: list[tuple[str, Any, str]] = [("bound_from", BOUND, "%"), ("idle_below", IDLE, "%")]
    out.append(("link_full", LINK_FULL, "%"))
    if known.empty:
        return out
    runs = (points["state"] == "ok") & (points["workload"] == WORKLOAD)
    out += [("calibration_ceilings", len(known), ""), ("calibration_runs", int(runs.sum()), "")]
    drift = known["drift_percent"].abs().dropna()
    if len(drift):
        out += [("calibration_drift_median", drift.median(), "%"), ("calibration_drift_most", drift.max(), "%")]
    groups = throughput[throughput["ceiling_percent"].notna()]
    out.append(("ceiling_groups", len(groups), ""))
    out.append(("exceeded_from", EXCEEDED - 100, "%"))
    out.append(("ceiling_exceeded", int((groups["ceiling_percent"] > EXCEEDED).sum()), ""))
    out += [(f"{by}_bound", int((throughput["bound_by"] == by).sum()), "") for by in (CLIENT, LINK)]
    if len(groups):
        top = groups.loc[groups["ceiling_percent"].astype(float).idxmax()]
        out += [
            ("ceiling_percent_most", top["ceiling_percent"], "%"),
            ("ceiling_percent_most_workload", top["workload"], ""),
            ("ceiling_percent_most_object_size", units.format_size(int(top["object_size_bytes"])), ""),
        ]
    return out


def shown(row: Mapping[str, Any]) -> str:
    """Return the operation of a row of `calibration.csv` in words, such as `get`, `memory copy` or `write to tmpfs`."""
    if row["target"] == NETWORK:
        return str(row["operation"]).replace("_", " ")
    texts = {"copy": "memory copy", "write": f"write to {row['target']}", "read": f"read from {row['target']}"}
    return texts[row["operation"]]


def with_links(campaign: Campaign, points: pd.DataFrame) -> pd.DataFrame:
    """Return points.csv with LINK_COLUMNS."""
    goodput, problems = _problems(campaign, points)
    rows = [_point_row(campaign.runs.get(key), goodput[key], problems) for key in points["key"]]
    return points.assign(**pd.DataFrame(rows, columns=list(LINK_COLUMNS), index=points.index).astype(LINK_COLUMNS))


def links_of_group(runs: pd.DataFrame) -> dict[str, Any]:
    """Return LINK_COLUMNS for a group of runs (rows of points.csv).

    The links are those of the run with the lowest capacity. Their use is the median over the runs.
    """
    runs = runs.reindex(columns=list(LINK_COLUMNS))
    texts = {c: next(iter(runs[c].dropna()), None) for c in ("link_unknown", "link_problem")}
    known = runs[runs["link_bits_per_s"].notna()].sort_values("link_bits_per_s", kind="stable")
    if known.empty:
        return dict.fromkeys(LINK_COLUMNS) | texts
    used = known["link_used_percent"].astype(float).median()
    return known.iloc[0].to_dict() | texts | {"link_used_percent": used}


def link_numbers(campaign: Campaign, points: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """Return name, value and unit of the facts about links that the text quotes. Unknown facts are omitted."""
    _, problems = _problems(campaign, points)
    runs = campaign.runs.values()
    known = [found for run in runs if (found := links.links_of_run(run, tuple(_ignored(run, problems))))]
    sides = {
        "each client's node": {bits for found in known if found.clients for bits in found.clients.links},
        "each front-end": {bits for found in known if found.front_ends for bits in found.front_ends.links},
    }
    parts = [f"{labels.listed([*map(links.rate, sorted(each))])} for {whose}" for whose, each in sides.items() if each]
    declared = links.declared(campaign.folder) if parts else None
    texts = {
        "links_known": labels.listed(parts) if parts else "",
        "links_declared": declared.source if declared else "",
        "link_problem": "; ".join(problems.values()),
    }
    return [(name, text, "") for name, text in texts.items() if text]


def _goodput(point: Mapping[str, Any]) -> tuple[float, float]:
    """Return the useful traffic of a point in bits/s: in the `overlap` window, and until the last completion.

    Both are 0 for workloads that move bytes in both directions, and for workloads that move no bytes.
    """
    names = ("overlap_throughput_mb_per_s", "last_done_throughput_mb_per_s")
    if point["workload"] not in groups.MOVING:
        return 0.0, 0.0
    first, last = (0.0 if pd.isna(point.get(c)) else 8e6 * float(point[c]) for c in names)
    return first, last


def _point_row(
    run: Mapping[str, Any] | None, goodput: tuple[float, float], problems: Mapping[tuple[str, str], str]
) -> dict[str, Any]:
    if run is None:
        return {}
    ignored = _ignored(run, problems)
    problem = {"link_problem": "; ".join(ignored.values()) or None}
    if not (found := links.links_of_run(run, tuple(ignored))):
        return problem | {"link_unknown": BOTH if links.over_link(run) else None}
    counted = [sum(side.moved) for side in (found.clients, found.front_ends) if side and side.moved]
    used = max(goodput[0], min(counted, default=0.0))
    return problem | {
        "link_bits_per_s": found.bits_per_s,
        "link_of": found.of,
        "link_each": _limiting_links(found),
        "link_used_percent": 100 * used / found.bits_per_s,
        "link_demand_ratio": found.demand,
        "link_unknown": found.unknown,
    }


def _ignored(run: Mapping[str, Any], problems: Mapping[tuple[str, str], str]) -> dict[str, str]:
    """Return the sides of a run whose links carried more than their capacity: side -> the contradiction in words."""
    return {side: text for side in (CLIENTS, FRONT_ENDS) if (text := problems.get((side, _whose(side, run))))}


def _limiting_links(found: Links) -> str:
    sides = {CLIENTS: found.clients, FRONT_ENDS: found.front_ends}
    limiting = (side for name, side in sides.items() if side and found.of in (name, BOTH))
    return " into ".join(links.in_words(side.links) for side in limiting)


def _whose(side: str, run: Mapping[str, Any]) -> str:
    """Return the links of a contradiction: a store (for its front-ends), or an empty string (all clients)."""
    return links.store_of(run) if side == FRONT_ENDS else ""


def _problems(
    campaign: Campaign, points: pd.DataFrame
) -> tuple[dict[str, tuple[float, float]], dict[tuple[str, str], str]]:
    """Return key -> goodput of each point, and (side, store) -> the largest contradiction in words."""
    goodput = dict(zip(points["key"], map(_goodput, points.to_dict("records")), strict=True))
    worst: dict[tuple[str, str], tuple[float, str]] = {}
    for key, run in campaign.runs.items():
        found = links.links_of_run(run)
        for side, link, moved in _loads(found, goodput.get(key, (0.0, 0.0))[1]) if found else ():
            whose = (side, _whose(side, run))
            if moved > max(SLACK * link, worst.get(whose, (0.0, ""))[0] * link):
                text = f"{links.rate(link)} cannot be the capacity of the {side}' links"
                worst[whose] = moved / link, f"{text}: {labels.number(moved / 1e6)} Mbit/s went over one link in {key}"
    return goodput, {whose: text for whose, (_, text) in worst.items()}


def _loads(found: Links, goodput: float) -> Iterator[tuple[str, float, float]]:
    """Yield side, capacity and traffic of each link that has a counter.

    Without counters, the links of a side are added up, and their traffic is `goodput`. All values are in bits/s.
    """
    for name, side in ((CLIENTS, found.clients), (FRONT_ENDS, found.front_ends)):
        if side is not None and side.moved is None:
            yield name, side.total, goodput
        elif side is not None:
            yield from ((name, link, moved) for link, moved in zip(side.links, side.moved or (), strict=True))
