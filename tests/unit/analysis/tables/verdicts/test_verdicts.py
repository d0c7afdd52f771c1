"""Verdicts: every rule fires on data that show its limit, and not on data that do not; the page of the rules is in step."""

import re

import pandas as pd
import pytest
from click.testing import CliRunner
from make_examples import ONE_EACH, make
from paths import ROOT

from storelab.analysis.latex import verdicts as latex_verdicts
from storelab.analysis.tables import build, verdicts
from storelab.analysis.tables.verdicts import rules as verdict_rules
from storelab.analysis.tables.verdicts.rules import NOT_KNOWN, RULES, Group, Subject
from storelab.cli import analysis

PAGE = ROOT / "docs" / "verdicts.md"
AXES = {
    "store": "s",
    "workload": "put",
    "engine": "s5cmd",
    "object_size_bytes": 4000,
    "clients": 1,
    "workers": 8,
    "buckets": 1,
    "front_ends": 1,
}
CALM = {  # everything known, nothing at its limit
    "n": 6,
    "unsteady": 0,
    "operations": 1000,
    "errors": 0,
    "shared_host": False,
    "cores": "2",
    "host_ports": "28232",
    "interface": "eth0",
    "client_cpu_median_cores": 0.4,
    "server_cpu_median_cores": 0.5,
    "host_cpu_median_percent": 60.0,
    "client_rss_median_mb": 100.0,
    "host_memory_median_percent": 30.0,
    "ports_median_percent": 5.0,
    "time_wait_median_sockets": 27900.0,
    "network_median_mb_per_s": 118.0,
    "link_median_percent": 40.0,
    "bound_by": None,
    "ceiling_percent": 30.0,
}
STEADY = (100.0, 101.0, 99.0, 100.5, 99.5, 100.2)
OK = pd.DataFrame([{"state": "ok", "reason": None, "clients": 1, "workers": 8}] * 6)


def scaled(factor: float, values=STEADY) -> tuple[float, ...]:
    return tuple(factor * v for v in values)


def subject(groups=(), points=OK, curves=None, axes=None, **row) -> Subject:
    """The best group at AXES | axes, others as (changed axes, values); what is not said is calm."""
    best = Group(AXES | (axes or {}), STEADY)
    others = tuple(Group(best.axes | changed, values) for changed, values in groups)
    return Subject(best, CALM | row, (best, *others), points, pd.DataFrame() if curves is None else curves)


def curve(shape: str, axis: str = "workers", **changed) -> pd.DataFrame:
    return pd.DataFrame([AXES | {axis: None, "axis": axis, "curve": shape, "knee_value": 4.0} | changed])


INVALID = pd.DataFrame(
    [
        *OK.to_dict("records"),
        {"state": "invalid", "reason": "12 % of the operations failed", "clients": 1, "workers": 150},
    ]
)
LINKS = OK.assign(other_cpu_percent=pd.NA)  # the nodes are namespaces of this machine
SHARED = {"shared_host": True, "host_cpu_median_percent": 98.0}
FEW = (100.0, 101.0, 99.0)
# verdict: (a subject in which it is the first to fire, words of its evidence), (subjects in which it does not fire)
CASES = {
    "errors": (
        (subject(points=INVALID), "1 of 7 runs are invalid, the first with 1 client, 150 workers per client: 12 % of the operations failed"),
        (subject(), subject(operations=1000, errors=10)),
    ),
    "unsteady": (
        (subject(unsteady=4, unsteady_how="stalled 3, swinging 1"), "4 of 6 runs at the best rate are not steady (stalled 3, swinging 1)"),
        (subject(unsteady=3),),
    ),
    "sockets": (
        (subject(ports_median_percent=99.0), "TIME_WAIT 27 900, all sockets 27 900 of 28 232 ports"),
        (subject(ports_median_percent=99.0, axes={"front_ends": 2}), subject(ports_median_percent=99.0, shared_host=True), subject(host_ports=None)),
    ),
    "client memory": ((subject(host_memory_median_percent=96.0), "96 % of the memory"), (subject(host_memory_median_percent=None),)),
    "client ceiling": (
        (subject(bound_by="client", ceiling_percent=92.0), "92 % of what the same clients reach"),
        (subject(ceiling_percent=99.0), subject(bound_by="link", ceiling_percent=92.0)),
    ),
    "client network": ((subject(link_median_percent=94.4), "eth0 moved 118 MB/s in one direction, 94.4 % of its link"), (subject(link_median_percent=None),)),
    "disturbed": (
        (
            subject(**SHARED, host_cpu_percent=98.0, client_cpu_percent=20.0, server_cpu_percent=32.5),
            "other programs took 45.5 % of the cores of the clients' host, the clients 20 % and the server 32.5 %",
        ),
        (
            subject(**SHARED, host_cpu_percent=98.0, client_cpu_percent=40.0, server_cpu_percent=49.0),  # the kernel's work
            subject(**SHARED, host_cpu_percent=98.0, client_cpu_percent=20.0, server_cpu_percent=None),  # the server, perhaps
            subject(points=LINKS, **SHARED, host_cpu_percent=98.0, client_cpu_percent=20.0, server_cpu_percent=32.5),  # or the links
            subject(host_cpu_percent=60.0, client_cpu_percent=52.0, server_cpu_percent=90.0),  # of another host
            subject(**SHARED, host_cpu_percent=60.0, client_cpu_percent=20.0, server_cpu_percent=20.0),  # a host with room
            subject(host_cpu_percent=None, client_cpu_percent=52.0),
        ),
    ),
    "client CPU (one thread)": (
        (subject(client_cpu_median_cores=0.97, axes={"engine": "fsspec"}), "client took 0.970 of 1 core it can use (one interpreter thread)"),
        (
            subject(client_cpu_median_cores=0.97),
            subject(client_cpu_median_cores=0.97, axes={"engine": "fsspec", "clients": 2}),
            subject(client_cpu_median_cores=1.6, axes={"engine": "fsspec"}),
        ),
    ),
    "client CPU": (
        (subject(client_cpu_median_cores=1.9, host_cpu_median_percent=97.0), "host 97 % busy: clients 1.90 of 2 cores"),
        (subject(client_cpu_median_cores=1.9, host_cpu_median_percent=80.0), subject(client_cpu_median_cores=1.2, host_cpu_median_percent=97.0)),
    ),
    "server CPU": (
        (subject(**SHARED, client_cpu_median_cores=0.3, server_cpu_median_cores=1.6), "host 98 % busy: clients 0.300, server 1.60 of 2 cores"),
        (
            subject(**SHARED, server_cpu_median_cores=1.2),
            subject(host_cpu_median_percent=98.0, server_cpu_median_cores=1.9),  # of another host than the one that is busy
            subject(**SHARED, server_cpu_median_cores=None),
        ),
    ),
    "CPU of the host that both share": (
        (
            subject(**SHARED, client_cpu_median_cores=0.7, server_cpu_median_cores=0.9),
            "host 98 % busy: clients 0.700, server 0.900 of 2 cores, 0.360 taken by the kernel and by other programs",
        ),
        (subject(shared_host=True), subject(**SHARED, server_cpu_median_cores=1.9), subject(host_cpu_median_percent=98.0)),
    ),
    "buckets": (
        (subject([({"buckets": 1}, scaled(0.617))], axes={"buckets": 4}), "4 against 1 bucket: x1.62 [1.6"),
        (
            subject([({"buckets": 4}, scaled(0.9))]),  # the best is at the fewest
            subject([({"buckets": 1}, scaled(0.99))], axes={"buckets": 4}),
            subject([({"buckets": 1, "clients": 2}, scaled(0.5))], axes={"buckets": 4}),  # not the buckets alone
            subject([({"buckets": 1}, scaled(0.5)), ({"buckets": 2}, scaled(0.999))], axes={"buckets": 4}),  # two are enough
        ),
    ),
    "accounts": ((subject([({"accounts": 1}, scaled(0.5))], axes={"accounts": 21}), "21 against 1 account: x2.00"), (subject(axes={"accounts": 21}),)),
    "front-ends": (
        (subject([({"front_ends": 1}, scaled(0.5))], axes={"front_ends": 2}, shared_host=True), "x2.00 [1.98, 2.02] (front-ends and clients share"),
        (subject([({"front_ends": 2}, scaled(0.5))]),),
    ),
    "concurrency: still rising at the most measured": (
        (subject([({"workers": 4}, scaled(0.6)), ({"workers": 1}, scaled(0.2))], curves=curve("still rising")), "workers 1 to 8: the rate still rises (8 against 4"),
        (
            subject([({"workers": 4}, scaled(0.6)), ({"workers": 1}, scaled(0.2))], curves=curve("knee")),
            subject([({"workers": 4}, scaled(0.99))]),
            subject([({"workers": 16}, scaled(0.9))], curves=curve("still rising")),  # the best is not at the most
            subject([({"workers": 4}, scaled(0.6))], curves=curve("knee")),
        ),
    ),
}  # fmt: skip


def test_every_rule_has_cases():
    assert list(CASES) == [rule.verdict for rule in RULES]


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.verdict)
def test_fires_and_does_not(rule):
    (fires, words), not_these = CASES[rule.verdict]
    assert words in rule.test(fires)
    first = next(r.verdict for r in RULES if r.test(fires))
    assert first == rule.verdict, "the first that fires is the verdict"
    for other in not_these:
        assert rule.test(other) is None


def test_a_link_that_binds_is_the_client_network_although_the_host_is_shared():
    bound = subject(bound_by="link", ceiling_percent=99.6, shared_host=True, link_median_percent=None)
    fired = [(rule.verdict, evidence) for rule in RULES if (evidence := rule.test(bound))]
    said = "99.6 % of what the same clients reach over their links against a server that does almost nothing"
    assert fired == [("client network", said)]


def test_others_that_take_more_than_the_measurement_disturb_it_whatever_is_idle():
    said = verdict_rules.disturbed(subject(host_cpu_percent=50.0, client_cpu_percent=20.0))
    assert said.startswith("other programs took 30 % of the cores of the clients' host, the clients 20 %:")


def test_at_the_best_rate_failed_operations_count():
    assert verdict_rules.errors(subject(operations=97, errors=3)) == "3 % of the operations failed at the best rate"


def test_a_gain_needs_an_interval_or_runs_apart():
    less, more = (Group({"buckets": b}, v) for b, v in ((1, FEW), (4, scaled(1.5, FEW))))
    assert verdict_rules.gain(less, more, "buckets") == "4 against 1 bucket: x1.50, ranges of 3 and 3 runs apart"
    assert verdict_rules.gain(less, Group({"buckets": 4}, scaled(1.005, FEW)), "buckets") is None, "they overlap"
    assert verdict_rules.gain(less, Group({"buckets": 4}, scaled(1.04, FEW)), "buckets") is None, (
        "apart, and too little for three runs"
    )
    assert verdict_rules.gain(Group({"buckets": 1}, (100.0,)), Group({"buckets": 4}, (200.0,)), "buckets") is None, (
        "one run tells nothing"
    )
    assert verdict_rules.gain(more, less, "buckets") is None


def test_not_known_says_what_is_known_and_what_would_tell():
    calm = subject([({"workers": 4}, scaled(0.99))], curves=curve("knee"))
    assert not [r for r in RULES if r.test(calm)]
    said = verdict_rules.unknown(calm)
    assert (
        "clients 0.400 cores" in said
        and "host 60 % busy" in said
        and "link 40 %" in said
        and "levels off at 4 workers" in said
    )
    assert verdict_rules.would_tell(calm) == "more than one number of buckets; more than one number of front-ends"
    dark = subject(**dict.fromkeys(CALM))
    dark = Subject(Group(dark.best.axes, FEW), dark.row, (Group(dark.best.axes, FEW),), OK, pd.DataFrame())
    assert verdict_rules.unknown(dark) == "nothing was recorded that could tell"
    for missing in (
        "clients or workers",
        "a calibration",
        "a monitor",
        "CPU of the server",
        "clients' link",
        "4 or more runs",
    ):
        assert missing in verdict_rules.would_tell(dark), missing
    assert not [r.verdict for r in RULES if r.test(dark)], "what is not recorded is not claimed"


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    folder = tmp_path_factory.mktemp("verdicts")
    sweeps = {
        "up": {
            "workload": "put",
            "duration": "4 s",
            "axes": {"object_size": ["4 kB", "10 MB"], "clients": [1, 2], "front_ends": [1, 2]},
        },
        "open": {"workload": "get", "duration": "4 s", "axes": {"engine": "obstore", "arrival_rate": 50}},
        "probe": {"workload": "probe", "duration": "4 s", "axes": {}},
    }
    make(folder, sweeps=sweeps, repetitions=6, failed=())
    build.build(folder, ["verdicts", "points"])
    return folder


def test_a_row_for_each_store_workload_and_size(example):
    t = build.read(example, "verdicts")
    assert list(t.columns) == list(verdicts.COLUMNS)
    assert list(t["workload"]) == ["put", "put"], "a probe has no rate, an open loop no limit"
    assert list(t["what"]) == ["4 kB objects", "10 MB objects"] and list(t["unit"]) == ["objects/s", "MB/s"]
    small = t.iloc[0]
    assert (small["store"], small["deployment"], small["engine"], small["n"]) == ("alpha", "alpha", "s5cmd", 6)
    assert small["where"] == "2 clients, 8 workers per client, 2 front-ends" and small["best"] == pytest.approx(
        400, rel=0.02
    )
    assert small["verdict"] == "front-ends" and small["evidence"].startswith("2 against 1 front-end: x2.00 [")
    assert "concurrency: still rising at the most measured: 2 against 1 client: x2" in small["also"] and pd.isna(
        small["would_tell"]
    )


def test_terminal_and_paper(example, tmp_path):
    said = CliRunner().invoke(analysis.verdict, ["--campaign-dir", str(example)])
    assert said.exit_code == 0, said.output
    assert (
        "alpha, put, s5cmd, 4 kB objects: " in said.output
        and "limited by: front-ends" in said.output
        and "also: concurrency" in said.output
    )
    tex = latex_verdicts.verdicts(build.read(example, "verdicts"))
    assert r"\label{tab:verdicts}" in tex and "front-ends" in tex and "objects/s" in tex
    assert [line for line in tex.splitlines() if "emph{alpha}" in line] == [
        r"\multicolumn{4}{@{}l@{}}{\emph{alpha}} \\"
    ]
    make(tmp_path, failed=("put", "get", "read_entries"), repetitions=1, sweeps=ONE_EACH)
    build.build(tmp_path, ["verdicts", "points"])
    none = CliRunner().invoke(analysis.verdict, ["--campaign-dir", str(tmp_path)])
    assert "no measured point with a rate" in str(none.exception)


def test_the_page_has_the_rules_in_their_order():
    rows = re.findall(r"^\| \d+ \| `([^`]+)` \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    assert rows == [(rule.verdict, rule.says) for rule in RULES], (
        "docs/verdicts.md is out of step with verdict_rules.RULES"
    )
    assert NOT_KNOWN in PAGE.read_text()
