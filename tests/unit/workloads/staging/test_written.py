"""Deletion: storelab deletes only what its notes, manifests or records name; anything else stays."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest
from small_plan import configured, folders

from storelab.core.model import Point
from storelab.engines.common.objects import put_key
from storelab.measure import deployment
from storelab.stores import make
from storelab.stores.external import Directory
from storelab.stores.s3 import S3
from storelab.workloads import WORKLOADS
from storelab.workloads.staging import buckets, left_over, stage, written

PAYLOAD = {"name": "small", "kind": "payload", "objects": 6, "object_size": 100, "buckets": 2, "seed": 1}
ATTEMPT, GB = "0123abcd", 10**9


@pytest.fixture
def config(tmp_path):
    (tmp_path / "files").mkdir()
    store = {"kind": "directory", "path": str(tmp_path / "files")}
    return configured(name="camp", stores={"d": store}, stores_to_measure=["d"], **folders(tmp_path))


@pytest.fixture
def store(config):
    out = make("d", config.stores["d"], Path(config.state))
    assert isinstance(out, Directory)
    return out


def point(workload="put", size=1000, clients=2):
    axes = {a.name: a.default for a in WORKLOADS[workload].axes} | {"object_size": size, "clients": clients}
    fixed = {"duration_ns": 1, "data_seed": 1, "sizes": {"fixed": size}, "release": {"repository": "r"}}
    return Point("d", workload, axes, 1, f"d/{workload}/rep~1", "s", 7, 0, fixed)


def s3():
    return S3("s", S3.Settings(kind="s3", endpoint="https://s3.example.org"), Path("state"))


def made_by(store, p):
    """Return the function that decides whether an object belongs to the point's attempt."""
    return written.written_by(store, p, ATTEMPT, WORKLOADS[p.workload].expected_objects(p, ATTEMPT))


def noted(config, store):
    written.note_attempt(config, store, ATTEMPT, point(), WORKLOADS["put"].expected_objects(point(), ATTEMPT))


def test_keys_of_an_attempt_are_known():
    ours = made_by(s3(), point())
    good = [put_key(ATTEMPT, client, n) for client in (0, 1) for n in (0, 99_999_999, 100_000_000)]
    near = [
        put_key(ATTEMPT, 2, 0),  # there were two clients
        put_key("0123abce", 0, 0),  # another attempt
        put_key(ATTEMPT, 0, 0) + "x",
        put_key(ATTEMPT, 0, 0)[:-1],
        "put/0123abcd/00/00000000",
        "put/0123abcd/notes.txt",
        "put/notes.txt",
        "put/0123abcd/0/000000000",  # nine digits begin with none
        "data/small/0000000",
        ATTEMPT,
        "mine/put/0123abcd/0/00000000",
    ]
    for prefix in ("", "lab/camp/b0003/"):
        assert all(ours("b", prefix + key, 1000) for key in good)
        assert not any(ours("b", prefix + key, 1000) for key in near)
        assert not any(ours("b", prefix + good[0], size) for size in (0, 999, 1001))
        assert ours("b", prefix + good[0], None), "an unfinished upload has no size"


def test_interrupted_upload_is_shorter_but_not_in_s3(store):
    key = put_key(ATTEMPT, 1, 5)
    here, there = made_by(store, point()), made_by(s3(), point())
    assert here("b", key, 400) and not there("b", key, 400) and not here("b", key, 1001)
    temporary = f"{key}.0123456789ab.storelab-tmp"
    assert here("b", temporary, 7) and not there("b", temporary, 1000)


def test_only_writing_workloads_make_objects():
    for name, workload in WORKLOADS.items():
        assert bool(workload.expected_objects(point(name), ATTEMPT)) == (workload.direction == "write"), name


def test_keys_of_other_workloads_are_known():
    """Return (key, size) of objects that an attempt made, and of others."""
    attempt, campaign = "put/0123abcd", "storelab-camp-100002"
    consistency = [("1/3/0000012", 512), ("1/3/anchor", 512), ("many/00017", 256)]
    others = [("many/00017", 512), ("1/3/thesis", 512), ("many/x", 256)]
    ours = made_by(s3(), point("consistency", 512))
    assert all(ours("b", f"{attempt}/{key}", size) for key, size in consistency)
    assert not any(ours("b", f"{attempt}/{key}", size) for key, size in others)
    ours = made_by(s3(), point("probe"))
    for bucket, key, size in (
        ("b", "probe/0123abcd/known", 2_400_000),
        ("b", "probe/0123abcd/0/list/003/0031", 1),
        (campaign, "v", 6),
    ):
        assert ours(bucket, key, size), key
    for bucket, key, size in (
        ("b", "probe/0123abcd/known", 17),
        ("b", "probe/mine", 1),
        ("storelab-camp-0002", "v", 6),
        (campaign, "thesis", 6),
    ):
        assert not ours(bucket, key, size), key
    assert made_by(s3(), point("delete"))("b", put_key(ATTEMPT, 0, 3), 1000)


def write(store, name, files):
    for key, size in files.items():
        path = store.path / name / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size))


def left_in(store, name):
    folder = store.path / name
    return {str(p.relative_to(folder)): p.stat().st_size for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("lost", ["nothing", "results", "state"])
def test_clean_leaves_objects_of_others(config, store, capsys, lost):
    store.up()
    place = store.bucket("camp", 0)
    for b in stage.buckets_of(config, store, 2):
        buckets.ensure(store, "camp", [b])
    noted(config, store)
    left_over.add(config, "d", point(), 3000, 3)
    mine = {put_key(ATTEMPT, 0, n): 1000 for n in range(3)}
    theirs = {"put/notes.txt": 3, "put/0123abcd/notes.txt": 1000, "data/thesis.root": 5, "thesis.root": 5}
    theirs |= {put_key(ATTEMPT, 0, 9): 1001, put_key("feedbeef", 0, 0): 1000}
    write(store, place.name, mine | theirs)
    assert left_over.remove(config, store, always=True) == 3
    message = capsys.readouterr().err
    assert "kept 4 objects not written by this storelab, the first is storelab-camp-0000/put/" in message
    assert theirs.items() <= left_in(store, place.name).items() and not mine.keys() & left_in(store, place.name).keys()
    stage.ensure(config, store, PAYLOAD)
    write(store, place.name, mine)  # uploads that came late, or of an attempt that was killed
    if lost != "nothing":
        shutil.rmtree(config.results if lost == "results" else config.state)
    gone = deployment.clean(config, store)
    assert gone[:3] == (3 + 6 + 1, 1, 6) and "kept 6 objects not written by this storelab" in str(gone)
    assert left_in(store, place.name) == theirs | {".storelab": left_in(store, place.name)[".storelab"]}
    assert not (store.path / store.bucket("camp", 1).name).exists()
    assert deployment.clean(config, store)[:3] == (0, 0, 6), "and again"


def test_records_and_manifests_are_no_notes(config, store):
    """They may be copies of what another storelab wrote."""
    store.up()
    place = store.bucket("camp", 0)
    buckets.ensure(store, "camp", [place])
    write(store, place.name, {put_key(ATTEMPT, 1, 0): 1000})
    (config.raw / "d/put/rep~1").mkdir(parents=True)
    (config.raw / "d/put/rep~1/run.json").write_text(json.dumps({"attempt": ATTEMPT, "point": asdict(point())}))
    stage.ensure(config, store, PAYLOAD)
    for path in written._notes(config, "d"):
        path.unlink()
    before = left_in(store, place.name)
    gone = deployment.clean(config, store)
    assert gone[:2] == (0, 0) and gone.stays == 6 + 1 + 1 and left_in(store, place.name) == before


def test_forged_mark_does_not_own_a_bucket(config, store):
    name = store.bucket("camp", 7).name
    write(store, name, {"precious": 10, "put/deadbeef/0/00000000": 1000})
    (store.path / name / ".storelab").write_text('{"campaign": "camp"}')
    before = left_in(store, name)
    assert deployment.clean(config, store)[:3] == (0, 0, 2) and left_in(store, name) == before


def test_damaged_notes_name_nothing(config, store):
    for path in written._notes(config, "d"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"attempt": "feedbeef", "clients": 2, "made": [["put/fee')
    noted(config, store)
    ours = written.noted(config, store)
    assert ours("b", put_key(ATTEMPT, 0, 0), 1000), "the line behind half a line is read"
    assert not ours("b", put_key("feedbeef", 0, 0), 1000) and not ours.objects


def test_more_can_remain_if_more_can_be_stored(config, store, monkeypatch):
    for allowed, free, most in (
        (100 * GB, None, 4 * GB),
        (60 * GB, None, 3 * GB),
        (20 * GB, None, GB),
        (2 * GB, None, GB // 2),
        (100 * GB, 100 * GB, 4 * GB),
        (100 * GB, 2 * GB, GB // 2),  # a small machine with its store in memory
    ):
        monkeypatch.setattr(type(store), "free_bytes", lambda self, free=free: free)
        few = config.model_copy(update={"limits": config.limits.model_copy(update={"stored_bytes": allowed})})
        assert left_over.most(few, store) == most, (allowed, free)
        for size, stays in ((most - 1, True), (1, False)):
            left_over.add(few, "d", point(), size, 1)
            left_over.remove(few, store)
            assert bool(left_over.left(few, "d")["objects"]) == stays, (allowed, free)


def test_altered_line_of_a_note_names_nothing(config, store, capsys):
    """No changed byte may make foreign objects ours."""
    noted(config, store)
    first, second = written._notes(config, "d")
    second.unlink()
    was = first.read_bytes()
    ours = put_key(ATTEMPT, 0, 7)
    assert written.noted(config, store)("d", ours, 1000)
    for at in range(0, len(was), 3):
        first.write_bytes(was[:at] + bytes([was[at] ^ 2]) + was[at + 1 :])
        found = written.noted(config, store)
        assert not found.attempts or at == len(was) - 1, at
    assert (
        f"{first}, line 1: the line was altered; the objects that it describes are not deleted"
        in capsys.readouterr().err
    )
    line = json.loads(was)
    line.pop("sum")
    first.write_text(json.dumps(line) + "\n")
    assert written.noted(config, store)("d", ours, 1000), "older notes have no sums"
    for wrong in (
        [],
        7,
        None,
        {},
        {"attempt": 1},
        line | {"made": [["("]]},
        line | {"made": 3},
        line | {"clients": "x"},
    ):
        first.write_text(json.dumps(wrong) + "\n" + json.dumps(line) + "\n")
        assert written.noted(config, store)("d", ours, 1000), wrong
    first.write_text(json.dumps({"dataset": {}, "bodies": 1, "buckets": []}) + "\n")
    assert not written.noted(config, store).objects
