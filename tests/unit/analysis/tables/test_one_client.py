"""One client's threads next to those of 2012: rows of both sides, settings, and the table in LaTeX."""

import pandas as pd
from printed_rows import threads
from throughput_rows import groups

from storelab.analysis.latex import rates as latex
from storelab.analysis.tables import earlier


def test_rows_are_measured_or_published():
    t = earlier.one_client_table(threads())
    ours, theirs = t[t["source"] == "measured"], t[t["source"] != "measured"]
    assert len(ours) == 12 and list(ours["rate_median_per_s"][:3]) == [10, 80, 90]
    assert ours["rate_spread_per_s"].isna().all()
    assert len(theirs) == 36 and theirs["rate_low_per_s"].isna().all() and set(theirs["system"]) == {earlier.SYSTEM}
    only = earlier.one_client_table(groups(object_size_bytes=[4096]))
    assert set(only["operation"]) == {"upload"} and len(only) == 12 + 1
    for change in ({"clients": [2]}, {"object_size_bytes": [10**6]}, {"workload": ["stat"]}):
        assert earlier.one_client_table(groups(**change)).empty, change


def test_latex_has_both_sides_in_columns():
    text = latex.one_client(earlier.one_client_table(threads()))
    lines = [line.split(" & ") for line in text.splitlines()]
    assert ["8", r"33.9 $\pm$ 4.4", r"0.13 $\pm$ 0.02", r"80.0 [72.0, 88.0] \\"] in lines
    assert ["64", "--", "--", r"90.0 [81.0, 99.0] \\"] in lines
    assert ["200", r"51.2 $\pm$ 3.4", r"0.19 $\pm$ 0.01", r"-- \\"] in lines
    (block,) = (line for line in text.splitlines() if "upload of 4~kB" in line)
    assert block.startswith(r"\multicolumn{4}"), "as many columns as the table has"


def test_rates_of_few_operations_have_a_mark():
    rows = groups(object_size_bytes=4000, workers=[1, 8, 12], value=[10.0, 20.0, 21.0])
    text = latex.one_client(earlier.one_client_table(rows.assign(few=[False, True, False])))
    assert text.count(r"\textsuperscript{f}") == 1 and r"20.0 [18.0, 22.0]\textsuperscript{f}" in text


def test_settings_have_separate_columns():
    """Points that differ in something else have separate columns, the usual ones first; five of many are shown."""
    usual = groups(object_size_bytes=4000, workers=[1, 8, 12], value=[10.0, 20.0, 21.0])
    other = groups(object_size_bytes=4000, workers=[1, 8, 12], front_ends=2, value=[30.0, 40.0, 41.0])
    both = [usual, other] + [groups(object_size_bytes=4000, workers=[1], buckets=b) for b in (2, 3, 4, 5, 6)]
    t = earlier.one_client_table(pd.concat(both, ignore_index=True))
    assert set(t["setting"].dropna()) == {"", "2 front-ends"}
    text = latex.one_client(t)
    assert "5 of 7 settings" in text and "front-ends" not in text.partition(r"\midrule")[0]
    line = next(line for line in text.splitlines() if line.startswith("8 & 33.9"))
    assert line.count(" & ") == 7 and "20.0 [18.0, 22.0]" in line and "40.0" not in line


def test_two_numbers_of_threads_make_no_table():
    """A system with three numbers of threads has a table next to the eighteen printed rows."""
    few = [groups(object_size_bytes=4000, workers=[1, 8]), groups(object_size_bytes=4000, workers=[12], buckets=4)]
    enough = groups(object_size_bytes=10**7, workers=[1, 8, 12], store="beta")
    for rows, systems in ((few, 0), ([*few, enough], 1)):
        t = earlier.one_client_table(pd.concat(rows, ignore_index=True))
        assert latex.one_client(t).count(r"\begin{longtable}") == systems
    assert latex.one_client(earlier.one_client_table(groups(clients=[2]))) == ""
