"""The near-null S3 server and the workload `calibrate` with every engine."""

import shutil
import subprocess

import psutil
import pytest
from laboratory import NO_GO, configured, gone, needs_loadgen

from storelab.install import golang
from storelab.measure import point as measure
from storelab.stores import all_stores
from storelab.workloads import WORKLOADS

pytestmark = [pytest.mark.real, needs_loadgen]
# An upload and a download by the engine that calibrates by default run in `make test`; the others in .ci/run.
CASES = [
    pytest.param(
        operation,
        engine,
        more,
        marks=() if engine == "loadgen" and not more and operation in ("put", "get") else pytest.mark.heavy,
    )
    for operation, more in (
        ("put", {}),
        ("get", {}),
        ("get_range", {"object_size": "1 MB", "range_size": "5 kB"}),
        ("put", {"object_size": "12 MB", "part_size": "5 MiB", "parallel_parts": 2}),
        ("get", {"object_size": "12 MB", "part_size": "5 MiB", "parallel_parts": 2}),
        ("delete", {}),
        ("delete", {"batch": 100}),
    )
    for engine in WORKLOADS[operation].axis("engine").choices
    if "part_size" not in more or engine != "fsspec"
]


@pytest.mark.parametrize(
    ("operation", "engine", "more"), CASES, ids=lambda v: v if isinstance(v, str) else "-".join(v) or "plain"
)
def test_engines(lab, port_block, operation, engine, more):
    axes = {"operation": operation, "engine": engine, "clients": 2, "workers": 2} | more
    # s5cmd is a program that starts, on a busy machine not at once.
    duration = "1 s" if engine == "s5cmd" or "part_size" in more else "300 ms"
    sweep = {"workload": "calibrate", "duration": duration, "warm_up": "50 ms", "axes": axes}
    ((point, record, rows),) = lab({"kind": "nullserver", "port": port_block}, it=sweep)
    assert record["engine"]["name"] == engine and record["store"]["kind"] == "nullserver"
    assert rows and {r["error"] for r in rows} == {None} and {r["client"] for r in rows} == {0, 1}
    moved = 0 if operation == "delete" else point.axes["range_size"] or point.axes["object_size"]
    assert {r["bytes"] // r["count"] for r in rows} == {moved} and all(c["ok"] for c in record["checks"])


@pytest.mark.heavy
def test_https(lab, port_block):
    axes = {
        "engine": ["s5cmd", "fsspec", "obstore", "loadgen"],
        "scheme": ["default", "https"],
        "object_size": "100 kB",
    }
    measured = lab(
        {"kind": "nullserver", "port": port_block}, it={"workload": "calibrate", "duration": "600 ms", "axes": axes}
    )
    assert len(measured) == 8
    for point, record, rows in measured:
        scheme = "https" if point.axes["scheme"] == "https" else "http"
        assert all(c["endpoint"].startswith(f"{scheme}://") for c in record["clients"]) and rows


@pytest.mark.heavy
def test_memory_and_files(lab, port_block, tmp_path):
    memory = {"operation": "copy", "target": "memory", "engine": "none", "object_size": "1 MB"}
    files = {"operation": ["write", "read"], "target": ["tmpfs", "disk"], "engine": "none", "object_size": "10 kB"}
    sweeps = {"memory": memory, "files": files | {"workers": 3}}
    measured = lab(
        {"kind": "nullserver", "port": port_block},
        **{name: {"workload": "calibrate", "axes": axes} for name, axes in sweeps.items()},
    )
    assert len(measured) == 5
    for point, record, rows in measured:
        assert sum(r["count"] for r in rows) > 100
        assert {r["bytes"] / r["count"] for r in rows} == {point.axes["object_size"]}
        assert all(c["ok"] for c in record["checks"]) and len(rows) < 3000  # bins
    assert not list((tmp_path / "state" / "one" / "calibrate").iterdir())


@pytest.fixture
def limited(tmp_path, port_block):
    """Return the configuration and the point of a calibration, with limits that a system could not respect."""
    sweep = {"workload": "calibrate", "axes": {"operation": "put", "object_size": "1 MB"}}
    limits = {"throughput": "1 kB/s", "requests_per_s": 1}
    return configured(tmp_path, {"null": {"kind": "nullserver", "port": port_block}}, {"up": sweep}, limits=limits)


@pytest.fixture
def store(limited):
    store = all_stores(limited[0])["null"]
    yield store
    store.down()


@pytest.mark.heavy
def test_limits_of_systems_do_not_hold_here(limited, store):
    config, (point,) = limited
    assert measure.point(config, [point], point.key).host["client_cpu_s"] > 0


@pytest.mark.heavy
def test_null_server_stores_nothing(store):
    store.up()
    (pid,) = store.actors().values()
    assert store.version() == golang.pinned(golang.LOADGEN) and store.access().bucket_names() == []
    store.suspend()
    assert psutil.Process(pid).status() == psutil.STATUS_STOPPED
    store.resume()
    store.access().write("any", "key", b"thrown away")
    assert store.access().read("any", "key") is None
    assert store.down() == [pid] and gone([pid]) and store.status().state == "down"


@pytest.mark.heavy
def test_bodies_are_found_again_where_scratch_was_emptied(store, tmp_path):
    store.up()
    body = tmp_path / "1-3-0"
    for content in (b"abc", b"abc"):
        body.write_bytes(content)
        store.add_bodies([body])
        assert store.access().read("any", "data/1-3-0/7") == b"abc"
        body.unlink()


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    """Return Go's environment for all commands, with its modules and built files."""
    return tmp_path_factory.mktemp("go")


@pytest.mark.heavy
@pytest.mark.skipif(not shutil.which("go"), reason=NO_GO)
@pytest.mark.parametrize("command", ["vet", pytest.param("test", marks=pytest.mark.alone)])
def test_the_go_tests(scratch, command):
    """With the race detector where there is a gcc; both commands then share what is compiled for it."""
    race = ["-race"] if shutil.which("gcc") else []
    environ = golang.go_environ(scratch) | ({"CGO_ENABLED": "1"} if race else {})
    words, quiet = ["go", command, *race, "./..."], {"capture_output": True, "text": True}
    done = subprocess.run(words, cwd=golang.LOADGEN.source_folder, env=environ, timeout=900, **quiet)
    assert done.returncode == 0, done.stdout + done.stderr
    if not race and command == "test":
        pytest.skip("passed, but without the race detector, which needs gcc: apt install gcc")
