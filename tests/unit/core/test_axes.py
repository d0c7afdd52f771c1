"""Axes: properties that sealed plans need, bounds, roles and words."""

import json
from dataclasses import replace

import pandas as pd
from paths import ROOT
from refusals import NONE, refusal

from storelab.analysis.latex.campaign import ceilings
from storelab.analysis.parts import labels
from storelab.analysis.tables import calibration as ceilings_table
from storelab.analysis.tables import throughput, verdicts
from storelab.core import axes, calibration, engines, model, renamed
from storelab.core.plan import sweeps
from storelab.workloads import WORKLOADS
from storelab.workloads.base import Workload

SEALED = sorted(ROOT.glob("results/*/raw/plan.json"))
EVERY = {a.name: a for w in WORKLOADS.values() for a in w.axes} | dict(axes.ALL)
ROLES = {
    # A point and its ceiling agree in these.
    "ceiling": (
        "batch clients clients_per_node engine keys object_size operation page_size parallel_parts part_size payload "
        "prefix_depth range_size scheme workers"
    ),
    # Higher values put more on a store: figures sort by these and take the least or the most.
    "load": (
        "accounts batch buckets clients front_ends keys_per_worker max_amplification max_range_gap merge offset "
        "page_size parallel_parts part_size thrift workers"
    ),
    # Curves of scaling run along these.
    "curve": "buckets clients front_ends workers",
    # These are printed even where all points have the same value.
    "always_shown": (
        "cache entry_fraction file_size keys max_range_gap mix navigation object_size pattern range_size read_ahead "
        "sizes step stratum0 volume_fraction"
    ),
    "setting": "backing redundancy scheme servers",
}


def test_sealed_plans_keep_their_axes():
    """Another default, kind or column would give old points another key; only choices may be added."""
    assert len(SEALED) > 10
    kept = ("kind", "default", "column", "minimum")
    for path in SEALED:
        old = renamed.of_plan(json.loads(path.read_text()))
        plain = {name: w for name, w in old["workloads"].items() if "roles" not in w}  # the others have no axes
        for name, workload in plain.items():
            now = {a.name: a.declared() for a in (*WORKLOADS[name].axes, axes.PART)}
            for axis in workload["axes"]:
                mine, place = now[axis["name"]], (path, name, axis["name"])
                assert [mine[k] for k in kept] == [axis[k] for k in kept], place
                assert not mine["choices"] or set(axis["choices"]) <= set(mine["choices"]), place
        for p in (p for p in old["points"] if p["workload"] in plain):
            spec = WORKLOADS[p["workload"]]
            spec = sweeps.with_part(spec) if "part" in p["axes"] else spec
            values = {a.name: p["axes"].get(a.name, a.default) for a in spec.axes}
            key = model.point_key(p["store"], spec, values, p["rep"])
            sealed = p["key"]
            for before, now in renamed.AXES.items():
                sealed = sealed.replace(f"{before}~", f"{now}~")
            assert key == sealed, path


def test_workloads_pick_declared_axes():
    """A workload changes the default, the help and the bounds of an axis, and nothing else."""
    own = {a.name: a for a in (calibration.OPERATION, calibration.TARGET, calibration.PHASE)}
    free = ("default", "help", "minimum", "choices")
    for workload in WORKLOADS.values():
        for axis in workload.axes:
            declared = (axes.ALL | own)[axis.name]
            assert replace(axis, **{f: getattr(declared, f) for f in free}) == declared, (workload.name, axis.name)
        assert len({a.name for a in workload.axes}) == len(workload.axes)


def test_new_axis_of_an_engine_joins_its_workloads(monkeypatch):
    """It comes last, and so renames no older point."""
    new = model.Axis("pause", "int", 0, "Pause", "Between two operations.", minimum=0, words="{} ms between two")
    monkeypatch.setitem(axes.ALL, "pause", new)
    put = engines.CATALOGUE["obstore"].uses["put"]
    monkeypatch.setitem(engines.CATALOGUE["obstore"].uses, "put", replace(put, obeys=(*put.obeys, "pause")))
    old = WORKLOADS["put"]
    assert [a.name for a in Workload("put", old.axes, "").axes] == [*(a.name for a in old.axes), "pause"]
    assert engines.obeyed("put")["pause"] == ("obstore",)


def test_least_values_of_numbers():
    for axis in (a for a in axes.ALL.values() if a.kind in ("int", "size")):
        written = (lambda n: f"{n} B") if axis.kind == "size" else (lambda n: n)
        least = int(axis.minimum)
        assert axis.parse(written(least), "here") == least, axis.name
        if least or axis.kind == "int":
            assert refusal(axis.parse, written(least - 1), "here") != NONE, axis.name
    assert axes.ALL["clients"].parse(10**9, "here") == 10**9
    assert refusal(axes.ALL["clients"].parse, 10**9 + 1, "here") != NONE


def test_roles_of_axes():
    for role, names in ROLES.items():
        assert sorted(name for name, axis in EVERY.items() if getattr(axis, role)) == names.split(), role
    assert throughput.CURVE_AXES == ("clients", "workers", "buckets", "front_ends")
    assert set(ROLES["ceiling"].split()) <= {a.name for a in calibration.AXES}
    assert [a.name for a in axes.PLACES] == ["clients", "workers", "buckets", "front_ends", "accounts"]
    assert axes.SCHEME.setting_values == {"http": False, "https": True} and axes.SCHEME.setting == "tls"
    found = [axes.BY_COLUMN[column] for column in ("max_range_gap_bytes", "entry_fraction_percent")]
    assert found == [axes.GAP, axes.ENTRIES]


def test_values_are_typed():
    for name, value, typed in (
        ("entry_fraction", 100, 100.0),
        ("entry_fraction", 0.1, 0.1),
        ("offset", "random", "random"),
        ("offset", "1 MiB", "1MiB"),
        ("offset", "4000 B", "4kB"),
        ("backing", "tmpfs", "tmpfs"),
        ("file_size", 7, "7"),
    ):
        found = axes.ALL[name].parse(value, "here")
        assert found == typed and type(found) is type(typed), (name, value)


def test_wrong_values_are_refused():
    refused = {"entry_fraction": (0, 100.1, True, "1"), "clients": (True, 1.0, "2"), "offset": ("nowhere",)}
    for name, values in (refused | {"backing": ("paper",)}).items():
        for value in values:
            assert refusal(axes.ALL[name].parse, value, "here") != NONE, (name, value)


def test_axes_with_choices_reject_other_values():
    seen = set()
    for axis in (a for w in WORKLOADS.values() for a in w.axes if a.kind == "text" and a.choices):
        assert [axis.parse(c, "here") for c in axis.choices] == list(axis.choices)
        assert refusal(axis.parse, "something else", "here") != NONE
        seen.add(axis.name)
    assert seen >= {"engine", "balance", "payload", "merge", "navigation", "cache", "access", "codec", "scheme"}
    assert seen >= {"target", "operation", "phase"}


def test_axes_have_headings_and_values_have_words():
    """No two choices of an axis have the same words."""
    for column, axis in axes.BY_COLUMN.items():
        assert labels.heading(column)[0].isupper(), column
        found = [labels.value_text(column, choice) for choice in axis.choices]
        assert len(found) == len(set(found)) and all("{" not in text for text in found), column


def test_words_of_other_columns_and_types():
    for column, value, found in (
        ("clients", 2.0, "2 clients"),
        ("clients", 1, "1 client"),
        ("part_size_bytes", 0, ""),
        ("deletions_percent", 25.0, "25 % deletions"),
        ("arrival_rate", 0, "closed loop"),
        ("engine", "x", "x"),
        ("part_size_bytes", 16 * 2**20, "parts of 16 MiB"),
        ("arrival_rate", 20000, "open loop, 20 000 operations/s due"),
        ("payload", float("nan"), ""),  # of a workload that has no such axis
        ("workload", "get_range", "download of a range"),
        ("an_axis_of_tomorrow", 3, "an axis of tomorrow 3"),
    ):
        assert labels.value_text(column, value) == found
    assert labels.heading("an_axis_of_tomorrow") == "An axis of tomorrow"


def test_verdicts_on_other_axis_values_read_differently():
    """Two values of an axis are one subject, or differ in words, engine or deployment."""
    for workload in (w for w in WORKLOADS.values() if w.name != calibration.WORKLOAD):
        base = {a.column: a.default for a in workload.axes} | {"store": "a", "workload": workload.name}
        for axis in workload.axes:
            if axis.column in verdicts.VARIED or axis.name in (*axes.DEPLOYMENT_NAMES, "engine"):
                continue
            other = {"int": 7, "size": 12345, "percent": 3.0}.get(axis.kind)
            other = other or next(c for c in (*axis.choices, "x") if c != axis.default)
            shown = verdicts.described(base | {axis.column: other})
            assert verdicts.described(base) != shown, (workload.name, axis.name)


def test_ceilings_of_two_payloads_read_differently():
    same = {c: [v, v] for c, v in ceilings_table.AGREE.items()} | {"operation": ["put"] * 2, "engine": ["loadgen"] * 2}
    numbers = {c: [1.0, 1.0] for c in ceilings_table.COLUMNS if c not in same and c != "target"}
    table = pd.DataFrame(same | numbers | {"target": ["network"] * 2, "payload": ["default", "sha256"]})
    lines = [line for line in ceilings(table).splitlines() if line.startswith("put")]
    assert len(lines) == len(set(lines)) == 2 and "sha256" in lines[1]
