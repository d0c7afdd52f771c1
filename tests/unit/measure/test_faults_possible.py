"""Faults that `storelab check` refuses, and faults beyond the redundancy."""

import os
from types import SimpleNamespace

from fault_stores import acts, store
from refusals import check_refused, refusal

from storelab.core.model import Point
from storelab.measure import faults

S = 10**9
KILL = {"at": "1 s", "act": "kill", "actor": "data.0"}
AGAIN = KILL | {"at": "2 s"}


def point(name="sw", fault="f", rep=1, **fixed):
    return Point(name, "w", {"fault": fault}, rep, "k", "s", 0, 0, {"duration_ns": 60 * S} | fixed)


def possible(folder, name, *given, fault="f"):
    config = SimpleNamespace(faults={"f": acts(*given)}, scale=1.0)
    return faults.refuse(config, point(name, fault), store(name, folder))


def test_impossible_acts_are_refused(tmp_path):
    for name, given, text in (
        ("minio", [KILL], "drive-1 is a drive"),
        ("ceph", [KILL | {"act": "remove_drive"}], "osd-0 of store ceph (kind ceph)"),
        ("minio", [KILL | {"act": "remove_drive", "actor": "front.0"}], "minio-1 of store minio (kind minio)"),
        ("sw", [KILL | {"act": "resume"}], "resume of volume-1 has no hang before it"),
        ("sw", [KILL, AGAIN], "kill of volume-1 occurs twice"),
        ("sw", [KILL, AGAIN | {"act": "return_drive"}], "has no remove_drive"),
        ("sw", [KILL | {"act": "fill"}], "a disk that others use"),
        ("ceph", [KILL | {"act": "fill", "actor": "mon"}], "mon has no separate disk"),
    ):
        check_refused("faults.f", text, possible, tmp_path, name, *given)


def test_links_need_root_and_a_separate_address(tmp_path, monkeypatch):
    cut, read_only = KILL | {"act": "cut"}, KILL | {"act": "remove_drive", "how": "read-only"}
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "needs root" in refusal(possible, tmp_path, "sw", cut)
    assert "needs root" in refusal(possible, tmp_path, "minio", read_only)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "volume-1 listens on 127.0.0.1" in refusal(possible, tmp_path, "sw", cut)


def test_possible_acts_are_accepted(tmp_path):
    back = {"at": "2 s", "act": "restart", "actor": "data.0"}
    assert possible(tmp_path, "sw", KILL, back, KILL | {"at": "3 s", "act": "hang"}) == ""
    assert possible(tmp_path, "sw", KILL, back, KILL | {"at": "3 s"}) == "", "killed, started, and killed again"
    assert possible(tmp_path, "sw", back) == "", "a daemon may be restarted without having been killed"
    assert possible(tmp_path, "ceph", KILL | {"act": "fill"}) == ""
    assert possible(tmp_path, "far", {"at": "1 s", "act": "command", "command": "true", "actor": "door 7"}) == ""
    assert possible(tmp_path, "far", fault="none") == ""


def test_losses_beyond_redundancy_are_allowed_and_reported(tmp_path):
    line = possible(tmp_path, "sw", KILL | {"actor": ["data.0", "data.1"]})
    assert "volume-1, volume-2" in line and "1: data may be lost" in line
    drives = {"at": "1 s", "act": "remove_drive", "actor": [f"data.{i}" for i in range(4)]}
    assert possible(tmp_path, "minio", drives | {"actor": drives["actor"][:3]}) == ""
    assert " 3: data may be lost" in possible(tmp_path, "minio", drives)
    assert possible(tmp_path, "sw", KILL | {"actor": ["front.0", "filer"]}) == "", "only data servers hold data"


def test_plan_is_checked_once_for_each_fault(tmp_path):
    config = SimpleNamespace(faults={"f": acts(KILL | {"actor": ["data.0", "data.1"]})}, scale=1.0)
    reported, asked = [], []
    points = [point(fault=fault, rep=rep) for fault in ("none", "f") for rep in (1, 2)]
    faults.check_plan(config, points, lambda p: asked.append(p) or store("sw", tmp_path), reported.append)
    assert len(reported) == 1 and {p.axes["fault"] for p in asked} == {"f"}
    check_refused("", "f, none", faults.acts_of, config, point(fault="g"))
    assert faults.acts_of(config, point(acts=["as planned"])) == ["as planned"], "those of the plan come first"
