"""Sealed records: the same rows and texts in few files, after any interruption of the sealing; damage is named."""

import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys

import collected
import duckdb
import pandas as pd
import pyarrow.parquet as pq
import pytest
from collected import FINE, flip, looks
from refusals import refusal

from storelab.analysis.records import campaign
from storelab.core import integrity, records, sealed


@pytest.fixture
def copy(tmp_path):
    return collected.copied(tmp_path)


def contents(raw):
    """Return the content of the files of all points: path -> text, or rows."""
    found = {}
    for path in raw.rglob("*"):
        name = path.relative_to(raw)
        if len(name.parts) > 3 and name.parts[0] != "manifests":
            found[str(name)] = path.read_bytes() if path.suffix == ".json" else duckdb.read_parquet(str(path)).df()
    return found


def test_all_rows_and_texts_are_there(copy):
    """Read the files only with DuckDB and pandas, without storelab."""
    anomalies = copy / "raw/alpha/put/rep~001/anomalies.0.parquet"  # it has its own column `key`
    rows = {"client": [0, 0], "key": ["a", "b"], "scenario": ["x", "y"], "same_front_end": [True, False]}
    records.write_table(anomalies, records.ANOMALIES, rows)
    integrity.write_sums(copy / "raw")
    run = records.read_json(anomalies.with_name("run.json"))
    records.finish(anomalies.parent, {k: v for k, v in run.items() if k not in ("files", "schema", *records.SUM_KEYS)})
    integrity.write_sums(copy / "raw")
    before, plan = contents(copy / "raw"), (copy / "raw/plan.json").read_bytes()
    campaign.seal(copy, with_failures=True)
    runs = pd.read_parquet(copy / "raw/runs.parquet")
    assert {f"{p}/{f}" for p, f in zip(runs["point"], runs["file"], strict=True)} == before.keys()
    for point, file, text, number in runs[["point", "file", "text", "rows"]].itertuples(index=False):
        was = before[f"{point}/{file}"]
        if isinstance(was, bytes):
            assert text.encode() == was and pd.isna(number)
            continue
        table = copy / "raw" / f"{file.partition('.')[0]}.parquet"
        chosen = f"SELECT * EXCLUDE (point, file) FROM '{table}' WHERE point = ? AND file = ?"
        now = duckdb.execute(chosen, [point, file]).df()
        assert len(now) == len(was) == number
        pd.testing.assert_frame_equal(now[list(was)], was, check_dtype=False)
    assert (copy / "raw/plan.json").read_bytes() == plan and looks(copy) == FINE
    assert not list((copy / "raw").rglob("run.json"))


KILLED = """
import os, shutil, sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from storelab.analysis.records import campaign
from storelab.cli import workflow
from storelab.core import integrity
import pyarrow.parquet
whole, texts, place, done = Path(sys.argv[1]), None, 0, False
EVENTS = ("os.rename", "os.mkdir", "os.remove", "os.rmdir", "open")

def child(do):
    pid = os.fork()
    if pid == 0:
        try:
            do()
            os._exit(0)
        except BaseException as error:
            print(place, type(error).__name__, error, flush=True)
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def killed(folder):
    left = [place]
    def hook(event, arguments):
        if event not in EVENTS or (event == "open" and "w" not in str(arguments[1])):
            return
        if left[0] == 0:
            os._exit(9)
        left[0] -= 1
    sys.addaudithook(hook)
    campaign.seal(folder, with_failures=True)

def look(folder):
    raw = folder / "raw"
    for see in (lambda: campaign.load(folder), lambda: workflow.existing(raw, "example")):
        try:
            see()
        except Exception as error:
            assert "run `storelab seal" in str(error), error
    campaign.seal(folder, with_failures=True)
    assert sorted(p.name for p in folder.iterdir()) == ["raw"], list(folder.iterdir())
    assert len(campaign.load(folder).runs) == 8 and len(campaign.load(folder).failures) == 1
    assert integrity.seal_of(raw)["points"] == 9

while not done:
    folder = whole.parent / f"copy{place}"
    shutil.copytree(whole, folder)
    code = child(lambda: killed(folder))
    assert code in (0, 9), code
    done = code == 0
    assert child(lambda: look(folder)) == 0
    shutil.rmtree(folder)
    place += 1
print(place)
"""


@pytest.mark.heavy
def test_command_continues_after_kill_at_any_place(copy):
    """Each creation, renaming or removal of a file may be the last thing that a killed process did."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, copy, *filter(None, sys.path)], capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[-1]) > 40, "the same number of places was tried"


def test_damaged_rows_are_named(copy, monkeypatch):
    monkeypatch.setattr(sealed, "GROUP", 1)
    campaign.seal(copy, with_failures=True)
    path = copy / "raw/ops.parquet"
    was, metadata = path.read_bytes(), pq.ParquetFile(path).metadata
    for number in (0, metadata.num_row_groups - 1):
        group = metadata.row_group(number)
        key = group.column(0).statistics.min
        times = next(c for c in map(group.column, range(group.num_columns)) if c.path_in_schema == "end_ns")
        flip(path, times.data_page_offset + times.total_compressed_size - 3, 4)
        for message in looks(copy):
            assert f"{path}: has a wrong checksum" in message and f"the points {key} to {key}" in message
        path.write_bytes(was)
    path.write_bytes(was[:-5])
    assert all("none of its rows can be read" in message for message in looks(copy))


def test_full_disk_or_another_process_leaves_all_as_it_is(copy, monkeypatch):
    before = {p: p.read_bytes() for p in copy.rglob("*") if p.is_file()}
    with open("/dev/full", "wb") as full:
        monkeypatch.setattr(sealed.os, "fsync", lambda file: full.write(bytes(1 << 20)))
        with pytest.raises(OSError) as error:
            campaign.seal(copy, with_failures=True)
        assert error.value.errno == errno.ENOSPC
        monkeypatch.undo()
    assert {p: p.read_bytes() for p in copy.rglob("*") if p.is_file()} == before
    folder = os.open(copy, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    assert "is being measured, sealed or changed by another process" in refusal(campaign.seal, copy, True)
    os.close(folder)
    assert campaign.seal(copy, with_failures=True)["points"] == 9


def test_other_records_next_to_a_seal_remain(copy, tmp_path):
    """A folder of that name that was not sealed is never removed."""
    shutil.copytree(copy / "raw", tmp_path / "other")
    campaign.seal(copy, with_failures=True)
    other = copy / "raw.measured"
    shutil.move(tmp_path / "other", other)
    (other / "SHA256SUMS").write_text("of other records\n")
    before = sorted(other.rglob("*"))
    assert f"{other}: contains records that are not sealed" in refusal(campaign.seal, copy, True)
    assert sorted(other.rglob("*")) == before and looks(copy) == FINE


@pytest.mark.parametrize("own_sum", [False, True])
def test_altered_text_is_named(copy, own_sum):
    """Write sums and seal again, as somebody does who changes a record on purpose; also the sum of the text."""
    campaign.seal(copy, with_failures=True)
    raw = copy / "raw"
    table = pd.read_parquet(raw / "runs.parquet")
    row = table.index[table["file"] == "run.json"][3]
    text = table.loc[row, "text"].replace('"start_ns": 1', '"start_ns": 2')
    table.loc[row, "text"] = records.with_sum(json.loads(text)).decode() if own_sum else text
    table.to_parquet(raw / "runs.parquet")
    integrity.write_sums(raw)
    content = records.read_json(raw / "SEAL") | {"sha256sums_sha256": records.sha256(raw / "SHA256SUMS")}
    records.write_summed(raw / "SEAL", content)
    for message in looks(copy):
        assert f"run.json of {table.loc[row, 'point']}" in message
        assert ("SHA256SUMS.measured" if own_sum else "its checksum") in message
