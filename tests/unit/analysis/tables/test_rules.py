"""Rules of verdicts: each fires on data that show its limit, not below its threshold, and reports its numbers."""

import math
import re

import pandas as pd
from paths import ROOT

from storelab.analysis.tables import verdicts
from storelab.analysis.tables.verdicts import NOT_KNOWN, RULES, Group, Subject

AXES = {"store": "s", "workload": "put", "engine": "s5cmd", "object_size_bytes": 4000}
AXES |= {"clients": 1, "workers": 8, "buckets": 1, "front_ends": 1}
CALM = {  # everything known, nothing at its limit
    **{"n": 6, "unsteady": 0, "operations": 1000, "errors": 0, "shared_host": False, "cores": "2"},
    **{"host_ports": "28232", "interface": "eth0", "bound_by": None, "ceiling_percent": 30.0},
    **{"client_cpu_median_cores": 0.4, "server_cpu_median_cores": 0.5, "host_cpu_median_percent": 60.0},
    **{"client_rss_median_mb": 100.0, "host_memory_median_percent": 30.0, "ports_median_percent": 5.0},
    **{"time_wait_median_sockets": 27900.0, "network_median_mb_per_s": 118.0, "link_median_percent": 40.0},
    **{"link_bits_per_s": 6e8, "link_each": "2 × 300 Mbit/s", "link_of": "front-ends", "link_used_percent": 40.0},
}
STEADY = (100.0, 101.0, 99.0, 100.5, 99.5, 100.2)
FEW = (100.0, 101.0, 99.0)
OK = pd.DataFrame([{"state": "ok", "reason": None, "clients": 1, "workers": 8}] * 6)


def scaled(factor: float, values=STEADY) -> tuple[float, ...]:
    return tuple(factor * v for v in values)


def subject(groups=(), points=OK, curves=None, axes=None, known=CALM, values=STEADY, **row) -> Subject:
    """Return a subject whose best group is at AXES | axes.

    groups: (changed axes, values) of others. row: changes to what is known.
    """
    best = Group(AXES | (axes or {}), values)
    others = tuple(Group(best.axes | changed, speeds) for changed, speeds in groups)
    return Subject(best, known | row, (*others, best), points, pd.DataFrame() if curves is None else curves)


def given(row: dict, axes=None, **more) -> Subject:
    """Return a subject of which only `row` is known."""
    return subject(known={}, axes={"engine": "loadgen", "clients": 2} | (axes or {}), **more, **row)


def curve(shape: str, axis: str = "workers", knee: float = 4.0, **changed) -> pd.DataFrame:
    return pd.DataFrame([AXES | {axis: None, "axis": axis, "curve": shape, "knee_value": knee} | changed])


FAILED = {"state": "invalid", "reason": "12 % of the operations failed", "clients": 1, "workers": 150}
INVALID = pd.DataFrame([*OK.to_dict("records"), FAILED])
LINKS = OK.assign(other_cpu_percent=pd.NA)  # the nodes are namespaces of this machine
SHARED = {"shared_host": True, "host_cpu_median_percent": 98.0}
OTHERS = SHARED | {"host_cpu_percent": 98.0, "client_cpu_percent": 20.0, "server_cpu_percent": 32.5}
RISING = [({"workers": 4}, scaled(0.6)), ({"workers": 1}, scaled(0.2))]
# Verdict: a subject in which it is the first to fire, words of its evidence.
CASES = {
    "errors": (subject(points=INVALID, errors=12), "1.19 % of the operations failed at the best rate"),
    "unsteady": (
        subject(unsteady=4, unsteady_how="stalled 3, swinging 1"),
        "4 of 6 runs at the best rate are not steady (stalled 3, swinging 1)",
    ),
    "sockets": (subject(ports_median_percent=99.0), "TIME_WAIT 27 900, all sockets 27 900 of 28 232 ports"),
    "client memory": (subject(host_memory_median_percent=96.0), "96 % of the memory"),
    "client ceiling": (subject(bound_by="client", ceiling_percent=92.0), "92 % of what the same clients reach"),
    "clients' links": (
        subject(link_of="clients", link_bits_per_s=1e9, link_used_percent=92.24),
        "92.2 % of the 125 MB/s that these links can carry",
    ),
    "front-ends' links": (subject(link_used_percent=95.0), "95 % of the 75 MB/s that these links can carry"),
    "links of clients and front-ends": (subject(link_of="clients and front-ends", link_used_percent=95), "95 % of"),
    "client network": (subject(link_median_percent=94.4), "eth0 moved 118 MB/s in one direction, 94.4 % of its link"),
    "disturbed": (
        subject(**OTHERS),
        "used 45.5 % of the cores of the clients' host, the clients 20 % and the server 32.5 %",
    ),
    "client CPU (one thread)": (
        subject(client_cpu_median_cores=0.97, axes={"engine": "fsspec"}),
        "client used 0.970 of the 1 core that it can use (one interpreter thread)",
    ),
    "client CPU": (
        subject(client_cpu_median_cores=1.9, host_cpu_median_percent=97.0),
        "host 97 % busy: clients 1.90 of 2 cores",
    ),
    "server CPU": (
        subject(**SHARED, client_cpu_median_cores=0.3, server_cpu_median_cores=1.6),
        "host 98 % busy: clients 0.300, server 1.60 of 2 cores",
    ),
    "CPU of the host that both share": (
        subject(**SHARED, client_cpu_median_cores=0.7, server_cpu_median_cores=0.9),
        "host 98 % busy: clients 0.700, server 0.900 of 2 cores, 0.360 used by the kernel and by other programs",
    ),
    "buckets": (subject([({"buckets": 1}, scaled(0.617))], axes={"buckets": 4}), "4 against 1 bucket: x1.62 [1.6"),
    "accounts": (subject([({"accounts": 1}, scaled(0.5))], axes={"accounts": 21}), "21 against 1 account: x2.00"),
    "front-ends": (
        subject([({"front_ends": 1}, scaled(0.5))], axes={"front_ends": 2}, shared_host=True),
        "x2.00 [1.98, 2.02] (front-ends and clients share",
    ),
    "concurrency: still rising at the most measured": (
        subject(RISING, curves=curve("still rising")),
        "workers 1 to 8: the rate still rises (8 against 4",
    ),
}
UNDISTURBED = [
    subject(**OTHERS | {"client_cpu_percent": 40.0, "server_cpu_percent": 49.0}),  # the kernel's work
    subject(**OTHERS | {"server_cpu_percent": None}),  # the server, perhaps
    subject(points=LINKS, **OTHERS),  # or the links
    subject(host_cpu_percent=60.0, client_cpu_percent=52.0, server_cpu_percent=90.0),  # of another host
    subject(**OTHERS | {"host_cpu_percent": 60.0, "server_cpu_percent": 20.0}),  # a host with room
    subject(host_cpu_percent=None, client_cpu_percent=52.0),
]


def test_each_rule_fires_on_its_limit():
    """Subjects for which a rule does not fire are in THRESHOLDS and in the tests of gains and busy hosts."""
    assert list(CASES) == [rule.verdict for rule in RULES]
    for verdict, (fires, words) in CASES.items():
        found = [(rule.verdict, rule.test(fires)) for rule in RULES if rule.test(fires)]
        assert found[0][0] == verdict and words in found[0][1], verdict


def test_documentation_has_rules_and_thresholds():
    """A change of docs/verdicts.md needs a change here."""
    page = (ROOT / "docs" / "verdicts.md").read_text()
    rows = re.findall(r"^\| \d+ \| `([^`]+)` \| (.+) \|$", page, re.MULTILINE)
    assert rows == [(rule.verdict, rule.says) for rule in RULES] and NOT_KNOWN in page
    assert (verdicts.FAILED, verdicts.PORTS_FULL, verdicts.MEMORY_FULL, verdicts.LINK_FULL, verdicts.BUSY) == (
        1,
        90,
        95,
        92,
        90,
    )
    assert (verdicts.ONE_CORE, verdicts.MORE_THAN_ONE, verdicts.MOSTLY, verdicts.OTHERS) == (0.9, 1.1, 0.8, 10)
    assert (verdicts.GAIN, verdicts.MIN_RUNS, verdicts.MIN_GAIN) == (1.05, 3, 1.1)


PORTS = {"host_ports": 1000, "time_wait_median_sockets": 700}
S3FS = {"engine": "uproot-s3fs"}
BOUND = {"bound_by": "link", "ceiling_percent": 98.9}
APART = "the ranges of 3 and 3 runs do not overlap"
FRONT_ENDS_FULL = verdicts.full_links("front-ends")
THRESHOLDS = [  # rule, what is known, axes, words of the evidence
    (verdicts.errors, {"errors": 1, "operations": 99}, {}, None),
    (verdicts.errors, {"errors": 2, "operations": 98}, {}, "2 % of the operations"),
    (verdicts.errors, {}, {}, None),
    (verdicts.unsteady, {"unsteady": 2, "n": 4, "unsteady_how": "x 2"}, {}, None),
    (verdicts.unsteady, {"unsteady": 3, "n": 4, "unsteady_how": "x 3"}, {}, "3 of 4 runs"),
    (verdicts.unsteady, {"unsteady": 0, "n": 0}, {}, None),
    (verdicts.unsteady, {"unsteady": 1, "n": 1, "unsteady_how": "stalled 1"}, {}, "is not steady (stalled)"),
    (verdicts.sockets, PORTS | {"ports_median_percent": 89.9}, {}, None),
    (verdicts.sockets, PORTS | {"ports_median_percent": 90}, {}, "TIME_WAIT 700, all sockets 900 of 1000 ports"),
    (verdicts.sockets, PORTS | {"ports_median_percent": 90, "shared_host": True}, {}, None),
    (verdicts.sockets, {"ports_median_percent": 179, "host_ports": 1000}, {"front_ends": 2}, None),
    (verdicts.sockets, {"ports_median_percent": 180, "host_ports": 1000}, {"front_ends": 2}, "all sockets 1800"),
    (verdicts.memory, {"host_memory_median_percent": 94.9}, {}, None),
    (verdicts.memory, {"host_memory_median_percent": 95, "client_rss_median_mb": 300}, {}, "in use, 300 MB of it"),
    (verdicts.ceiling, {"bound_by": None, "ceiling_percent": 97}, {}, None),
    (verdicts.ceiling, {"bound_by": "link", "ceiling_percent": 97}, {}, None),
    (verdicts.ceiling, {"bound_by": "client", "ceiling_percent": 97}, {}, "97 % of what the same clients reach"),
    (verdicts.network, {"bound_by": "link", "ceiling_percent": 98.9}, {}, "98.9 % of what the same clients reach over"),
    (verdicts.network, BOUND | {"link_used_percent": 40}, {}, "almost nothing; 40 % of their bandwidth"),
    (verdicts.network, BOUND | {"link_used_percent": 92}, {}, None),
    (verdicts.network, {"link_median_percent": 91.9, "interface": "eth0"}, {}, None),
    (FRONT_ENDS_FULL, {"link_of": "front-ends", "link_used_percent": 91.9}, {}, None),
    (FRONT_ENDS_FULL, {"link_of": "clients", "link_used_percent": 99}, {}, None),
    (FRONT_ENDS_FULL, {"link_of": None, "link_used_percent": None}, {}, None),
    (FRONT_ENDS_FULL, {"link_of": "front-ends", "link_used_percent": 92, "link_bits_per_s": 8e6}, {}, "of the 1 MB/s"),
    (verdicts.network, {"link_median_percent": 92, "network_median_mb_per_s": 112.5}, {}, "112 MB/s in one direction"),
    (verdicts.client_thread, {"client_cpu_median_cores": 0.89}, S3FS | {"clients": 1}, None),
    (verdicts.client_thread, {"client_cpu_median_cores": 0.9}, S3FS | {"clients": 1}, "client used 0.900 of the 1"),
    (verdicts.client_thread, {"client_cpu_median_cores": 1.1}, S3FS | {"clients": 1}, "client used 1.10 of the 1 core"),
    (verdicts.client_thread, {"client_cpu_median_cores": 1.11}, S3FS | {"clients": 1}, None),
    (verdicts.client_thread, {"client_cpu_median_cores": 4}, S3FS | {"clients": 4}, "each client used 1 of the 1 core"),
    (verdicts.client_thread, {"client_cpu_median_cores": 1}, S3FS | {"clients": 4}, None),
    (verdicts.client_thread, {"client_cpu_median_cores": 1}, {"clients": 1}, None),
]


def test_thresholds():
    for number, (rule, row, axes, words) in enumerate(THRESHOLDS):
        found = rule(given(row, axes))
        assert found is None if words is None else words in found, (number, row)


def test_invalid_runs_are_counted_and_the_first_is_named():
    states = {"state": ["ok", "invalid", "invalid", "ok"], "clients": [1, 4, 2, 4], "reason": ["", "late", "soon", ""]}
    points = pd.DataFrame(states | {"workers": [8] * 4})
    few = given({"errors": 1, "operations": 99}, points=points)
    assert verdicts.errors(few) is None, "runs with other settings are not evidence for the best rate"
    assert verdicts.invalid(few) == "2 of 4, the first with 2 clients, 8 workers per client: soon"
    assert (
        verdicts.invalid(given({}, points=points.drop(columns="workers"))) == "2 of 4, the first with 2 clients: soon"
    )
    assert verdicts.invalid(given({})) is None


def test_link_binds_although_host_is_shared():
    bound = subject(bound_by="link", ceiling_percent=99.6, shared_host=True, link_median_percent=None)
    ((verdict, evidence),) = [(rule.verdict, found) for rule in RULES if (found := rule.test(bound))]
    assert verdict == "client network" and evidence.startswith("99.6 % of")


def test_other_programs_disturb_a_host():
    assert [number for number, other in enumerate(UNDISTURBED) if verdicts.disturbed(other)] == []
    found = verdicts.disturbed(subject(host_cpu_percent=50.0, client_cpu_percent=20.0))
    assert found.startswith("other programs used 30 % of the cores of the clients' host, the clients 20 %;")


# Busy hosts

BUSY = {"host_cpu_median_percent": 90, "cores": 10, "shared_host": True}
BUSY |= {"client_cpu_median_cores": 7.2, "server_cpu_median_cores": 1.0}


def test_side_that_made_the_host_busy():
    cases = [
        ({}, ["client"]),
        ({"host_cpu_median_percent": 89.9}, []),
        ({"host_cpu_median_percent": 89.96}, ["client"]),  # printed as 90.0
        ({"client_cpu_median_cores": 7.1}, ["neither"]),
        ({"client_cpu_median_cores": 1.0, "server_cpu_median_cores": 7.2}, ["server"]),
        ({"client_cpu_median_cores": 1.0, "server_cpu_median_cores": 7.1}, ["neither"]),
        ({"client_cpu_median_cores": 1.0, "server_cpu_median_cores": 7.2, "shared_host": False}, []),
        ({"client_cpu_median_cores": 7.2, "shared_host": False}, ["client"]),
        ({"cores": None}, []),
        ({"client_cpu_median_cores": None}, []),
        ({"client_cpu_median_cores": 1.0, "server_cpu_median_cores": None}, ["neither"]),
    ]
    for change, fires in cases:
        s = given(BUSY | change)
        assert [side for side in ("client", "server", "neither") if verdicts.busy_with(side)(s)] == fires, change


def test_cores_of_neither_side_are_reported_above_a_tenth():
    """Cores of client and server, whether they share the host, cores that neither side took."""
    tenth = [(8.0, 0.0, True, None), (7.0, 1.0, True, None), (8.0, None, False, None)]  # 1 of 10 cores
    more = [(7.995, 0.0, True, "1.00"), (7.995, None, False, "1.00"), (5.5, 0.5, True, "3")]  # from 10.05 %
    cases = [*tenth, *more, (1.0, None, True, None)]  # the server's part is not known
    for client, server, shared, taken in cases:
        row = {"client_cpu_median_cores": client, "server_cpu_median_cores": server, "shared_host": shared}
        used, own, other, found = verdicts._sides(given(BUSY | row))
        assert (used, own, other) == (9.0, client, server)
        assert re.findall(r", ([\d.]+) used by", found) == ([] if taken is None else [taken]), row
        assert ("is not known" in found) == (shared and server is None), row
        assert found.startswith(f"host 90 % busy: clients {verdicts._n(client)}") and " of 10 cores" in found
        assert (", server " in found) == (server is not None), row


# Gains


def group(axis, value, *speeds, **others):
    return Group({"clients": 2, "workers": 8, **others, axis: value}, speeds)


def line(axis, **speeds):
    """Return groups of three runs: value -> speed."""
    return [group(axis, int(n), *(speed * k for k in (1, 1.01, 1.02))) for n, speed in speeds.items()]


def test_gain_is_sure_and_large():
    """Without an interval: three runs on each side, apart, and a gain of a tenth; with one: above 1, and 5 %."""
    three = (100, 101, 102)
    cases = [
        (three, (112, 113, 114), "4 against 1 bucket: x1.12, the ranges of 3 and 3 runs do not overlap"),
        (three, (103, 104, 105), None),  # apart, but too small a gain without an interval
        (three, (108, 109, 110), None),
        ((100, 101, 113), (112, 125, 126), None),  # not apart
        ((100, 101, 113), (113, 125, 126), None),  # they touch
        ((100, 101), (150, 151, 152), None),  # two runs
        (three, (150, 151), None),
        ((100.0,), (200.0,), None),
        ((112, 113, 114), three, None),
        ((100,) * 4, (106,) * 4, "4 against 1 bucket: x1.06"),
        ((100,) * 4, (104,) * 4, None),  # sure, but too small
        ((100,) * 4, (100, 110, 110, 110), None),  # the interval begins at 1
        ((100, 100, 100, 120), (110, 110, 110, 90), None),  # the interval holds 1
    ]
    for less, more, found in cases:
        assert verdicts.gain(group("buckets", 1, *less), group("buckets", 4, *more), "buckets") == found, (less, more)


def test_last_step_along_one_axis_counts():
    one, two, four = line("buckets", **{"1": 100, "2": 150, "4": 200})
    other = group("buckets", 8, 900.0, 901.0, 902.0, workers=16)
    none = Group({"clients": 2, "workers": 8, "buckets": None}, (1.0,))

    def found(best, *groups, axis="buckets", **row):
        return verdicts.spread_over(axis)(Subject(best, row, groups, OK, pd.DataFrame()))

    assert found(four, four, one, other, two, none) == f"4 against 2 buckets: x1.33, {APART}"
    assert found(two, one, two, four) is None, "the best value is not at the largest"
    assert found(four, four) is None
    ends = line("front_ends", **{"1": 100, "2": 150})
    result = found(ends[1], *ends, axis="front_ends")
    assert result == "2 against 1 front-end: x1.50, the ranges of 3 and 3 runs do not overlap"
    assert found(ends[1], *ends, axis="front_ends", shared_host=True).startswith(f"{result} (front-ends and clients")
    assert found(four, one, four, shared_host=True) == f"4 against 1 bucket: x2, {APART}"


def test_concurrency_is_still_rising():
    one, two, four = line("clients", **{"1": 100, "2": 150, "4": 152})
    step = "2 against 1 client: x1.50, the ranges of 3 and 3 runs do not overlap"
    shapes = (("still rising", 8), ("knee", 8), ("still rising", 16))
    curves = [pd.DataFrame([{"axis": "clients", "curve": c, "clients": None, "workers": w}]) for c, w in shapes]
    cases = [
        (four, (one, two, four), curves[0], "clients 1 to 4: the rate still rises"),
        (four, (one, two, four), curves[1], None),
        (four, (one, two, four), curves[2], None),  # another curve
        (two, (one, two), curves[0], f"clients 1 to 2: the rate still rises ({step})"),
        (two, (one, two), pd.DataFrame(), step),
        (four, (one, two, four), pd.DataFrame(), None),
        (two, (one, two, four), curves[0], None),  # not at the most
    ]
    for number, (best, groups, found, result) in enumerate(cases):
        assert verdicts.concurrency(Subject(best, {}, groups, OK, found)) == result, number


# Where no rule fires

WAITS = "what the server waits for: disks, locks"


def test_unknown_limit_has_values_below_limits():
    calm = subject([({"workers": 4}, scaled(0.99))], curves=curve("knee"))
    assert not [r for r in RULES if r.test(calm)]
    parts = ["clients 0.400 cores", "server 0.500 cores", "host 60 % busy", "ports 5 %", "links 40 %"]
    found = verdicts.unknown(calm).partition(": ")[2].split(", ")
    assert found == [*parts, "calibrated ceiling 30 %", "the rate levels off at 4 workers"]
    assert verdicts.would_decide(calm) == "more than one number of buckets; more than one number of front-ends"
    peak = verdicts.unknown(given({}, curves=curve("peak", "clients", clients=None, engine="loadgen")))
    assert peak.endswith(": the rate is highest at 4 clients, and lower beyond")
    for s in (given({}), given({}, curves=curve("still rising", "clients", clients=None, engine="loadgen"))):
        assert verdicts.unknown(s) == "no quantity was recorded that could show the limit"


def test_unrecorded_values_fire_no_rule():
    dark = subject(known=dict.fromkeys(CALM), values=FEW)
    assert verdicts.unknown(dark) == "no quantity was recorded that could show the limit"
    assert not [r for r in RULES if r.test(dark)]
    missing = ["clients or workers", "a calibration", "a monitor", "CPU of the server"]
    assert [part for part in [*missing, "4 or more runs"] if part not in verdicts.would_decide(dark)] == []


def test_missing_data_are_named():
    varied = "clients buckets front_ends"
    cases = [  # columns that are missing, whether the host is shared, runs, axes that were varied
        ([], False, 4, "clients workers buckets front_ends", WAITS),
        ([], False, 3, "clients workers buckets front_ends", "4 or more runs of each point"),
        ([], False, 4, varied, WAITS),
        ([], False, 4, "workers buckets front_ends", WAITS),
        ([], False, 4, "buckets front_ends", "more than one number of clients or workers"),
        ([], False, 4, "clients front_ends", "more than one number of buckets"),
        ([], False, 4, "clients buckets", "more than one number of front-ends"),
        (["ceiling_percent"], False, 4, varied, "a calibration"),
        (["ceiling_percent"], True, 4, varied, WAITS),
        (["host_cpu_median_percent"], False, 4, varied, "records with a monitor"),
        (["ports_median_percent"], False, 4, varied, "records with a monitor"),
        (["server_cpu_median_cores"], False, 4, varied, "the CPU of the server"),
        (["link_used_percent"], False, 4, varied, WAITS),
    ]
    for missing, shared, runs, axes, result in cases:
        row = {k: 1.0 for k in verdicts.SHOWN_IN if k not in missing} | {"shared_host": shared}
        found = verdicts.would_decide(given(row, values=(1.0,) * runs, groups=[({a: 9}, (1.0,)) for a in axes.split()]))
        assert found.startswith(result) and found.count(";") == result.count(";"), (missing, shared, runs, axes)


def test_axes_that_the_workload_lacks_or_varied_are_not_missing():
    row = dict.fromkeys(verdicts.SHOWN_IN, 1.0)
    lacks = {"buckets": None, "front_ends": None, "workers": None}
    cases = [  # axes of the best group, changed axes of others, what would decide
        (lacks, [{"clients": 9}], WAITS),
        (lacks, [], "more than one number of clients or workers"),
        ({"buckets": None}, [{"clients": 9, "front_ends": 9}], "clients varied without front-ends"),
        ({"buckets": None}, [{"clients": 9, "front_ends": 9}, {"clients": 9}, {"front_ends": 9}], WAITS),
    ]
    for axes, groups, result in cases:
        found = given(row, axes, values=(1.0,) * 4, groups=[(changed, (1.0,)) for changed in groups])
        assert verdicts.would_decide(found) == result, (axes, groups)


def test_unknown_links_and_contradictions_are_named():
    cases = {
        "the capacity of the links of the front-ends (measure it with iperf3": {"link_unknown": "front-ends"},
        "the correct capacity of the links (1 Gbit/s cannot be": {"link_problem": "1 Gbit/s cannot be the capacity"},
    }
    for found, row in cases.items():
        assert found in verdicts.would_decide(subject(**row)) and found not in verdicts.would_decide(subject()), found


def test_verdict_on_links_has_their_capacity():
    named = {rule.verdict: verdicts.named(rule.verdict, subject()) for rule in RULES}
    full = {verdict: f"{verdict} (2 × 300 Mbit/s)" for verdict in verdicts.FULL.values()}
    assert named == {verdict: verdict for verdict in named} | full


def test_values_of_a_subject():
    s = given({"a": 1, "b": None, "c": math.nan, "shared_host": None})
    assert (s.number("a"), s.number("b"), s.number("c"), s.number("d"), s.shared) == (1.0, None, None, None, False)
    assert Group({}, (3.0, 1.0, 2.0, 10.0)).median == 2.5
