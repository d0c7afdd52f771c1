"""Values of axes that an engine, a store or another axis rules out."""

from functools import partial
from types import SimpleNamespace

import pytest
from refusals import NONE, all_refused, check_refused, refusal
from small_plan import URL, configured, folders

from storelab.core import plan
from storelab.core.engines import CATALOGUE
from storelab.core.model import Point
from storelab.engines import load
from storelab.measure import check, point
from storelab.workloads import WORKLOADS

MIB = 2**20
BIG = {"object_size": 10**9}


def possible(workload: str, multipart: bool = True, protocol: str = "s3", **axes) -> None:
    values = {a.name: a.default for a in WORKLOADS[workload].axes} | axes
    settings = SimpleNamespace(kind="x")
    store = SimpleNamespace(name="uds", protocol=protocol, settings=settings, multipart=lambda: multipart)
    check.validate(Point("uds", workload, values, 1, "", "sweep", 1, 1, {"objects": 64}), store)


POSSIBLE = [
    ("put", {}),
    ("put", {"part_size": 16 * MIB, "parallel_parts": 4} | BIG),
    ("put", {"engine": "obstore", "part_size": 10**7, "arrival_rate": 5} | BIG),
    ("get_range", {"offset": "sequential"}),
    *(("get", {"engine": engine, "access": "cold"}) for engine in ("s5cmd", "fsspec", "obstore", "loadgen")),
    ("put", {"engine": "loadgen", "payload": "sha256", "balance": "round_robin", "arrival_rate": 5}),
    ("delete", {"batch": 1000}),
    ("mix", {"arrivals": "poisson", "arrival_rate": 10}),
    ("read_volume", {"engine": "planned", "thrift": 3, "max_amplification": 4, "file_size": "L", "buckets": 64}),
    ("replay", {"merge": "gap", "max_range_gap": 0, "engine": "fsspec", "transport": "http"}),
    ("read_entries", {"engine": "planned", "transport": "http"}),
    ("events", {"clients": 8, "files": 8, "cache": "readahead", "read_ahead": MIB, "navigation": "random", "step": 5}),
    ("events", {"engine": "planned", "clients": 2, "files": 8, "max_amplification": 3, "step": 1000}),
    ("events", {"cache": "all", "file_size": "mine", "step": 5000}),
]


def test_possible_axes_are_accepted():
    all_refused(("", NONE, partial(possible, workload, **axes)) for workload, axes in POSSIBLE)


# workload, axes, the axis that the message names, and what it says of it
IMPOSSIBLE = [
    (
        "get",
        {"arrival_rate": 100},
        "arrival_rate",
        "engine s5cmd has no arrival_rate; use the engine obstore or loadgen",
    ),
    ("put", {"engine": "fsspec", "part_size": 10**7}, "part_size", "use the engine s5cmd or obstore or loadgen"),
    ("put", {"part_size": 10**7} | BIG, "part_size", "write it like 16 MiB"),
    ("get", {"balance": "least_load"}, "balance", "use the engine loadgen"),
    ("put", {"engine": "obstore", "payload": "sha256"}, "payload", "use the engine loadgen"),
    ("get_range", {"range_size": 2 * 10**7}, "range_size", "20 MB"),
    ("get_range", {"offset": "9999kB"}, "offset", "a range of 4 kB at 9999kB"),
    ("events", {"clients": 4, "files": 2}, "files", "4 clients"),
    ("events", {"engine": "planned", "cache": "all"}, "cache", "use the engine fsspec"),
    ("events", {"thrift": 2}, "thrift", "use the engine planned"),
    ("events", {"cache": "bytes"}, "read_ahead", "1 MiB"),
    ("events", {"read_ahead": MIB}, "read_ahead", "sweep cache readahead or"),
    ("events", {"step": 1001}, "step", "1000 events"),
    ("read_entries", {"engine": "planned", "max_range_gap": 4096}, "max_range_gap", "engine planned has no"),
    ("read_volume", {"thrift": 3}, "thrift", "use the engine planned"),
    ("read_volume", {"transport": "http"}, "transport", "use the engine planned"),
    ("replay", {"merge": "gap", "max_amplification": 3}, "max_amplification", "set merge to planned"),
    ("replay", {"max_range_gap": 0}, "max_range_gap", "set merge to gap"),
    ("delete", {"batch": 1001}, "batch", "at most 1000"),
    ("mix", {"arrivals": "poisson"}, "arrivals", "poisson arrivals need a rate"),
]


def test_impossible_axes_are_refused_at_their_place():
    all_refused(
        (f"sweeps.sweep.axes.{axis}: ", text, partial(possible, workload, **axes))
        for workload, axes, axis, text in IMPOSSIBLE
    )


def test_engine_speaks_protocol_of_store():
    for protocol, axes, axis, text in (
        ("http", {"engine": "root"}, "engine", "root supports root and file"),
        ("http", {"engine": "root"}, "engine", "use the engine `planned`"),
        ("s3", {"engine": "root"}, "engine", "use the engine `uproot-s3fs`"),
        ("file", {"engine": "uproot-s3fs"}, "engine", "uses file; use the engine `planned`"),
        ("file", {"engine": "root", "max_range_gap": 0}, "max_range_gap", "use the engine uproot-s3fs"),
        ("file", {"engine": "root", "thrift": 1}, "thrift", "use the engine planned"),
        ("file", {"engine": "planned", "transport": "http"}, "transport", "uses file"),
    ):
        one = partial(possible, "read_volume", protocol=protocol, **axes)
        check_refused(f"sweeps.sweep.axes.{axis}: ", text, one)


def test_http_transport_needs_a_store_that_speaks_http():
    """S3 is HTTP; a file and root:// are not."""
    for workload in ("read_entries", "read_volume", "events"):
        for protocol, able in (("s3", True), ("http", True), ("root", False)):
            one = partial(possible, workload, protocol=protocol, engine="planned")
            text = NONE if able else protocol
            check_refused("", NONE, one)
            check_refused("sweeps.sweep.axes.transport: ", text, partial(one, transport="http"))


def test_parts_belong_to_uploads_of_several():
    """Part and object are in MiB: one part needs no multipart upload; s5cmd counts in MiB, obstore in bytes."""
    for workload, engine, part, size, multipart, text in (
        ("put", "s5cmd", 16, 64, True, NONE),
        ("put", "s5cmd", 16, 64, False, "multipart"),
        ("put", "s5cmd", 64, 64, False, NONE),
        ("put", "s5cmd", 65, 64, False, NONE),
        ("put", "s5cmd", 63, 64, False, "multipart"),
        ("get", "s5cmd", 16, 64, False, NONE),  # ranged GETs need no multipart uploads
        ("put", "s5cmd", 16.5, 64, True, "multiple of 1 MiB"),
        ("put", "obstore", 16.5, 64, True, NONE),
        ("put", "s5cmd", 0, 64, False, NONE),
    ):
        axes = {"engine": engine, "part_size": int(part * MIB), "object_size": size * MIB}
        check_refused("sweeps.sweep.axes.part_size: ", text, partial(possible, workload, multipart, **axes))


def test_missing_engine_names_its_installation(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "`storelab install root`" in refusal(load(CATALOGUE["root"].program))


def test_measuring_by_key_refuses_what_check_refuses(tmp_path, monkeypatch):
    """Snakemake and users call `storelab measure` with a key, maybe without `check` before."""
    monkeypatch.setattr(point, "measure", lambda *_: pytest.fail("nothing may be started"))
    for axes, axis in (
        ({"engine": "fsspec", "part_size": "16 MiB"}, "part_size"),
        ({"engine": "s5cmd", "payload": "sha256"}, "payload"),
    ):
        config = configured(sweeps={"up": {"workload": "put", "axes": axes}}, **folders(tmp_path))
        points = plan.make(config, WORKLOADS)
        assert refusal(point.point, config, points, points[0].key).startswith(f"sweeps.up.axes.{axis}: ")
        assert not list(tmp_path.iterdir())


def test_hint_names_the_scale_that_fits():
    """A campaign needs 500 clients. For any factor, one that gives at most 100.4 of them rounds to 100."""
    for scale in (0.5, 1.0, 2.0):
        sweep = {"workload": "put", "axes": {"clients": 500, "workers": 3}, "scale_axes": ["clients"]}
        config = configured(stores={"a": URL}, sweeps={"s": sweep}, scale=scale)
        (one,) = plan.make(config, WORKLOADS)
        assert one.axes["clients"] == 500 * scale and one.axes["workers"] == 3
        assert check.factor(config, one, "clients", 100) == ", or set `scale` to 0.2"
        assert check.factor(config, one, "clients", 0) == "", "no factor is that small"
        assert check.factor(config, one, "workers", 1) == check.factor(config, one, "buckets", 1) == ""
        fits = plan.make(config.model_copy(update={"scale": 0.2}), WORKLOADS)
        assert [p.axes["clients"] for p in fits] == [100]
