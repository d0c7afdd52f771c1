"""Opening a file is not a read: one definition, the same in sparse.csv, events.csv and LaTeX.

The example's first reads include an opening of 1 MB in 3 requests and 1 ms (tests/support/make_examples.py).
"""

import json

import pandas as pd
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from make_examples import make

from storelab.analysis.latex import reads as latex_sparse
from storelab.analysis.tables import build
from storelab.core import integrity, records

READ = {100.0: (80.0, 8), 0.1: (12.0, 6)}  # percent of the entries -> MB on the wire and requests of one read
SWEEPS = {
    "entries": {
        "workload": "read_entries",
        "duration": "4 s",
        "axes": {"entry_fraction": [100, 0.1], "clients": [1, 2]},
    },
    "jobs": {"workload": "events", "duration": "4 s", "axes": {"clients": [1, 2], "files": 2, "step": 20}},
}


def built(folder, change=None) -> tuple[pd.DataFrame, pd.DataFrame]:
    make(folder, failed=(), repetitions=1, stores_to_measure=["alpha"], sweeps=SWEEPS)
    for path in (folder / "raw").rglob("run.json") if change else ():
        change(path)
    if change:
        integrity.write_sums(folder / "raw")
    build.build(folder, ["sparse", "events"])
    sparse = build.read(folder, "sparse")
    return sparse[sparse["workload"] == "read_entries"], build.read(folder, "events")


def opening(row: pd.Series) -> list[float]:
    return [row[f"opening_median_{unit}"] for unit in ("requests", "mb", "s")]


def test_opening_has_separate_columns(tmp_path):
    sparse, events = built(tmp_path)
    assert len(sparse) == 4 and len(events) == 2
    for _, r in sparse.iterrows():
        mb, requests = READ[r["entry_fraction_percent"]]
        assert (r["wire_median_mb_per_read"], r["requests_median_per_read"]) == (mb, requests)
        assert r["asked_median_mb_per_read"] == mb
        assert r["amplification_median_ratio"] == pytest.approx(mb / {100.0: 80, 0.1: 2}[r["entry_fraction_percent"]])
    for _, r in [*sparse.iterrows(), *events.iterrows()]:
        assert opening(r) == pytest.approx([3, 1.0, 0.001])
    assert not [c for c in [*sparse, *events] if c.startswith("open_")]
    found = latex_sparse.entries(sparse)
    assert "; opening the file: 3 requests, 1~MB, 1~ms" in found


def test_opening_is_subtracted_from_each_read(tmp_path):
    """Cold access: every read of the example opens the file, which adds 1 MB and 3 requests."""

    def cold(path):
        for file in path.parent.glob("reads.*.parquet"):
            t = pq.read_table(file)
            warm = pc.equal(t["open_ns"], 0).cast("int32")
            for name, more in (("requests", 3), ("asked_bytes", 10**6), ("wire_bytes", 10**6), ("open_ns", 10**6)):
                new = pc.add(t[name], pc.multiply(warm, more).cast(t[name].type))
                t = t.set_column(t.schema.get_field_index(name), t.schema.field(name), new)
            pq.write_table(t, file)
        records.finish(path.parent, records.read_json(path))

    sparse, events = built(tmp_path, cold)
    for _, r in sparse.iterrows():
        assert (r["wire_median_mb_per_read"], r["requests_median_per_read"]) == READ[r["entry_fraction_percent"]]
        assert opening(r) == pytest.approx([3, 1.0, 0.001])
    assert events["requests_median_per_event"].tolist() == [0.5, 0.5]  # ten for twenty events
    moved = [40 * 1.1, 80 * 1.1]  # all of it: 10 steps a second for 4 s
    assert events["moved_median_mb"].tolist() == pytest.approx(moved)


def test_unreported_opening_gives_no_number(tmp_path):
    """An older record: reads that did not open the file still show the cost of a read."""

    def older(path):
        run = json.loads(path.read_text())
        for client in run["clients"]:
            client.pop("engine", None)
        records.write_summed(path, run)

    sparse, _ = built(tmp_path, older)
    for _, r in sparse.iterrows():
        assert (r["wire_median_mb_per_read"], r["requests_median_per_read"]) == READ[r["entry_fraction_percent"]]
        assert opening(r)[2] == pytest.approx(0.001) and pd.isna(opening(r)[:2]).all()
