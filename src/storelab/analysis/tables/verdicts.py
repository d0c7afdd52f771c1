"""`verdicts.csv`: the limit of each store in words, by workload and object size, with its evidence.

A verdict explains the highest measured rate of a subject: all points of one store, workload and object size. A rule
returns its evidence in words, or None if it does not apply or the data cannot show it. The first rules look for a
resource that was at its limit at the best rate. The next rules look for an axis that made a difference, and the last
one for a load that was too low. The first of RULES that returns evidence is the verdict. The column `also` has the
other rules that return evidence. If there is none, the verdict is `not known`, and the table lists the data that would
show the limit. docs/verdicts.md lists the rules in this order.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from storelab.analysis.parts import groups, labels
from storelab.analysis.records.links import BOTH, CLIENTS, FRONT_ENDS
from storelab.analysis.statistics import knees, ratios
from storelab.analysis.tables.calibration import CLIENT, EXCEEDED, LINK, LINK_FULL
from storelab.analysis.tables.points import DISTURBED_PERCENT
from storelab.core import engines
from storelab.core.axes import ALL, BY_COLUMN, DEPLOYMENT_NAMES, ENGINE


@dataclass(frozen=True)
class Group:
    """The points that differ only in `rep`, with a speed per run.

    axes: column -> value, None if the workload does not have this axis.
    """

    axes: Mapping[str, Any]
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return float(pd.Series(self.values).median())


@dataclass(frozen=True)
class Subject:
    """The points that one verdict is about.

    best: the group with the highest median; row: its values in throughput.csv and resources.csv; groups: all groups
    with a rate; points: all runs, including failed ones; curves: rows of scaling.csv (may be empty).
    """

    best: Group
    row: Mapping[str, Any]
    groups: tuple[Group, ...]
    points: pd.DataFrame
    curves: pd.DataFrame

    def number(self, name: str) -> float | None:
        """Return a value of the best group, or None if it is not known."""
        value = self.row.get(name)
        return None if value is None or pd.isna(value) else float(value)

    @property
    def shared(self) -> bool:
        value = self.row.get("shared_host")
        return value is not None and not pd.isna(value) and bool(value)

    def along(self, axis: str) -> list[Group]:
        """Return the best group and those that differ from it only in this axis, ordered by the value of the axis."""
        same = {k: v for k, v in self.best.axes.items() if k != axis}
        found = [
            g
            for g in self.groups
            if g.axes.get(axis) is not None and {k: v for k, v in g.axes.items() if k != axis} == same
        ]
        return sorted(found, key=lambda g: g.axes[axis])


Test = Callable[[Subject], str | None]


@dataclass(frozen=True)
class Rule:
    """A rule: the limit that it finds (`verdict`), its `test`, and its condition in words for the docs (`says`)."""

    verdict: str
    test: Test
    says: str


# Axes that differ between the points of one subject: the amount of load, its distribution, and the kind of requests.
VARIED = tuple(a.column for a in ALL.values() if a.load)
POINT_COLUMNS = ("state", "reason", "clients", "workers", "other_cpu_percent")  # columns of the runs that the rules use
COLUMNS = (
    "store",
    "deployment",
    "workload",
    "engine",
    "what",
    "best",
    "unit",
    "where",
    "n",
    "few",
    "verdict",
    "evidence",
    "also",
    "would_decide",
)


def table(tables: Mapping[str, pd.DataFrame], by: list[str]) -> pd.DataFrame:
    """Return one row per subject.

    Columns: store, deployment, workload, engine, what (size and fraction in words), best (median) and unit, where (the
    load that reached the best rate), n, few (the rate depends on few operations), verdict, evidence, also (other rules
    with their evidence; invalid runs; limits that the rate contradicts), would_decide (the missing data if the verdict
    is not known).

    tables: points, throughput, resources and, if it exists, scaling. by: the columns that identify a group of points.
    """
    runs = groups.closed_loops(groups.point_rows(tables["points"]))
    runs = runs[runs["workload"].isin(tables["throughput"]["workload"].unique())].reset_index(drop=True)
    fixed = [c for c in by if c not in VARIED]
    known = Known(tables, by, fixed)
    used = [c for c in [*fixed, "metric"] if runs[c].notna().any()]
    keys = identities(runs, by)
    rows = [
        _row(key, known.subject([keys[i] for i in rows.index], rows["value"]))
        for key, rows in groups.grouped(runs, used)
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


class RowIndex:
    """An index of the rows of a table by their values in some columns. None means null."""

    def __init__(self, rows: pd.DataFrame, columns: Sequence[str], kept: Sequence[str] | None = None) -> None:
        """Index the rows by `columns`. kept: the columns that `find` returns, if they exist; default: all."""
        self._rows = rows if kept is None else rows[[c for c in kept if c in rows]]
        self._columns = columns
        self._places: dict[tuple[Any, ...], list[int]] = {}
        for i, key in enumerate(identities(rows, columns)):
            self._places.setdefault(key, []).append(i)

    def find(self, axes: Mapping[str, Any]) -> pd.DataFrame:
        """Return the rows that have these values."""
        return self._rows.iloc[self._places.get(tuple(axes[c] for c in self._columns), [])]


def identities(rows: pd.DataFrame, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return for each row the tuple of its values in these columns (at least one). Null values are None."""
    return list(zip(*([None if pd.isna(v) else v for v in rows[c].astype(object)] for c in columns), strict=True))


class Known:
    """The data about the subjects of a campaign.

    tables, by: as in `table`; fixed: the columns of `by` that distinguish subjects.
    """

    def __init__(self, tables: Mapping[str, pd.DataFrame], by: Sequence[str], fixed: Sequence[str]) -> None:
        self._by = by
        read = ((identities(tables[name], by), tables[name].to_dict("records")) for name in ("throughput", "resources"))
        self._tables = [dict(zip(reversed(keys), reversed(rows), strict=True)) for keys, rows in read]
        self._points = RowIndex(groups.closed_loops(tables["points"]), fixed, POINT_COLUMNS)
        curves = tables.get("scaling", pd.DataFrame())
        used = [c for c in fixed if c in curves]
        kept = [c for c in curves if c not in used]
        self._curves = RowIndex(curves, used, kept) if len(curves) else None

    def subject(self, keys: Iterable[tuple[Any, ...]], speeds: Iterable[float]) -> Subject:
        """Return the subject of these runs.

        keys: `identities` of each run; speeds: the speed of each run (`groups.point_rows`).
        """
        values: dict[tuple[Any, ...], list[float]] = {}
        for key, value in zip(keys, speeds, strict=True):
            values.setdefault(key, []).append(float(value))
        ordered = sorted(values, key=lambda key: [(v is None, v) for v in key])
        own_groups = tuple(Group(dict(zip(self._by, key, strict=True)), tuple(values[key])) for key in ordered)
        best = max(own_groups, key=lambda g: g.median)
        row: dict[str, Any] = {}
        for table in self._tables:
            row = table.get(tuple(best.axes[c] for c in self._by), {}) | row
        first = own_groups[0].axes
        curves = self._curves.find(first) if self._curves else pd.DataFrame()
        return Subject(best, row, own_groups, self._points.find(first), curves)


def _row(key: Mapping[str, Any], s: Subject) -> dict[str, Any]:
    fired = [(rule.verdict, evidence) for rule in RULES if (evidence := rule.test(s))]
    verdict, evidence = fired[0] if fired else (NOT_KNOWN, unknown(s))
    axes, notes = s.best.axes, (("invalid runs", invalid(s)), *(("contradiction", c) for c in wrong(s)))
    also = [*fired[1:], *(note for note in notes if note[1])]
    return {
        "store": key["store"],
        "deployment": labels.deployment(axes),
        "workload": key["workload"],
        "engine": axes.get("engine"),
        "what": ", ".join(described(axes)),
        "best": s.best.median,
        "unit": units_of(key["workload"], key["metric"] == groups.THROUGHPUT),
        "where": ", ".join(filter(None, (labels.value_text(c, axes.get(c)) for c in VARIED if _chosen(s, c)))),
        "n": len(s.best.values),
        "few": bool(s.number("few")),
        "verdict": named(verdict, s),
        "evidence": evidence,
        "also": "; ".join(f"{name}: {why}" for name, why in also),
        "would_decide": "" if fired else would_decide(s),
    }


def described(axes: Mapping[str, Any]) -> list[str]:
    """Return the settings that distinguish this subject from another, in words.

    The settings are the axes that are always shown, and all axes with a value other than the default. Engine and
    deployment are not included, because they have separate columns. Axes that this version of storelab does not know
    are always included.
    """
    apart = {"store", "workload", ENGINE.column, *VARIED, *DEPLOYMENT_NAMES} - {
        a.column for a in ALL.values() if a.always_shown
    }
    declared = [a.column for a in ALL.values() if a.column in axes]
    out = []
    for column in [*declared, *(c for c in axes if c not in declared)]:
        axis, value = BY_COLUMN.get(column), axes[column]
        if column not in apart and value is not None and (axis is None or axis.always_shown or value != axis.default):
            out.append(labels.value_text(column, value))
    return [text for text in out if text]


def _chosen(s: Subject, column: str) -> bool:
    """Check whether to show this axis: clients and workers always, other axes only if they were varied."""
    return column in ("clients", "workers") or len({g.axes.get(column) for g in s.groups}) > 1


def units_of(workload: str, large: bool) -> str:
    """Return the unit of the best rate."""
    small = "objects/s" if workload in groups.MOVING else "keys/s" if workload == "list" else "operations/s"
    return "MB/s" if large else small


def lines(found: pd.DataFrame) -> list[str]:
    """Return the lines that show the verdicts in the terminal. found: verdicts.csv."""
    out = []
    for r in found.itertuples(index=False):
        subject = ", ".join(filter(None, (r.deployment, r.workload, _text(r.engine), _text(r.what))))
        out.append(f"{subject}: {labels.number(r.best)} {r.unit} with {r.where} (n = {r.n})")
        out.append(
            f"    limited by: {r.verdict}"
            if r.verdict not in (NOT_KNOWN, "unsteady", DISTURBED)
            else f"    {r.verdict}"
        )
        out.append(f"        {r.evidence}")
        out += [f"    also: {_text(r.also)}"] if _text(r.also) else []
        out += [f"    missing: {_text(r.would_decide)}"] if _text(r.would_decide) else []
    return out


def _text(value: Any) -> str:
    return "" if value is None or pd.isna(value) else str(value)


FAILED = 1.0  # limit of failed operations in percent of the operations of the best group
PORTS_FULL = 90.0  # limit in percent of the ephemeral ports to one destination
MEMORY_FULL = 95.0  # limit in percent of the memory of the client's host
# Cores that a client with one fully used interpreter thread uses. A client that uses more has several threads.
ONE_CORE, MORE_THAN_ONE = 0.9, 1.1
BUSY = 90.0  # limit in percent of the cores of a host
MOSTLY = 0.8  # a side that uses at least this fraction of a host's busy CPU time is the only limit
OTHERS = float(DISTURBED_PERCENT)  # percent of the cores of a host; above it, the use by other programs is reported
GAIN = 1.05  # smallest ratio that counts as a gain, even if a smaller one is significant
# Without an interval, a gain needs this number of runs on each side, ranges that do not overlap, and this ratio.
MIN_RUNS, MIN_GAIN = 3, 1.1
ONE_THREAD = tuple(e.name for e in engines.ALL if e.one_thread)


def _n(value: float, unit: str = "") -> str:
    return f"{labels.number(value)}{' ' if unit else ''}{unit}"


def errors(s: Subject) -> str | None:
    """Return the evidence if more than FAILED % of the operations failed at the best rate."""
    failed, good = s.number("errors") or 0.0, s.number("operations") or 0.0
    percent = 100 * failed / (failed + good) if failed + good else 0.0
    return f"{_n(percent)} % of the operations failed at the best rate" if percent > FAILED else None


def invalid(s: Subject) -> str | None:
    """Return how many runs are invalid, and the first of them in words.

    Invalid runs are not a limit, because their settings can differ from those of the best rate.
    """
    runs = s.points[s.points["state"] == "invalid"]
    if runs.empty:
        return None
    first = runs.sort_values([c for c in ("clients", "workers") if c in runs]).iloc[0]
    where = ", ".join(
        labels.value_text(c, first[c]) for c in ("clients", "workers") if c in first and not pd.isna(first[c])
    )
    return f"{len(runs)} of {len(s.points)}, the first with {where}: {first['reason']}"


def unsteady(s: Subject) -> str | None:
    """Return the evidence if more than half of the runs at the best rate are not steady."""
    runs, n, how = s.number("unsteady") or 0.0, s.number("n") or 0.0, s.row.get("unsteady_how")
    if not n or runs <= n / 2:
        return None
    if n == 1:
        return f"the only run at the best rate is not steady ({str(how).removesuffix(' 1')})"
    return f"{_n(runs)} of {_n(n)} runs at the best rate are not steady ({how})"


def sockets(s: Subject) -> str | None:
    """Return the evidence if the clients use almost all local ports that are available for one destination."""
    names = ("ports_median_percent", "host_ports", "time_wait_median_sockets")
    used, ports, waiting = (s.number(name) or 0.0 for name in names)
    ends = int(s.best.axes.get("front_ends") or 1)  # each destination has all ports
    if s.shared or used / ends < PORTS_FULL:  # over loopback, the kernel reuses a port in TIME_WAIT after a second
        return None
    each = f" for each of {ends} front-ends" if ends > 1 else ""
    return f"TIME_WAIT {_n(waiting)}, all sockets {_n(used * ports / 100)} of {_n(ports)} ports{each}"


def memory(s: Subject) -> str | None:
    """Return the evidence if the memory of the clients' host is almost full."""
    used, client_mb = (s.number(c) or 0.0 for c in ("host_memory_median_percent", "client_rss_median_mb"))
    evidence = f"{_n(used)} % of the memory of the clients' host in use, {_n(client_mb)} MB of it by the clients"
    return evidence if used >= MEMORY_FULL else None


def ceiling(s: Subject) -> str | None:
    """Return the evidence if the calibration shows that the clients limit the rate."""
    return _reached(s, "the same clients reach") if s.row.get("bound_by") == CLIENT else None


def wrong(s: Subject) -> list[str]:
    """Return the limits that the best rate contradicts."""
    problem, percent = s.row.get("link_problem"), s.number("ceiling_percent") or 0.0
    exceeded = f"the rate is {_n(percent)} % of the calibrated ceiling"
    return [*([] if pd.isna(problem) else [str(problem)]), *([exceeded] if percent > EXCEEDED else [])]


def _reached(s: Subject, clients_reach: str) -> str:
    percent = _n(s.number("ceiling_percent") or 0.0)
    return f"{percent} % of what {clients_reach} against a server that does almost nothing"


def full_links(whose: str) -> Test:
    """Return a test that gives evidence if the known links of `whose` were fully used."""

    def test(s: Subject) -> str | None:
        used, bits = s.number("link_used_percent") or 0.0, s.number("link_bits_per_s") or 0.0
        if s.row.get("link_of") != whose or used < LINK_FULL:
            return None
        return f"{_n(used)} % of the {_n(bits / 8e6)} MB/s that these links can carry"

    return test


def network(s: Subject) -> str | None:
    """Return the evidence if the link between clients and store is fully used."""
    known = s.number("link_used_percent")
    if known is not None and known >= LINK_FULL:
        return None  # `full_links` reports this case
    if s.row.get("bound_by") == LINK:
        reached = _reached(s, "the same clients reach over their links")
        return reached if known is None else f"{reached}; {_n(known)} % of their bandwidth"
    used, moved = (s.number(c) or 0.0 for c in ("link_median_percent", "network_median_mb_per_s"))
    evidence = f"{s.row.get('interface')} moved {_n(moved)} MB/s in one direction, {_n(used)} % of its link"
    return evidence if used >= LINK_FULL else None


def disturbed(s: Subject) -> str | None:
    """Return the evidence if programs other than clients and server used cores of the clients' host.

    A store on another host uses none of these cores. If the nodes are on one machine, the use by other programs is not
    known, because the kernel also uses cores to limit the rate of their links.
    """
    host, client, server = (s.number(f"{who}_cpu_percent") for who in ("host", "client", "server"))
    unknown = "other_cpu_percent" in s.points and s.points["other_cpu_percent"].isna().all()
    if host is None or client is None or (s.shared and (server is None or unknown)):
        return None
    here = server or 0.0 if s.shared else 0.0
    other = host - client - here
    if other <= OTHERS or (host < BUSY and other <= client + here):
        return None
    known = f"the clients {_n(client)} %" + (f" and the server {_n(here)} %" if s.shared else "")
    evidence = f"other programs used {_n(other)} % of the cores of the clients' host, {known}"
    return f"{evidence}; without the other programs the rate would be higher"


def client_thread(s: Subject) -> str | None:
    """Return the evidence if each client uses one core and its engine cannot use more than one."""
    clients = s.best.axes.get("clients") or 1
    cpu = (s.number("client_cpu_median_cores") or 0.0) / clients
    if s.best.axes.get("engine") not in ONE_THREAD or not ONE_CORE <= cpu <= MORE_THAN_ONE:
        return None
    each = "client" if clients == 1 else "each client"
    return f"{each} used {_n(cpu)} of the 1 core that it can use (one interpreter thread)"


def _sides(s: Subject) -> tuple[float, float, float | None, str] | None:
    """Return how the cores of a busy host are used: busy cores, cores used by clients and by server, and a text.

    The server's cores are None if it is on another host, or if they are not known. Returns None if the host is not
    busy.
    """
    busy, client, cores = s.number("host_cpu_median_percent"), s.number("client_cpu_median_cores"), s.number("cores")
    if busy is None or client is None or not cores or round(busy, 1) < BUSY:  # rounded like the value in the text
        return None
    server = s.number("server_cpu_median_cores") if s.shared else None
    text = f"host {_n(busy)} % busy: clients {_n(client)}"
    text += f", server {_n(server)}" if server is not None else ""
    used = busy * cores / 100
    other = used - client - (server or 0.0)
    text += f" of {_n(cores)} cores"
    if s.shared and server is None:
        text += f", the rest by the server, the kernel or other programs ({_n(other)}; the server's part is not known)"
    elif 100 * other / cores > OTHERS:
        text += f", {_n(other)} used by the kernel and by other programs"
    return used, client, server, text


def busy_with(side: str) -> Test:
    """Return a test that gives evidence if one side uses most of a busy host.

    side: `client`, `server`, or `neither`: clients and server share the host, and neither uses most of it.
    """

    def test(s: Subject) -> str | None:
        if not (sides := _sides(s)):
            return None
        used, client, server, text = sides
        most = {"client": client >= MOSTLY * used, "server": (server or 0.0) >= MOSTLY * used}
        return text if most.get(side, s.shared and not any(most.values())) else None

    return test


def gain(less: Group, more: Group, axis: str) -> str | None:
    """Return the gain from a higher value of an axis, such as `4 against 1 bucket: x1.62 [1.40, 1.80]`.

    Returns None if the higher value is not significantly faster. less, more: the groups with the lower and the higher
    value.
    """
    r = ratios.ratio(less.values, more.values)
    if not r.ratio >= GAIN:
        return None
    if r.low == r.low:  # not NaN, so that there is an interval
        if r.low <= 1:
            return None
        shown = f"x{labels.spread([r.ratio, r.low, r.high])}"
    else:
        if (
            min(len(less.values), len(more.values)) < MIN_RUNS
            or min(more.values) <= max(less.values)
            or r.ratio < MIN_GAIN
        ):
            return None
        shown = f"x{_n(r.ratio)}, the ranges of {len(less.values)} and {len(more.values)} runs do not overlap"
    return f"{_n(more.axes[axis])} against {labels.value_text(axis, less.axes[axis])}: {shown}"


def spread_over(axis: str) -> Test:
    """Return a test that gives evidence if the best rate is at the highest value of an axis.

    The last step to this value must be a gain. Only groups that differ in no other axis are compared.
    """

    def test(s: Subject) -> str | None:
        line = s.along(axis)
        found = gain(line[-2], line[-1], axis) if len(line) > 1 and line[-1] == s.best else None
        if found and axis == "front_ends" and s.shared:
            found += " (front-ends and clients share the cores of one host)"
        return found

    return test


def concurrency(s: Subject) -> str | None:
    """Return the evidence if the speed still rises with the number of clients or workers."""
    evidence = []
    for axis in ("clients", "workers"):
        line = s.along(axis)
        if len(line) < 2 or line[-1] != s.best:
            continue
        shape = _curve(s, axis).get("curve")
        step = gain(line[-2], line[-1], axis)
        if shape == knees.RISING:
            evidence.append(
                f"{labels.heading(axis).lower()} {_n(line[0].axes[axis])} to {_n(line[-1].axes[axis])}: "
                "the rate still rises" + (f" ({step})" if step else "")
            )
        elif shape is None and step:
            evidence.append(step)
    return "; ".join(evidence) or None


def _curve(s: Subject, axis: str) -> dict[Any, Any]:
    """Return the row of scaling.csv for the curve along this axis that contains the best group.

    It is empty if there is no curve (fewer than three values). `s.curves` has only the columns in which curves differ.
    """
    rows = s.curves[s.curves["axis"] == axis] if len(s.curves) else s.curves
    others = {c: v for c, v in s.best.axes.items() if c != axis and c in rows}
    found = (
        r for r in rows.to_dict("records") if all((v is None and pd.isna(r[c])) or r[c] == v for c, v in others.items())
    )
    return next(found, {})


# Quantities that can show a limit: column -> name and unit in a sentence.
SHOWN_IN = {
    "client_cpu_median_cores": ("clients", "cores"),
    "server_cpu_median_cores": ("server", "cores"),
    "host_cpu_median_percent": ("host", "% busy"),
    "ports_median_percent": ("ports", "%"),
    "link_used_percent": ("links", "%"),
    "ceiling_percent": ("calibrated ceiling", "%"),
}


def unknown(s: Subject) -> str:
    """Return the evidence for the verdict `not known`: the recorded quantities, which were all below their limits."""
    parts = [f"{name} {_n(value)} {unit}" for c, (name, unit) in SHOWN_IN.items() if (value := s.number(c)) is not None]
    for axis in ("clients", "workers"):
        curve = _curve(s, axis)
        if (shape := curve.get("curve")) in (knees.KNEE, knees.PEAK) and not pd.isna(curve["knee_value"]):
            place = f"at {_n(curve['knee_value'])} {labels.heading(axis).lower()}"
            parts.append(
                f"the rate levels off {place}"
                if shape == knees.KNEE
                else f"the rate is highest {place}, and lower beyond"
            )
    if not parts:
        return "no quantity was recorded that could show the limit"
    return f"none of the recorded quantities was at its limit: {', '.join(parts)}"


PUSHED = ("clients", "workers", "buckets", "front_ends")


def would_decide(s: Subject) -> str:
    """Return the data whose absence left the verdict unknown, in words."""
    unknown_ = {c for c in SHOWN_IN if s.number(c) is None}
    numbers = {axis: {g.axes.get(axis) for g in s.groups} - {None} for axis in PUSHED}
    few = {axis for axis, values in numbers.items() if len(values) == 1}
    # Axes with several values that were only varied together with other axes.
    coupled = [labels.heading(axis).lower() for axis, v in numbers.items() if len(v) > 1 and len(s.along(axis)) < 2]
    pushed = {axis for axis in ("clients", "workers") if numbers[axis]}
    missing = {
        "more than one number of clients or workers": bool(pushed) and few >= pushed,
        f"{coupled[0]} varied without {labels.listed(coupled[1:])}" if coupled[1:] else "": bool(coupled[1:]),
        "a calibration": "ceiling_percent" in unknown_ and not s.shared,
        "records with a monitor": bool(unknown_ & {"host_cpu_median_percent", "ports_median_percent"}),
        "the CPU of the server": "server_cpu_median_cores" in unknown_,
        **_missing_links(s.row),
        "more than one number of buckets": "buckets" in few,
        "more than one number of front-ends": "front_ends" in few,
        f"{MIN_RUNS + 1} or more runs of each point": len(s.best.values) <= MIN_RUNS,
    }
    return "; ".join(text for text, lacks in missing.items() if lacks) or "what the server waits for: disks, locks"


def _missing_links(row: Mapping[str, Any]) -> dict[str, bool]:
    """Return the data about links that can be missing for a verdict: text -> True if they are missing."""
    known, problem = (None if pd.isna(v) else v for v in (row.get("link_unknown"), row.get("link_problem")))
    return {
        f"the capacity of the links of the {known} (measure it with iperf3, declare it in `links.yaml`)": (
            known is not None
        ),
        f"the correct capacity of the links ({problem})": problem is not None,
    }


def named(verdict: str, s: Subject) -> str:
    """Return the verdict. If it is about links, their number and capacity are added."""
    return f"{verdict} ({s.row['link_each']})" if verdict in FULL.values() else verdict


FULL = {CLIENTS: "clients' links", FRONT_ENDS: "front-ends' links", BOTH: "links of clients and front-ends"}
NOT_KNOWN = "not known"
DISTURBED = "disturbed"
RULES = (
    Rule("errors", errors, f"at the best rate more than {FAILED:g} % of the operations failed"),
    Rule("unsteady", unsteady, ("more than half of the runs at the best rate drift, shift, swing or stall, so that the "
                               "rate has no single value to explain")),
    Rule("sockets", sockets, (f"sockets established and in TIME_WAIT use {PORTS_FULL:g} % or more of the ephemeral "
                             "ports, counted for each front-end; not over loopback, where the kernel reuses a port "
                             "in TIME_WAIT after a second")),
    Rule("client memory", memory, f"{MEMORY_FULL:g} % or more of the memory of the clients' host was in use"),
    Rule("client ceiling", ceiling, ("the calibration marks the points as bound by the client: the rate is near the "
                                    "rate of the same clients against a server that does almost nothing")),
    *(Rule(verdict, full_links(whose), (f"the known links of the {whose} have the lowest capacity, and {LINK_FULL:g} % "
                                       "or more of it was used (the verdict states the capacity)"))
      for whose, verdict in FULL.items()),
    Rule("client network", network, ("the calibration marks the points as bound by the link, also on a shared host; or "
                                    "an interface of the clients' host used "
                                    f"{LINK_FULL:g} % or more of the capacity of its link in one direction")),
    Rule(DISTURBED, disturbed, (f"programs that are neither client nor server used more than {OTHERS:g} % of the "
                               f"cores of the clients' host; in addition, the host was {BUSY:g} % busy or more, or "
                               "these programs used more than clients and server; measure again when the host is "
                               "idle")),
    Rule("client CPU (one thread)", client_thread, (f"each client used {ONE_CORE:g} to {MORE_THAN_ONE:g} cores with "
                                                   "an engine that has one interpreter thread "
                                                   f"({', '.join(ONE_THREAD)})")),
    Rule("client CPU", busy_with("client"), (f"the clients' host was {BUSY:g} % busy or more, and the clients used "
                                            f"{100 * MOSTLY:g} % or more of the busy time")),
    Rule("server CPU", busy_with("server"), (f"client and server share a host that was {BUSY:g} % busy or more, "
                                            f"and the server used {100 * MOSTLY:g} % or more of the busy time")),
    Rule("CPU of the host that both share", busy_with("neither"), (
        f"client and server share a host that was {BUSY:g} % busy or more, "
        f"and neither used {100 * MOSTLY:g} % or more of the busy time")),
    Rule("buckets", spread_over("buckets"), ("the best rate was at the highest number of buckets, and the last step to "
                                            "more buckets, with nothing else changed, was a gain")),
    Rule("accounts", spread_over("accounts"), "the same condition as for buckets, for accounts"),
    Rule("front-ends", spread_over("front_ends"), "the same condition as for buckets, for front-ends"),
    Rule("concurrency: still rising at the most measured", concurrency, ("the best rate was at the highest number "
                                                                        "of clients or workers, and the curve in "
                                                                        "`scaling.csv` is still rising (with fewer "
                                                                        "than three values, the last step was a "
                                                                        "gain)")),
)  # fmt: skip
