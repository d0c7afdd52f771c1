"""`storelab doctor --nodes`: what nodes report of themselves becomes a table, with the reason why one is not fit."""

import json
import platform
import re
import socket
import sys

from small_plan import configured

from storelab import __version__
from storelab.gang import inspect
from storelab.host import environment
from storelab.stores import all_stores

# Node 0 really looks; others leave what the test wrote; node 4 says why it cannot, and node 5 leaves nothing.
SRUN = """#!/bin/sh
for folder; do :; done
SLURM_PROCID=0 SLURMD_NODENAME=n0 {python} -m storelab.gang.inspect $folder
cp {prepared}/node.* $folder
echo 'storelab: node 4 (n4): setup failed' >&2
echo 'srun: error: n5: task 5: Killed' >&2
"""


def test_nodes_report_what_keeps_them_from_measuring(tmp_path, monkeypatch):
    about = {
        "host": "n1",
        "python": platform.python_version(),
        "storelab": __version__,
        "packages": environment.packages(),
        "s5cmd": "v2",
        "endpoints": {},
        "tmpfs_free": 2_500_000_000,
        "open_files": 1024,
        "clock_offset_ns": -250_000,
        "clock_error_ns": 50_000,
        "link_bits_per_s": 25e9,
    }
    closed = {"http://a": "refused", "http://b": ""}
    unfit = {"host": "n2", "python": "3.0", "endpoints": closed, "tmpfs_free": None, "open_files": 1023}
    clock = {"host": "n3", "clock_offset_ns": 2_000_000_000, "link_bits_per_s": None}
    prepared, programs = tmp_path / "prepared", tmp_path / "bin"
    for folder in (prepared, programs):
        folder.mkdir()
    for n, changes in ((1, {}), (2, unfit), (3, clock)):
        (prepared / f"node.{n}").write_text(json.dumps(about | changes))
    (programs / "srun").write_text(SRUN.format(python=sys.executable, prepared=prepared))
    (programs / "srun").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "6")
    with socket.create_server(("127.0.0.1", 0)) as server:
        config = configured(
            stores={"a": {"kind": "s3", "endpoint": f"http://127.0.0.1:{server.getsockname()[1]}"}},
            launcher={"kind": "srun", "address": "127.0.0.1"},
            results=str(tmp_path / "results"),
            scratch=str(tmp_path),
        )
        rows, down = inspect.nodes(config, all_stores(config))
    assert down == [] and not list((tmp_path / "results").iterdir()), "its folder is removed"

    here = rows[0]
    assert (here["host"], here["python"], here["storelab"]) == ("n0", platform.python_version(), __version__)
    assert here["endpoints"] == "1 of 1" and re.fullmatch(r"[\d.]+ GB", here["tmpfs free"])
    assert re.fullmatch(r"[+-]0\.\d\d ± \d+\.\d\d ms", here["clock"]) and "clock" not in here["problem"]
    assert rows[1] == {
        "host": "n1",
        "python": platform.python_version(),
        "storelab": __version__,
        "s5cmd": "v2",
        "endpoints": "-",
        "tmpfs free": "2.5 GB",
        "open files": "1024",
        "clock": "-0.25 ± 0.05 ms",
        "link": "25 Gbit/s",
        "problem": "",
    }
    assert (rows[2]["endpoints"], rows[2]["tmpfs free"], rows[2]["python"]) == ("1 of 2", "-", "3.0")
    problems = rows[2]["problem"].split("; ")
    assert [p.split(":")[0] for p in problems[1:3]] == ["http", f"the folder {tmp_path} (`scratch`) does not exist"]
    assert problems[0].startswith("other python: python 3.0") and problems[3].startswith("1023 open files")
    assert rows[3]["problem"].startswith("its clock differs by +2.000 s from") and rows[3]["link"] == "unknown"
    nothing = dict.fromkeys(inspect.COLUMNS, "-")
    assert rows[4] == nothing | {"host": "n4", "problem": "setup failed"}
    assert rows[5] == nothing | {"host": "node 5", "problem": "error: n5: task 5: Killed"}
