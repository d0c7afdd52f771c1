"""A real tree as a release: odd names, sockets, unreadable files, clocks, big files; read back with other code."""

import hashlib
import os
import random
import shutil
import socket
import stat
import zlib
from pathlib import Path

import pytest
from release_reader import restore

from storelab.core.campaign.release import Release as Settings
from storelab.core.errors import UserError
from storelab.datasets.release import catalogs, names, objects, tree
from storelab.datasets.release.build import Release

CHUNKS = {"minimum": "4 KiB", "average": "8 KiB", "maximum": "16 KiB"}


def settings(folder, *versions, **more):
    real = {"path": str(folder), "versions": list(versions)}
    return Settings.model_validate({"tree": real, "chunks": CHUNKS, **more})


def publish(what, folder):
    """Return (facts of each day, objects by key, keys sent on each day)."""
    bucket, made, keys = {}, [], []
    for n in range(1, what.all_days + 1):
        day = Release(what, 1).day(n, folder)
        keys.append([item.key for item in day.objects()])
        bucket |= {item.key: day.path(item).read_bytes() for item in day.objects()}
        made.append(day.facts)
    return made, bucket, keys


def read_back(what, facts, bucket):
    return restore(facts["root_catalog"], lambda key: bucket[f"{what.repository}/{key}"])


def there(root: bytes, night: bytes):
    """Return what os.walk finds: path in the repository -> (kind, content or target)."""
    out = {night: ("folder", b"")}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = folder + b"/" + name
            key, mode = night + path[len(root) :], os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                out[key] = ("link", os.fsencode(Path(os.fsdecode(path)).readlink()))
            elif stat.S_ISDIR(mode):
                out[key] = ("folder", b"")
            elif stat.S_ISREG(mode):
                with open(path, "rb") as file:
                    out[key] = ("file", file.read())
    return out


@pytest.fixture
def odd(tmp_path):
    """Return a folder with all sorts of names, files and links in `one`."""
    rng, root = random.Random(1), os.fsencode(tmp_path / "tree/one")
    every = rb"a a-b/x a.b/x a0/y d/x d-/x d0 quote'\" %s -rf .hidden d/.cvmfscatalog sub/e/.cvmfscatalog".split()
    every += [b"with space", b"new\nline", b"\xff\xfe/\xe9", "zürich".encode(), b"deep/" * 12 + b"end"]
    every += [b"sub/e/f/g", b"sub/e-/h"]
    for i, name in enumerate(every):
        path = root + b"/" + name
        Path(os.fsdecode(path)).parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as file:
            file.write(rng.randbytes(rng.choice([0, 1, 100, 3000])) + (name if i % 2 else b""))
    with open(root + b"/big", "wb") as file:
        file.write(rng.randbytes(100_000))
    with open(root + b"/same", "wb") as file, open(root + b"/big", "rb") as other:
        file.write(other.read())
    with open(root + b"/sole", "wb") as file:
        file.write(b"ab" * 2500)  # more than the least chunk, and no place to cut
    links = {"link": "a", "broken": "no/where", "circle": "circle", "outside": "/nowhere/at/all", "d/up": ".."}
    for name, target in links.items():
        (tmp_path / "tree/one" / name).symlink_to(target)
    (tmp_path / "tree/one/empty").mkdir()
    return tmp_path / "tree"


def test_tree_is_restored(odd, tmp_path):
    wanted = there(os.fsencode(odd / "one"), b"/one")
    for depth in (0, 1, 3):
        check_restored(settings(odd, "one", catalog_depth=depth), tmp_path / f"{depth}", wanted)


def check_restored(what, folder, wanted):
    (facts,), bucket, ((*keys,),) = publish(what, folder)
    assert read_back(what, facts, bucket) == wanted
    assert facts["skipped"] == [] and facts["files"] == sum(1 for kind, _ in wanted.values() if kind == "file")
    assert len(keys) == len(set(keys)) and any(k.endswith("P") for k in keys)
    needed = set(catalogs.references(facts["root_catalog"], bucket.__getitem__, what.repository))
    assert needed == {k for k in bucket if "/data/" in k}
    assert list(catalogs.verify(bucket.__getitem__, keys)) == []
    tops = sum(1 for path, (kind, _) in wanted.items() if kind == "folder" and path.count(b"/") == 2)
    # d and sub/e are marked; d is a top as well
    below = {0: 2, 1: tops + 1, 3: len(facts["catalogs"]) - 2}[what.catalog_depth]
    assert len(facts["catalogs"]) == 2 + below, "and those of the root and of the version"


def test_same_contents_are_one_object(odd, tmp_path):
    what = settings(odd, "one")
    _, bucket, _ = publish(what, tmp_path / "out")
    contents = {value[1] for value in there(os.fsencode(odd / "one"), b"").values() if value[0] == "file"}
    whole = {zlib.decompress(blob) for key, blob in bucket.items() if "/data/" in key and key[-1] not in "PC"}
    assert whole == {c for c in contents if len(c) <= 4096} | {b"ab" * 2500}


def test_second_version_sends_changes(odd, tmp_path):
    shutil.copytree(odd / "one", odd / "two", symlinks=True)
    (odd / "two/a").write_bytes(b"changed")
    (odd / "two/new").write_bytes(b"new")
    (odd / "two/same").unlink()
    with open(odd / "two/big", "r+b") as file:
        file.seek(50_000)
        file.write(b"changed")
    what = settings(odd, "one", "two")
    made, bucket, keys = publish(what, tmp_path / "out")
    assert (made[1]["new_files"], made[1]["removed_files"]) == (3, 1)
    new = [k for k in keys[1] if "/data/" in k and k[-1] != "C"]
    assert 3 <= len(new) <= 5, "two small files and the chunks around the change"
    assert sum(k.endswith("P") for k in new) < sum(k.endswith("P") for k in keys[0])
    both = there(os.fsencode(odd / "one"), b"/one") | there(os.fsencode(odd / "two"), b"/two")
    assert read_back(what, made[1], bucket) == both
    assert read_back(what, made[0], bucket) == there(os.fsencode(odd / "one"), b"/one")
    assert made[1]["new_bytes"] == sum(len(bucket[k]) for k in new)


def test_same_version_again_sends_no_data(odd, tmp_path):
    shutil.copytree(odd / "one", odd / "two", symlinks=True)
    made, _, keys = publish(settings(odd, "one", "two"), tmp_path / "out")
    assert (made[1]["new_files"], made[1]["new_bytes"], made[1]["raw_bytes"], made[1]["removed_files"]) == (0, 0, 0, 0)
    assert {k[-1] for k in keys[1] if "/data/" in k} == {"C"}
    left = [p for p in (tmp_path / "out/day-0002/data").rglob("*") if p.is_file()]
    assert len(left) == len(made[1]["catalogs"])


def test_collected_object_is_sent_again(odd, tmp_path):
    for version in ("two", "three"):
        shutil.copytree(odd / "one", odd / version, symlinks=True)
    (odd / "two/sole").unlink()
    what, out = settings(odd, "one", "two", "three"), tmp_path / "out"
    release = Release(what, 1)
    days = [release.day(n, out) for n in (1, 2)]
    sole = objects.compressor(6)(b"ab" * 2500)
    name = hashlib.sha1(sole).hexdigest()
    sent = [[item.key for item in day.objects()] for day in days]
    assert names.key(what.repository, name) in sent[0] and names.key(what.repository, name) not in sent[1]
    release.forget(out, [days[0].facts["root_catalog"]], [name])
    again = [item.key for item in release.day(3, out).objects() if item.kind in ("data", "chunk")]
    assert again == [names.key(what.repository, name)]


def test_sockets_and_pipes_are_left_out(odd, tmp_path, monkeypatch):
    monkeypatch.chdir(odd / "one")  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind("socket")
        os.mkfifo("pipe")
        what = settings(odd, "one")
        (facts,), bucket, _ = publish(what, tmp_path / "out")
    assert facts["skipped"] == [["pipe", "a pipe"], ["socket", "a socket"]]
    assert read_back(what, facts, bucket) == there(os.fsencode(odd / "one"), b"/one")


def test_unreadable_files_are_left_out(odd, tmp_path, monkeypatch):
    """Take the rights from the calls, because root may read everything."""
    real_read, real_scan = objects.read, os.scandir
    denied = PermissionError(13, "Permission denied")

    def read(path):
        if path.endswith(b"/big"):
            yield from [next(iter(real_read(path)))[:50_000]]
            raise denied
        yield from real_read(path)

    def scandir(path):
        if os.fsencode(path).endswith(b"/a-b"):
            raise denied
        return real_scan(path)

    def target(path):
        if path.endswith(b"/circle"):
            raise denied
        return os.fsencode(Path(os.fsdecode(path)).readlink())

    monkeypatch.setattr(tree, "_target", target)
    monkeypatch.setattr(objects, "read", read)
    monkeypatch.setattr("storelab.datasets.release.tree.os.scandir", scandir)
    what = settings(odd, "one")
    (facts,), bucket, _ = publish(what, tmp_path / "out")
    assert facts["skipped"] == [[path, "Permission denied"] for path in ("a-b", "big", "circle")]
    wanted = there(os.fsencode(odd / "one"), b"/one")
    for lost in (b"/one/big", b"/one/circle", b"/one/a-b/x"):
        wanted.pop(lost, None)
    assert read_back(what, facts, bucket) == wanted


def test_file_that_goes_or_grows_meanwhile(odd, tmp_path, monkeypatch):
    real = objects.Writer.file

    def late(self, file):
        if file.path == b"a":
            (odd / "one/a").unlink()
            (odd / "one/a").symlink_to("d0")
        if file.path == b"d0":
            (odd / "one/d0").write_bytes(b"longer than before" * 100)
        return real(self, file)

    monkeypatch.setattr(objects.Writer, "file", late)
    what = settings(odd, "one")
    (facts,), bucket, _ = publish(what, tmp_path / "out")
    assert [path for path, _ in facts["skipped"]] == ["a"]
    assert read_back(what, facts, bucket)[b"/one/d0"] == ("file", b"longer than before" * 100)


def test_odd_times_change_nothing(odd, tmp_path):
    shutil.copytree(odd / "one", odd / "two", symlinks=True)
    (odd / "two/a").write_bytes(b"newer")
    for path, when in ((odd / "two/a", -5), (odd / "two/d0", 2**40), (odd / "one/a", 10**9)):
        os.utime(path, (when, when))
    what = settings(odd, "one", "two")
    made, bucket, _ = publish(what, tmp_path / "out")
    assert read_back(what, made[1], bucket)[b"/two/a"] == ("file", b"newer") and made[1]["new_files"] == 1


def test_missing_version_is_an_error(odd, tmp_path):
    with pytest.raises(UserError, match=r"release.tree: .*three: no such folder"):
        Release(settings(odd, "one", "three"), 1).day(2, tmp_path / "out")
    assert Release(settings(odd, "one", "three"), 1).last(tmp_path / "out") == 1
    what = settings(odd / "one", ".")
    (facts,), bucket, _ = publish(what, tmp_path / "dot")
    assert read_back(what, facts, bucket) == there(os.fsencode(odd / "one"), b"/tree")


def test_tree_does_not_publish_its_days(odd):
    with pytest.raises(UserError, match="which is the published folder"):
        Release(settings(odd, "one"), 1).day(1, odd / "one/made")


def test_old_versions_leave_the_root(odd, tmp_path):
    for version in ("two", "three"):
        shutil.copytree(odd / "one", odd / version, symlinks=True)
    what = settings(odd, "one", "two", "three", nights=2)
    made, bucket, _ = publish(what, tmp_path / "out")
    tops = [sorted({p.split(b"/")[1] for p in read_back(what, facts, bucket)}) for facts in made]
    assert tops == [[b"one"], [b"one", b"two"], [b"three", b"two"]]
