"""Commands that remove or replace data refuse a campaign while one of its points is measured."""

import contextlib
import json
import subprocess
import sys

import pytest
from command_line import in_process
from small_plan import CAMPAIGN, folders

from storelab.host import scratch

COMMANDS = (("collect",), ("clean", "c", "--yes"), ("stage",), ("stage", "--again"))
MEASURE = """
import sys
from pathlib import Path
from storelab.core import plan
from storelab.measure import point
from storelab.stores.config import load
from storelab.workloads import WORKLOADS

config = load(Path("config.yaml"), (), {})
points = plan.make(config, WORKLOADS)
point.measure = lambda *_: (print("measuring", flush=True), sys.stdin.read())
point.progress.note_overhead = lambda *_: None
point.point(config, points, points[0].key)
"""


@pytest.fixture
def lab(tmp_path):
    """Return a folder with a campaign whose data set is staged in a folder."""
    for name in ("campaigns", "files", "scratch"):
        (tmp_path / name).mkdir()
    axes = {"engine": "fsspec", "object_size": "1 kB"}
    store = {"kind": "directory", "path": str(tmp_path / "files")}
    sweep = {"workload": "get", "objects": 8, "axes": axes}
    main = {"campaign": "c", "stores": {"a": store}, **folders(tmp_path)}
    campaign = {key: CAMPAIGN[key] for key in ("name", "stores_to_measure", "repetitions", "calibrate")}
    (tmp_path / "config.yaml").write_text(json.dumps(main))
    (tmp_path / "campaigns/c.yaml").write_text(json.dumps(campaign | {"sweeps": {"s": sweep}}))
    assert in_process(tmp_path, "stage")[0] == 0
    return tmp_path


@contextlib.contextmanager
def measuring(lab):
    """Measure the point of the campaign in another process until the block ends."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", MEASURE], cwd=lab, text=True, **pipes) as process:
        try:
            assert process.stdout.readline() == "measuring\n"
            yield process.pid
        finally:
            process.stdin.close()
            process.wait(30)


def contents(lab):
    """Return the files of the store and of the records with their inodes, which change where a file is replaced."""
    places = [path for name in ("files", "results/c/raw") for path in (lab / name).rglob("*") if path.is_file()]
    return {path: (path.stat().st_ino, path.read_bytes()) for path in places}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_measured_campaign_keeps_its_data(lab, command):
    before = contents(lab)
    assert len(before) > 8
    with measuring(lab) as pid:
        table = lab / "results/c/raw/a/get/rep~000/ops.0.parquet"  # its record is written last
        table.parent.mkdir(parents=True, exist_ok=True)
        table.write_bytes(b"PAR1")
        hint = "wait until it has finished"
        message = f"storelab: campaign c: is being measured by process {pid}; {hint}\n"
        assert in_process(lab, *command) == (2, "", message)
        # Another host of a cluster has another folder `state`.
        code, out, err = in_process(lab, "--set", f"state={lab}/other", *command)
        problem = "is being measured, sealed or changed by another process"
        assert (code, out, err) == (2, "", f"storelab: {lab}/results/c: {problem}; {hint}\n")
        assert table.exists()
        table.unlink()
    assert contents(lab) == before


def test_sealed_campaign_is_not_staged_again(lab):
    (lab / "results/c/raw/SEAL").touch()
    before = contents(lab)
    for command in ("stage",), ("stage", "--again"):
        code, _, err = in_process(lab, *command)
        assert code == 2 and "the campaign is sealed" in err
    assert contents(lab) == before


def test_data_are_removed_after_the_measurement(lab):
    with measuring(lab):
        pass
    code, out, err = in_process(lab, "clean", "c", "--yes")
    assert (code, err) == (0, "") and "a: removed 9 objects, 1 bucket" in out


def test_down_names_the_campaign_that_uses_tmpfs(lab):
    """A campaign with another state folder holds no lock of this one."""
    with scratch.using(lab, lab / "results/other"):
        code, out, err = in_process(lab, "down", "--all")
    assert (code, err) == (
        0,
        "",
    ) and out == f"files on tmpfs are kept, because they are in use by {lab}/results/other\n"
