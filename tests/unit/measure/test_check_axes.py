"""Values of axes that cannot be: one line with the place, the value and the mend, before anything is touched."""

from types import SimpleNamespace

import pytest

from storelab.core import plan
from storelab.core.config import Config
from storelab.core.engines import CATALOGUE
from storelab.core.errors import UserError
from storelab.core.model import Point
from storelab.engines import load
from storelab.measure import check_axes, point
from storelab.measure.check import summarise
from storelab.workloads import WORKLOADS

MIB = 2**20


def check(workload: str, multipart: bool = True, protocol: str = "s3", **axes) -> None:
    every = {a.name: a.default for a in WORKLOADS[workload].axes} | axes
    point = Point("uds", workload, every, 1, "", "sweep", 1, 1)
    check_axes.possible(
        point,
        SimpleNamespace(name="uds", protocol=protocol, settings=SimpleNamespace(kind="x"), multipart=lambda: multipart),
    )


@pytest.mark.parametrize(
    ("workload", "axes", "multipart"),
    [
        ("put", {}, False),
        ("put", {"part_size": 16 * MIB, "parallel_parts": 4, "object_size": 10**9}, True),
        ("put", {"engine": "obstore", "part_size": 10**7, "object_size": 10**9, "arrival_rate": 5}, True),
        ("get", {"part_size": 16 * MIB, "object_size": 10**9}, False),  # ranged GETs need no multipart uploads
        ("get_range", {"offset": "sequential"}, True),
        ("put", {"engine": "loadgen", "payload": "sha256", "balance": "round_robin", "arrival_rate": 5}, True),
        ("delete", {"batch": 1000}, True),
        ("read_volume", {"engine": "planned", "thrift": 3, "max_amplification": 4, "scale": "L", "buckets": 64}, True),
        ("replay", {"merge": "gap", "max_range_gap": 0, "engine": "fsspec", "transport": "http"}, True),
        ("read_entries", {"engine": "planned", "transport": "http"}, True),
        (
            "events",
            {"clients": 8, "files": 8, "cache": "readahead", "read_ahead": MIB, "navigation": "random", "step": 5},
            True,
        ),
        ("events", {"engine": "planned", "clients": 2, "files": 8, "max_amplification": 3, "step": 1000}, True),
        ("events", {"cache": "all", "scale": "mine", "step": 5000}, True),
    ],
)
def test_what_can_be(workload, axes, multipart):
    check(workload, multipart, **axes)


@pytest.mark.parametrize(
    ("workload", "axes", "multipart", "line"),
    [
        (
            "get",
            {"arrival_rate": 100},
            True,
            "sweeps.sweep.axes.arrival_rate: engine s5cmd has no arrival_rate; sweep engine obstore or loadgen",
        ),
        (
            "put",
            {"engine": "fsspec", "part_size": 10**7},
            True,
            "engine fsspec has no part_size; sweep engine s5cmd or obstore or loadgen",
        ),
        (
            "put",
            {"part_size": 10**7, "object_size": 10**9},
            True,
            "10 MB is no multiple of 1 MiB, as s5cmd wants; write it like 16 MiB",
        ),
        (
            "put",
            {"part_size": 16 * MIB, "object_size": 10**9},
            False,
            "store uds takes no multipart uploads; leave it out",
        ),
        (
            "get",
            {"balance": "least_load"},
            True,
            "sweeps.sweep.axes.balance: engine s5cmd has no balance; sweep engine loadgen",
        ),
        (
            "put",
            {"engine": "obstore", "payload": "sha256"},
            True,
            "engine obstore has no payload; sweep engine loadgen",
        ),
        ("get_range", {"range_size": 2 * 10**7}, True, "axes.range_size: 20 MB is more than the object"),
        (
            "get_range",
            {"offset": "9999kB"},
            True,
            "axes.offset: a range of 4 kB at 9999kB ends behind the object; begin earlier",
        ),
        (
            "events",
            {"clients": 4, "files": 2},
            True,
            "files: 4 clients read a file of their own each, and there are 2; raise `files`",
        ),
        (
            "events",
            {"engine": "planned", "cache": "all"},
            True,
            "axes.cache: engine planned has no cache; sweep engine fsspec",
        ),
        ("events", {"thrift": 2}, True, "axes.thrift: engine fsspec has no thrift; sweep engine planned"),
        ("events", {"cache": "bytes"}, True, "read_ahead: cache bytes reads ahead by 0 B; give a size, like 1 MiB"),
        (
            "events",
            {"read_ahead": MIB},
            True,
            "read_ahead: cache none does not read ahead; leave it out, or sweep cache readahead or",
        ),
        ("events", {"step": 1001}, True, "axes.step: file S holds 1000 events; make the step smaller"),
        (
            "read_entries",
            {"engine": "planned", "max_range_gap": 4096},
            True,
            "max_range_gap: engine planned has no max_range_gap; sweep engine",
        ),
        ("read_volume", {"thrift": 3}, True, "axes.thrift: engine uproot-s3fs has no thrift; sweep engine planned"),
        (
            "read_volume",
            {"transport": "http"},
            True,
            "axes.transport: engine uproot-s3fs has no transport; sweep engine planned",
        ),
        (
            "replay",
            {"merge": "gap", "max_amplification": 3},
            True,
            "max_amplification: merge gap has no max_amplification; sweep merge planned",
        ),
        (
            "replay",
            {"max_range_gap": 0},
            True,
            "axes.max_range_gap: merge planned has no max_range_gap; sweep merge gap",
        ),
        (
            "delete",
            {"batch": 1001},
            True,
            "axes.batch: 1001 objects are more than one request may delete; at most 1000",
        ),
    ],
)
def test_what_cannot(workload, axes, multipart, line):
    with pytest.raises(UserError) as caught:
        check(workload, multipart, **axes)
    assert line in str(caught.value)


@pytest.mark.parametrize(
    ("value", "text"), [("random", "random"), ("sequential", "sequential"), ("1 MB", "1MB"), ("0 B", "0B")]
)
def test_places_of_ranges(value, text):
    assert WORKLOADS["get_range"].axis("offset").parse(value, "here") == text


def test_no_place():
    with pytest.raises(
        UserError, match="here: 'somewhere' is no place; one of: random, sequential, or a size like 1 MB"
    ):
        WORKLOADS["get_range"].axis("offset").parse("somewhere", "here")


def test_objects_that_are_made_to_be_deleted_count():
    points = [
        Point(
            "uds",
            "delete",
            {a.name: a.default for a in WORKLOADS["delete"].axes} | {"workers": n},
            1,
            "",
            "s",
            1,
            1,
            {"objects": 500, "duration_ns": 1},
        )
        for n in (1, 2)
    ]
    total = summarise(points, "uds")
    assert (total.staged_objects, total.staged_bytes) == (500, 2_000_000), "of one point at a time"


@pytest.mark.parametrize(
    ("protocol", "axes", "line"),
    [
        (
            "http",
            {"engine": "root"},
            "axes.engine: root speaks root and file, store uds (kind x) speaks http; sweep engine `planned`",
        ),
        (
            "s3",
            {"engine": "root"},
            "root speaks root and file, store uds (kind x) speaks s3; sweep engine `uproot-s3fs`",
        ),
        (
            "file",
            {"engine": "uproot-s3fs"},
            "uproot-s3fs speaks s3, store uds (kind x) speaks file; sweep engine `planned`",
        ),
        (
            "file",
            {"engine": "root", "max_range_gap": 0},
            "axes.max_range_gap: engine root has no max_range_gap; sweep engine uproot-s3fs",
        ),
        ("file", {"engine": "root", "thrift": 1}, "axes.thrift: engine root has no thrift; sweep engine planned"),
        (
            "file",
            {"engine": "planned", "transport": "http"},
            "axes.transport: http asks for S3 or HTTP, store uds (kind x) speaks file",
        ),
    ],
)
def test_what_speaks_what(protocol, axes, line):
    with pytest.raises(UserError) as caught:
        check("read_volume", protocol=protocol, **axes)
    assert line in str(caught.value)


def test_an_engine_that_is_not_installed_says_so(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match="ROOT is not installed in this environment; run `storelab install root`"):
        load(CATALOGUE["root"].program)()


@pytest.mark.parametrize(
    ("axes", "words"),
    [({"engine": "fsspec", "part_size": "16 MiB"}, "part_size"), ({"engine": "s5cmd", "payload": "sha256"}, "payload")],
)
def test_measuring_a_point_by_its_key_refuses_what_check_refuses(tmp_path, monkeypatch, axes, words):
    """Snakemake and people call `storelab measure` with a key: nobody need have called `check` before."""
    monkeypatch.setattr(point, "_measure", lambda *_: pytest.fail("nothing may be started"))
    places = {name: str(tmp_path / name) for name in ("results", "state", "scratch")}
    stores = {"stores": {"a": {"kind": "seaweedfs"}}, "use_stores": ["a"]}
    sweeps = {"up": {"workload": "put", "axes": axes}}
    config = Config.model_validate(
        {"campaign": "x", "name": "x", "calibrate": False, **places, **stores, "sweeps": sweeps}
    )
    points = plan.make(config, WORKLOADS)
    with pytest.raises(UserError, match=f"engine {axes['engine']} has no {words}"):
        point.point(config, points, points[0].key)
    assert not list(tmp_path.iterdir())


def test_http_as_a_way_of_its_own_is_for_stores_that_speak_it():
    """S3 is HTTP; a file and root:// are not."""
    for workload, engine in (("read_entries", "planned"), ("read_volume", "planned"), ("events", "planned")):
        for protocol, can in (("s3", True), ("http", True), ("root", False)):
            check(workload, protocol=protocol, engine=engine)
            if can:
                check(workload, protocol=protocol, engine=engine, transport="http")
                continue
            with pytest.raises(UserError) as caught:
                check(workload, protocol=protocol, engine=engine, transport="http")
            assert caught.value.place == "sweeps.sweep.axes.transport" and protocol in caught.value.problem


def test_the_factor_that_would_fit():
    """A campaign says 500 clients. Whatever the factor was, one that makes at most 100.4 of them rounds to 100."""
    for scale in (0.5, 1.0, 2.0):
        sweep = {"workload": "put", "axes": {"clients": 500, "workers": 3}, "scaled_axes": ["clients"]}
        told = {"campaign": "c", "name": "c", "use_stores": ["a"], "repetitions": 1, "calibrate": False}
        told |= {"stores": {"a": {"kind": "s3", "endpoint": "http://h"}}, "sweeps": {"s": sweep}, "scale": scale}
        config = Config.model_validate(told)
        (one,) = plan.make(config, WORKLOADS)
        assert one.axes["clients"] == 500 * scale and one.axes["workers"] == 3
        assert check_axes.factor(config, one, "clients", 100) == ", or set `scale` to 0.2"
        assert check_axes.factor(config, one, "clients", 0) == "", "none is so small"
        assert check_axes.factor(config, one, "workers", 1) == check_axes.factor(config, one, "buckets", 1) == ""
        fits = plan.make(config.model_copy(update={"scale": 0.2}), WORKLOADS)
        assert [p.axes["clients"] for p in fits] == [100]


def test_parts_are_of_uploads_that_have_several():
    """Part and object in MiB: an object of one part needs no multipart upload; s5cmd counts in MiB, obstore in bytes."""
    for workload, engine, part, size, multipart, said in (
        ("put", "s5cmd", 16, 64, True, ""),
        ("put", "s5cmd", 16, 64, False, "takes no multipart uploads"),
        ("put", "s5cmd", 64, 64, False, ""),
        ("put", "s5cmd", 65, 64, False, ""),
        ("put", "s5cmd", 63, 64, False, "takes no multipart uploads"),
        ("get", "s5cmd", 16, 64, False, ""),
        ("put", "s5cmd", 16.5, 64, True, "is no multiple of"),
        ("put", "obstore", 16.5, 64, True, ""),
        ("put", "s5cmd", 0, 64, False, ""),
    ):
        axes = {"engine": engine, "part_size": int(part * MIB), "object_size": size * MIB}
        if not said:
            check(workload, multipart, **axes)
            continue
        with pytest.raises(UserError, match=said) as caught:
            check(workload, multipart, **axes)
        assert caught.value.place == "sweeps.sweep.axes.part_size"
