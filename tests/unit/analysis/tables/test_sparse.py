"""sparse.csv: bytes, requests and time of a read, with reads of known cost and with drawn ones."""

import statistics
from operator import itemgetter

import drawn_cells
import pandas as pd
import pytest
from drawn_cells import PHASES, S, mean

from campaigns import built
from storelab.analysis.figures import sparse
from storelab.analysis.tables import build, reads


def test_reads_of_known_cost():
    row = build.read(built("example"), "sparse").query("entry_fraction_percent == 0.1 and clients == 1").iloc[0]
    expected = {"entries": 10, "branches": 500, "baskets": 4000, "reads": 240, "amplification_median_ratio": 6}
    expected |= {"needed_median_mb_per_read": 2, "wire_median_mb_per_read": 12, "requests_median_per_read": 6}
    expected |= {"share_amplification_median_ratio": 12 / 0.08, "transfer_median_s_per_read": 0.01}
    expected |= {"reads_median_per_s": 20, "entries_median_per_s": 200}
    expected |= {"needed_median_mb_per_s": 40, "wire_median_mb_per_s": 240}
    assert row[[*expected]].to_dict() == pytest.approx(expected)


def test_reads_by_volume_count_as_reads_of_all_entries(monkeypatch):
    """Four of 4000 entries are 0.08 MB of 80 MB, but 30 MB were moved. The other branches are another selection."""
    rows = {"whole": ("read_volume", 100.0, None), "half": ("read_volume", 50.0, None)}
    rows |= {"few": ("read_entries", 100.0, 0.1), "few of half": ("read_entries", 50.0, 0.1)}
    points = pd.DataFrame(rows.values(), columns=["workload", "volume_fraction_percent", "entry_fraction_percent"])
    points = points.assign(key=list(rows), state="ok", store="a", clients=1)
    amounts = {"needed_mb_per_read": [80, 40, 30, 15], "entries_per_read": [4000, 4000, 4, 4]}
    amounts["wire_mb_per_read"] = amounts["needed_mb_per_read"]
    monkeypatch.setattr(reads.windows, "reads", lambda _: pd.DataFrame(amounts, index=list(rows)))
    found = reads.read_points(None, points, {"volume_fraction_percent": ""}).set_index("key")
    assert found["share_amplification_ratio"].to_dict() == {"whole": 1, "half": 1, "few": 375, "few of half": 375}
    shown = sparse.READS_BY_ENTRIES.captioned_rows(found)
    assert [*shown.index] == ["few", "few of half", "whole"]
    measured = points.assign(workload="read_entries", entry_fraction_percent=100.0)
    assert len(sparse.READS_BY_ENTRIES.captioned_rows(pd.concat([found, measured]))) == 6


def test_share_of_the_entries_is_that_of_reads_of_all_branches():
    """A planner may read a whole file for one entry of few branches, which the printed fractions do not include."""
    other = dict.fromkeys(("amplification_median_ratio", "wire_median_mb_per_s", "entries_median_per_s", "clients"), 1)
    table = pd.DataFrame({"workload": "read_entries", "entry_fraction_percent": [0.001, 0.1]}).assign(**other)
    table["share_amplification_median_ratio"] = [50_000.0, 560.0]
    for fractions, most in (([1.0, 100.0], 560.0), ([1.0, None], 560.0), ([100.0, 100.0], 50_000.0)):
        content = {
            name: value for name, value, _ in reads.sparse_numbers(table.assign(volume_fraction_percent=fractions))
        }
        assert content["share_amplification_most"] == most


def test_text_quotes_reads_of_all_branches():
    """One of 4000 entries is the least of 0.001 %; reads of 1 % of the volume have other amplifications and rates."""
    names = ["entry_fraction_percent", "volume_fraction_percent", "entries", "amplification_median_ratio", "wire"]
    rows = [(0.001, 100, 1, 1.5, 2.0), (100, 100, 4000, 1.0, 9.0), (0.001, 1, 1, 100.0, 90.0)]
    table = pd.DataFrame(rows, columns=names).assign(workload="read_entries", clients=1)
    table = table.assign(share_amplification_median_ratio=None, wire_median_mb_per_s=table["wire"])
    table["entries_median_per_s"] = table["wire"]
    content = {name: value for name, value, _ in reads.sparse_numbers(table)}
    assert (content["amplification_most"], content["amplification_least"]) == (1.5, 1.0)
    assert content["amplification_most_entry_fraction"] == "0.025 %" and content["best_read_wire"] == 9
    alike = table.assign(amplification_median_ratio=[1.0001, 1.0002, 3])
    assert not {"amplification_most", "amplification_least"} & {name for name, *_ in reads.sparse_numbers(alike)}


def expected_of(run):
    """Return column -> value of one run; the amplification of the share needs other runs."""
    rows = drawn_cells.without_openings(run)
    wired = [r for r in rows if r["wire_bytes"] is not None]
    out = {f"{n}_mb_per_read": mean([r[f"{n}_bytes"] for r in rows]) / 1e6 for n in ("needed", "asked", "wire")}
    out |= {f"{n}_per_read": mean([r[n] for r in rows]) for n in ("requests", "entries", "branches", "baskets")}
    out["amplification_ratio"] = sum(r["wire_bytes"] for r in wired) / sum(r["needed_bytes"] for r in wired)
    out |= {"reads_per_s": drawn_cells.rate(run, rows)}
    out |= {"entries_per_s": drawn_cells.rate(run, rows, itemgetter("entries"))}
    out |= {f"{n}_mb_per_s": drawn_cells.rate(run, rows, itemgetter(f"{n}_bytes")) / 1e6 for n in ("needed", "wire")}
    out |= {f"{p}_s_per_read": mean([r[f"{p}_ns"] for r in rows]) / S for p in PHASES}
    return out | drawn_cells.openings(rows)


def test_every_cell_of_drawn_reads():
    """Wire bytes over the entries' share of the volume: that of runs that read all entries, whatever their clients."""
    table, per_read = drawn_cells.table("sparse"), ("entries", "branches", "baskets")
    for sweep, count in (("entries", 4), ("volume", 1)):
        runs = [r for r in drawn_cells.runs().values() if r.point.sweep == sweep]
        whole = [expected_of(r) for r in runs if r.point.axes.get("entry_fraction", 100) == 100]
        volume, entries = (statistics.median(w[c] for w in whole) for c in ("needed_mb_per_read", "entries_per_read"))
        groups = drawn_cells.groups(sweep)
        assert len(groups) == count
        for group in groups:
            of_runs = [expected_of(r) for r in group]
            for one in of_runs:
                one["share_amplification_ratio"] = one["wire_mb_per_read"] * entries / volume / one["entries_per_read"]
            expected = drawn_cells.counted(group) | drawn_cells.cpu(group) | {"shared_host": False}
            expected["few"] = drawn_cells.few(group)
            expected |= {c: float(statistics.median(o.pop(f"{c}_per_read") for o in of_runs)) for c in per_read}
            expected["reads"] = 30 * 3 * group[0].n
            for column in of_runs[0]:
                name = "share_amplification" if column.startswith("share_") else column.partition("_")[0]
                values = [o[column] for o in of_runs]
                expected |= drawn_cells.spread(name, column.removeprefix(f"{name}_"), values)
            assert set(expected) | drawn_cells.identity() == set(table.columns)
            drawn_cells.check(drawn_cells.row_of(table, group[0]), expected, group[0].point.key)
