"""Clean-up: all objects of storelab are deleted, or counted as remaining with the reason; checked on the server."""

import functools
import json
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from honest_s3 import FIRST, Bucket, Object, honest_s3
from laboratory import anything, in_process
from probed import Handler, served
from refusals import refusal
from small_plan import configured, folders

from storelab.core.errors import MeasurementFailed
from storelab.core.model import Point
from storelab.engines.common.objects import put_key
from storelab.measure import check, deployment
from storelab.stores import make
from storelab.stores.protocols import open_access, s3
from storelab.stores.protocols.access import Retention
from storelab.stores.protocols.endpoint import Bucket as Place
from storelab.stores.protocols.endpoint import Credentials, Endpoint
from storelab.stores.s3 import S3
from storelab.workloads import WORKLOADS
from storelab.workloads.staging import buckets, left_over, stage, written

NAME, MARK = "storelab-camp-0000", ".storelab"
AXES = {a.name: a.default for a in WORKLOADS["put"].axes} | {"object_size": 1000, "clients": 1}
PUT = Point("d", "put", AXES, 1, "d/put/rep~1", "s", 7, 0, {"duration_ns": 1})
PAYLOAD = {"name": "small", "kind": "payload", "objects": 6, "object_size": 100, "buckets": 1, "seed": 1}


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(buckets, "LOOKS", (0,) * len(buckets.LOOKS))
    monkeypatch.setattr(s3, "PAUSES", (0, 0))
    for name, value in (("AWS_ACCESS_KEY_ID", FIRST.access_key), ("AWS_SECRET_ACCESS_KEY", FIRST.secret_key)):
        monkeypatch.setenv(name, value)


@contextmanager
def laid_out(*faults, **made):
    """Yield (store, its bucket on the server, the server) of a campaign with objects, two of them deleted, one twice.

    made: how the server makes buckets.
    """
    with honest_s3("any signature", *faults) as (url, server):
        server.made = functools.partial(Bucket, **made)
        store = S3("mine", S3.Settings(kind="s3", endpoint=url), Path("none"))
        buckets.ensure(store, "camp", [store.bucket("camp", 0)])
        bucket = server.buckets[NAME]
        for key in ("put/a", "put/a", "put/b", "put/c&d", "put/e"):
            bucket.store(key, Object(b"12345"))
        for key in ("put/a", "put/e"):
            bucket.forget(key)
        server.uploads["u"] = ("put/begun", {})
        yield store, bucket, server


def entries(bucket):
    """Return everything that takes space in a bucket on the server, without storelab's mark."""
    return [(key, version) for key, version in bucket.everything() if key != MARK]


def counted(gone):
    return gone.stays + sum(kept.count for kept in gone.kept)


def test_versions_and_uploads_go_with_the_bucket():
    for versioning, hidden in (("", 1), ("Enabled", 6), ("Suspended", 3)):
        for page in (2, 1000):
            with laid_out(versioning=versioning) as (store, bucket, server):
                server.page = page
                gone = buckets.remove(store, "camp", anything)
                assert gone == buckets.Removed(2, 1, hidden=hidden) and gone.complete, versioning
                assert NAME not in server.buckets and not entries(bucket) and not server.uploads
    assert str(gone) == "2 objects, 3 old versions, delete markers and unfinished uploads, 1 bucket"


def test_versions_of_silent_store_are_found():
    for versioning, removed in (("Enabled", (2, 1)), ("", (2, 1))):
        with laid_out("versioning not reported", versioning=versioning) as (store, _, server):
            assert buckets.remove(store, "camp", anything)[:2] == removed and NAME not in server.buckets


def test_protected_versions_are_counted_and_the_mark_stays():
    """Cases: protection of the objects, settings of the bucket, words of the reason."""
    for case, made, reason in (
        ("lock", {"lock": ("COMPLIANCE", 30)}, "object lock, AccessDenied"),
        ("governance", {"lock": ("GOVERNANCE", 1)}, "(GOVERNANCE until 20"),
        ("one object", {"lock": ()}, "(COMPLIANCE until 20"),
        ("legal hold", {"lock": ()}, "(legal hold)"),
        ("mfa", {"mfa_delete": True}, "MFA delete, AccessDenied"),
    ):
        with laid_out(versioning="Enabled", **made) as (store, bucket, server):
            one = bucket.versions["put/a"][0]
            one.lock = ("COMPLIANCE", time.time() + 99) if case == "one object" else one.lock
            one.legal_hold = case == "legal hold"
            for _ in range(2):
                gone = buckets.remove(store, "camp", anything)
                assert counted(gone) == len(entries(bucket)) > 0 and not gone.complete, (case, gone)
                assert reason in str(gone) and f"kept 1 bucket with marks, the first is {NAME}" in str(gone)
                assert buckets.campaign_buckets(store, "camp"), "the mark is still the newest version"
                assert len(bucket.versions[MARK]) == 1
            if case in ("one object", "legal hold"):
                assert [key for key, _ in entries(bucket)] == ["put/a"] * 2, "it stays with the marker that hides it"
            bucket.mfa_delete = False
            for _, version in bucket.everything():
                version.lock, version.legal_hold = None, False
            gone = buckets.remove(store, "camp", anything)
            assert gone.complete and gone.buckets == 1 and NAME not in server.buckets, case


def test_bucket_with_only_a_locked_mark_remains():
    with laid_out(versioning="Enabled") as (store, bucket, server):
        bucket.versions[MARK][0].legal_hold = True
        gone = buckets.remove(store, "camp", anything)
        assert gone[:2] == (2, 0) and not entries(bucket) and NAME in server.buckets and not gone.complete
        assert f"could not delete 1 own entry (the server refuses: AccessDenied), the first is {NAME}/.storelab" in str(
            gone
        )


def test_hidden_versions_of_others_stay():
    """The server would delete a bucket that is not empty."""
    for versioning in ("Enabled", "Suspended"):
        with laid_out("deletes full buckets", versioning="Enabled") as (store, bucket, server):
            bucket.store("thesis", Object(b"years"))
            bucket.store("put/a", Object(b"of another size"))
            bucket.versioning = versioning
            bucket.forget("thesis")
            bucket.forget("put/a")
            gone = buckets.remove(store, "camp", lambda b, key, size: key.startswith("put/") and size in (5, None))
            left = [key for key, _ in entries(bucket)]
            assert left == ["put/a", "put/a", "put/a", "thesis", "thesis"], "our markers go on hiding what they hid"
            assert counted(gone) == len(left) and gone.stays == 3 and bucket is server.buckets[NAME]
            assert "put/a" not in bucket.objects and "thesis" not in bucket.objects


def test_late_object_keeps_the_bucket(monkeypatch):
    with laid_out("deletes full buckets", "versioning not reported") as (store, bucket, server):
        purged = buckets._Purge.run

        def late(self):
            gone = purged(self)
            bucket.store("late", Object(b"1"))
            return gone

        monkeypatch.setattr(buckets._Purge, "run", late)
        gone = buckets.remove(store, "camp", lambda b, key, size: key.startswith("put/"))
        assert gone[:4] == (2, 0, 1, f"{NAME}/late") and set(server.buckets[NAME].objects) == {MARK, "late"}


def test_incomplete_listing_is_an_error(monkeypatch):
    """Cases: behaviour of the server, words of the message."""
    monkeypatch.setattr(s3, "MAX_PAGES", 20)
    for fault, words in (
        ("more without a token", "the server reports more entries, but no token to continue"),
        ("pages repeat", "its pages repeat"),
        ("pages without an end", "it does not end after 20 pages"),
    ):
        for versioning in ("", "Enabled")[: 2 if fault == "more without a token" else 1]:
            with laid_out(fault, versioning=versioning) as (store, bucket, server):
                server.page = 1
                for key in "xyz":
                    bucket.store(key, Object(b"1"))
                with pytest.raises(MeasurementFailed, match=words) as caught:
                    buckets.remove(store, "camp", lambda b, key, size: key == "put/b")
                assert NAME in str(caught.value) and "1 of 1 buckets failed" in str(caught.value)
                assert MARK in server.buckets[NAME].objects
                if not versioning:
                    assert "is incomplete" in refusal(lambda: list(store.access().keys(NAME)))


def test_failed_bucket_does_not_keep_others(monkeypatch):
    with laid_out() as (store, _, server):
        buckets.ensure(store, "camp", [store.bucket("camp", i) for i in (1, 2)])
        server.uploads.clear()
        entries_of = s3.S3Access.entries

        def incomplete(self, bucket, prefix=""):
            yield from entries_of(self, bucket, prefix)
            if bucket == NAME:
                raise MeasurementFailed("the listing is incomplete")

        monkeypatch.setattr(s3.S3Access, "entries", incomplete)
        message = refusal(buckets.remove, store, "camp", anything)
        assert message.startswith("the listing is incomplete; removed before: 0 objects, 0 buckets; ")
        assert "1 of 3 buckets failed; of the others: 0 objects, 2 buckets" in message
        assert NAME in server.buckets and f"{NAME[:-1]}1" not in server.buckets


def test_entries_listed_twice_count_once():
    pages = [["a", "b"], ["b", "c", "c"], [], ["d", "d"]]

    class Client:
        def list_objects_v2(self, ContinuationToken="0", **_):
            number = int(ContinuationToken)
            more = {"IsTruncated": True, "NextContinuationToken": str(number + 1)} if number + 1 < len(pages) else {}
            return more | {"Contents": [{"Key": key, "Size": 1} for key in pages[number]]}

    assert [key for key, _ in s3.S3Access(Client(), "stores.x").keys("b")] == list("abcd")


def test_deletions_that_delete_nothing_are_counted():
    for versioning in ("", "Enabled"):
        with laid_out("deletes nothing", versioning=versioning) as (store, bucket, server):
            server.uploads.clear()
            gone = buckets.remove(store, "camp", anything)
            assert (gone.objects, gone.hidden, gone.buckets) == (0, 0, 0)
            assert counted(gone) == len(entries(bucket)) and "acknowledged the deletion and still lists" in str(gone)
            assert NAME in server.buckets


def test_objects_are_deleted_one_by_one_where_a_server_needs_it():
    for versioning in ("", "Enabled"):
        with laid_out("one deletion per request", versioning=versioning) as (store, bucket, server):
            number = len(entries(bucket))
            gone = buckets.remove(store, "camp", lambda b, key, size: key != "put/b")
            assert counted(gone) == 1 and {key for key, _ in entries(bucket)} == {"put/b"} and number > 1
            assert buckets.remove(store, "camp", anything).buckets == 1 and NAME not in server.buckets


def test_unlistable_uploads_are_reported():
    with laid_out("no list of uploads") as (store, _, server):
        gone = buckets.remove(store, "camp", anything)
        assert gone[:2] == (2, 1) and "the account may not list unfinished uploads" in str(gone) and server.uploads


def test_foreign_names_cannot_forge_a_line():
    forged = "x\nmine: removed 0 objects, 0 buckets\x1b[2J"
    with laid_out() as (store, bucket, server):
        bucket.store(forged, Object(b"1"))
        server.uploads["v"] = ("y" * 900, {})
        gone = buckets.remove(store, "camp", lambda b, key, size: key.startswith("put/"))
        assert gone.stays == 2 and str(gone).isprintable() and len(str(gone)) < 600
        assert forged in bucket.objects


class Large(Handler):
    """A server that answers every request with 2 GB, until the client disconnects."""

    sent = 0

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(2 * 10**9))
        self.end_headers()
        with suppress(OSError):
            for _ in range(2000):
                self.wfile.write(bytes(10**6))
                Large.sent += 10**6
        self.close_connection = True


def test_large_marker_is_not_read_whole():
    with served(Large) as url:
        for protocol in ("s3", "http"):
            Large.sent = 0
            access = open_access(Endpoint(url, protocol=protocol), Credentials("key", "secret"), "stores.x")
            assert buckets.marked(access, Place("b")) is None
            assert Large.sent < 10**8, protocol


def test_marker_of_another_kind_is_no_mark():
    class Marker:
        def read(self, bucket, key, most=None):
            return self.data

    for data in (b"", b"[]", b'"campaign"', b"[" * 9000, b'{"campaign": "c"' + b" " * 20_000 + b"}", b"{}", b"\xff"):
        access = Marker()
        access.data = data
        assert buckets.mark_of(access, Place("b")) is None, data[:20]


def storelab(folder, url):
    """Return (configuration, store) of a separate storelab for the campaign `camp`."""
    folder.mkdir()
    config = configured(
        name="camp", stores={"d": {"kind": "s3", "endpoint": url}}, stores_to_measure=["d"], **folders(folder)
    )
    return config, make("d", config.stores["d"], Path(config.state))


def test_clean_leaves_what_another_storelab_staged(tmp_path):
    with honest_s3("any signature") as (url, server):
        first, second = storelab(tmp_path / "first", url), storelab(tmp_path / "second", url)
        stage.ensure(*first, PAYLOAD)
        staged = dict(server.buckets[NAME].objects)
        writer = json.loads(staged[MARK].body)["writer"]
        assert writer["results"] == first[0].results and writer.keys() == {"user", "host", "results", "id"}
        stage.ensure(*second, PAYLOAD)
        gone = deployment.clean(*second)
        assert gone[:3] == (0, 0, 7) and "kept 7 objects not written by this storelab" in str(gone)
        assert f"{NAME} (marked by '" in str(gone) and first[0].results in str(gone)
        assert server.buckets[NAME].objects == staged
        stage.ensure(*second, PAYLOAD | {"name": "own"})
        assert deployment.clean(*second)[:3] == (7, 0, 7) and server.buckets[NAME].objects == staged
        assert deployment.clean(*first)[:3] == (7, 1, 0) and NAME not in server.buckets


def test_clean_command_fails_where_own_objects_stay(tmp_path, monkeypatch):
    with honest_s3("any signature") as (url, server):
        server.made = functools.partial(Bucket, versioning="Enabled")
        config, store = storelab(tmp_path / "here", url)
        stage.ensure(config, store, PAYLOAD)
        (tmp_path / "here/config.yaml").write_text(f"campaign: camp\nstores:\n  d: {{kind: s3, endpoint: '{url}'}}\n")
        (tmp_path / "here/campaigns").mkdir()
        sweep = "sweeps: {s: {workload: get, objects: 6, axes: {object_size: 1 kB, engine: obstore}}}"
        (tmp_path / "here/campaigns/camp.yaml").write_text(
            f"name: camp\nstores_to_measure: [d]\ncalibrate: false\n{sweep}\n"
        )
        given = [word for key, value in folders(tmp_path / "here").items() for word in ("--set", f"{key}={value}")]
        code, out, err = in_process(tmp_path / "here", *given, "check")
        assert code == 0 and "versioning is Enabled" in " ".join(out.split()), (out, err)
        version = next(versions[0] for key, versions in server.buckets[NAME].versions.items() if key != MARK)
        version.legal_hold = True
        code, out, err = in_process(tmp_path / "here", *given, "clean", "camp", "--yes")
        assert (
            code == 1
            and "d: removed 6 objects, 0 buckets; could not delete 1 own entry" in out
            and "(legal hold)" in out
        )
        assert err == "storelab: d: some objects that storelab wrote could not be deleted\n"
        version.legal_hold = False
        code, out, err = in_process(tmp_path / "here", *given, "clean", "camp", "--yes")
        assert (code, out, err) == (0, "d: removed 1 object, 1 bucket\n", "") and NAME not in server.buckets


def test_locked_uploads_still_count(tmp_path):
    """Uploads that the store does not delete need space, until they can be deleted."""
    with honest_s3("any signature") as (url, server):
        server.made = functools.partial(Bucket, versioning="Enabled", lock=("GOVERNANCE", 1))
        config, store = storelab(tmp_path / "here", url)
        written.note_attempt(config, store, "0123abcd", PUT, WORKLOADS["put"].expected_objects(PUT, "0123abcd"))
        buckets.prepare(config, store, [store.bucket("camp", 0)])
        left_over.add(config, "d", PUT, 1000, 1)
        server.buckets[NAME].store(put_key("0123abcd", 0, 0), Object(bytes(1000)))
        assert left_over.remove(config, store, always=True) == 0
        assert left_over.left(config, "d")["bytes"] == 1000
        for _, version in server.buckets[NAME].everything():
            version.lock = None
        assert left_over.remove(config, store, always=True) == 1
        assert left_over.left(config, "d")["bytes"] == 0 and not entries(server.buckets[NAME])


def test_mark_of_another_storelab_stays_without_objects(tmp_path):
    with honest_s3("any signature") as (url, server):
        first, second = storelab(tmp_path / "first", url), storelab(tmp_path / "second", url)
        buckets.prepare(*first, [first[1].bucket("camp", 0)])
        assert deployment.clean(*second)[:3] == (0, 0, 0) and NAME in server.buckets
        moved = tmp_path / "moved"
        (tmp_path / "first").rename(moved)
        config = configured(name="camp", stores=first[0].stores, stores_to_measure=["d"], **folders(moved))
        assert deployment.clean(config, first[1]).buckets == 1, "the notes know the mark after a move"


def test_account_that_may_not_list_buckets_is_served():
    for fault in ("no list of buckets", "no list of no buckets"):
        with honest_s3("any signature", fault) as (url, server):
            del server.buckets["b"]
            store = S3("mine", S3.Settings(kind="s3", endpoint=url), Path("none"))
            places = [store.bucket("camp", i) for i in range(3)]
            assert buckets.campaign_buckets(store, "camp") == []
            buckets.ensure(store, "camp", places)
            assert buckets.campaign_buckets(store, "camp") == places
            assert buckets.remove(store, "camp", anything)[:2] == (0, 3)


def test_foreign_bucket_behind_a_denied_list_is_refused():
    with honest_s3("any signature", "no list of buckets", buckets={NAME: Bucket("OTHER")}) as (url, _):
        store = S3("mine", S3.Settings(kind="s3", endpoint=url), Path("none"))
        assert "denies access (403)" in refusal(buckets.campaign_buckets, store, "camp")


def test_versioning_and_lock_are_reported_before_writing(tmp_path, capsys):
    """Cases: words of the note, settings of the bucket."""
    cases = {
        "versioning is Enabled: overwritten and deleted objects use space until `clean`": {},
        "versioning is Suspended": {"versioning": "Suspended"},
        "object lock (GOVERNANCE for 7 days): objects of storelab": {"lock": ("GOVERNANCE", 7)},
        "object lock is on without a default retention": {"lock": ()},
        "MFA delete is on": {"mfa_delete": True},
    }
    for number, (words, made) in enumerate(cases.items()):
        with honest_s3("any signature") as (url, server):
            server.made = functools.partial(Bucket, **{"versioning": "Enabled"} | made)
            config, store = storelab(tmp_path / str(number), url)
            assert list(check.retention(config, {"d": store})) == [], "nothing is known of a bucket to be made"
            buckets.prepare(config, store, [store.bucket("camp", 0)])
            line = capsys.readouterr().err
            assert line.startswith(f"    d: bucket {NAME}: ") and words in line
            (note,) = check.retention(config, {"d": store})
            assert note.startswith(f"store d, bucket {NAME}: ") and words in note
    assert Retention().meaning() == "" and list(check.retention(config, {"d": store})) == [], "it is not reached"


def test_bucket_without_mark_is_reported():
    """A storelab that is killed between making and marking a bucket leaves it; it may also belong to someone else."""
    with laid_out() as (store, _, server):
        server.uploads.clear()
        server.buckets[f"{NAME[:-1]}7"] = Bucket(FIRST.access_key)
        gone = buckets.remove(store, "camp", anything)
        assert gone.buckets == 1 and f"{NAME[:-1]}7" in server.buckets
        assert f"kept 1 bucket without a mark of storelab, the first is {NAME[:-1]}7" in str(gone)
