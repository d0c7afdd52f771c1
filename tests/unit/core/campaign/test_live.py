"""The state file of a campaign during measurement, and the processes that it names."""

import os
import subprocess
import sys

import pytest

from storelab.core.campaign import live

WHOLE = {
    "host": "h",
    "pid": 1,
    "born": None,
    "run": None,
    "stage": "data",
    "left_s": 1.5,
    "begun_ns": 1,
    "written_ns": 2,
}
WHOLE |= {"point": {"key": "k", "store": "s", "workload": "get"}, "seconds": {name: [] for name in live.SECONDS}}
WHOLE |= dict.fromkeys(("operations", "errors", "bytes", "client_rss_bytes", "server_rss_bytes"))


def test_living_processes_are_recognised():
    me = live.process(os.getpid())
    assert live.lives(me) is True and live.lives(None) is False
    assert live.lives(me | {"born": me["born"] + 1}) is False, "another process of the same number"
    assert live.lives(me | {"host": "elsewhere"}) is None
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        other = live.process(child.pid)
        assert live.lives(other) is True
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert live.lives(other) is False, "it has ended, and its parent has not waited for it"


def test_missing_or_broken_state_is_none(tmp_path):
    assert live.read(tmp_path) is None
    live.write(tmp_path, WHOLE)
    assert live.read(tmp_path) == {"schema": 1, **WHOLE}
    for text in ("", "[]", "{", '{"schema": 2}', "{}"):
        live.path(tmp_path).write_text(text)
        assert live.read(tmp_path) is None


def test_state_holds_no_nan(tmp_path):
    live.write(tmp_path, WHOLE | {"rate": 1.5})
    assert live.read(tmp_path)["rate"] == 1.5
    with pytest.raises(ValueError, match="JSON"):
        live.write(tmp_path, WHOLE | {"rate": float("nan")})
    assert live.read(tmp_path)["rate"] == 1.5
