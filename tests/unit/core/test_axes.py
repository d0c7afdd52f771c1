"""Axes: what sealed plans need of them, bounds, roles and words."""

import json
from dataclasses import replace

import pandas as pd
import pytest
from paths import ROOT

from storelab.analysis.latex.calibration import ceilings
from storelab.analysis.parts import words
from storelab.analysis.tables import calibration as ceilings_table
from storelab.analysis.tables import scaling, verdicts
from storelab.core import axes, calibration, engines, model
from storelab.core.errors import UserError
from storelab.core.plan import series
from storelab.workloads import WORKLOADS
from storelab.workloads.base import Workload

SEALED = sorted(ROOT.glob("results/*/raw/plan.json"))
EVERY = {a.name: a for w in WORKLOADS.values() for a in w.axes} | dict(axes.ALL)
DEFAULTS = {  # name -> default and least value of axes of numbers
    **{"clients": (1, 1), "workers": (8, 1), "buckets": (1, 1), "accounts": (1, 1), "front_ends": (1, 1)},
    **{"part_size": (0, 0), "parallel_parts": (0, 0), "batch": (1, 1), "keys": (1000, 1), "keys_per_worker": (256, 1)},
    **{"page_size": (1000, 1), "working_set": (0, 0), "prefix_depth": (0, 0), "range_size": (4000, 1)},
    **{"object_size": (4000, 1), "arrival_rate": (0, 0), "connections": (64, 1), "split": (0, 0)},
    **{"most_buckets": (120, 0), "fill": (0, 0), "clients_per_node": (0, 0), "servers": (0, 0), "part": (0, 0)},
    **{"max_range_gap": (32 * 1024, 0), "thrift": (0, 0), "max_amplification": (0, 0), "read_ahead": (0, 0)},
    **{"step": (50, 1), "files": (1, 1), "days": (5, 1), "start_files": (200, 1), "applications": (1, 1)},
    "keep": (3, 1),
}
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
    "told": (
        "cache entry_fraction keys max_range_gap mix navigation object_size pattern range_size read_ahead scale sizes "
        "step stratum0 volume_fraction"
    ),
    "setting": "backing redundancy scheme servers",
}
READS = {  # column -> heading, value -> words
    "clients": ("Clients", {1: "1 client", 3: "3 clients"}),
    "workers": ("Workers", {1: "1 worker per client", 3: "3 workers per client"}),
    "buckets": ("Buckets", {1: "1 bucket", 3: "3 buckets"}),
    "accounts": ("Accounts", {1: "1 account", 3: "3 accounts"}),
    "front_ends": ("Front-ends", {1: "1 front-end", 3: "3 front-ends"}),
    "part_size_bytes": ("Parts", {0: "", 4000: "parts of 4 kB"}),
    "parallel_parts": ("Parallel parts", {0: "", 1: "1 part at a time", 3: "3 parts at a time"}),
    "batch": ("Objects a request", {1: "1 object a request", 3: "3 objects a request"}),
    "offset": ("Offset", {"random": "random places", "1MB": "at 1MB"}),
    "range_size_bytes": ("Range", {4000: "ranges of 4 kB"}),
    "object_size_bytes": ("Objects", {4000: "4 kB objects"}),
    "working_set_bytes": ("Working set", {0: "", 4000: "working set of 4 kB"}),
    "keys_per_worker": ("Keys per worker", {1: "1 key per worker", 3: "3 keys per worker"}),
    "deletions_percent": ("Deletions [%]", {25.0: "25 % deletions"}),
    "keys": ("Keys", {1: "1 key", 3: "3 keys"}),
    "page_size": ("Page", {1: "pages of 1", 3: "pages of 3"}),
    "prefix_depth": ("Depth", {0: "", 1: "1 folder deep", 3: "3 folders deep"}),
    "scale": ("File", {"x": "file x"}),
    "entry_fraction_percent": ("Entries [%]", {25.0: "25 % of entries"}),
    "volume_fraction_percent": ("Volume [%]", {25.0: "25 % of volume"}),
    "merge": ("Merge", {"planned": "planned", "gap": "fixed gap"}),
    "max_range_gap_bytes": ("Gap", {0: "gap 0 B", 4000: "gap 4 kB"}),
    "thrift": ("Thrift", {0: "", 1: "thrift 1", 3: "thrift 3"}),
    "max_amplification": ("At most", {0: "", 1: "at most 1×", 3: "at most 3×"}),
    "navigation": ("Navigation", {"scan": "scan", "random": "random navigation"}),
    "cache": (
        "Cache",
        {"none": "no cache", "readahead": "cache readahead", "bytes": "cache bytes",
         "blockcache": "cache blockcache", "all": "whole file kept"},
    ),
    "read_ahead_bytes": ("Read-ahead", {0: "", 4000: "4 kB read ahead"}),
    "step": ("Step", {1: "steps of 1 event", 3: "steps of 3 events"}),
    "files": ("Files", {1: "1 file", 3: "3 files"}),
    "engine": ("Engine", {"x": "x"}),
    "arrival_rate": (
        "Due/s",
        {0: "closed loop", 1: "open loop, 1 operations/s due", 3: "open loop, 3 operations/s due"},
    ),
    "arrivals": ("Arrivals", {"even": "", "poisson": "Poisson arrivals"}),
    "balance": (
        "Balance",
        {"client": "balance client", "round_robin": "balance round_robin", "least_load": "balance least_load"},
    ),
    "payload": ("Payload", {"default": "payload default", "unsigned": "payload unsigned", "sha256": "payload sha256"}),
    "ledger": ("Ledger", {"none": "ledger none", "kept": "ledger kept"}),
    "codec": ("Codec", {"zstd": "codec zstd", "lz4": "codec lz4", "zlib": "codec zlib"}),
    "transport": ("Transport", {"default": "transport default", "http": "transport http"}),
    "access": ("Access", {"warm": "access warm", "cold": "access cold"}),
    "header": ("Header", {"read": "header read", "cached": "header cached"}),
    "connections": ("Connections", {1: "connections 1", 3: "connections 3"}),
    "split_bytes": ("Split", {0: "split bytes 0", 4000: "split bytes 4000"}),
    "most_buckets": ("Most buckets", {0: "most buckets 0", 1: "most buckets 1", 3: "most buckets 3"}),
    "clients_per_node": (
        "Clients per node",
        {0: "clients per node 0", 1: "clients per node 1", 3: "clients per node 3"},
    ),
    "redundancy": ("Redundancy", {"default": "", "x": "x"}),
    "servers": ("Data servers", {0: "", 1: "1 data server", 3: "3 data servers"}),
    "backing": ("Backing", {"default": "", "disk": "on disk", "tmpfs": "on tmpfs", "memory": "on memory"}),
    "scheme": ("Scheme", {"default": "", "http": "http", "https": "https"}),
    "mix": ("Mix", {"x": "mix x"}),
    "sizes": ("Sizes", {"random": "sizes random", "1MB": "sizes 1MB"}),
    "pattern": ("Pattern", {"cvmfs": "pattern cvmfs", "tuned": "pattern tuned"}),
    "days": ("Days", {1: "1 day", 3: "3 days"}),
    "expired": ("Expired", {"none": "", "x": "signature expired on days x"}),
    "keep": ("Kept", {1: "1 day kept", 3: "3 days kept"}),
    "stratum0": ("Stratum 0", {"none": "", "x": "stratum 0 on x"}),
    "start_files": ("Files", {1: "starts of 1 files", 3: "starts of 3 files"}),
    "applications": ("Applications", {1: "", 3: "3 applications"}),
    "client_cache": ("Client cache", {"none": "cold clients", "kept": "warm clients"}),
    "http_cache": ("HTTP cache", {"none": "no HTTP cache", "squid": "through Squid"}),
    "part": ("Part", {0: "", 1: "part 1", 3: "part 3"}),
    "fault": ("Fault", {"none": "", "x": "x"}),
    "fill": ("Full [%]", {0: "", 1: "1 % full", 3: "3 % full"}),
}  # fmt: skip


def test_sealed_plans_keep_their_axes():
    """Another default, kind or column would give old points another key; only choices may be added."""
    assert len(SEALED) > 10
    kept = ("kind", "default", "column", "minimum")
    for path in SEALED:
        old = json.loads(path.read_text())
        plain = {name: w for name, w in old["workloads"].items() if "roles" not in w}  # the others have no axes
        for name, workload in plain.items():
            now = {a.name: a.declared() for a in (*WORKLOADS[name].axes, axes.PART)}
            for axis in workload["axes"]:
                mine, place = now[axis["name"]], (path, name, axis["name"])
                assert [mine[k] for k in kept] == [axis[k] for k in kept], place
                assert not mine["choices"] or set(axis["choices"]) <= set(mine["choices"]), place
        for p in (p for p in old["points"] if p["workload"] in plain):
            spec = WORKLOADS[p["workload"]]
            spec = series.with_part(spec) if "part" in p["axes"] else spec
            values = {a.name: p["axes"].get(a.name, a.default) for a in spec.axes}
            assert model.point_key(p["store"], spec, values, p["rep"]) == p["key"], path


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


def test_defaults_and_least_values_of_numbers():
    assert DEFAULTS.keys() == {a.name for a in axes.ALL.values() if a.kind in ("int", "size")}
    for name, (default, least) in DEFAULTS.items():
        axis = axes.ALL[name]
        written = (lambda n: f"{n} B") if axis.kind == "size" else (lambda n: n)
        assert (axis.default, axis.parse(written(least), "here")) == (default, least), name
        if least or axis.kind == "int":
            with pytest.raises(UserError):
                axis.parse(written(least - 1), "here")
    assert axes.ALL["entry_fraction"].default == axes.ALL["volume_fraction"].default == 100.0
    assert axes.ALL["clients"].parse(10**9, "here") == 10**9
    with pytest.raises(UserError):
        axes.ALL["clients"].parse(10**9 + 1, "here")


def test_roles_of_axes():
    for role, names in ROLES.items():
        assert sorted(name for name, axis in EVERY.items() if getattr(axis, role)) == names.split(), role
    assert scaling.AXES == ("clients", "workers", "buckets", "front_ends")
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
        ("scale", 7, "7"),
    ):
        found = axes.ALL[name].parse(value, "here")
        assert found == typed and type(found) is type(typed), (name, value)


def test_wrong_values_are_refused():
    refused = {"entry_fraction": (0, 100.1, True, "1"), "clients": (True, 1.0, "2"), "offset": ("nowhere",)}
    for name, values in (refused | {"backing": ("paper",)}).items():
        for value in values:
            with pytest.raises(UserError):
                axes.ALL[name].parse(value, "here")


def test_axes_with_choices_take_no_other_word():
    seen = set()
    for axis in (a for w in WORKLOADS.values() for a in w.axes if a.kind == "text" and a.choices):
        assert [axis.parse(c, "here") for c in axis.choices] == list(axis.choices)
        with pytest.raises(UserError):
            axis.parse("something else", "here")
        seen.add(axis.name)
    assert seen >= {"engine", "balance", "payload", "merge", "navigation", "cache", "access", "codec", "scheme"}
    assert seen >= {"target", "operation", "phase"}


# Words


def test_headings_and_values_read_as_written():
    """Every axis is in the table with all its choices; figures, tables and LaTeX take their words from here."""
    assert READS.keys() == axes.BY_COLUMN.keys()
    for column, (heading, said) in READS.items():
        axis = axes.BY_COLUMN[column]
        assert axis.kind != "text" or {*axis.choices} <= {*said}, column
        assert (words.heading(column), {v: words.value_text(column, v) for v in said}) == (heading, said)
        any_text = axis.kind == "text" and not axis.choices
        assert any_text or {*axis.values} <= {str(v) for v in (axis.default, *axis.choices, 0)}, column


def test_words_of_other_columns_and_types():
    for column, value, said in (
        ("clients", 2.0, "2 clients"),
        ("part_size_bytes", 16 * 2**20, "parts of 16 MiB"),
        ("arrival_rate", 20000, "open loop, 20 000 operations/s due"),
        ("payload", float("nan"), ""),  # of a workload that has no such axis
        ("workload", "get_range", "download of a range"),
        ("an_axis_of_tomorrow", 3, "an axis of tomorrow 3"),
    ):
        assert words.value_text(column, value) == said
    assert words.heading("an_axis_of_tomorrow") == "An axis of tomorrow"


def test_verdicts_on_other_axis_values_read_differently():
    """Two values of an axis are one subject, or differ in words, engine or deployment."""
    for workload in (w for w in WORKLOADS.values() if w.name != calibration.WORKLOAD):
        base = {a.column: a.default for a in workload.axes} | {"store": "a", "workload": workload.name}
        for axis in workload.axes:
            if axis.column in verdicts.VARIED or axis.name in (*axes.DEPLOYMENT_NAMES, "engine"):
                continue
            other = {"int": 7, "size": 12345, "percent": 3.0}.get(axis.kind)
            other = other or next(c for c in (*axis.choices, "x") if c != axis.default)
            said = verdicts.said(base | {axis.column: other})
            assert verdicts.said(base) != said, (workload.name, axis.name)


def test_ceilings_of_two_payloads_read_differently():
    same = {c: [v, v] for c, v in ceilings_table.AGREE.items()} | {"operation": ["put"] * 2, "engine": ["loadgen"] * 2}
    numbers = {c: [1.0, 1.0] for c in ceilings_table.COLUMNS if c not in same and c != "target"}
    table = pd.DataFrame(same | numbers | {"target": ["network"] * 2, "payload": ["default", "sha256"]})
    lines = [line for line in ceilings(table).splitlines() if line.startswith("put")]
    assert len(lines) == len(set(lines)) == 2 and "sha256" in lines[1]
