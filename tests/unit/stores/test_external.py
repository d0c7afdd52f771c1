"""A folder as a store: what storelab creates in it, finds again and removes, and what it does not touch."""

import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from laboratory import anything, bucket_for
from refusals import check_refused, refusal

from storelab.core.errors import MeasurementFailed
from storelab.host import console
from storelab.stores import make
from storelab.stores.base import Store
from storelab.stores.external import DirectorySettings, HttpSettings, RootSettings, WebHdfsSettings
from storelab.stores.protocols import files, filesystems
from storelab.stores.protocols.access import AccessRefused, BucketExists, NoSuchBucket
from storelab.workloads.staging import buckets

ROOT = os.geteuid() == 0


def folder(path: Path, **settings):
    return make("dir", DirectorySettings(kind="directory", path=str(path), **settings), Path("none"))


@pytest.fixture
def store(tmp_path):
    (tmp_path / "given #1, 100%").mkdir()
    out = folder(tmp_path / "given #1, 100%")
    out.up()
    return out


def test_buckets_are_made_marked_found_and_removed(store):
    places = [store.bucket("camp", i) for i in range(3)]
    assert [p.name for p in places] == ["storelab-camp-0000", "storelab-camp-0001", "storelab-camp-0002"]
    buckets.ensure(store, "camp", places)
    buckets.ensure(store, "camp", places)
    access = store.access()
    for key, size in (("a/b/c", 5), ("a/b/d", 0), ("a/bc", 2), ("z", 1)):
        access.write(places[1].name, key, bytes(size))
    assert (store.path / places[1].name / "a" / "b" / "c").read_bytes() == bytes(5)
    access.write(places[1].name, "a/b/c", b"replaced")
    assert access.read(places[1].name, "a/b/c") == b"replaced"
    assert not list(store.path.rglob("*tmp*"))
    assert buckets.campaign_buckets(store, "camp") == places and buckets.campaign_buckets(store, "cam") == []
    assert "marked for the campaign 'camp'" in refusal(buckets.ensure, store, "other", [places[0]])
    assert buckets.delete_prefix(access, places[1], "a/b/", ours=anything).objects == 2
    assert list(buckets.list_keys(access, places[1], "a/")) == [("a/bc", 2)]
    assert buckets.remove(store, "camp", anything)[:2] == (2, 3) and list(store.path.iterdir()) == []


def test_refused_token_of_an_endpoint_is_reported(tmp_path, monkeypatch):
    dav = make("dav", HttpSettings(kind="http", endpoint="http://h.example.org/data"), tmp_path)

    def refused(error: Exception | None) -> str:
        class Answers:
            def bucket_names(self):
                if error:
                    raise error
                return []

        monkeypatch.setattr(dav, "access", Answers)
        return dav.credentials_refused()

    unknown = files.explain(OSError("HTTP 401 to PROPFIND"), dav.endpoints()[0], dav.place)
    for error in (unknown, AccessRefused("HTTP 403 to PROPFIND")):
        assert re.fullmatch(r"stores\.dav: .*40[13].*; renew it and run the same command again.*", refused(error))
    for alert in ("[SSL: SSLV3_ALERT_CERTIFICATE_EXPIRED] sslv3 alert certificate expired", "tlsv1 alert unknown ca"):
        found = files.explain(OSError(f"SSLError: {alert}"), dav.endpoints()[0], dav.place)
        assert "refuses the certificate of the client" in str(found) and "ca_file" not in str(found)
    away = files.explain(OSError("Name or service not known"), dav.endpoints()[0], dav.place)
    assert [refused(error) for error in (None, away, MeasurementFailed("HTTP 503"))] == ["", "", ""]


@pytest.mark.parametrize("path", ["a/../b", "..", "a/./b", "%2e%2E/a", "a/.%2e"])
@pytest.mark.parametrize("kind", [HttpSettings, WebHdfsSettings, RootSettings])
def test_dot_segments_of_endpoints_are_refused(kind, path):
    """Some clients resolve `..` before they send a request, others leave it to the server."""
    name = kind.model_fields["kind"].annotation.__args__[0]
    scheme = "root" if name == "root" else "http"
    named = make("dir", kind(kind=name, endpoint=f"{scheme}://h.example.org//x/..y/z.."), Path("none"))
    assert named.urls
    given = make("dir", kind(kind=name, endpoint=f"{scheme}://h.example.org//{path}"), Path("none"))
    assert "is not a URL of a" in refusal(lambda: given.urls)


def test_version_of_a_server_is_one_printable_line(store):
    class Named(type(store)):
        version = Store.version
        _version = "\x1b[31mEvil\x07 \u202e1.0\n\x9b" + "x" * 1000

    version = Named("dir", store.settings, Path("none")).version()
    assert version.startswith("?[31mEvil? ?1.0 ?xx") and version.isprintable() and len(version) == 200


def test_progress_lines_hold_no_control_characters(capsys):
    console.report("one \x1b]0;title\x07\ntwo")
    assert capsys.readouterr().err == "one ?]0;title?\ntwo\n"


def test_keys_are_listed_by_prefix(store):
    bucket = bucket_for(store, "list")
    access = store.access()
    for key in ("a", "b/c", "b/cd/e", "b/ce", "bb/f"):
        access.write(bucket.name, key, b"1")
    assert sorted(access.prefixes(bucket.name, "")) == ["b/", "bb/"] and access.prefixes(bucket.name, "b/") == ["b/cd/"]
    assert access.prefixes(bucket.name, "none/") == []
    for prefix, found in (
        ("", ["a", "b/c", "b/cd/e", "b/ce", "bb/f"]),
        ("b", ["b/c", "b/cd/e", "b/ce", "bb/f"]),
        ("b/", ["b/c", "b/cd/e", "b/ce"]),
        ("b/c", ["b/c", "b/cd/e", "b/ce"]),
        ("b/cd/", ["b/cd/e"]),
        ("a/", []),
        ("none/at/all", []),
    ):
        assert sorted(key for key, _ in buckets.list_keys(access, bucket, prefix)) == found, prefix


def test_missing_buckets_and_keys(store):
    access = store.access()
    for act in (
        lambda: access.read("none", "k"),
        lambda: access.write("none", "k", b""),
        lambda: list(access.keys("none")),
    ):
        with pytest.raises(NoSuchBucket):
            act()
    access.make_bucket("there")
    with pytest.raises(BucketExists):
        access.make_bucket("there")
    access.write("there", "k", b"")
    assert access.read("there", "none") is None and access.read("there", "k/none") is None
    access.delete("there", ["none", "none/none", "k"])
    assert access.bucket_names() == ["there"] and list(access.keys("there")) == []


def test_foreign_files_stay(store):
    mine = store.path / "mine"
    mine.mkdir()
    (mine / "file").write_text("precious")
    bucket = store.bucket("camp", 0)
    (store.path / bucket.name).mkdir()  # has the name, but not the mark
    (store.path / bucket.name / "file").write_text("precious")
    assert "has no mark of storelab" in refusal(buckets.ensure, store, "camp", [bucket])
    assert buckets.campaign_buckets(store, "camp") == [] and buckets.remove(store, "camp", anything)[:2] == (0, 0)
    with pytest.raises(MeasurementFailed, match="still contains 'file'"):
        store.access().drop_bucket(bucket.name)
    assert (mine / "file").exists() and (store.path / bucket.name / "file").exists()


def test_foreign_entries_of_a_bucket_are_counted(store):
    """Links are not followed, neither to the folder above, nor out of the store."""
    bucket = bucket_for(store, "camp")
    folder = store.path / bucket.name
    store.access().write(bucket.name, "put/mine", b"1")
    (store.path / "outside").mkdir()
    (store.path / "outside" / "put").write_text("precious")
    (folder / "put" / "up").symlink_to("..")
    (folder / "put" / "out").symlink_to(store.path / "outside")
    (folder / "none").symlink_to("nowhere")
    (folder / "two\nlines").write_text("precious")
    os.mkfifo(folder / "pipe")
    gone = buckets.remove(store, "camp", lambda name, key, size: key.endswith(("mine", "put")))
    assert gone[:3] == (1, 0, 5) and str(gone).isprintable() and gone.left == (bucket.name,)
    assert (store.path / "outside" / "put").exists() and (folder / ".storelab").exists()
    assert len(list(folder.rglob("*"))) == 5 + 2, "with the mark and the folder put"


def test_only_empty_folders_are_dropped(store):
    access = store.access()
    access.make_bucket("b")
    (store.path / "b" / "x" / "y").mkdir(parents=True)
    access.drop_bucket("b")
    assert access.bucket_names() == []
    access.make_bucket("b")
    (store.path / "b" / "link").symlink_to(store.path)
    with pytest.raises(MeasurementFailed, match="still contains 'link'"):
        access.drop_bucket("b")


def test_read_only_folder_is_not_written(store):
    bucket = bucket_for(store, "camp")
    store.access().write(bucket.name, "k", b"staged")
    read_only = folder(store.path, read_only=True)
    read_only.up()
    access = read_only.access()
    assert access.read(bucket.name, "k") == b"staged" and buckets.campaign_buckets(read_only, "camp") == [bucket]
    buckets.ensure(read_only, "camp", [bucket])
    both = [bucket, read_only.bucket("camp", 1)]
    assert "not staged, and the store is read-only" in refusal(buckets.ensure, read_only, "camp", both)
    assert "is read-only: nothing is deleted" in refusal(buckets.remove, read_only, "camp", anything)
    for act in (
        lambda: access.write(bucket.name, "k", b""),
        lambda: access.delete(bucket.name, ["k"]),
        lambda: access.make_bucket("b"),
        lambda: access.drop_bucket(bucket.name),
    ):
        assert "read-only" in refusal(act)
    assert access.read(bucket.name, "k") == b"staged"


def test_writers_do_not_mix(store):
    access = store.access()
    access.make_bucket("b")

    def write(i):
        for j in range(20):
            access.write("b", f"same/{i % 2}/{j}", bytes([i] * 1000))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    assert len(list(access.keys("b"))) == 40
    assert all(len(set(access.read("b", key))) == 1 for key, _ in access.keys("b"))  # never a mixture of two writers


def test_file_system_of_engines_reads_it(store):
    bucket = bucket_for(store, "fs")
    end = store.endpoints()[0]
    fs, path = filesystems.data(end, {}, 4), filesystems.path(end, bucket, "k")
    fs.pipe_file(path, bytes(range(100)))
    assert store.access().read(bucket.name, "k") == bytes(range(100)) == fs.cat_file(path)
    assert fs.cat_file(path, start=10, end=20) == bytes(range(10, 20))


def test_unusable_folder_is_refused(tmp_path):
    check_refused("stores.dir.path: ", "/none' is not a folder", folder(tmp_path / "none").up)
    assert "none' is not a folder" in folder(tmp_path / "none").status().detail
    assert folder(tmp_path / "none").free_bytes() is None


@pytest.fixture
def nobody(tmp_path):
    """Root may write everywhere: the test acts as another user for a moment, who may enter the folder."""
    if ROOT:
        for above in (tmp_path, *tmp_path.parents[:-2]):
            above.chmod(above.stat().st_mode | 0o055)
        os.setresuid(65534, 65534, 0)
    yield
    if ROOT:
        os.setresuid(0, 0, 0)


def test_folder_of_another_user_is_refused(tmp_path, nobody):
    if not ROOT:
        tmp_path.chmod(0o500)
    assert "cannot be written" in refusal(folder(tmp_path).up)
    folder(tmp_path, read_only=True).up()
    with pytest.raises(AccessRefused):
        folder(tmp_path).access().make_bucket("b")


def test_deployment_and_space(store):
    deployment = store.deployment()
    assert deployment["backing"] == store.version() != "?" and str(store.path) not in str(deployment)
    assert store.free_bytes() > 0 and store.down() == [] and store.actors() == {} and store.credentials() is None
    bucket = bucket_for(store, "used")
    store.access().write(bucket.name, "k", bytes(100_000))
    assert store.used_bytes() >= 100_000
