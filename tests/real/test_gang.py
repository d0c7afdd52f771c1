"""Gangs of s5cmd clients on a real store: what they record, and that failure can never look fast."""

import json
import os
import signal
import threading
import time

import pyarrow.parquet as pq
import pytest
from gang_job import prepared
from process_table import watched
from store_clients import for_store

from storelab.core.errors import MeasurementFailed
from storelab.core.records import HUNG
from storelab.gang import coordinator
from storelab.gang.launchers.local import LocalLauncher
from storelab.host import scratch
from storelab.stores.protocols.endpoint import Bucket

pytestmark = pytest.mark.real


@pytest.fixture
def gang(seaweedfs, tmp_path):
    """Return a function that runs a gang of `put` or `get`; it returns (folder, job, results)."""

    def run(
        workload,
        clients=2,
        at_start=lambda t0: None,
        change=lambda job: None,
        duration="1 s",
        launcher=LocalLauncher,
        **axes,
    ):
        axes = {"clients": clients, "workers": 4, **axes}
        folder, job = prepared(seaweedfs, tmp_path, {"workload": workload, "duration": duration, "axes": axes})
        change(job)
        job.write(folder)
        started = launcher(folder, clients, [seaweedfs.credentials().environ()])
        with scratch.using(job.scratch_base):  # as `measure` does: else another `down --all` clears it
            timeout_s, seconds = job.timeout_ns / 1e9, job.point.fixed["duration_ns"] / 1e9
            results = coordinator.run(started, folder, clients, timeout_s, seconds, at_start)
        assert len(started.ended()) == clients
        return folder, job, results

    return run


class Forgetful(LocalLauncher):
    """Does not start its last client."""

    def start(self) -> None:
        every = self.ranks
        self.ranks = every[:-1]
        super().start()
        self.ranks = every


@pytest.mark.parametrize("workload", ["put", pytest.param("get", marks=pytest.mark.heavy)])
def test_gang_is_recorded(gang, workload):
    folder, job, results = gang(workload, clients=3, front_ends=2)
    assert {r.endpoint for r in results} == {e.url for e in job.endpoints}
    assert len({r.t0_ns for r in results}) == 1
    for rank, r in enumerate(results):
        assert r.saw_go_in_time and 0 <= r.lateness_ns < 500_000_000
        assert all(c.ok for c in r.checks), r.checks
        ops = pq.read_table(folder / f"ops.{rank}.parquet").to_pydict()
        assert len(ops["end_ns"]) == r.operations > 0
        assert ops["end_ns"] == sorted(ops["end_ns"]) and ops["end_ns"][0] > r.t0_ns
        assert set(ops["bytes"]) == {4000} and set(ops["op"]) == {workload.upper()} and set(ops["client"]) == {rank}
        assert 1 <= r.connections_max <= 8
        assert r.cpu_user_s > 0
    assert not list(job.scratch.glob(f"{job.attempt}-*"))


@pytest.mark.heavy
def test_uploads_go_to_all_buckets_and_no_key_twice(gang):
    folder, job, results = gang("put", clients=2, buckets=3)
    keys = [k for r in range(2) for k in pq.read_table(folder / f"ops.{r}.parquet")["object"].to_pylist()]
    assert len(keys) == len(set(keys)) == sum(r.operations for r in results)
    assert len(job.buckets) == 3


@pytest.mark.heavy
def test_wrong_bucket_fails_with_message_of_store(gang):
    missing = [Bucket("storelab-nobody-made-this")]
    _, _, results = gang("put", change=lambda job: setattr(job, "buckets", missing))
    for r in results:
        failed = [(c.name, "NoSuchBucket" in c.detail) for c in r.checks if not c.ok]
        assert r.operations == 0 < r.errors and failed == [("operations completed", True)]


def test_a_corrupted_object_fails_the_check(gang, seaweedfs):
    def corrupt(job):
        s3 = for_store(seaweedfs)
        for i in range(20):
            s3.put_object(Bucket=job.buckets[0].name, Key=f"data/payload-5kB-20x1/{i:07d}", Body=b"x" * 5000)

    _, _, results = gang("get", clients=1, change=corrupt, object_size="5 kB")
    assert [c.name for c in results[0].checks if not c.ok] == ["content"]


def test_an_object_of_a_wrong_size_fails_the_point(gang, seaweedfs):
    def shorten(job):
        s3 = for_store(seaweedfs)
        s3.put_object(Bucket=job.buckets[0].name, Key="data/payload-6kB-20x1/0000000", Body=b"x")

    with pytest.raises(MeasurementFailed, match="wrong size"):
        gang("get", clients=1, change=shorten, object_size="6 kB")


def test_missing_clients_of_gang_are_named(gang):
    with pytest.raises(MeasurementFailed, match=r"1 of 3 clients did not join within 8 s \(missing: client 2\)"):
        gang("put", clients=3, launcher=Forgetful, change=lambda job: setattr(job, "timeout_ns", 8_000_000_000))


@pytest.mark.heavy
def test_a_limit_ends_the_point_at_once(gang):
    def strict(job):
        job.limits["requests_per_s"] = 2

    begun = time.monotonic()
    with pytest.raises(MeasurementFailed, match=r"limits\.requests_per_s"):
        gang("put", duration="60 s", change=strict)
    assert time.monotonic() - begun < 50  # far before its deadline


@pytest.mark.heavy
def test_uploads_end_when_the_space_is_full(gang):
    with pytest.raises(MeasurementFailed, match=r"limits\.stored_bytes"):
        gang("put", duration="30 s", change=lambda job: job.limits.update(room_bytes=400_000))


@pytest.mark.heavy
def test_a_store_that_hangs_ends_by_the_deadline(gang, seaweedfs):
    pid = seaweedfs.actors()["volume-1"]

    def hang(t0_ns: int) -> None:
        threading.Timer(0.8, lambda: os.kill(pid, signal.SIGSTOP)).start()

    try:
        folder, _, results = gang("put", at_start=hang, duration="3 s")
    finally:
        os.kill(pid, signal.SIGCONT)
    for r in results:
        rows = pq.read_table(folder / f"ops.{r.client}.parquet").to_pylist()
        ends = [row["end_ns"] for row in rows if row["error"] != HUNG]
        assert r.operations > 0 and ends[-1] < r.t0_ns + 2_500_000_000
        assert r.engine["cut_off"] >= r.engine["hung"] == len(rows) - len(ends) > 0


@pytest.mark.command_lines
@pytest.mark.heavy
def test_keys_are_in_no_folder_and_on_no_command_line(gang, seaweedfs):
    with watched() as lines:
        folder, _, _ = gang("put")
    secret = seaweedfs.credentials()
    assert any(b"s5cmd" in line for line in lines)
    for word in (secret.access_key.encode(), secret.secret_key.encode()):
        assert not any(word in line for line in lines)
        assert not any(word in p.read_bytes() for p in folder.iterdir())
    assert json.loads((folder / "job.json").read_text())["point"]["workload"] == "put"
