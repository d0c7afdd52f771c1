"""ROOT files of the user, from the line in the configuration to the records, on a running SeaweedFS."""

import json
from pathlib import Path

import ports
import pytest
import small_root
from laboratory import configured
from managed import rows_of
from paths import SHARED
from store_clients import for_store

from storelab.core.errors import MeasurementFailed
from storelab.measure import deployment
from storelab.measure import point as measure
from storelab.stores import everywhere
from storelab.workloads.staging import stage

pytestmark = [pytest.mark.real, pytest.mark.heavy]
REAL = SHARED / "data" / "root"
SHORT = {"duration": "1500 ms", "warm_up": "100 ms"}


def written(path: Path) -> Path:
    """Write a TTree `events` of 3000 entries in three clusters, whose branch `n` is broken."""
    small_root.tree(path, entries=1000)
    data = bytearray(path.read_bytes())
    for number in range(3):
        offset, size, *_ = small_root.place(path, "n", number)
        data[offset : offset + size] = bytes(size)
    path.write_bytes(data)
    return path


@pytest.fixture
def planned(tmp_path):
    """Return `planned(files, **sweeps)`: the configuration and its points; stop the store at the end."""
    used = []

    def one(files, **sweeps):
        stores = {"one": {"kind": "seaweedfs", "port": ports.block()}}
        sweeps = {name: SHORT | sweep for name, sweep in sweeps.items()}
        config, points = configured(tmp_path, stores, sweeps, files=files)
        used.append(config)
        return config, points

    yield one
    for config in used:
        for store in everywhere(config).values():
            store.down()


def measured(config, points):
    """Return [(point, record, its reads)] of all points; every check must hold, and no read fail."""
    out = []
    for point in points:
        record = measure.point(config, points, point.key).to_json()
        assert all(c["ok"] for c in record["checks"]), (point.key, record["checks"])
        reads = rows_of(config.raw / point.key, "reads")
        assert reads and {row["error"] for row in rows_of(config.raw / point.key, "ops")} == {None}, point.key
        out.append((point, record, reads))
    return out


def test_tree_and_rntuple_are_read(planned, tmp_path):
    paths = {"mine": written(tmp_path / "mine.root"), "tuple": small_root.ntuple(tmp_path / "tuple.root", (1000,) * 3)}
    files = {name: {"path": str(path), "tree": "events"} for name, path in paths.items()}
    scale, engine = ["mine", "tuple"], ["uproot-s3fs", "planned"]
    axes = {"file_size": scale, "engine": engine}
    config, points = planned(
        files,
        volume={"workload": "read_volume", "axes": axes | {"volume_fraction": [100, 30]}},
        entries={"workload": "read_entries", "axes": axes | {"entry_fraction": 0.1, "buckets": 2, "clients": 2}},
        ranges={"workload": "replay", "axes": {"file_size": scale, "entry_fraction": 0.1}},
    )
    out = measured(config, points)
    assert len(out) == 8 + 4 + 2
    needed = {}
    for point, record, reads in out:
        axes, mine = point.axes, point.axes["file_size"] == "mine"
        assert {c["engine"]["branches_left_out"] for c in record["clients"]} == {int(mine)}, "the broken branch"
        assert {r["entries"] for r in reads} == {3 if "entry_fraction" in axes else 3000}
        assert all(r["wire_bytes"] > r["asked_bytes"] >= r["needed_bytes"] > 0 and r["requests"] > 0 for r in reads)
        if point.workload == "read_volume":
            needed.setdefault((axes["file_size"], axes["volume_fraction"]), set()).update(
                r["needed_bytes"] for r in reads
            )
    assert all(len(v) == 1 for v in needed.values()), "both engines need the same bytes"
    manifest = json.loads(stage.manifest_path(config, "one", {"name": "root-mine"}).read_text())
    ((name, reason),) = manifest["root"]["unreadable"].items()
    assert name == "n" and str(tmp_path) not in reason
    assert manifest["root"]["sha256"] == manifest["bodies"][0]["sha256"]


def test_missing_object_is_counted_error(planned, tmp_path):
    files = {"mine": {"path": str(written(tmp_path / "mine.root")), "tree": "events"}}
    axes = {"file_size": "mine", "engine": ["uproot-s3fs", "planned"], "buckets": 2, "clients": 2}
    config, points = planned(files, volume={"workload": "read_volume", "axes": axes})
    measured(config, points)
    manifest = json.loads(stage.manifest_path(config, "one", points[0].dataset).read_text())
    (_, (bucket, prefix)), key = manifest["buckets"], manifest["objects"]["key"][1]
    for_store(everywhere(config)["one"]).delete_object(Bucket=bucket, Key=prefix + key)
    message = r"check 'reads' failed: 0 completed, [1-9][0-9]* failed; first error"
    for point in points:
        with pytest.raises(MeasurementFailed, match=message):
            measure.point(config, points, point.key, again=True)


@pytest.mark.skipif(not REAL.is_dir(), reason="data: the real files are missing (../shared/data/root)")
def test_real_files_are_read(planned):
    files = {
        "nano": {"path": str(REAL / "nanoAOD_2015_CMS_Open_Data_ttbar.root")},
        "xaod": {"path": str(REAL / "uproot-issue-123b.root"), "tree": "CollectionTree"},
        "physlite": {"path": str(REAL / "uproot-physlite-rntuple_v1-0-0-0.root"), "tree": "EventTag"},
        "event-data": {"path": str(REAL / "uproot-physlite-rntuple_v1-0-0-0.root"), "tree": "EventData"},
    }
    axes = {"file_size": ["nano", "xaod", "physlite"], "engine": ["uproot-s3fs", "planned"]}
    config, points = planned(
        files,
        volume={"workload": "read_volume", "duration": "6 s", "axes": axes},
        ranges={"workload": "replay", "axes": {"file_size": list(files)}},
    )
    left_out = {"nano": 0, "xaod": 576, "physlite": 0, "event-data": 0}
    chosen = {"nano": 947, "xaod": 1068, "physlite": 14, "event-data": 806}
    for point, record, reads in measured(config, points):
        name = point.axes["file_size"]
        assert {c["engine"]["branches_left_out"] for c in record["clients"]} == {left_out[name]}, point.key
        assert {r["branches"] for r in reads} == {chosen[name]}
        if name == "nano" and point.workload == "read_volume":
            assert {r["baskets"] for r in reads} == {949} and {r["needed_bytes"] for r in reads} == {
                sum(r["needed_bytes"] for r in reads) // len(reads)
            }


HARD = "a \"b' $HOME `id` ;&|<(x)[y]{z} *?#~! ü 日本 %41 +=,@^\\ -r"


def test_names_of_folders_and_files_are_data(tmp_path, seaweedfs, keys):
    """Results, state, scratch and the file reach each engine, and all that it wrote is removed."""
    folder = tmp_path / HARD
    (folder / "scratch").mkdir(parents=True)
    path = small_root.tree(folder / f"{HARD}.root", entries=1000)
    every = {"object": ["s5cmd", "fsspec", "obstore", "loadgen"], "root": ["uproot-s3fs", "planned"]}
    sweeps = {
        "put": SHORT | {"workload": "put", "axes": {"object_size": "4 kB", "engine": every["object"]}},
        "get": SHORT | {"workload": "get", "objects": 5, "axes": {"object_size": "4 kB", "engine": every["object"]}},
        "read": SHORT | {"workload": "read_entries", "axes": {"file_size": "mine", "engine": every["root"]}},
    }
    store = {"kind": "s3", "endpoint": seaweedfs.endpoints(1)[0].url}
    own = {"files": {"mine": {"path": str(path), "tree": "events"}}, "scratch": str(folder / "scratch")}
    own |= {"campaign": "names", "name": "names"}  # other tests have the buckets of `lab` in this store
    config, points = configured(folder, {"one": store}, sweeps, **own)
    assert {p.axes["engine"] for p in points} == {*every["object"], *every["root"]}
    for point in points:
        record = measure.point(config, points, point.key).to_json()
        assert record["valid"] and all(c["ok"] for c in record["checks"]), (point.key, record["checks"])
        assert {row["error"] for row in rows_of(config.raw / point.key, "ops")} == {None}, point.key
    removed = deployment.clean(config, everywhere(config)["one"])
    assert removed.objects and removed.buckets and not removed.stays
