"""Days of a generated release: what is sent, what is there, and what a crash leaves. Read back with other code."""

import hashlib
import json
import shutil
import zlib
from pathlib import Path

import pytest
from release_reader import restore

from storelab.core.campaign.release import Release as Settings
from storelab.core.errors import UserError
from storelab.datasets.release import build, catalogs, names, objects, walk
from storelab.datasets.release import day as days
from storelab.datasets.release.build import Release

SMALL = {"factor": 0.0002, "bytes_a_day": "600 MB", "bytes_deviation": "200 MB", "tree_files": 300_000, "nights": 3}
SETTINGS = Settings.model_validate(SMALL | {"days": 9})


class Bucket(dict):
    """Objects by key, as a store would hold them."""

    def sent(self, day: days.Day) -> list[str]:
        keys = []
        for item in day.objects():
            blob = day.path(item).read_bytes()
            assert len(blob) == item.bytes
            assert item.kind in ("reflog", "manifest") or item.key not in self, "what is there is not sent again"
            self[item.key] = blob
            keys.append(item.key)
        return keys

    def get_data(self, key: str) -> bytes:
        return self[f"{SETTINGS.repository}/{key}"]


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """(days, keys sent on each, bucket) of five days; the folder of a day goes when it is sent."""
    folder, bucket = tmp_path_factory.mktemp("release"), Bucket()
    release, made, keys = Release(SETTINGS, 1), [], []
    for n in range(1, 6):
        day = release.day(n, folder)
        made.append(day.facts)
        keys.append(bucket.sent(day))
        shutil.rmtree(day.folder)
    return made, keys, bucket


def digests(folder: Path) -> dict[str, str]:
    return {
        str(p.relative_to(folder)): hashlib.sha1(p.read_bytes()).hexdigest() for p in folder.rglob("*") if p.is_file()
    }


def test_every_reference_was_sent_and_all_that_is_sent_is_referenced(published):
    made, keys, bucket = published
    for facts, sent in zip(made, keys, strict=True):
        needed = list(walk.references(facts["root_catalog"], bucket.__getitem__, SETTINGS.repository))
        assert set(needed) <= set(bucket)
        assert {k for k in sent if "/data/" in k} <= set(needed)
        assert list(walk.verify(bucket.__getitem__, [*needed, *sent])) == []


def test_catalogs_come_behind_data_and_children_before_parents(published):
    for facts, sent in zip(published[0], published[1], strict=True):
        suffixes = [k[-1] if k[-1] in "CP" else "" for k in sent[:-2]]
        first = suffixes.index("C")
        assert set(suffixes[first:]) == {"C"} and [names.parts(k)[0] for k in sent[first:-2]] == facts["catalogs"]
        assert sent[-2:] == [facts["reflog"], facts["manifest"]] and facts["catalogs"][-1] == facts["root_catalog"]
        at = {key: i for i, key in enumerate(sent)}
        for digest in facts["catalogs"]:
            key = names.key(SETTINGS.repository, digest, "C")
            below = list(walk.references(digest, published[2].__getitem__, SETTINGS.repository))[1:]
            assert all(at.get(child, -1) < at[key] for child in below)


def test_the_tree_that_is_read_back_changes_as_the_days_say(published):
    made, _, bucket = published
    before: dict[bytes, bytes] = {}
    most = round(SETTINGS.factor * SETTINGS.tree_files)
    for facts in made:
        whole = restore(facts["root_catalog"], bucket.get_data)
        night = b"/" + facts["night"].encode()
        files = {p[len(night) :]: e[1] for p, e in whole.items() if e[0] == "file" and p.startswith(night + b"/")}
        links = {p: e[1] for p, e in whole.items() if e[0] == "link"}
        new = {p for p in files if files[p] != before.get(p)}
        assert len(files) == facts["files"] <= most and len(new) == facts["new_files"]
        assert len(set(before) - set(files)) == facts["removed_files"]
        assert sum(len(files[p]) for p in new) == facts["raw_bytes"]
        assert all(p.rpartition(b"/")[0] + b"/" + target in whole for p, target in links.items()), "no link is broken"
        before = files
        kept = {p.split(b"/")[1] for p in whole}
        assert len(kept) == min(facts["day"], SETTINGS.nights) and night[1:] in kept
    assert made[-1]["removed_files"] > 0 and any(facts["files"] == most for facts in made)


def test_a_day_has_the_bytes_that_are_drawn_for_it(published):
    from storelab.datasets.release import nightly

    for facts, sent in zip(published[0], published[1], strict=True):
        files, stored = nightly.volume(SETTINGS, facts["day"])
        assert facts["new_files"] == files
        assert facts["new_bytes"] == pytest.approx(stored, rel=0.1)
        assert facts["new_bytes"] == sum(len(published[2][k]) for k in sent[:-2] if not k.endswith("C"))


def test_the_manifest_names_the_day_and_the_reflog_all_roots(published):
    made, _, bucket = published
    fields = names.manifest_fields(bucket[made[-1]["manifest"]])
    assert (fields["C"], fields["S"], fields["N"]) == (made[-1]["root_catalog"], "5", SETTINGS.repository)
    log = bucket[made[-1]["reflog"]]
    assert fields["Y"] == hashlib.sha1(log).hexdigest()
    roots = [facts["root_catalog"] for facts in made]
    assert walk.reflog_roots(log) == roots
    assert walk.reflog_roots(walk.reflog_without(log, set(roots[:2]))) == roots[2:]
    assert int(fields["B"]) == len(zlib.decompress(bucket[names.key(SETTINGS.repository, fields["C"], "C")]))


def test_a_walk_leaves_out_what_it_is_told_to(published):
    made, _, bucket = published
    whole = list(walk.references(made[-1]["root_catalog"], bucket.__getitem__, SETTINGS.repository))
    old = set(walk.references(made[-2]["root_catalog"], bucket.__getitem__, SETTINGS.repository))
    less = list(walk.references(made[-1]["root_catalog"], bucket.__getitem__, SETTINGS.repository, old.__contains__))
    assert set(less) | old >= set(whole) and len(less) < len(whole) and len(set(less)) == len(less)
    assert [k for k in less if k.endswith("C")] == [k for k in whole if k.endswith("C") and k not in old]


def _damaged(bucket, key):
    """What may become of an object, and what is said."""
    blob = bucket[key]
    catalog = zlib.decompress(blob)
    return [
        (None, "missing"),
        (blob[:-1], "SHA-1"),
        (blob[:9] + bytes([blob[9] ^ 1]) + blob[10:], "SHA-1"),
        (zlib.compress(b"no catalog"), "does not open"),
        (zlib.compress(catalog[:4096] + bytes(len(catalog) - 4096)), "catalog"),
        (b"no stream", "no zlib stream"),
    ]


def test_verify_finds_what_is_damaged(published):
    made, keys, bucket = published
    root = names.key(SETTINGS.repository, made[-1]["catalogs"][0], "C")
    for blob, said in _damaged(bucket, root):
        key, there = root, dict(bucket)
        if blob is None:
            del there[key]
        else:
            if "SHA" not in said:  # named as what it holds, so that only the content is wrong
                key = names.key(SETTINGS.repository, hashlib.sha1(blob).hexdigest(), "C")
            there[key] = blob
        (problem,) = walk.verify(there.__getitem__, [*keys[-1][:3], key])
        assert key in problem and said in problem
    for key in (made[-1]["manifest"], made[-1]["reflog"]):
        (problem,) = walk.verify({key: bucket[key][:100] + b"x" + bucket[key][101:][:50]}.__getitem__, [key])
        assert "damaged" in problem
    with pytest.raises(ValueError, match="damaged"):
        list(walk.references("ab" * 20, lambda key: b"nothing", SETTINGS.repository))
    with pytest.raises(KeyError):
        list(walk.references("ab" * 20, {}.__getitem__, SETTINGS.repository))


@pytest.mark.heavy
def test_processes_make_the_same_day(tmp_path, monkeypatch, undisturbed):
    monkeypatch.setattr(build, "FEW_BYTES", 0)
    one, two = undisturbed[1], digests(Release(SETTINGS, 2).day(1, tmp_path / "two").folder)
    assert one == two
    other = Release(SETTINGS.model_copy(update={"seed": 1}), 1).day(1, tmp_path / "other")
    assert not set(digests(other.folder)) & {k for k in one if k.startswith("data")}


def test_few_bytes_are_not_worth_a_process(tmp_path, monkeypatch):
    real, asked = objects.made, []
    monkeypatch.setattr(objects, "made", lambda *args: asked.append(args[-1]) or real(*args[:-1], 1))
    Release(SETTINGS, 2).day(1, tmp_path)
    monkeypatch.setattr(build, "FEW_BYTES", 1000)
    Release(SETTINGS, 2).day(2, tmp_path)
    assert asked == [1, 2]


class Crash(Exception):
    pass


def _crash_after(monkeypatch, calls: int, owner, name: str):
    real, left = getattr(owner, name), [calls]

    def crashing(*args, **kwargs):
        left[0] -= 1
        if left[0] < 0:
            raise Crash
        return real(*args, **kwargs)

    monkeypatch.setattr(owner, name, crashing)


MOMENTS = [
    (objects.Writer, "file", 0),
    (objects.Writer, "file", 20),
    (catalogs, "root", 0),
    (days, "write", 0),
    (build, "_keep", 0),
]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Day -> its files, of a run that nothing interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    return {n: digests(Release(SETTINGS, 1).day(n, folder).folder) for n in (1, 2, 3)}


@pytest.mark.parametrize(("owner", "name", "calls"), MOMENTS, ids=[f"{m[1]}-{m[2]}" for m in MOMENTS])
def test_a_day_that_crashed_is_finished(tmp_path, monkeypatch, undisturbed, owner, name, calls):
    from storelab.datasets.release import state

    monkeypatch.setattr(state, "BATCH_FILES", 7)
    whole = Release(SETTINGS, 1)
    whole.day(1, tmp_path / "again")
    with monkeypatch.context() as patch:
        _crash_after(patch, calls, owner, name)
        with pytest.raises(Crash):
            whole.day(2, tmp_path / "again")
    assert whole.last(tmp_path / "again") == 1
    assert {n: digests(whole.day(n, tmp_path / "again").folder) for n in (2, 3)} == {n: undisturbed[n] for n in (2, 3)}
    assert sorted(p.name for p in (tmp_path / "again").glob("day-*")) == ["day-0001", "day-0002", "day-0003"]


def test_finished_batches_are_not_compressed_again(tmp_path, monkeypatch):
    from storelab.datasets.release import state

    monkeypatch.setattr(state, "BATCH_FILES", 7)
    files = Release(SETTINGS, 1).day(1, tmp_path / "whole").facts["new_files"]
    with monkeypatch.context() as patch:
        _crash_after(patch, 20, objects.Writer, "file")
        with pytest.raises(Crash):
            Release(SETTINGS, 1).day(1, tmp_path / "again")
    compressed, real = [], objects.Writer.file
    monkeypatch.setattr(objects.Writer, "file", lambda self, file: compressed.append(file) or real(self, file))
    Release(SETTINGS, 1).day(1, tmp_path / "again")
    assert len(compressed) == files - 14


def test_an_object_that_a_crash_cut_off_is_made_again(tmp_path, monkeypatch, undisturbed):
    with monkeypatch.context() as patch:
        _crash_after(patch, 0, days, "write")
        with pytest.raises(Crash):
            Release(SETTINGS, 1).day(1, tmp_path / "again")
    victim = next(p for p in (tmp_path / "again/day-0001.part/data").rglob("*") if p.is_file() and p.name[-1] != "C")
    victim.write_bytes(b"")
    assert digests(Release(SETTINGS, 1).day(1, tmp_path / "again").folder) == undisturbed[1]


def test_what_a_state_that_is_gone_left_behind_goes(tmp_path, undisturbed):
    for name in ("day-0001", "day-0002.part"):
        (tmp_path / name / "data").mkdir(parents=True)
        (tmp_path / name / "data/junk").touch()
    (tmp_path / "day-0001/day.json").write_text("{}")
    Release(SETTINGS, 1).day(2, tmp_path)
    assert {n: digests(tmp_path / f"day-{n:04d}") for n in (1, 2)} == {n: undisturbed[n] for n in (1, 2)}


def test_missing_days_are_made_as_well(tmp_path, undisturbed):
    release = Release(SETTINGS, 1)
    release.day(3, tmp_path / "at once")
    assert {n: digests(tmp_path / f"at once/day-{n:04d}") for n in (1, 2, 3)} == undisturbed
    assert release.last(tmp_path / "at once") == 3 and release.last(tmp_path / "nowhere") == 0
    assert not (tmp_path / "nowhere").exists()


def test_day_json_is_json_and_streams(tmp_path):
    day = Release(SETTINGS, 1).day(1, tmp_path)
    told = json.loads((day.folder / "day.json").read_text())
    assert [tuple(o) for o in told.pop("objects")] == list(day.objects()) and told == day.facts == days.read(
        day.folder
    ).facts
    assert day.n == 1


def test_a_reflog_leaves_out_what_was_collected(tmp_path):
    release = Release(SETTINGS, 1)
    first, second = release.day(1, tmp_path), release.day(2, tmp_path)
    release.forget(tmp_path, [first.facts["root_catalog"]], ["ab" * 20])
    third = release.day(3, tmp_path)
    log = (third.folder / names.REFLOG).read_bytes()
    assert walk.reflog_roots(log) == [second.facts["root_catalog"], third.facts["root_catalog"]]


def test_mistakes_are_said_in_a_line(tmp_path):
    release = Release(SETTINGS, 1)
    with pytest.raises(UserError, match="there is no day 10 of 9"):
        release.day(10, tmp_path)
    with pytest.raises(UserError, match="there is no day 0"):
        release.day(0, tmp_path)
    release.day(1, tmp_path)
    with pytest.raises(UserError, match=r"release.factor: .* was made with 0.0002, now it is 0.0003"):
        Release(SETTINGS.model_copy(update={"factor": 0.0003}), 1).day(2, tmp_path)
    assert Release(SETTINGS.model_copy(update={"days": 50}), 1).last(tmp_path) == 1, "more days are the same release"
    shutil.rmtree(tmp_path / "day-0001")
    with pytest.raises(UserError, match="day-0001: holds no whole day"):
        release.day(1, tmp_path)
    from storelab.datasets.release.state import State

    with State(tmp_path, SETTINGS), pytest.raises(UserError, match="another run"):
        release.day(2, tmp_path)
    (tmp_path / "state.sqlite").write_bytes(b"x" * 5000)
    with pytest.raises(UserError, match="cannot be read"):
        release.day(2, tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file"):
        release.day(1, tmp_path / "file")


def test_a_full_disk_is_said_and_the_day_finished_later(tmp_path, monkeypatch):
    import errno

    def full(self, data, suffix=""):
        raise OSError(errno.ENOSPC, "No space left on device", "data/ab/cd")

    with monkeypatch.context() as patch:
        patch.setattr(objects.Writer, "object", full)
        with pytest.raises(UserError, match="no space left on device; make room"):
            Release(SETTINGS, 1).day(1, tmp_path)
    assert Release(SETTINGS, 1).day(1, tmp_path).facts["skipped"] == []
