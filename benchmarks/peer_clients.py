"""One peer of `peers.py`, as a separate program: `peer_clients.py NAME put|get JOB.json`.

It prepares, prints `ready`, and reads the start (UTC ns) from standard input. It then works for `run_s` seconds, writes
{start_ns, end_ns} of its operations to the job's file `times`, and prints `done`. It ends when its standard input ends.

boto3 and obstore_threads use one thread per worker, s3fs and obstore one task of asyncio per worker. s5cmd runs a file
of commands. warp runs `warp put|get` with the same objects. Each has its best settings: bodies from memory, downloads
discarded, no retries, no multipart upload except s5cmd's own, no checksum of bodies. Credentials are in the
environment.
"""

import asyncio
import csv
import io
import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import counting
import pyarrow
import warp as warp_build

from storelab.core import clock

Job = dict[str, Any]
Times = list[tuple[int, int]]  # start and end of each operation, ns
S3_OPTIONS = {"addressing_style": "path", "payload_signing_enabled": False}
BOTO = {
    "retries": {"total_max_attempts": 1},
    "request_checksum_calculation": "when_required",
    "response_checksum_validation": "when_required",
    "s3": S3_OPTIONS,
}


def start_of_run() -> int:
    """Print that the client is ready; read the start, wait for it, and return it in UTC ns."""
    print("ready", flush=True)
    begin = int(sys.stdin.readline())
    clock.sleep_until(begin)
    return begin


def key_of(job: Job, put: bool, n: int) -> str:
    """Return the key of operation n: a new key for a PUT, a staged object for a GET."""
    return f"{job['prefix']}{n}" if put else job["keys"][n % len(job["keys"])]


def in_threads(job: Job, one: Callable[[int, int], Any]) -> Times:
    """Call one(worker, operation) in one thread per worker until the run ends; return the times."""
    numbers, times = itertools.count(), []

    def work(worker: int) -> None:
        while (begun := clock.now_ns()) < end:
            one(worker, next(numbers))
            times.append((begun, clock.now_ns()))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(job["workers"])]
    end = start_of_run() + int(job["run_s"] * 1e9)
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return times


async def in_tasks(job: Job, one: Callable[[int], Awaitable[None]]) -> Times:
    """Run operations 0, 1, … in one task per worker until the run ends; return the times."""
    numbers, times = itertools.count(), []

    async def work() -> None:
        while (begun := clock.now_ns()) < end:
            await one(next(numbers))
            times.append((begun, clock.now_ns()))

    end = start_of_run() + int(job["run_s"] * 1e9)
    await asyncio.gather(*(work() for _ in range(job["workers"])))
    return times


def boto3(job: Job, put: bool) -> Times:
    import boto3
    from botocore.config import Config

    body = Path(job["body"]).read_bytes()
    session, config = boto3.session.Session(), Config(max_pool_connections=4, **BOTO)
    options = {"endpoint_url": job["url"], "region_name": "us-east-1", "config": config}
    clients = [session.client("s3", **options) for _ in range(job["workers"])]

    def one(worker: int, n: int) -> None:
        where = {"Bucket": job["bucket"], "Key": key_of(job, put, n)}
        if put:
            clients[worker].put_object(Body=body, **where)
        else:
            clients[worker].get_object(**where)["Body"].read()

    return in_threads(job, one)


def s3fs(job: Job, put: bool) -> Times:
    import s3fs

    body = Path(job["body"]).read_bytes()
    config = {"max_pool_connections": job["workers"], **BOTO}

    async def everything() -> Times:
        fs = s3fs.S3FileSystem(
            endpoint_url=job["url"], asynchronous=True, skip_instance_cache=True, config_kwargs=config
        )
        session = await fs.set_session()
        fs.retries = 1

        async def one(n: int) -> None:
            path = f"{job['bucket']}/{key_of(job, put, n)}"
            await (fs._pipe_file(path, body) if put else fs._cat_file(path))

        try:
            return await in_tasks(job, one)
        finally:
            await session.close()

    return asyncio.run(everything())


def _obstore(job: Job) -> Any:
    from obstore.store import S3Store

    return S3Store(
        job["bucket"],
        endpoint=job["url"],
        region="us-east-1",
        access_key_id=os.environ["AWS_ACCESS_KEY_ID"],
        secret_access_key=os.environ["AWS_SECRET_ACCESS_KEY"],
        client_options={"allow_http": True, "http1_only": True},
        retry_config={"max_retries": 0},
        unsigned_payload=True,
    )


def obstore(job: Job, put: bool) -> Times:
    """Use asyncio with one task per connection, as the documentation of obstore shows."""
    body, store = Path(job["body"]).read_bytes(), _obstore(job)

    async def one(n: int) -> None:
        if put:
            await store.put_async(key_of(job, put, n), body, use_multipart=False)
        else:
            await (await store.get_async(key_of(job, put, n))).bytes_async()

    return asyncio.run(in_tasks(job, one))


def obstore_threads(job: Job, put: bool) -> Times:
    """Use synchronous calls in threads, which are faster than asyncio for small objects."""
    body, store = Path(job["body"]).read_bytes(), _obstore(job)

    def one(_: int, n: int) -> None:
        if put:
            store.put(key_of(job, put, n), body, use_multipart=False)
        else:
            store.get(key_of(job, put, n)).bytes()

    return in_threads(job, one)


def s5cmd(job: Job, put: bool) -> Times:
    """Run s5cmd, which prints no times: a line of output gets its time on arrival.

    An operation begins when an earlier one ends.
    """
    from storelab.engines import s5cmd
    from storelab.engines import s5cmd as commands
    from storelab.engines import s5cmd as output
    from storelab.stores.protocols import environment
    from storelab.stores.protocols.endpoint import Credentials, Endpoint

    scratch, endpoint = Path(job["scratch"]), Endpoint(job["url"])
    slots = max(job["workers"], 4)
    listed = scratch / "commands"
    with listed.open("w") as f:
        for n in range(job["most"]):
            there = commands.object_url(job["bucket"], key_of(job, put, n))
            f.write(
                commands.copy_line(job["body"], there) if put else commands.copy_line(there, scratch / str(n % slots))
            )
    command = ["timeout", "-s", "INT", str(job["run_s"]), *s5cmd.command(endpoint, job["workers"]), str(listed)]
    env = environment.client(os.environ, endpoint, Credentials.found(os.environ))
    env |= {"GOGC": "800"}  # less CPU time for garbage collection
    with (scratch / "errors").open("w+b") as errors:
        begin = start_of_run()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=env)
        assert process.stdout is not None
        chunks = []
        while data := os.read(process.stdout.fileno(), 1 << 16):
            chunks.append((clock.now_ns(), data))
        process.wait()
        errors.seek(0)
        found = output.parse_output(0, "PUT" if put else "GET", job["size"], chunks, [(clock.now_ns(), errors.read())])
    if found.messages:
        raise SystemExit(f"s5cmd failed: {found.messages}")
    ends = sorted(found.ops["end_ns"])
    return list(zip(counting.closed_loop(begin, ends, job["workers"]), ends, strict=True))


def warp(job: Job, put: bool) -> Times:
    """Run warp; read the times from its file of all operations."""
    options = {
        "host": urlsplit(job["url"]).netloc,
        "bucket": job["bucket"],
        "concurrent": job["workers"],
        "duration": f"{job['run_s']}s",
        "lookup": "path",
        "benchdata": f"{job['scratch']}/warp",
        "access-key": os.environ["AWS_ACCESS_KEY_ID"],
        "secret-key": os.environ["AWS_SECRET_ACCESS_KEY"],
    }
    if put:
        options |= {"obj.size": job["size"], "prefix": job["prefix"]}
        flags = ["--disable-multipart", "--disable-sha256-payload"]
    else:
        options |= {"objects": len(job["keys"]), "prefix": job["keys"][0].rpartition("/")[0] + "/"}
        flags = ["--list-existing"]
    flags += ["--noclear", "--full", "--no-color", *(f"--{key}={value}" for key, value in options.items())]
    command = [str(warp_build.binary()), "put" if put else "get", *flags]
    start_of_run()
    done = subprocess.run(command, capture_output=True, text=True)
    file = Path(f"{job['scratch']}/warp.csv.zst")
    if done.returncode or not file.exists():
        raise SystemExit(f"warp wrote no operations: {(done.stdout + done.stderr)[-300:]}")
    with pyarrow.CompressedInputStream(file, "zstd") as stream:
        rows = list(csv.DictReader((r for r in io.TextIOWrapper(stream) if not r.startswith("#")), delimiter="\t"))
    rows = [r for r in rows if r["op"] == ("PUT" if put else "GET")]
    if bad := [r["error"] for r in rows if r["error"]]:
        raise SystemExit(f"warp failed: {bad[0]}")
    return [(nanoseconds(r["start"]), nanoseconds(r["end"])) for r in rows]


def nanoseconds(text: str) -> int:
    """Return UTC ns of a time that warp wrote, `2026-11-22T14:00:00.123456789Z`, rounded to microseconds."""
    return round(datetime.fromisoformat(text).timestamp() * 1e6) * 1000


PEERS = {
    "boto3": boto3,
    "obstore": obstore,
    "obstore_threads": obstore_threads,
    "s3fs": s3fs,
    "s5cmd": s5cmd,
    "warp": warp,
}


def main() -> None:
    name, what, path = sys.argv[1:]
    job = json.loads(Path(path).read_text())
    times = PEERS[name](job, what == "put")
    Path(job["times"]).write_text(json.dumps({"start_ns": [s for s, _ in times], "end_ns": [e for _, e in times]}))
    print("done", flush=True)
    sys.stdin.read()  # the monitor samples the CPU time of this process until the end
    os._exit(0)


if __name__ == "__main__":
    main()
