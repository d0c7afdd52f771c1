"""Axes and engines are declared once, and everything that rests on them asks: words, paths, checks, calibration, verdicts."""

import re
from dataclasses import replace

import pandas as pd
import pytest
from paths import ROOT

from storelab.analysis.latex.calibration import ceilings
from storelab.analysis.parts import words
from storelab.analysis.tables import calibration as ceilings_table
from storelab.analysis.tables import scaling, verdicts
from storelab.core import axes, calibration, config, engines, model, plan
from storelab.core.errors import UserError
from storelab.engines import client_of
from storelab.engines import load as load_named
from storelab.engines.contract import Client
from storelab.host import environment
from storelab.measure import plan_file
from storelab.workloads import WORKLOADS
from storelab.workloads.base import Workload

MEASURED = [w for w in WORKLOADS.values() if w.name != calibration.WORKLOAD]
USES = [(e.name, w) for e in engines.ALL for w in e.uses]


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=lambda w: w.name)
def test_workloads_pick_declared_axes(workload):
    own = {a.name: a for a in (calibration.OPERATION, calibration.TARGET, calibration.PHASE)}
    for axis in workload.axes:
        declared = (axes.ALL | own)[axis.name]
        same = replace(
            axis, default=declared.default, help=declared.help, minimum=declared.minimum, choices=declared.choices
        )
        assert same == declared, (
            "a workload changes the default, the help and the bounds, and nothing of what the axis is to others"
        )
    assert len({a.name for a in workload.axes}) == len(workload.axes)


@pytest.mark.parametrize("workload", MEASURED, ids=lambda w: w.name)
def test_the_choices_of_an_engine_are_those_of_the_catalogue(workload):
    able = [e.name for e in engines.of(workload.name)]
    assert list(workload.axis("engine").choices) == able and workload.axis("engine").default in able


@pytest.mark.parametrize(("engine", "workload"), USES)
def test_every_use_of_an_engine_has_a_client_and_axes_that_the_workload_has(engine, workload):
    assert issubclass(client_of(workload, engine), Client)
    assert set(engines.CATALOGUE[engine].uses[workload].obeys) <= {a.name for a in WORKLOADS[workload].axes}


def test_programs_of_engines_can_be_asked():
    for engine in engines.ALL:
        assert not engine.program or callable(load_named(engine.program))


def test_packages_of_engines_are_those_that_are_pinned():
    """ROOT is installed apart (`storelab install root`); numpy comes with the others."""
    pinned = {re.split(r"[=<>\[ ]", line)[0] for line in (ROOT / "envs/requirements.in").read_text().splitlines()}
    assert set(engines.PACKAGES) - pinned == {"numpy", "root"}


def test_an_axis_that_an_engine_obeys_joins_its_workloads_at_the_end(monkeypatch):
    """So that a new one is its declaration and the engine's entry, and renames no older point."""
    new = model.Axis("pause", "int", 0, "Pause", "Between two operations.", minimum=0, words="{} ms between two")
    monkeypatch.setitem(axes.ALL, "pause", new)
    put = engines.CATALOGUE["obstore"].uses["put"]
    monkeypatch.setitem(engines.CATALOGUE["obstore"].uses, "put", replace(put, obeys=(*put.obeys, "pause")))
    old = WORKLOADS["put"]
    joined = Workload("put", old.axes, "")
    assert [a.name for a in joined.axes] == [*(a.name for a in old.axes), "pause"]
    assert engines.obeyed("put")["pause"] == ("obstore",)


def test_scaled_values_follow_the_kind_of_the_axis():
    point = {
        "workload": "read_volume",
        "axes": {"volume_fraction": [50, 100], "clients": [8]},
        "scaled_axes": ["volume_fraction"],
    }
    with pytest.raises(UserError, match=r"scaled_axes: volume_fraction is a percent and cannot be scaled"):
        points(scale=0.5, sweeps={"r": point})
    halved = points(scale=0.5, sweeps={"r": point | {"scaled_axes": ["clients"]}})
    assert {p.axes["clients"] for p in halved} == {4}


# --- words ---


@pytest.mark.parametrize(
    ("column", "value", "said", "head"),
    [
        ("clients", 2.0, "2 clients", "Clients"),
        ("workers", 1, "1 worker per client", "Workers"),
        ("front_ends", 3, "3 front-ends", "Front-ends"),
        ("servers", 0.0, "", "Data servers"),
        ("servers", 2, "2 data servers", "Data servers"),
        ("part_size_bytes", 0, "", "Parts"),
        ("part_size_bytes", 16 * 2**20, "parts of 16 MiB", "Parts"),
        ("object_size_bytes", 4000.0, "4 kB objects", "Objects"),
        ("arrival_rate", 0, "closed loop", "Due/s"),
        ("arrival_rate", 20000, "open loop, 20 000 operations/s due", "Due/s"),
        ("offset", "1 MB", "at 1 MB", "Offset"),
        ("offset", "random", "random places", "Offset"),
        ("cache", "none", "no cache", "Cache"),
        ("entry_fraction_percent", 0.1, "0.1 % of entries", "Entries [%]"),
        ("max_amplification", 4, "at most 4×", "At most"),
        ("merge", "gap", "fixed gap", "Merge"),
        ("engine", "obstore", "obstore", "Engine"),
        ("access", "cold", "access cold", "Access"),
        ("payload", float("nan"), "", "Payload"),  # of a workload that has no such axis
        ("workload", "get_range", "download of a range", "Workload"),
        ("an_axis_of_tomorrow", 3, "an axis of tomorrow 3", "An axis of tomorrow"),
    ],
)
def test_words(column, value, said, head):
    assert (words.value_text(column, value), words.heading(column)) == (said, head)


def test_a_default_is_said_in_words_of_its_own():
    for axis in axes.ALL.values():
        assert words.value_text(axis.column, axis.default) is not None
        any_text = axis.kind == "text" and not axis.choices
        assert any_text or not set(axis.values) - {str(v) for v in (axis.default, *axis.choices, 0)}, (
            "words for a value that cannot be"
        )


# --- checks ---


def settings(**more) -> config.Config:
    base = {"campaign": "x", "name": "x", "stores": {"a": {"kind": "seaweedfs"}}, "use_stores": ["a"], "repetitions": 1}
    return config.Config.model_validate(base | {"sweeps": {"up": {"workload": "put"}}} | more)


def points(**more) -> list[model.Point]:
    return plan.make(settings(**more), WORKLOADS)


@pytest.mark.parametrize(
    ("sweep", "package"),
    [
        ({"workload": "put", "axes": {"engine": "obstore"}}, "obstore"),
        ({"workload": "read_volume", "axes": {"engine": "planned"}}, "cramjam"),
        ({"workload": "put", "axes": {"engine": "fsspec"}}, "xrootd"),
    ],
)
def test_software_that_changes_in_mid_campaign_is_a_difference(tmp_path, monkeypatch, sweep, package):
    """It passed: the packages that are compared were listed apart from those of the engines."""
    one = settings(results=str(tmp_path), sweeps={"s": sweep})
    planned = plan.make(one, WORKLOADS)
    plan_file.write(one, planned, WORKLOADS)
    record = one.raw / planned[-1].key / "run.json"
    for p in planned:
        (one.raw / p.key).mkdir(parents=True)
        (one.raw / p.key / "run.json").write_text("{}")
    assert record.exists() and plan_file.differences(one, planned) == []
    now = environment.packages()
    monkeypatch.setattr(environment, "packages", lambda: now | {package: "99.0"})
    assert plan_file.differences(one, planned) == [f"{package} was {now[package]}, is 99.0"]


def test_software_that_takes_no_part_is_no_difference(tmp_path, monkeypatch):
    one = settings(results=str(tmp_path))
    planned = plan.make(one, WORKLOADS)
    assert "uproot" not in plan_file.current(one, planned, WORKLOADS)["software"], "s5cmd alone moves these objects"


# --- calibration ---


def test_an_axis_that_decides_a_ceiling_is_one_of_the_calibration():
    assert {a.name for a in axes.ALL.values() if a.ceiling} <= {a.name for a in calibration.AXES}


def test_a_payload_that_is_hashed_has_a_ceiling_of_its_own():
    """It was held against a calibration without the hashing."""
    up = {"workload": "put", "axes": {"engine": "loadgen", "payload": ["default", "sha256"]}}
    found = [
        p for p in points(sweeps={"up": up}) if p.workload == calibration.WORKLOAD and p.axes["target"] == "network"
    ]
    assert sorted((p.axes["payload"], p.axes["phase"]) for p in found) == [
        ("default", "after"),
        ("default", "before"),
        ("sha256", "after"),
        ("sha256", "before"),
    ]
    assert {a.column for a in calibration.AGREE} >= {"payload", "clients", "object_size_bytes", "scheme", "operation"}


def test_ceilings_of_two_payloads_do_not_read_alike():
    """The paper's table had a list of axes of its own, without the payload."""
    same = {c: [v, v] for c, v in ceilings_table.AGREE.items()} | {"operation": ["put"] * 2, "engine": ["loadgen"] * 2}
    numbers = {c: [1.0, 1.0] for c in ceilings_table.COLUMNS if c not in same and c != "target"}
    table = pd.DataFrame(same | numbers | {"target": ["network"] * 2, "payload": ["default", "sha256"]})
    lines = [line for line in ceilings(table).splitlines() if line.startswith("put")]
    assert len(lines) == len(set(lines)) == 2 and "sha256" in lines[1] and "Payload" in ceilings(table)


def test_a_sealed_plan_that_knew_fewer_settings_has_their_defaults():
    """`storelab check` on the reference campaign told of differences that there are not."""
    told = plan_file._with_defaults(settings().stores["a"], {"kind": "seaweedfs"})
    assert told == settings().stores["a"].model_dump(mode="json")
    told = plan_file._with_defaults(settings().stores["a"], {"kind": "seaweedfs", "volume_size": 7})
    assert told["volume_size"] == 7, "what it did know counts"


def test_scaling_curves_run_along_the_axes_that_say_so():
    assert scaling.AXES == ("clients", "workers", "buckets", "front_ends")


# --- verdicts ---


def test_no_two_verdicts_read_alike():
    """Axes that no list of the verdicts knew gave two rows of the same words: cold and warm, codecs, transports."""
    base = {a.column: a.default for a in WORKLOADS["read_volume"].axes} | {"store": "a", "workload": "read_volume"}
    for axis, value in (
        ("access", "cold"),
        ("codec", "lz4"),
        ("transport", "http"),
        ("header", "cached"),
        ("connections", 8),
    ):
        other = base | {axis: value}
        assert verdicts.said(base) != verdicts.said(other), axis
        assert verdicts.said(other)[-1] == f"{axis} {value}"


def test_what_differs_in_a_verdict_is_said_for_every_axis():
    """All axes of all workloads: two values of one either are one subject, or are told apart by words, engine or deployment."""
    for workload in MEASURED:
        base = {a.column: a.default for a in workload.axes} | {"store": "a", "workload": workload.name}
        for axis in workload.axes:
            if axis.column in verdicts.VARIED or axis.name in (*axes.DEPLOYMENT_NAMES, "engine"):
                continue
            other = {"int": 7, "size": 12345, "percent": 3.0}.get(axis.kind) or next(
                c for c in (*axis.choices, "x") if c != axis.default
            )
            assert verdicts.said(base) != verdicts.said(base | {axis.column: other}), (workload.name, axis.name)
