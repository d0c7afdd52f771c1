"""Traffic of each front-end: from its counters, from the records of clients, and cases in which it is not known."""

import pandas as pd
import pytest

from storelab.analysis.latex import systems as latex
from storelab.analysis.records.campaign import Campaign
from storelab.analysis.tables import resources
from storelab.core import records

S = 10**9
BY = ["store", "workload", "object_size_bytes", "engine", "clients", "front_ends"]
URLS = ("http://a:1", "http://b:1", "http://c:1")


def client(number: int, end=10 * S) -> dict:
    return {"client": number, "endpoint": URLS[number % 2], "start_ns": 0, "end_ns": end}


def op(client: int, end_s: float, size=1000, **more) -> dict:
    return {"client": client, "op": "GET", "count": 1, "bytes": size, "end_ns": int(end_s * S), "status": 200} | more


def campaign(folder, runs: dict[str, tuple[dict, list[dict]]]) -> tuple[Campaign, pd.DataFrame]:
    """Return a campaign with these runs of one point. runs: name -> changes of its record, its operations."""
    found, rows = {}, []
    for key, (change, ops) in runs.items():
        columns = {c: [o.get(c) for o in ops] for c in records.OPS}
        records.write_table(folder / "raw" / key / "ops.0.parquet", records.OPS, columns)
        run = {"schema": 4, "start_ns": 0, "deadline_ns": 20 * S, "clients": [client(0), client(1), client(2)]}
        run |= {"point": {"fixed": {"warm_up_ns": 0}, "axes": {"clients": 3}}, "files": {"ops.0.parquet": {}}}
        found[key] = run | change
        row = {"store": "alpha", "workload": "get", "object_size_bytes": 1000, "engine": "obstore", "clients": 3}
        rows.append(row | {"front_ends": 2, "key": key, "state": "ok", "shared_host": False})
    return Campaign(folder, {"points": [], "workloads": {}, "stores": {}}, found, {}), pd.DataFrame(rows)


def table(folder, runs, **change) -> pd.DataFrame:
    known, rated = campaign(folder, runs)
    return resources.traffic_table(resources.traffic_of_runs(known, rated.assign(**change)), BY)


def quoted(folder, change: dict, ops: list[dict]) -> list[tuple]:
    known, rated = campaign(folder, {"k": (change, ops)})
    return resources.traffic_numbers(resources.traffic_of_runs(known, rated.assign(duration_s=10.0)), BY)


# Clients 0 and 2 have front-end 1, client 1 has front-end 2; the first client stops at 10 s: 30 and 10 operations.
OPS = [op(0, 1 + i / 10) for i in range(20)] + [op(2, 9) for _ in range(10)] + [op(1, 5) for _ in range(10)]
OPS += [op(1, 11), op(1, 6, error="Timeout", size=0)]


def test_shares_from_records_of_clients(tmp_path):
    found = table(tmp_path, {"k": ({}, OPS)})
    assert list(found["front_end"]) == [1, 2] and list(found["given_to"]) == [2, 1]
    rates = list(found["operations_median_per_s"])
    assert rates == [3.0, 1.0], "neither failed operations, nor those that ended after the first client"
    assert list(found["throughput_median_mb_per_s"]) == pytest.approx([0.003, 0.001])
    assert list(found["share_median_percent"]) == [75, 25] and set(found["source"]) == {"clients"}
    assert list(found["spread_median_percent"]) == [100, 100], "(3 - 1) over a mean of 2"
    assert found[["received_median_mb_per_s", "sent_median_mb_per_s"]].isna().all().all()
    assert quoted(tmp_path / "one", {}, OPS) == [], "the front-ends did not have equal numbers of clients"


def test_long_operation_counts_by_its_part_in_window(tmp_path):
    """From 0 to 10 s: all of 4 s, 3 of 4 s, 10 of 30 s; counting ends would give 1 and 1."""
    ops = [op(0, 6, start_ns=2 * S), op(2, 11, start_ns=7 * S), op(1, 10, start_ns=0), op(1, 40, start_ns=10 * S)]
    found = table(tmp_path, {"k": ({}, [*ops, op(1, 25, start_ns=-5 * S)])})
    assert list(found["operations_median_per_s"]) == pytest.approx([0.175, (1 + 1 / 3) / 10])
    assert found["share_median_percent"][0] == pytest.approx(100 * 1.75 / (1.75 + 4 / 3))


def network(*moved: tuple[int, int]) -> dict:
    return {f"fe{i + 1}": {"rx_bytes": rx, "tx_bytes": tx} for i, (rx, tx) in enumerate(moved)}


def test_counters_of_front_ends_come_first(tmp_path):
    """In 10 s front-end 1 received 10 MB and sent 50, front-end 2 received 20 and sent 20: 60 % and 40 % of 100 MB."""
    seen = {"coordinator": {"seconds": 10.0, "network": network((10**7, 5 * 10**7), (2 * 10**7, 2 * 10**7))}}
    again = {"coordinator": {"seconds": 10.0, "network": network((10**7, 7 * 10**7), (0, 2 * 10**7))}}
    found = table(tmp_path, {"k": (seen, OPS), "l": (again, OPS)})
    assert list(found["n"]) == [2, 2] and set(found["source"]) == {"counters"}
    assert list(found["received_median_mb_per_s"]) == [1.0, 1.0] and list(found["sent_median_mb_per_s"]) == [6.0, 2.0]
    assert list(found["share_low_percent"]) == [60, 20] and list(found["share_high_percent"]) == [80, 40]
    assert (found["spread_low_percent"].iloc[0], found["spread_high_percent"].iloc[0]) == (40, 120)
    assert list(found["operations_median_per_s"]) == [3.0, 1.0], "from the records of the clients"
    one = {"coordinator": {"seconds": 10.0, "network": network((1, 1))}}
    assert set(table(tmp_path / "one", {"k": (one, OPS)})["source"]) == {"clients"}, "not all have counters"


def test_clients_that_use_all_front_ends(tmp_path):
    axes = {"point": {"fixed": {"warm_up_ns": 0}, "axes": {"clients": 3, "balance": "round_robin"}}}
    ops = [op(0, 1, endpoint=1), op(1, 2, endpoint=1), op(2, 3, endpoint=1), op(2, 4, endpoint=0)]
    found = table(tmp_path, {"k": (axes, ops)})
    assert list(found["share_median_percent"]) == [25, 75] and list(found["given_to"]) == [3, 3]
    assert quoted(tmp_path / "few", axes, ops) == [], "4 operations are spread by chance"
    assert quoted(tmp_path / "many", axes, [o | {"count": 10} for o in ops]) == [
        ("traffic_spread_most", pytest.approx(100), "%"),
        ("traffic_least", 10, ""),
    ]
    binned = [op(0, 1, count=50, size=50_000)]
    assert table(tmp_path / "bins", {"k": (axes, binned)}).empty, "a bin has no front-end"


def test_equal_front_ends_have_no_spread():
    """1/30 + 3/30 is not 2/30 + 2/30 where numbers are rounded: that gave spreads of 0.0000000000000155 %."""
    run = {"clients": [client(c) for c in range(3)], "point": {"axes": {"clients": 3, "balance": "round_robin"}}}
    done = [
        {"client": c, "endpoint": e, "operations": mb, "bytes": mb * 10**6, "seconds": 30.0}
        for c, both in enumerate(((1, 1), (1, 2), (3, 2)))
        for e, mb in enumerate(both)
    ]
    found = list(resources.traffic_of_run(run, 2, done))
    assert [row["spread_percent"] for row in found] == [0, 0]
    assert [row["share_percent"] for row in found] == pytest.approx([50, 50])
    assert [row["throughput_mb_per_s"] for row in found] == pytest.approx([5 / 30, 5 / 30])


def test_front_ends_behind_one_name_have_no_row(tmp_path):
    same = {"clients": [client(c) | {"endpoint": URLS[0]} for c in range(3)]}
    assert table(tmp_path, {"k": (same, OPS)}).empty


def test_shares_of_operations_without_bytes(tmp_path):
    two = {"clients": [client(0), client(1)]}
    found = table(tmp_path, {"k": (two, [op(0, 1, size=0), op(1, 1, size=0)])}, front_ends=3, workload="stat")
    assert list(found["share_median_percent"]) == [50, 50, 0] and list(found["given_to"]) == [1, 1, 0]
    assert found["spread_median_percent"].iloc[0] == pytest.approx(150)


def test_one_front_end_and_invalid_runs_have_no_row(tmp_path):
    for change in ({"front_ends": 1}, {"state": "invalid"}):
        assert table(tmp_path, {"k": ({}, OPS)}, **change).empty, change
    assert table(tmp_path / "none", {"k": ({}, [])}).empty, "there were no operations"


def test_paper_has_shares_and_spread(tmp_path):
    uneven = table(tmp_path, {"k": ({}, OPS)})
    both = pd.concat([uneven, uneven.assign(clients=4, given_to=2)])
    text = latex.traffic(both)
    above, *lines = text.split("\\midrule")[1].split("\\bottomrule")[0].strip().splitlines()
    assert above == r"\multicolumn{6}{@{}l@{}}{\emph{alpha, download}} \\*"
    assert lines == [r" & 2 & 2 & 75.0, 25.0 & 100.0 & 1 \\"]
    assert "1 further group" in text and "From the records of the clients" in text
    assert latex.traffic(uneven) == ""
