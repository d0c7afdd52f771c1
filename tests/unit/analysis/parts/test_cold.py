"""Proofs of cold reads in tables and in the paper."""

import pandas as pd

from storelab.analysis.latex import rates
from storelab.analysis.parts import groups


def test_run_gives_its_proof_to_tables():
    run = {"cold": {"proven": "cold", "disk_share": 1.25, "step": {"ratio": 2.0}}}
    assert groups.cold_of_run(run) == {"access_proven": "cold", "disk_reads_percent": 125.0, "first_over_again": 2.0}
    nothing = dict.fromkeys(groups.COLD)
    assert groups.cold_of_run({}) == nothing, "an older record"
    assert groups.cold_of_run({"cold": {"proven": None, "disk_share": None, "step": None}}) == nothing


def test_group_has_every_proof_and_medians():
    runs = [groups.cold_of_run({"cold": {"proven": p, "disk_share": s}}) for p, s in (("cold", 1), ("partly", 0.5))]
    found = groups.aggregated(pd.DataFrame(runs).astype(groups.COLD_DTYPES), groups.COLD)
    assert found["access_proven"] == "cold, partly" and found["disk_reads_percent"] == 75
    assert pd.isna(found["first_over_again"])
    none = groups.aggregated(pd.DataFrame([groups.cold_of_run({})]).astype(groups.COLD_DTYPES), groups.COLD)
    assert none["access_proven"] is None and pd.isna(none["disk_reads_percent"])


def groups_of(*rows: dict) -> pd.DataFrame:
    """Return rows of throughput.csv; columns of axes come before `n`."""
    units = (("throughput", "mb_per_s"), ("rate", "per_s"))
    spread = {f"{measure}_{part}_{unit}": 5.0 for measure, unit in units for part in groups.PARTS}
    empty = {"access_proven": None, "disk_reads_percent": None, "first_over_again": None}
    first = {"store": "s", "workload": "get", "workers": 8, "access": "", "n": 3}
    return pd.DataFrame([first | spread | empty | r for r in rows])


def test_paper_shows_proof_next_to_request():
    table = groups_of(
        {"access": "cold", "access_proven": "cold", "disk_reads_percent": 101.0, "first_over_again": 3.0},
        {"access": "warm", "access_proven": "warm", "disk_reads_percent": 0.0},
        {"access": "once"},
        {"access": "warm", "workers": 16, "access_proven": "warm"},
    )
    lines = [line for line in rates.accesses(table).splitlines() if line.startswith("s &")]
    assert [line.split(" & ")[3:6] for line in lines] == [
        ["cold", "cold", "101"],
        ["once", "not shown", "--"],
        ["warm", "warm", "0"],
    ], "without the warm row, which has no cold counterpart"
    assert rates.accesses(table[table["access"] == "warm"]) == ""
    assert rates.accesses(table.drop(columns="access")) == ""
