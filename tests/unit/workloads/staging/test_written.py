"""What is deleted behind storelab: only what a note, a manifest or a record of its own tells; anything else stays."""

import json
from pathlib import Path

import pytest

from storelab.core.config import Config
from storelab.core.model import Point
from storelab.engines.common.names import put_key
from storelab.measure import cleaning
from storelab.stores import make
from storelab.stores.posix.directory import Directory
from storelab.stores.s3.store import S3
from storelab.workloads import WORKLOADS
from storelab.workloads.staging import buckets, left_over, stage, written

PAYLOAD = {"name": "small", "kind": "payload", "objects": 6, "object_size": 100, "buckets": 2, "seed": 1}


@pytest.fixture
def config(tmp_path):
    (tmp_path / "files").mkdir()
    store = {"kind": "directory", "path": str(tmp_path / "files")}
    more = {"results": str(tmp_path / "results"), "state": str(tmp_path / "state"), "scratch": str(tmp_path)}
    sweep = {"workload": "put", "duration": "1 s", "axes": {"object_size": ["1 kB"]}}
    return Config(name="camp", campaign="camp", stores={"d": store}, use_stores=["d"], sweeps={"s": sweep}, **more)


@pytest.fixture
def store(config):
    out = make("d", config.stores["d"], Path(config.state))
    assert isinstance(out, Directory)
    return out


def point(workload="put", size=1000, clients=2, **axes):
    all_axes = {a.name: a.default for a in WORKLOADS[workload].axes} | {"object_size": size, "clients": clients} | axes
    fixed = {"duration_ns": 1, "data_seed": 1, "sizes": {"fixed": size}, "release": {"repository": "r"}}
    return Point("d", workload, all_axes, 1, f"d/{workload}/rep~1", "s", 7, 0, fixed)


def s3():
    return S3("s", S3.Settings(kind="s3", endpoint="https://s3.example.org"), Path("state"))


def of(store, p, attempt="0123abcd"):
    return written.of_attempt(store, p, attempt, WORKLOADS[p.workload].makes(p, attempt))


@pytest.mark.parametrize("prefix", ["", "lab/camp/b0003/"])
def test_keys_that_an_attempt_could_have_made(prefix):
    ours = of(s3(), point())
    good = [put_key("0123abcd", client, n) for client in (0, 1) for n in (0, 99_999_999, 100_000_000)]
    assert all(ours("b", prefix + key, 1000) for key in good)
    near = [
        put_key("0123abcd", 2, 0),  # there were two clients
        put_key("0123abce", 0, 0),  # another attempt
        put_key("0123abcd", 0, 0) + "x",
        put_key("0123abcd", 0, 0)[:-1],
        "put/0123abcd/00/00000000",
        "put/0123abcd/notes.txt",
        "put/notes.txt",
        "put/0123abcd/0/000000000",  # nine digits begin with none
        "data/small/0000000",
        "0123abcd",
        "mine/put/0123abcd/0/00000000",
    ]
    assert not any(ours("b", prefix + key, 1000) for key in near)
    assert not any(ours("b", prefix + good[0], size) for size in (0, 999, 1001))
    assert ours("b", prefix + good[0], None), "an unfinished upload has no size"


def test_an_upload_that_was_cut_off_is_shorter_but_not_in_s3(store):
    key = put_key("0123abcd", 1, 5)
    assert of(store, point())("b", key, 400) and not of(s3(), point())("b", key, 400)
    assert not of(store, point())("b", key, 1001)
    temporary = f"{key}.0123456789ab.storelab-tmp"
    assert of(store, point())("b", temporary, 7) and not of(s3(), point())("b", temporary, 1000)


def test_every_workload_that_writes_says_what_it_makes():
    for name, workload in WORKLOADS.items():
        assert bool(workload.makes(point(name), "0123abcd")) == (workload.direction == "write"), name


def test_other_writing_workloads():
    consistent, probed = of(s3(), point("consistency", 512)), of(s3(), point("probe"))
    assert consistent("b", "put/0123abcd/1/3/0000012", 512) and consistent("b", "put/0123abcd/1/3/anchor", 512)
    assert consistent("b", "put/0123abcd/many/00017", 256) and not consistent("b", "put/0123abcd/many/00017", 512)
    assert not consistent("b", "put/0123abcd/1/3/thesis", 512) and not consistent("b", "put/0123abcd/many/x", 256)
    assert probed("b", "probe/0123abcd/known", 2_400_000) and not probed("b", "probe/0123abcd/known", 17)
    assert probed("b", "probe/0123abcd/0/list/003/0031", 1) and not probed("b", "probe/mine", 1)
    assert probed("storelab-camp-100002", "v", 6) and not probed("storelab-camp-0002", "v", 6)
    assert not probed("storelab-camp-100002", "thesis", 6)
    assert of(s3(), point("delete"))("b", put_key("0123abcd", 0, 3), 1000)


def lay(store, name, files):
    for key, size in files.items():
        path = store.path / name / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size))


def left_in(store, name):
    folder = store.path / name
    return {str(p.relative_to(folder)): p.stat().st_size for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("lost", ["nothing", "results", "state"])
def test_clean_up_and_clean_leave_what_is_of_others(config, store, capsys, lost):
    store.up()
    place = store.bucket("camp", 0)
    for b in stage.buckets_of(config, store, 2):
        buckets.ensure(store, "camp", [b])
    p = point()
    written.note_attempt(config, store, "0123abcd", p, WORKLOADS["put"].makes(p, "0123abcd"))
    left_over.add(config, "d", p, 3000, 3)
    mine = {put_key("0123abcd", 0, n): 1000 for n in range(3)}
    theirs = {
        "put/notes.txt": 3,
        "put/0123abcd/notes.txt": 1000,
        put_key("0123abcd", 0, 9): 1001,
        put_key("feedbeef", 0, 0): 1000,
        "data/thesis.root": 5,
        "thesis.root": 5,
    }
    lay(store, place.name, mine | theirs)
    assert left_over.remove(config, store, always=True) == 3
    said = capsys.readouterr().err
    assert "4 objects that storelab did not write stay, the first is storelab-camp-0000/put/" in said
    assert theirs.items() <= left_in(store, place.name).items() and not mine.keys() & left_in(store, place.name).keys()
    stage.ensure(config, store, PAYLOAD)
    lay(store, place.name, mine)  # uploads that came late, or of an attempt that was killed
    if lost != "nothing":
        import shutil

        shutil.rmtree(config.results if lost == "results" else config.state)
    gone = cleaning.clean(config, store)
    assert gone[:3] == (3 + 6 + 1, 1, 6) and "6 objects that storelab did not write stay" in str(gone)
    assert left_in(store, place.name) == theirs | {".storelab": left_in(store, place.name)[".storelab"]}
    assert not (store.path / store.bucket("camp", 1).name).exists()
    assert cleaning.clean(config, store)[:3] == (0, 0, 6), "and again"


def test_a_record_tells_of_its_attempt_where_all_notes_are_gone(config, store):
    store.up()
    place = store.bucket("camp", 0)
    buckets.ensure(store, "camp", [place])
    lay(store, place.name, {put_key("0123abcd", 1, 0): 1000, put_key("feedbeef", 1, 0): 1000})
    head = config.raw / "d/put/rep~1/run.json"
    head.parent.mkdir(parents=True)
    from dataclasses import asdict

    head.write_text(json.dumps({"attempt": "0123abcd", "point": asdict(point())}))
    (config.raw / "d/put/rep~2").mkdir()
    (config.raw / "d/put/rep~2/run.json").write_text("{ damaged")
    assert cleaning.clean(config, store)[:3] == (1, 0, 1)
    assert put_key("feedbeef", 1, 0) in left_in(store, place.name)


def test_a_forged_mark_does_not_make_a_bucket_storelabs(config, store):
    name = store.bucket("camp", 7).name
    lay(store, name, {"precious": 10, "put/deadbeef/0/00000000": 1000})
    (store.path / name / ".storelab").write_text('{"campaign": "camp"}')
    before = left_in(store, name)
    assert cleaning.clean(config, store)[:3] == (0, 0, 2) and left_in(store, name) == before


def test_half_a_line_and_a_damaged_manifest_authorise_nothing(config, store):
    p = point()
    for path in written._notes(config, "d"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"attempt": "feedbeef", "clients": 2, "made": [["put/fee')
    written.note_attempt(config, store, "0123abcd", p, WORKLOADS["put"].makes(p, "0123abcd"))
    manifest = config.raw / "manifests" / "d" / "x.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text('{"schema": 1}')
    ours = written.noted(config, store)
    assert ours("b", put_key("0123abcd", 0, 0), 1000), "the line behind half a line is read"
    assert not ours("b", put_key("feedbeef", 0, 0), 1000) and not ours.objects


@pytest.mark.parametrize(
    ("allowed", "free", "most"),
    [
        (100 * 10**9, None, 4 * 10**9),
        (60 * 10**9, None, 3 * 10**9),
        (20 * 10**9, None, 10**9),
        (2 * 10**9, None, 5 * 10**8),
        (100 * 10**9, 100 * 10**9, 4 * 10**9),
        (100 * 10**9, 2 * 10**9, 5 * 10**8),  # a small machine with its store in memory
    ],
)
def test_what_may_be_left_grows_with_what_may_be_stored(config, store, monkeypatch, allowed, free, most):
    monkeypatch.setattr(type(store), "free_bytes", lambda self: free)
    few = config.model_copy(update={"limits": config.limits.model_copy(update={"stored_bytes": allowed})})
    assert left_over.most(few, store) == most
    # As many stay, one more go.
    p = point()
    for size, stays in ((most - 1, True), (1, False)):
        left_over.add(few, "d", p, size, 1)
        left_over.remove(few, store)
        assert bool(left_over.left(few, "d")["objects"]) == stays
