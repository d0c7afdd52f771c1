"""Columns of links: the capacity, the used fraction, and declarations that cannot be true."""

import copy

import pandas as pd
import pytest
from linked_run import FE1, RUN, M

from storelab.analysis.records.campaign import Campaign
from storelab.analysis.tables import calibration


def made(client=200 * M, front_end=300 * M, workload="get", rate=22.5, run=RUN) -> pd.Series:
    """Return the columns of a run that moved 22 MB/s of payload, and 22.5 MB/s over its link."""
    run = copy.deepcopy(run)
    run["nodes"][0]["watched"]["network"]["eth0"]["link_bits_per_s"] = client
    run["store"]["deployment"]["link_bits_per_s"] = [front_end]
    rates = {"overlap_throughput_mb_per_s": [rate, None], "last_done_throughput_mb_per_s": [22.0, None]}
    points = pd.DataFrame({"key": ["k", "failed"], "workload": workload} | rates)
    found = calibration.with_links(Campaign(None, {}, {"k": run}, {}), points)
    assert found.iloc[1][list(calibration.LINK_COLUMNS)].isna().all()
    return found.iloc[0]


def test_use_of_link_is_payload_or_wire():
    cases = [(made(), 90), (made(rate=23.0), 92), (made(workload="mix", rate=45.0), 90)]
    assert [p["link_used_percent"] for p, _ in cases] == [pytest.approx(percent) for _, percent in cases]
    both = RUN | {"coordinator": {**FE1, "network": {"fe1": {"rx_bytes": 1, "tx_bytes": 200 * M}}}}
    assert made(run=both, workload="mix")["link_used_percent"] == 80, "other traffic of the client does not count"


def test_link_names_its_owner():
    point = made()
    assert (point["link_bits_per_s"], point["link_of"], point["link_each"]) == (200 * M, "clients", "200 Mbit/s")
    assert pd.isna(point["link_unknown"])
    unknown = [made(None), made(front_end=None), made(None, None)]
    assert [p["link_unknown"] for p in unknown] == ["clients", "front-ends", "clients and front-ends"]
    equal = made(300 * M)
    assert (equal["link_of"], equal["link_each"]) == ("clients and front-ends", "300 Mbit/s into 300 Mbit/s")


CONTRADICTIONS = {  # name: (point, what remains as limit, what the problem begins with)
    "client's interface": (
        made(100 * M),
        "front-ends",
        "100 Mbit/s cannot be the capacity of the clients' links: 180 Mb",
    ),
    "front-end without a counter": (
        made(front_end=100 * M),
        "clients",
        "100 Mbit/s cannot be the capacity of the front-",
    ),
    "front-end with a counter": (
        made(front_end=180 * M, run=RUN | {"coordinator": FE1}),
        "clients",
        "180 Mbit/s cannot",
    ),
    "both": (made(10 * M, 20 * M), None, "10 Mbit/s cannot"),
    "within the slack": (made(front_end=174 * M), "front-ends", None),
    "payload of two directions": (made(front_end=100 * M, workload="mix"), "front-ends", None),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_link_below_what_was_measured_is_no_limit(name):
    point, of, problem = CONTRADICTIONS[name]
    assert (None if pd.isna(point["link_of"]) else point["link_of"]) == of
    found = None if pd.isna(point["link_problem"]) else point["link_problem"]
    assert found is None if problem is None else (found.startswith(problem) and "in k" in found)


def test_contradiction_holds_for_all_points_of_the_store():
    slow = copy.deepcopy(RUN)
    slow["nodes"][0]["watched"]["network"]["eth0"] |= {"rx_bytes": 5 * M, "link_bits_per_s": 10**9}
    slow["store"]["deployment"]["link_bits_per_s"] = [100 * M]
    fast = copy.deepcopy(slow)
    fast["nodes"][0]["watched"]["network"]["eth0"]["rx_bytes"] = 250 * M
    other = copy.deepcopy(slow) | {"point": {"store": "beta", "axes": {}}}
    for run in (slow, other):
        run["clients"][0]["bytes"] = M
    points = pd.DataFrame({"key": ["slow", "fast", "other"], "workload": "get"})
    points = points.assign(overlap_throughput_mb_per_s=[0.4, 24.0, 0.4], last_done_throughput_mb_per_s=[0.4, 24.0, 0.4])
    found = calibration.with_links(Campaign(None, {}, {"slow": slow, "fast": fast, "other": other}, {}), points)
    assert list(found["link_of"]) == ["clients", "clients", "front-ends"]
    assert list(found["link_problem"].notna()) == [True, True, False]


def test_group_has_lowest_limit_and_median_use():
    runs = pd.DataFrame([made(), made(rate=23.0), made(250 * M)])
    found = calibration.links_of_group(runs)
    assert found["link_bits_per_s"] == 200 * M and found["link_used_percent"] == pytest.approx(90)
    unknown = calibration.links_of_group(pd.DataFrame([made(None, None)]))
    assert unknown["link_unknown"] == "clients and front-ends" and unknown["link_bits_per_s"] is None
    assert calibration.links_of_group(runs.iloc[:0]) == dict.fromkeys(calibration.LINK_COLUMNS)


def test_text_names_links_source_and_contradiction(tmp_path):
    (tmp_path / "raw").mkdir()
    (tmp_path / "links.yaml").write_text("clients: 1 Gbit/s\nsource: iperf3\n")
    points = pd.DataFrame({"key": ["k"], "workload": "mix"})

    def link_values(*runs: dict) -> dict:
        campaign = Campaign(tmp_path, {}, dict(enumerate(runs)), {})
        return {name: text for name, text, _ in calibration.link_numbers(campaign, points)}

    known = {"links_known": "200 Mbit/s for each client's node and 300 Mbit/s for each front-end"}
    assert link_values(RUN) == known | {"links_declared": "iperf3"}
    other = copy.deepcopy(RUN)
    other["nodes"][0]["watched"]["network"]["eth0"]["link_bits_per_s"] = 250 * M
    other["store"]["deployment"] = {}
    assert link_values(RUN, other)["links_known"].startswith("200 Mbit/s and 250 Mbit/s for each client's node and 300")
    assert link_values(other)["links_known"] == "250 Mbit/s for each client's node"
    slower = copy.deepcopy(RUN)
    slower["nodes"][0]["watched"]["network"]["eth0"]["link_bits_per_s"] = 100 * M
    found = link_values(slower)
    assert found["links_known"] == "300 Mbit/s for each front-end", "a wrong capacity is not stated as known"
    assert found["link_problem"].startswith("100 Mbit/s cannot be the capacity of the clients' links: 180 Mbit/s")
    assert link_values() == {}
