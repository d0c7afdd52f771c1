"""The contract of every store that storelab runs itself.

Each store is started once, and all tests here use it. What is peculiar to one store is in the file of that store.
"""

import os
import re

import managed
import psutil
import pytest
from laboratory import anything, bucket_for, gone, holds, nightly_garage
from managed import filled, intact
from store_clients import for_store

from storelab import stores
from storelab.core.errors import UserError
from storelab.measure.faults import Runner
from storelab.stores.base import CLEAN, DIFFERS, NO, NOT_TRIED, UNKNOWN, YES
from storelab.stores.protocols import filesystems
from storelab.stores.protocols.access import AccessRefused, NoSuchBucket
from storelab.workloads.probe import byteranges
from storelab.workloads.staging import buckets, written

pytestmark = [pytest.mark.real, pytest.mark.heavy]
# Deployments that survive the loss of a data server where the store has such; the default of the store otherwise.
SETTINGS = {
    "seaweedfs": {"servers": 3, "redundancy": "replica-2", "max_volumes": 50},
    "ceph": {"osd_size": "2 GB"},
    "hdfs": {"servers": 2},
    "garage": {"servers": 3, "redundancy": "replica-3"},
}
NEWER = {"ceph": "18.2", "xrootd": "5.8", "xrootd-http": "5.8"}  # versions of Debian 13
CASES = {kind: {"kind": kind, **SETTINGS.get(kind, {})} for kind in stores.KINDS if stores.load(kind).managed}
CASES["xrootd-http"] = {"kind": "xrootd", "protocol": "http"}
CASES |= {f"{case}-{version}": CASES[case] | {"version": version} for case, version in NEWER.items()}
# Systems whose accounts own what they make; in others every key reaches every bucket, or keys do not exist.
OWNERS = ("seaweedfs", "ceph", "versitygw", "minio", "garage")
ADMIN_FIRST = ("seaweedfs", "minio")  # account 0 is not kept out of what the others own
SECRET_FILES = ("accounts.json", "root.json", "users.json", "users.json.backup", "s3.json")
# Ceph and HDFS are slow to begin on a busy machine.
WINDOW = {"duration": "1 s", "warm_up": "1 ms"}
BOTH = {"workers": 3, "clients": 2, "object_size": "20 kB"}
# Uploads that begin a new folder together race in rclone (docs/stores/rclone.md): it gets one upload at a time.
ALONE = {"rclone": {"workers": 1, "clients": 1}}

# Answers to the probe, found by hand: verdicts on 2, 200 and 1500 ranges in one GET; topics where all is yes; others.
RANGES = {
    "nginx": [byteranges.RIGHT] * 3,
    "versitygw": [byteranges.WHOLE, byteranges.WHOLE, byteranges.ERROR],  # 24 kB of ranges are too long a header
    "minio": [byteranges.WHOLE, byteranges.WHOLE, byteranges.ERROR],
    "ceph": [byteranges.FIRST, byteranges.FIRST, byteranges.ERROR],
    "hdfs": [byteranges.WHOLE] * 3,
    "xrootd-http": [byteranges.RIGHT] * 2,
}
S3_TOPICS = ("accounts", "presigned", "multipart", "buckets")
TOPICS = {"nginx": ("ranges",), "versitygw": S3_TOPICS, "minio": S3_TOPICS, "ceph": (*S3_TOPICS, "anonymous")}
ANSWERS = {
    "nginx": {("conditional", "put if absent"): NO},
    "versitygw": {("versioning", "old versions kept"): NO},
    "minio": {("versioning", "old versions kept"): YES},
    "ceph": {("conditional", "put if match"): DIFFERS},
    "hdfs": {("ranges", "single range"): NO, ("ranges", "offset and length"): YES},
    "xrootd": {
        **{("ranges", f"multi-range {n}"): answer for n, answer in ((2, YES), (200, YES), (1500, NO))},
        **{("checksums", check): YES for check in ("adler32", "crc32c")},
        ("ranges", "more chunks than the bound, split"): YES,
    },
    # A vector read takes 1024 parts: more are announced, and the answer breaks off.
    "xrootd-http": {("ranges", "multi-range 1500"): NO, ("checksums", "adler32 by Want-Digest"): YES},
    "garage": {("ranges", "single range"): YES, ("ranges", "multi-range 2"): NO, ("objects", "put, get, head"): YES},
    "rclone": {("ranges", "single range"): DIFFERS},  # the bytes are right, the status is that of a whole object
}
for answers_by_case in (RANGES, TOPICS, ANSWERS):
    answers_by_case |= {f"{case}-{NEWER[case]}": answers_by_case[case] for case in NEWER if case in answers_by_case}
RANGES["xrootd-http-5.8"] = [byteranges.RIGHT] * 3
ANSWERS["xrootd-http-5.8"] = {
    **{("ranges", f"{which} range"): YES for which in ("open", "suffix", "unsatisfiable")},
    ("ranges", "range beyond the end"): YES,
}
# What is asked of a mounted file system in a short time has the answer yes, but for this.
MOUNTED_NO = {"glusterfs": set(), "openafs": {"extended attributes"}}


def protocol(case: str) -> str:
    return CASES[case].get("protocol") or stores.load(CASES[case]["kind"]).protocol


def sweeps(case: str) -> dict:
    """Return a small sweep of each operation, by fsspec and, where the store speaks S3, by s5cmd."""
    put = BOTH | ALONE.get(case, {})
    some = BOTH | {"object_size": "1 MB", "range_size": "5 kB", "engine": "fsspec"}
    asked = {"duration": "50 ms" if protocol(case) == "file" else "60 s"}
    out = {
        "put": {"workload": "put", "axes": put | {"engine": "fsspec"}, **WINDOW},
        "get": {"workload": "get", "objects": 12, "axes": BOTH | {"engine": "fsspec"}, **WINDOW},
        "range": {"workload": "get_range", "objects": 12, "axes": some, **WINDOW},
        "asked": {"workload": "probe", "axes": {}} | WINDOW | asked,
        # On a busy disk, one write of Garage takes up to 4 s.
        "judged": {"workload": "consistency", "axes": {"engine": "fsspec", "clients": 2}, **WINDOW, "duration": "12 s"},
    }
    if protocol(case) == "s3":
        out["s5cmd-put"] = {"workload": "put", "axes": put, **WINDOW}
        out["s5cmd-get"] = {"workload": "get", "objects": 12, "axes": BOTH, **WINDOW}
        out["asked"]["axes"] = {"max_buckets": 3, "accounts": 3}
    return out


def cases(wanted=lambda kind, store: True):
    """Return the mark that runs a test with each store of which `wanted(kind, class)` is true."""
    chosen = [case for case, given in CASES.items() if wanted(given["kind"], stores.load(given["kind"]))]
    params = []
    for case in chosen:
        rooted = "subnet" in stores.load(CASES[case]["kind"]).Settings.model_fields
        marks = [pytest.mark.xdist_group(f"contract-{case}"), *([pytest.mark.root] if rooted else [])]
        marks += [nightly_garage] if case == "garage" else []
        params.append(pytest.param(case, marks=marks))
    return pytest.mark.parametrize("lab", params, indirect=True)


def keeps(kind, store):
    return store.retains_data


def speaks_s3(kind, store):
    return store.retains_data and store.protocol == "s3"


@pytest.fixture(scope="module")
def lab(request, tmp_path_factory):
    """Return a running store, and an object that measures points on it."""
    case = request.param
    given = managed.settings_of(**CASES[case])
    wanted = {k: v for k, v in sweeps(case).items() if stores.load(given["kind"]).retains_data}
    calibrates = {"c": {"workload": "calibrate", "axes": {"operation": "put"}}}
    lab = managed.Lab(tmp_path_factory.mktemp(case), given, wanted or calibrates)
    lab.case = case
    managed.skip_unless_usable(lab.store)
    with managed.running(lab.store):
        lab.store.up()
        yield lab


@pytest.fixture
def store(lab):
    """Return the store, up with at least one front-end."""
    lab.store.up()
    return lab.store


def leaders(store) -> dict[str, int]:
    """Return the daemons without their workers."""
    return {name: pid for name, pid in store.actors().items() if "/" not in name}


class TestContract:
    @cases()
    def test_second_up_changes_nothing(self, store):
        pids = leaders(store)  # a daemon may have one more or one less worker meanwhile
        store.up()
        status, deployment = store.status(), store.deployment()
        assert leaders(store) == pids and set(pids) == set(store.daemon_actors(deployment["front_ends"]))
        assert status.state == "up" and status.version == store.version() == deployment["version"] != ""
        assert status.version.startswith(getattr(store.settings, "version", None) or "")
        assert deployment["system"] == store.system and sum(deployment["daemons"].values()) == len(leaders(store))
        assert deployment["front_ends"] == (len(store.front_ends()) or 1)
        assert len(store.endpoints(1)) == 1 and str(store.folder) not in str(deployment)
        assert store.free_bytes() is None or store.free_bytes() > 0
        assert store.condition().state in (CLEAN, UNKNOWN)

    @cases()
    def test_no_other_host_reaches_it(self, store):
        """It listens on loopback only, or in a network namespace without a way out."""
        pids = set(store.actors().values())
        if hasattr(store, "namespace"):
            assert not {c.pid for c in psutil.net_connections("inet") if c.status == psutil.CONN_LISTEN} & pids
        else:
            found = managed.listening(pids)
            assert {ip for ip, _ in found} - {"::1"} == {"127.0.0.1"}
            if store.settings.kind != "hdfs":  # a DataNode takes any port for its inner page
                assert all(any(port in block for block in store.ports()) for _, port in found)

    @cases(keeps)
    def test_objects_come_back(self, store):
        bucket, way = bucket_for(store, "objects").name, store.access()
        bodies = {"a/b/c": b"1", "a/b/d": os.urandom(70_000), "a/bc": b"", "top": os.urandom(9_000_000)}
        for key, body in bodies.items():
            way.write(bucket, key, b"replaced")
            way.write(bucket, key, body)
        assert {key: way.read(bucket, key) for key in bodies} == bodies
        listed = {prefix: sorted(k for k, _ in way.keys(bucket, prefix)) for prefix in ("a/b", "a/b/", "top", "no/")}
        assert listed == {"a/b": ["a/b/c", "a/b/d", "a/bc"], "a/b/": ["a/b/c", "a/b/d"], "top": ["top"], "no/": []}
        assert way.read(bucket, "none") is None and bucket in way.bucket_names()
        for act in (lambda: way.read("storelab-none", "k"), lambda: list(way.keys("storelab-none"))):
            with pytest.raises((NoSuchBucket, AccessRefused)):
                act()
        way.delete(bucket, ["a/b/c", "a/never"])
        assert way.read(bucket, "a/b/c") is None and [k for k, _ in way.keys(bucket, "a/b/")] == ["a/b/d"]

    @cases(keeps)
    def test_range_brings_its_bytes(self, store):
        bucket, body = bucket_for(store, "ranges"), os.urandom(5_000_000)
        store.access().write(bucket.name, "k", body)
        end = store.endpoints()[0]
        if store.protocol == "s3":
            s3 = for_store(store)
            part = s3.get_object(Bucket=bucket.name, Key="k", Range="bytes=4194300-4194310")
            assert part["Body"].read() == body[4194300:4194311]
            assert part["ContentRange"] == f"bytes 4194300-4194310/{len(body)}"
            whole = 200 if store.settings.kind == "rclone" else 206  # docs/stores/rclone.md
            assert part["ResponseMetadata"]["HTTPStatusCode"] == whole
        else:
            fs, path = filesystems.data(end, {}, 4), filesystems.path(end, bucket, "k")
            assert fs.cat_file(path, start=4194300, end=4194311) == body[4194300:4194311]
            assert fs.cat_ranges([path] * 2, [0, 100], [5, 110]) == [body[:5], body[100:110]]

    @cases(keeps)
    def test_campaign_buckets_are_made_found_and_removed(self, store):
        wanted = [store.bucket("many", i) for i in range(12)]
        buckets.ensure(store, "many", wanted)
        buckets.ensure(store, "many", wanted)
        assert buckets.campaign_buckets(store, "many") == wanted
        with pytest.raises(UserError, match="marked for the campaign 'many'"):
            buckets.ensure(store, "other", [wanted[0]])
        store.access().write(wanted[3].name, "a/b", b"x")
        assert buckets.remove(store, "many", anything)[:2] == (1, 12)
        assert buckets.campaign_buckets(store, "many") == [] and wanted[0].name not in store.access().bucket_names()

    @cases(lambda kind, store: kind in OWNERS)
    def test_accounts_are_separate(self, lab, store):
        store.up(1, 3)
        mine = [bucket_for(store, "own", i, account=i) for i in range(3)]
        for i, bucket in enumerate(mine):
            store.access(i).write(bucket.name, "k", b"%d" % i)
        for other in range(lab.case in ADMIN_FIRST, 3):
            way = store.access(other)
            for i in {0, 1, 2} - {other}:
                with pytest.raises((AccessRefused, NoSuchBucket)):
                    way.read(mine[i].name, "k")
                with pytest.raises((AccessRefused, NoSuchBucket)):
                    way.write(mine[i].name, "k", b"")
                with pytest.raises((AccessRefused, NoSuchBucket)):
                    list(way.keys(mine[i].name))
                assert mine[i].name not in way.bucket_names()
            assert way.read(mine[other].name, "k") == b"%d" % other
        assert buckets.campaign_buckets(store, "own") == mine
        assert buckets.remove(store, "own", anything)[:2] == (3, 3)
        with pytest.raises(UserError, match="account 32 has no keys"):
            store.credentials(32)
        with pytest.raises(UserError, match="accounts: 33 requested"):
            store.up(1, 33)

    @cases(lambda kind, store: store.retains_data and store.most_front_ends > 1)
    def test_front_ends_show_the_same_objects(self, store):
        pids = store.actors()
        store.up(3)
        assert store.actors().items() >= pids.items()
        store.up(1)  # at least one: the others stay
        assert len(store.endpoints(3)) == 3
        with pytest.raises(UserError, match="front-ends: 4 requested, 3 running"):
            store.endpoints(4)
        for i in range(3):
            bucket, bodies = filled(store, f"front-{i}", front_end=i)
            assert all(intact(store, bucket, bodies, other) for other in range(3))
        store.access(front_end=2).delete(bucket, ["d/k1"])
        other = store.access(front_end=1)
        kept = 10 if store.protocol == "file" else 0  # seconds: the kernel keeps what a mount showed for a while
        managed.until(lambda: other.read(bucket, "d/k1") is None, kept)

    @cases(lambda kind, store: store.retains_data)
    def test_too_many_front_ends_are_refused(self, store):
        most = store.most("front_ends")
        with pytest.raises(UserError, match=f"front-ends: {most + 1} requested"):
            store.up(most + 1)

    @cases(keeps)
    def test_suspended_store_takes_no_cpu(self, store):
        managed.sleeps_and_wakes(store)

    @cases(speaks_s3)
    def test_keys_are_only_in_their_files(self, store):
        store.up(1, 2)
        bucket_for(store, "secret")
        accounts = [store.credentials(i) for i in range(2)]
        secrets = [key for keys in accounts for key in (keys.access_key, keys.secret_key)]
        if (store.folder / "root.json").exists():
            secrets.append(store.root_keys().secret_key)
            assert len({keys.access_key for keys in (*accounts, store.root_keys())}) == 3
        if store.settings.kind == "garage":  # it lists its keys by name in its own tables
            secrets = [secret for secret in secrets if secret not in {keys.access_key for keys in accounts}]
        assert managed.leaked_secrets(store, secrets, SECRET_FILES) == []
        if store.settings.kind != "rclone":  # whose server knows them only by its environment
            assert managed.in_environment(store, [keys.secret_key for keys in accounts]) == []

    @cases(keeps)
    def test_killed_daemon_comes_back(self, store):
        """The first of each kind is killed, one after the other."""
        bucket, bodies = filled(store, "killed")
        pids = leaders(store)
        victims = {name.partition("-")[0]: name for name in reversed(pids)}
        for victim in victims.values():
            managed.kill(store, victim)
            status = store.status()
            assert status.state == ("partly" if len(pids) > 1 else "down") or victim not in status.detail
            store.up(len(store.front_ends()) or 1)
            now = leaders(store)
            assert store.status().state == "up" and set(now) == set(pids) and now[victim] != pids[victim]
            assert intact(store, bucket, bodies), victim
            store.access().write(bucket, "after", victim.encode())
            assert store.access().read(bucket, "after") == victim.encode()
            pids = now

    @cases(lambda kind, store: store.retains_data and kind not in ("versitygw", "rclone", "nginx", "xrootd", "openafs"))
    def test_lost_data_server_is_noticed_and_restarted(self, store):
        """Objects are written and read while it is away, and all is whole afterwards."""
        assert store.tolerated_failures() > 0
        bucket = bucket_for(store, "faulty").name
        bodies = {f"k{i}": os.urandom(50_000) for i in range(12)}
        act = {"act": "kill"} if store.data_actors()[0] in leaders(store) else {"act": "remove_drive"}
        with Runner(store, "f", managed.acts({"at": "0 s", "actor": "data.0", **act}), report=print) as runner:
            runner.start(0)
            managed.until(lambda: {"degraded", "recovering"} & set(managed.states(runner)))
            way = store.access()
            for key, body in bodies.items():
                way.write(bucket, key, body)
            assert {key: way.read(bucket, key) for key in bodies} == bodies
            runner.settle(120)
        assert runner.failed() == [] and runner.recovered and managed.states(runner)[-1] == CLEAN, runner.events
        fault_report = runner.as_dict()
        assert (
            len(fault_report["most_lost"]) == 1
            and not fault_report["beyond_redundancy"]
            and fault_report["bears"] == store.tolerated_failures()
        )
        assert store.status().state == "up" and intact(store, bucket, bodies)

    @cases(lambda kind, store: store.retains_data and store.protocol != "file")  # whose records `up` cannot do without
    def test_crash_of_manager_leaves_no_unknown_process(self, store):
        """storelab died before it could record the daemons."""
        pids, front_ends = leaders(store), len(store.front_ends())
        after = managed.again(store)
        after.up()
        assert leaders(after) == pids
        after.daemons.file.unlink()
        after.up(front_ends)
        now = leaders(after)
        assert set(now) == set(pids) and gone(pids[name] for name in pids if pids[name] != now[name])
        bucket, bodies = filled(after, "crash")
        assert intact(store, bucket, bodies)

    @cases(keeps)
    def test_data_and_keys_outlive_a_restart(self, store):
        """Data in memory are lost, and the keys remain the same."""
        accounts = min(2, store.most("accounts"))
        store.up(1, accounts)
        bucket, bodies = filled(store, "kept")
        keys, pids = [store.credentials(i) for i in range(accounts)], store.actors()
        stopped = store.down()  # at once: nothing may still be on its way
        assert set(stopped) >= set(leaders(store).values()) and gone(pids.values()) and gone(stopped)
        assert managed.left_behind(store) == []
        assert store.down() == [] and store.status().state == "down" and store.actors() == {}
        later = managed.again(store)
        later.up(1, store.accounts())
        assert later.accounts() == store.accounts() >= accounts
        assert [str(later.credentials(i)) for i in range(accounts)] == [str(k) for k in keys]
        if store.settings.backing == "memory":
            assert bucket not in later.access().bucket_names()
        else:
            assert intact(later, bucket, bodies)

    @cases(keeps)
    def test_second_store_is_refused(self, lab, store, tmp_path):
        """Another store can use neither its address nor its data, and the first continues."""
        pids, home = leaders(store), managed.settings_of(**CASES[lab.case])
        for given in ({}, {**home, "directory": str(store.data)}):
            second = managed.made("other", lab.settings | given, tmp_path)
            with pytest.raises(UserError) as caught:
                second.up()
            assert caught.value.place.startswith("stores.other.") and "\n" not in str(caught.value)
            assert second.actors() == {} and managed.left_behind(second) == []
        assert leaders(store) == pids and store.status().state == "up"

    @cases(lambda kind, store: speaks_s3(kind, store) and kind != "ceph" and "tls" in store.Settings.model_fields)
    def test_https(self, lab, tmp_path):
        store = managed.made("tls", managed.settings_of(**CASES[lab.case], tls=True), tmp_path)
        managed.is_encrypted(store, min(2, store.most("front_ends")), 2)

    @cases(keeps)
    def test_killed_in_the_middle_of_up(self, lab, tmp_path):
        """After `down` nothing remains, and `up` continues from there."""
        settings = managed.settings_of(**CASES[lab.case])
        store = managed.made("torn", settings, tmp_path)
        daemons = store.daemon_actors(1)
        managed.kill_in_up(store, settings, daemons[-1])
        assert managed.left_behind(store) != []
        store.down()
        assert managed.left_behind(store) == []
        if lab.case == "glusterfs":  # a brick that was not recorded keeps its port, and the next `up` fails
            return
        managed.kill_in_up(store, settings, daemons[0])
        with managed.running(store):
            store.up()
            assert intact(store, *filled(store, "after"))

    @cases(keeps)
    def test_points_are_measured(self, lab, store):
        """From configuration to record: uploads, downloads and ranges."""
        if lab.case == "rclone":  # see ALONE: staging finds the folder of its data set
            for p in (p for p in lab.points.values() if "dataset" in p.fixed):
                for key in written.columns(p.fixed["dataset"])["key"]:
                    folder = store.data / "objects" / bucket_for(store, "lab").name / key
                    folder.parent.mkdir(parents=True, exist_ok=True)
        fsspec = [lab.measured(sweep) for sweep in ("put", "get", "range")]
        for sweep, (rows, record, _) in zip(("put", "get", "range"), fsspec, strict=True):
            holds([(lab.points[sweep], record, rows)], protocol(lab.case))
        for sweep in ("s5cmd-put", "s5cmd-get") if protocol(lab.case) == "s3" else ():
            rows, record, _ = lab.measured(sweep)
            assert record["engine"]["name"] == "s5cmd" and rows and {r["error"] for r in rows} == {None}
        assert record["store"]["deployment"]["system"] == store.system
        assert not re.search("secret", str(record).lower()) and str(store.folder) not in str(record["store"])

    @cases(lambda kind, store: store.retains_data and kind != "seaweedfs")  # see test_probe.py
    def test_answers_to_the_probe(self, lab, store):
        _, _, at = lab.measured("asked")
        found, case = {(r["topic"], r["check"]): r for r in managed.rows_of(at, "answers")}, lab.case
        numbers = (2, 200, 1500)[: len(RANGES.get(case, ()))]
        verdicts = [found["ranges", f"multi-range {n}"]["evidence"].partition(":")[0] for n in numbers]
        assert verdicts == RANGES.get(case, [])
        answers = {place: row["answer"] for place, row in found.items()}
        wanted = {place: YES for place in answers if place[0] in TOPICS.get(case, ())} | ANSWERS.get(case, {})
        if case == "garage":  # 404 in place of 403
            wanted |= {p: DIFFERS if p[1].endswith("refused") else YES for p in answers if p[0] == "accounts"}
        assert {place: answers.get(place) for place in wanted} == wanted
        if case in MOUNTED_NO:
            assert {check for (_, check), a in answers.items() if a not in (YES, NOT_TRIED)} <= MOUNTED_NO[case]
        else:
            assert wanted

    @cases(lambda kind, store: kind in ("garage", "glusterfs", "openafs"))
    def test_reads_are_consistent(self, lab, store):
        _, _, at = lab.measured("judged")
        rows = managed.rows_of(at, "scenarios")
        assert sum(r["tried"] for r in rows) and not [r for r in rows if r["anomalies"] or r["errors"]]
