"""Events processed next to the storage laboratory of 2010: rows, LaTeX and bars."""

import math

import pandas as pd
from printed_rows import events

from storelab.analysis.figures import catalogue, draw
from storelab.analysis.latex import reads as latex
from storelab.analysis.records import published
from storelab.analysis.tables import earlier


def test_cells_that_were_not_printed_stay_empty():
    t = earlier.storage_lab_table(events())
    theirs, ours = t[t["source"] == "published"], t[t["source"] == "measured"]
    lost = theirs[(theirs["system"] == "AFS native") & (theirs["navigation"] == "scan") & (theirs["jobs"] == 40)]
    assert len(lost) == 1 and lost[["mb_per_s", "events"]].isna().all().all()
    assert len(theirs) == 80 and theirs["events_per_s"].isna().all(), "their period is not known"
    row = ours[(ours["system"] == "beta") & (ours["setting"] == "readahead of 2 MiB") & (ours["jobs"] == 4)].iloc[0]
    assert (row["events"], row["events_per_s"], row["mb_per_s"], row["period_s"]) == (144_000, 2400, 240, 60)
    assert set(earlier.best_settings(t)["setting"]) == {"readahead of 2 MiB"}
    text = latex.storage_lab(t)
    assert text.count(r"\label{tab:lab_") == 2 and r"AFS native & 192 & -- & 277 & --" in text
    assert r"\multicolumn{9}{@{}r@{}}{continued}" in text and "7 030" in text.replace(r"\,", " ")
    assert "15 600" in latex.storage_lab(t.assign(events=t["events"].replace(144_000, 15_623.4))).replace(r"\,", " ")


def test_events_are_those_of_the_whole_run():
    """No step ended in a run of 3 s with 15 events/s: the table has 45 events, with the mark of few steps."""
    slow = events().assign(duration_s=3, events_median_per_s=15.0, processed_median_events=0, few=True)
    ours = earlier.storage_lab_table(slow).query("source == 'measured'")
    assert set(ours["events"]) == {45}
    assert r"45\textsuperscript{f}" in latex.storage_lab(earlier.storage_lab_table(slow.assign(**LEVEL)))


LEVEL = {f"events_{part}_per_s": 15.0 for part in ("low", "high")}


def test_requested_bytes_count_where_wire_is_not_known():
    local = events().assign(**{f"wire_{p}_mb_per_s": math.nan for p in ("median", "low", "high")})
    local = earlier.storage_lab_table(local).query("source == 'measured'")
    assert len(local) and local["mb_per_s"].notna().all()
    scan = earlier.storage_lab_table(events().query("navigation == 'scan'"))
    assert set(scan["navigation"]) == {"scan"} and earlier.storage_lab_table(pd.DataFrame()).empty


def test_bars_of_2010_are_hollow_on_separate_axes():
    fig = draw.draw(catalogue.FIGURES["events_bars"], earlier.storage_lab_table(events()))
    ours, theirs = fig.axes[0], fig.axes[1]
    assert theirs.get_title().startswith("published 2010") and theirs.get_xlabel() != ours.get_xlabel()
    assert {b.get_facecolor() for b in theirs.patches} == {(1.0, 1.0, 1.0, 1.0)}
    assert [t.get_text() for t in ours.get_yticklabels()] == ["alpha\nreadahead of 2 MiB", "beta\nreadahead of 2 MiB"]
    assert sorted(b.get_width() for b in ours.patches) == [300, 600, 1200, 2400]
    lost = published.load("hepix_2010_storage_lab").query("use_case == 'CMS'")["events"].isna().sum()
    scan = next(ax for ax in fig.axes[1::2] if "CMS" in ax.get_title())
    assert sum("not printed" in t.get_text() for t in scan.texts) == lost == 10
    assert draw.draw(catalogue.FIGURES["events_bars"], earlier.storage_lab_table(pd.DataFrame())) is None
