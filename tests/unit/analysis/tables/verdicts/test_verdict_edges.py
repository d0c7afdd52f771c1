"""Rules of the verdicts at their thresholds, and the words of their evidence: numbers are given, nothing is measured."""

import math

import pandas as pd
import pytest

from storelab.analysis.tables.verdicts import rules
from storelab.analysis.tables.verdicts.subject import Group, Subject

POINTS = pd.DataFrame({"state": ["ok"] * 4, "clients": [1, 2, 2, 4], "workers": [8] * 4, "reason": [None] * 4})


def subject(row=None, values=(100.0, 101.0, 102.0), axes=None, groups=(), points=POINTS, curves=None):
    best = Group(axes or {"clients": 2, "workers": 8, "engine": "loadgen"}, values)
    return Subject(best, row or {}, (*groups, best), points, pd.DataFrame() if curves is None else curves)


@pytest.mark.parametrize(
    ("rule", "row", "axes", "said"),
    [
        (rules.errors, {"errors": 1, "operations": 99}, None, None),
        (rules.errors, {"errors": 2, "operations": 98}, None, "2 % of the operations failed at the best rate"),
        (rules.errors, {}, None, None),
        (rules.unsteady, {"unsteady": 2, "n": 4, "unsteady_how": "x 2"}, None, None),
        (rules.unsteady, {"unsteady": 3, "n": 4, "unsteady_how": "x 3"}, None, "3 of 4 runs at the best rate are not steady (x 3)"),
        (rules.unsteady, {"unsteady": 0, "n": 0}, None, None),
        (rules.sockets, {"ports_median_percent": 89.9, "host_ports": 1000, "time_wait_median_sockets": 700}, None, None),
        (rules.sockets, {"ports_median_percent": 90, "host_ports": 1000, "time_wait_median_sockets": 700}, None, "TIME_WAIT 700, all sockets 900 of 1000 ports"),
        (rules.sockets, {"ports_median_percent": 90, "host_ports": 1000, "shared_host": True}, None, None),
        (rules.sockets, {"ports_median_percent": 179, "host_ports": 1000}, {"front_ends": 2}, None),
        (rules.sockets, {"ports_median_percent": 180, "host_ports": 1000}, {"front_ends": 2}, "TIME_WAIT 0, all sockets 1800 of 1000 ports for each of 2 front-ends"),
        (rules.memory, {"host_memory_median_percent": 94.9}, None, None),
        (rules.memory, {"host_memory_median_percent": 95, "client_rss_median_mb": 300}, None, "95 % of the memory of the clients' host in use, 300 MB of it by the clients"),
        (rules.ceiling, {"bound_by": None, "ceiling_percent": 97}, None, None),
        (rules.ceiling, {"bound_by": "link", "ceiling_percent": 97}, None, None),
        (rules.ceiling, {"bound_by": "client", "ceiling_percent": 97}, None, "97 % of what the same clients reach against a server that does almost nothing"),
        (rules.network, {"bound_by": "link", "ceiling_percent": 98.9}, None, "98.9 % of what the same clients reach over their links against a server that does almost nothing"),
        (rules.network, {"link_median_percent": 89.9, "interface": "eth0"}, None, None),
        (rules.network, {"link_median_percent": 90, "network_median_mb_per_s": 112.5, "interface": "eth0"}, None, "eth0 moved 112 MB/s in one direction, 90 % of its link"),
        *[
            (rules.client_thread, {"client_cpu_median_cores": cpu}, {"clients": n, "engine": engine}, said)
            for cpu, n, engine, said in [
                (0.89, 1, "uproot-s3fs", None),
                (0.9, 1, "uproot-s3fs", "client took 0.900 of 1 core it can use (one interpreter thread)"),
                (1.1, 1, "uproot-s3fs", "client took 1.10 of 1 core it can use (one interpreter thread)"),
                (1.11, 1, "uproot-s3fs", None),
                (4, 4, "uproot-s3fs", "each client took 1 of 1 core it can use (one interpreter thread)"),
                (1, 4, "uproot-s3fs", None),
                (1, 1, "loadgen", None),
            ]
        ],
    ],
)  # fmt: skip
def test_thresholds(rule, row, axes, said):
    assert rule(subject(row, axes=axes)) == said


def test_invalid_runs_are_named_from_the_first_on():
    points = POINTS.assign(
        state=["ok", "invalid", "invalid", "ok"], clients=[1, 4, 2, 4], reason=["", "late", "soon", ""]
    )
    said = rules.errors(subject({"errors": 5, "operations": 95}, points=points))
    assert (
        said
        == "5 % of the operations failed at the best rate; 2 of 4 runs are invalid, the first with 2 clients, 8 workers per client: soon"
    )
    alone = rules.errors(subject({"errors": 1, "operations": 99}, points=points.drop(columns="workers")))
    assert alone == "2 of 4 runs are invalid, the first with 2 clients: soon"


BUSY = {
    "host_cpu_median_percent": 90,
    "cores": 10,
    "client_cpu_median_cores": 7.2,
    "server_cpu_median_cores": 1.0,
    "shared_host": True,
}


@pytest.mark.parametrize(
    ("change", "fires"),
    [
        ({}, "client"),
        ({"host_cpu_median_percent": 89.9}, ""),
        ({"client_cpu_median_cores": 7.1}, "neither"),
        ({"client_cpu_median_cores": 1.0, "server_cpu_median_cores": 7.2}, "server"),
        ({"client_cpu_median_cores": 1.0, "server_cpu_median_cores": 7.1}, "neither"),
        ({"client_cpu_median_cores": 1.0, "server_cpu_median_cores": 7.2, "shared_host": False}, ""),
        ({"client_cpu_median_cores": 7.2, "shared_host": False}, "client"),
        ({"cores": None}, ""),
        ({"client_cpu_median_cores": None}, ""),
    ],
)
def test_who_made_the_host_busy(change, fires):
    s = subject(BUSY | change)
    assert [side for side in ("client", "server", "neither") if rules.busy_with(side)(s)] == ([fires] if fires else [])


def test_words_of_a_busy_host():
    """9 cores are busy; what neither side took is told from a tenth of the host on."""
    assert rules.busy_with("client")(subject(BUSY)) == "host 90 % busy: clients 7.20, server 1 of 10 cores"
    more = BUSY | {"server_cpu_median_cores": 0.5}
    assert (
        rules.busy_with("client")(subject(more))
        == "host 90 % busy: clients 7.20, server 0.500 of 10 cores, 1.30 taken by the kernel and by other programs"
    )
    apart = BUSY | {"shared_host": False}
    assert (
        rules.busy_with("client")(subject(apart))
        == "host 90 % busy: clients 7.20 of 10 cores, 1.80 taken by the kernel and by other programs"
    )
    unknown = BUSY | {"server_cpu_median_cores": None}
    told = "host 90 % busy: clients 7.20 of 10 cores, the server's part is not known"
    assert rules.busy_with("client")(subject(unknown)) == told


def group(axis, value, *speeds, **others):
    return Group({"clients": 2, "workers": 8, **others, axis: value}, speeds)


@pytest.mark.parametrize(
    ("less", "more", "said"),
    [
        ((100, 101, 102), (112, 113, 114), "4 against 1 bucket: x1.12, ranges of 3 and 3 runs apart"),
        ((100, 101, 102), (103, 104, 105), None),  # apart, and too small a gain to say it without an interval
        ((100, 101, 102), (108, 109, 110), None),
        ((100, 101, 113), (112, 125, 126), None),  # not apart
        ((100, 101, 113), (113, 125, 126), None),  # they touch
        ((100, 101), (150, 151, 152), None),  # two runs
        ((100, 101, 102), (150, 151), None),
        ((100, 100, 100, 100), (106, 106, 106, 106), "4 against 1 bucket: x1.06 [1.06, 1.06]"),
        ((100, 100, 100, 100), (104, 104, 104, 104), None),  # sure, and not worth a word
        ((100, 100, 100, 100), (100, 110, 110, 110), None),  # it begins at 1
        ((100, 100, 100, 120), (110, 110, 110, 90), None),  # the interval holds 1
    ],
)
def test_a_gain_is_sure_and_large(less, more, said):
    assert rules.gain(group("buckets", 1, *less), group("buckets", 4, *more), "buckets") == said


def test_the_last_step_counts_and_only_along_one_axis():
    one, two, four = (
        group("buckets", n, *(speed * k for k in (1, 1.01, 1.02))) for n, speed in ((1, 100), (2, 150), (4, 200))
    )
    other = group("buckets", 8, 900.0, 901.0, 902.0, workers=16)
    none = Group({"clients": 2, "workers": 8, "buckets": None}, (1.0,))

    def found(best, *groups, row=None, axis="buckets"):
        return rules.spread_over(axis)(Subject(best, row or {}, groups, POINTS, pd.DataFrame()))

    assert found(four, four, one, other, two, none) == "4 against 2 buckets: x1.33, ranges of 3 and 3 runs apart"
    assert found(two, one, two, four) is None, "the best is not at the most"
    assert found(four, four) is None
    ends = [group("front_ends", n, *(speed * k for k in (1, 1.01, 1.02))) for n, speed in ((1, 100), (2, 150))]
    said = "2 against 1 front-end: x1.50, ranges of 3 and 3 runs apart"
    assert found(ends[1], *ends, axis="front_ends") == said
    assert (
        found(ends[1], *ends, axis="front_ends", row={"shared_host": True})
        == f"{said} (front-ends and clients share the cores of one host)"
    )
    assert found(four, one, four, row={"shared_host": True}) == "4 against 1 bucket: x2, ranges of 3 and 3 runs apart"


def curve(shape, axis="clients", knee=math.nan, **axes):
    return pd.DataFrame([{"axis": axis, "curve": shape, "knee_value": knee, "clients": None, "workers": 8} | axes])


def test_still_rising():
    one, two, four = (
        group("clients", n, *(speed * k for k in (1, 1.01, 1.02))) for n, speed in ((1, 100), (2, 150), (4, 152))
    )
    rising = Subject(four, {}, (one, two, four), POINTS, curve("still rising"))
    assert rules.concurrency(rising) == "clients 1 to 4: the rate still rises"
    assert rules.concurrency(Subject(four, {}, (one, two, four), POINTS, curve("knee"))) is None
    assert rules.concurrency(Subject(four, {}, (one, two, four), POINTS, curve("still rising", workers=16))) is None, (
        "another curve"
    )
    assert rules.concurrency(Subject(two, {}, (one, two), POINTS, curve("still rising"))) == (
        "clients 1 to 2: the rate still rises (2 against 1 client: x1.50, ranges of 3 and 3 runs apart)"
    )
    assert (
        rules.concurrency(Subject(two, {}, (one, two), POINTS, pd.DataFrame()))
        == "2 against 1 client: x1.50, ranges of 3 and 3 runs apart"
    )
    assert rules.concurrency(Subject(four, {}, (one, two, four), POINTS, pd.DataFrame())) is None
    assert rules.concurrency(Subject(two, {}, (one, two, four), POINTS, curve("still rising"))) is None, (
        "not at the most"
    )


def test_not_known_names_what_was_below_its_limit():
    row = {
        "client_cpu_median_cores": 0.5,
        "server_cpu_median_cores": 1.25,
        "host_cpu_median_percent": 40,
        "ports_median_percent": 3,
    }
    row |= {"link_median_percent": 12, "ceiling_percent": 33.3}
    said = rules.unknown(subject(row, axes={"clients": 2, "workers": 8}, curves=curve("knee", knee=3.5)))
    assert said.endswith("calibrated ceiling 33.3 %, the rate levels off at 3.50 clients")
    assert said.startswith(
        "nothing recorded was at its limit: clients 0.500 cores, server 1.25 cores, host 40 % busy, ports 3 %, link 12 %, "
    )
    peak = rules.unknown(subject({}, axes={"clients": 2, "workers": 8}, curves=curve("peak", knee=4)))
    assert peak == "nothing recorded was at its limit: the rate is highest, and falls again, at 4 clients"
    assert (
        rules.unknown(subject({}, axes={"clients": 2, "workers": 8}, curves=curve("still rising", knee=4)))
        == "nothing was recorded that could tell"
    )
    assert rules.unknown(subject({})) == "nothing was recorded that could tell"


ALL_KNOWN = dict.fromkeys(rules.MEASURED, 1.0)


@pytest.mark.parametrize(
    ("missing", "shared", "values", "varied", "said"),
    [
        ([], False, 4, "clients workers buckets front_ends", ""),
        ([], False, 3, "clients workers buckets front_ends", "4 or more runs of each point"),
        ([], False, 4, "clients buckets front_ends", ""),
        ([], False, 4, "workers buckets front_ends", ""),
        ([], False, 4, "buckets front_ends", "more than one number of clients or workers"),
        ([], False, 4, "clients front_ends", "more than one number of buckets"),
        ([], False, 4, "clients buckets", "more than one number of front-ends"),
        (["ceiling_percent"], False, 4, "clients buckets front_ends", "a calibration"),
        (["ceiling_percent"], True, 4, "clients buckets front_ends", ""),
        (["host_cpu_median_percent"], False, 4, "clients buckets front_ends", "records with a monitor"),
        (["ports_median_percent"], False, 4, "clients buckets front_ends", "records with a monitor"),
        (["server_cpu_median_cores"], False, 4, "clients buckets front_ends", "the CPU of the server"),
        (["link_median_percent"], False, 4, "clients buckets front_ends", "the speed of the clients' link"),
        (["link_median_percent"], True, 4, "clients buckets front_ends", ""),
        (["server_cpu_median_cores", "link_median_percent"], False, 4, "clients buckets front_ends", "the CPU of the server; the speed of the clients' link"),
    ],
)  # fmt: skip
def test_what_would_tell(missing, shared, values, varied, said):
    axes = {"clients": 2, "workers": 8, "buckets": 1, "front_ends": 1}
    best = Group(axes, (1.0,) * values)
    others = [Group(axes | {axis: 9}, (1.0,)) for axis in varied.split()]
    row = {k: v for k, v in ALL_KNOWN.items() if k not in missing} | {"shared_host": shared}
    assert rules.would_tell(Subject(best, row, (best, *others), POINTS, pd.DataFrame())) == said


def test_the_documented_thresholds():
    """docs/verdicts.md states them; a change there is a change here."""
    assert (rules.FAILED, rules.PORTS_FULL, rules.MEMORY_FULL, rules.LINK_FULL, rules.BUSY) == (1, 90, 95, 90, 90)
    assert (rules.ONE_CORE, rules.MORE_THAN_ONE, rules.MOSTLY, rules.GAIN, rules.LEAST_RUNS, rules.LEAST_GAIN) == (
        0.9,
        1.1,
        0.8,
        1.05,
        3,
        1.1,
    )


def test_what_is_known_of_the_best_group():
    s = subject({"a": 1, "b": None, "c": float("nan"), "shared_host": None})
    assert (s.number("a"), s.number("b"), s.number("c"), s.number("d"), s.shared) == (1.0, None, None, None, False)
    assert Group({}, (3.0, 1.0, 2.0, 10.0)).median == 2.5
