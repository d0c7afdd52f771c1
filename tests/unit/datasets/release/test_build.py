"""Days of a generated release: sent objects, existing objects, remains of a crash; read back with other code."""

import errno
import hashlib
import json
import shutil
import zlib
from pathlib import Path

import pytest
from release_reader import restore

from storelab.core.campaign.release import Release as Settings
from storelab.core.errors import UserError
from storelab.datasets.release import build, catalogs, names, nightly, objects, state
from storelab.datasets.release import build as days
from storelab.datasets.release.build import Release

SMALL = {"factor": 0.0002, "bytes_a_day": "600 MB", "bytes_deviation": "200 MB", "tree_files": 300_000, "nights": 3}
SETTINGS = Settings.model_validate(SMALL | {"days": 9})


class Bucket(dict):
    """Objects by key, as a store has them."""

    def sent(self, day: days.Day) -> list[str]:
        keys = []
        for item in day.objects():
            blob = day.path(item).read_bytes()
            assert len(blob) == item.bytes
            assert item.kind in ("reflog", "manifest") or item.key not in self, "existing objects are not sent again"
            self[item.key] = blob
            keys.append(item.key)
        return keys

    def get_data(self, key: str) -> bytes:
        return self[f"{SETTINGS.repository}/{key}"]


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Return (days, keys sent on each, bucket, files of each) of five days; a sent day's folder is removed."""
    folder, bucket = tmp_path_factory.mktemp("release"), Bucket()
    release, made, keys, files = Release(SETTINGS, 1), [], [], {}
    for n in range(1, 6):
        day = release.day(n, folder)
        made.append(day.facts)
        keys.append(bucket.sent(day))
        files[n] = digests(day.folder)
        shutil.rmtree(day.folder)
    return made, keys, bucket, files


@pytest.fixture
def undisturbed(published):
    """Return day -> its files, of a run without an interruption."""
    return published[3]


def digests(folder: Path) -> dict[str, str]:
    return {
        str(p.relative_to(folder)): hashlib.sha1(p.read_bytes()).hexdigest() for p in folder.rglob("*") if p.is_file()
    }


def test_sent_objects_are_those_referenced(published):
    made, keys, bucket, _ = published
    for facts, sent in zip(made, keys, strict=True):
        needed = list(catalogs.references(facts["root_catalog"], bucket.__getitem__, SETTINGS.repository))
        assert set(needed) <= set(bucket)
        assert {k for k in sent if "/data/" in k} <= set(needed)
        assert list(catalogs.verify(bucket.__getitem__, [*needed, *sent])) == []


def test_catalogs_follow_data_and_children_precede_parents(published):
    made, keys, bucket, _ = published
    for facts, sent in zip(made, keys, strict=True):
        suffixes = [k[-1] if k[-1] in "CP" else "" for k in sent[:-2]]
        first = suffixes.index("C")
        assert set(suffixes[first:]) == {"C"} and [names.parts(k)[0] for k in sent[first:-2]] == facts["catalogs"]
        assert sent[-2:] == [facts["reflog"], facts["manifest"]] and facts["catalogs"][-1] == facts["root_catalog"]
        at = {key: i for i, key in enumerate(sent)}
        for digest in facts["catalogs"]:
            key = names.key(SETTINGS.repository, digest, "C")
            below = list(catalogs.references(digest, bucket.__getitem__, SETTINGS.repository))[1:]
            assert all(at.get(child, -1) < at[key] for child in below)


def test_restored_tree_changes_as_days_report(published):
    made, _, bucket, _ = published
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


def test_day_has_drawn_volume(published):
    made, keys, bucket, _ = published
    for facts, sent in zip(made, keys, strict=True):
        files, stored = nightly.volume(SETTINGS, facts["day"])
        assert facts["new_files"] == files
        assert facts["new_bytes"] == pytest.approx(stored, rel=0.1)
        assert facts["new_bytes"] == sum(len(bucket[k]) for k in sent[:-2] if not k.endswith("C"))


def test_manifest_names_day_and_reflog_all_roots(published):
    made, _, bucket, _ = published
    fields = names.manifest_fields(bucket[made[-1]["manifest"]])
    assert (fields["C"], fields["S"], fields["N"]) == (made[-1]["root_catalog"], "5", SETTINGS.repository)
    log = bucket[made[-1]["reflog"]]
    assert fields["Y"] == hashlib.sha1(log).hexdigest()
    roots = [facts["root_catalog"] for facts in made]
    assert catalogs.reflog_roots(log) == roots
    assert catalogs.reflog_roots(catalogs.reflog_without(log, set(roots[:2]))) == roots[2:]
    assert int(fields["B"]) == len(zlib.decompress(bucket[names.key(SETTINGS.repository, fields["C"], "C")]))


def test_walk_skips_known_objects(published):
    made, _, bucket, _ = published
    whole = list(catalogs.references(made[-1]["root_catalog"], bucket.__getitem__, SETTINGS.repository))
    old = set(catalogs.references(made[-2]["root_catalog"], bucket.__getitem__, SETTINGS.repository))
    less = list(
        catalogs.references(made[-1]["root_catalog"], bucket.__getitem__, SETTINGS.repository, old.__contains__)
    )
    assert set(less) | old >= set(whole) and len(less) < len(whole) and len(set(less)) == len(less)
    assert [k for k in less if k.endswith("C")] == [k for k in whole if k.endswith("C") and k not in old]


def damaged(bucket, key):
    """Return (bytes with which an object is replaced, word of the report)."""
    blob = bucket[key]
    catalog = zlib.decompress(blob)
    return [
        (None, "missing"),
        (blob[:-1], "SHA-1"),
        (blob[:9] + bytes([blob[9] ^ 1]) + blob[10:], "SHA-1"),
        (zlib.compress(b"no catalog"), "cannot be opened"),
        (zlib.compress(catalog[:4096] + bytes(len(catalog) - 4096)), "catalog"),
        (b"no stream", "not a zlib stream"),
    ]


def test_verify_finds_damage(published):
    made, keys, bucket, _ = published
    root = names.key(SETTINGS.repository, made[-1]["catalogs"][0], "C")
    for blob, found in damaged(bucket, root):
        key, there = root, dict(bucket)
        if blob is None:
            del there[key]
        else:
            if "SHA" not in found:  # named as what it holds, so that only the content is wrong
                key = names.key(SETTINGS.repository, hashlib.sha1(blob).hexdigest(), "C")
            there[key] = blob
        (problem,) = catalogs.verify(there.__getitem__, [*keys[-1][:3], key])
        assert key in problem and found in problem
    for key in (made[-1]["manifest"], made[-1]["reflog"]):
        (problem,) = catalogs.verify({key: bucket[key][:100] + b"x" + bucket[key][101:][:50]}.__getitem__, [key])
        assert "damaged" in problem
    with pytest.raises(ValueError, match="damaged"):
        list(catalogs.references("ab" * 20, lambda key: b"nothing", SETTINGS.repository))
    with pytest.raises(KeyError):
        list(catalogs.references("ab" * 20, {}.__getitem__, SETTINGS.repository))


@pytest.mark.heavy
def test_processes_make_same_day(tmp_path, monkeypatch, undisturbed):
    monkeypatch.setattr(build, "FEW_BYTES", 0)
    one, two = undisturbed[1], digests(Release(SETTINGS, 2).day(1, tmp_path / "two").folder)
    assert one == two
    other = Release(SETTINGS.model_copy(update={"seed": 1}), 1).day(1, tmp_path / "other")
    assert not set(digests(other.folder)) & {k for k in one if k.startswith("data")}


def test_few_bytes_take_one_process(tmp_path, monkeypatch):
    real, asked = objects.made, []
    monkeypatch.setattr(objects, "made", lambda *args: asked.append(args[-1]) or real(*args[:-1], 1))
    Release(SETTINGS, 2).day(1, tmp_path)
    monkeypatch.setattr(build, "FEW_BYTES", 1000)
    Release(SETTINGS, 2).day(2, tmp_path)
    assert asked == [1, 2]


class Crash(Exception):
    pass


def crash_after(monkeypatch, calls: int, owner, name: str):
    real, left = getattr(owner, name), [calls]

    def crashing(*args, **kwargs):
        left[0] -= 1
        if left[0] < 0:
            raise Crash
        return real(*args, **kwargs)

    monkeypatch.setattr(owner, name, crashing)


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(state, "BATCH_FILES", 7)


def crashed(monkeypatch, folder, day, calls, owner, name):
    """Make a day that ends with an error after `calls` calls of `owner.name`."""
    with monkeypatch.context() as patch:
        crash_after(patch, calls, owner, name)
        with pytest.raises(Crash):
            Release(SETTINGS, 1).day(day, folder)


def test_crashed_day_is_finished(tmp_path, monkeypatch, undisturbed, small_batches):
    for owner, name, calls in (
        (objects.Writer, "file", 0),
        (objects.Writer, "file", 20),
        (catalogs, "root", 0),
        (build, "write_day", 0),
        (build, "_keep", 0),
    ):
        folder = tmp_path / f"{name}-{calls}"
        whole = Release(SETTINGS, 1)
        whole.day(1, folder)
        crashed(monkeypatch, folder, 2, calls, owner, name)
        assert whole.last(folder) == 1
        assert {n: digests(whole.day(n, folder).folder) for n in (2, 3)} == {n: undisturbed[n] for n in (2, 3)}, name
        assert sorted(p.name for p in folder.glob("day-*")) == ["day-0001", "day-0002", "day-0003"]


def test_finished_batches_are_not_compressed_again(tmp_path, monkeypatch, published, small_batches):
    crashed(monkeypatch, tmp_path, 1, 20, objects.Writer, "file")
    compressed, real = [], objects.Writer.file
    monkeypatch.setattr(objects.Writer, "file", lambda self, file: compressed.append(file) or real(self, file))
    Release(SETTINGS, 1).day(1, tmp_path)
    assert len(compressed) == published[0][0]["new_files"] - 14


def test_cut_off_object_is_made_again(tmp_path, monkeypatch, undisturbed):
    crashed(monkeypatch, tmp_path, 1, 0, days, "write_day")
    victim = next(p for p in (tmp_path / "day-0001.part/data").rglob("*") if p.is_file() and p.name[-1] != "C")
    victim.write_bytes(b"")
    assert digests(Release(SETTINGS, 1).day(1, tmp_path).folder) == undisturbed[1]


def test_leftovers_of_lost_state_are_removed(tmp_path, undisturbed):
    for name in ("day-0001", "day-0002.part"):
        (tmp_path / name / "data").mkdir(parents=True)
        (tmp_path / name / "data/junk").touch()
    (tmp_path / "day-0001/day.json").write_text("{}")
    Release(SETTINGS, 1).day(2, tmp_path)
    assert {n: digests(tmp_path / f"day-{n:04d}") for n in (1, 2)} == {n: undisturbed[n] for n in (1, 2)}


def test_missing_days_are_made_too(tmp_path, undisturbed):
    release = Release(SETTINGS, 1)
    release.day(3, tmp_path / "at once")
    assert [digests(tmp_path / f"at once/day-{n:04d}") for n in (1, 2, 3)] == [undisturbed[n] for n in (1, 2, 3)]
    assert release.last(tmp_path / "at once") == 3 and release.last(tmp_path / "nowhere") == 0
    assert not (tmp_path / "nowhere").exists()


def test_day_file_is_json_and_streams(tmp_path):
    day = Release(SETTINGS, 1).day(1, tmp_path)
    shown = json.loads((day.folder / "day.json").read_text())
    assert [tuple(o) for o in shown.pop("objects")] == list(day.objects())
    assert shown == day.facts == days.read_day(day.folder).facts and day.n == 1


def test_reflog_leaves_out_collected_roots(tmp_path):
    release = Release(SETTINGS, 1)
    first, second = release.day(1, tmp_path), release.day(2, tmp_path)
    release.forget(tmp_path, [first.facts["root_catalog"]], ["ab" * 20])
    third = release.day(3, tmp_path)
    log = (third.folder / names.REFLOG).read_bytes()
    assert catalogs.reflog_roots(log) == [second.facts["root_catalog"], third.facts["root_catalog"]]


def test_mistakes_are_user_errors(tmp_path):
    release = Release(SETTINGS, 1)
    with pytest.raises(UserError, match="no day 10; use a day from 1 to 9"):
        release.day(10, tmp_path)
    with pytest.raises(UserError, match="no day 0"):
        release.day(0, tmp_path)
    release.day(1, tmp_path)
    with pytest.raises(UserError, match=r"release.factor: .* was made with 0.0002, but the setting is 0.0003"):
        Release(SETTINGS.model_copy(update={"factor": 0.0003}), 1).day(2, tmp_path)
    assert Release(SETTINGS.model_copy(update={"days": 50}), 1).last(tmp_path) == 1, "more days are the same release"
    shutil.rmtree(tmp_path / "day-0001")
    with pytest.raises(UserError, match="day-0001: has no complete day"):
        release.day(1, tmp_path)
    with state.State(tmp_path, SETTINGS), pytest.raises(UserError, match="another run"):
        release.day(2, tmp_path)
    (tmp_path / "state.sqlite").write_bytes(b"x" * 5000)
    with pytest.raises(UserError, match="cannot be read"):
        release.day(2, tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file"):
        release.day(1, tmp_path / "file")


def test_full_disk_is_an_error_and_day_continues(tmp_path, monkeypatch):
    def full(self, data, suffix=""):
        raise OSError(errno.ENOSPC, "No space left on device", "data/ab/cd")

    with monkeypatch.context() as patch:
        patch.setattr(objects.Writer, "object", full)
        with pytest.raises(UserError, match="no space left on device; free space"):
            Release(SETTINGS, 1).day(1, tmp_path)
    assert Release(SETTINGS, 1).day(1, tmp_path).facts["skipped"] == []


# Settings


def test_wrong_settings_are_refused():
    tree = {"path": "x", "versions": ["1", "2"]}
    for wrong, reason in (
        ({"repository": "Nightlies"}, "not a valid repository name"),
        ({"repository": "a/b.c"}, "not a valid repository name"),
        ({"factor": 0}, "greater than 0"),
        ({"days": 3, "tree": tree}, "has 2 versions for 3 days"),
        ({"tree": tree | {"versions": ["../1"]}}, "is outside the tree"),
        ({"tree": tree | {"versions": ["a/b", "a-b"]}}, "same folder"),
        ({"tree": tree | {"versions": []}}, "at least 1"),
        ({"chunks": {"minimum": "8 MiB"}}, "not in ascending order"),
        ({"chunks": {"minimum": "16 B"}}, "32 B"),
        ({"bytes_a_day": "0 B"}, "is 0"),
        ({"chunk": {}}, "Extra inputs"),
        ({"seed": True}, "not a possible value"),
    ):
        with pytest.raises(ValueError, match=reason):
            Settings.model_validate(wrong)


def test_release_has_as_many_days_as_versions():
    assert Settings().all_days == 110 and Settings(days=3).all_days == 3
    for more in ({}, {"days": 2}):
        assert Settings.model_validate(more | {"tree": {"path": "x", "versions": ["1", "2"]}}).all_days == 2
