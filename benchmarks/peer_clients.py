"""One peer of `peers.py`, as a program of its own: `peer_clients.py NAME put|get JOB.json`; prints {operations, seconds, cpu_s} as JSON.

boto3: threads, a client each. s3fs, obstore: one loop, as many tasks. All from memory, retries off, downloads thrown away. s5cmd: `run` of a file of
commands, by hand; warp: `warp put|get` of the same objects, without multipart and checksums of bodies. Credentials stand in the environment. Start-up is not measured,
but for s5cmd, which cannot be told apart from it.
"""

import asyncio
import csv
import io
import itertools
import json
import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow


def boto3(job: dict[str, Any], put: bool) -> tuple[int, float, float]:
    import boto3
    from botocore.config import Config

    body = Path(job["body"]).read_bytes()
    config = Config(retries={"total_max_attempts": 1}, max_pool_connections=4, s3={"addressing_style": "path"})
    session = boto3.session.Session()
    clients = [
        session.client("s3", endpoint_url=job["url"], region_name="us-east-1", config=config)
        for _ in range(job["workers"])
    ]
    done = [0] * job["workers"]

    def work(i: int) -> None:
        s3 = clients[i]
        for n in itertools.count(i, job["workers"]):
            if time.monotonic() > end:
                return
            if put:
                s3.put_object(Bucket=job["bucket"], Key=f"{job['prefix']}{n}", Body=body)
            else:
                s3.get_object(Bucket=job["bucket"], Key=job["keys"][n % len(job["keys"])])["Body"].read()
            done[i] += time.monotonic() <= end

    threads = [threading.Thread(target=work, args=(i,)) for i in range(job["workers"])]
    begun, cpu = time.monotonic(), time.process_time()
    end = begun + job["seconds"]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return sum(done), job["seconds"], time.process_time() - cpu


async def in_tasks(job: dict[str, Any], one: Callable[[int], Awaitable[None]]) -> tuple[int, float, float]:
    """As many tasks as workers do operations 0, 1, … until the time is over: (done, seconds, CPU seconds)."""
    numbers, done = itertools.count(), 0

    async def work() -> None:
        nonlocal done
        while time.monotonic() < end:
            await one(next(numbers))
            done += time.monotonic() <= end

    begun, cpu = time.monotonic(), time.process_time()
    end = begun + job["seconds"]
    await asyncio.gather(*(work() for _ in range(job["workers"])))
    return done, job["seconds"], time.process_time() - cpu


def s3fs(job: dict[str, Any], put: bool) -> tuple[int, float, float]:
    import s3fs

    body = Path(job["body"]).read_bytes()

    async def everything() -> tuple[int, float, float]:
        fs = s3fs.S3FileSystem(
            endpoint_url=job["url"],
            asynchronous=True,
            skip_instance_cache=True,
            config_kwargs={
                "retries": {"total_max_attempts": 1},
                "max_pool_connections": job["workers"],
                "s3": {"addressing_style": "path"},
            },
        )
        session = await fs.set_session()
        fs.retries = 1

        async def one(n: int) -> None:
            if put:
                await fs._pipe_file(f"{job['bucket']}/{job['prefix']}{n}", body)
            else:
                await fs._cat_file(f"{job['bucket']}/{job['keys'][n % len(job['keys'])]}")

        try:
            return await in_tasks(job, one)
        finally:
            await session.close()

    return asyncio.run(everything())


def obstore(job: dict[str, Any], put: bool) -> tuple[int, float, float]:
    """As its documentation shows it: asyncio, one task per connection."""
    from obstore.store import S3Store

    body = Path(job["body"]).read_bytes()
    options = {"allow_http": True, "http1_only": True}
    keys = {"access_key_id": os.environ["AWS_ACCESS_KEY_ID"], "secret_access_key": os.environ["AWS_SECRET_ACCESS_KEY"]}
    store = S3Store(
        job["bucket"],
        endpoint=job["url"],
        region="us-east-1",
        **keys,
        client_options=options,
        retry_config={"max_retries": 0},
        unsigned_payload=True,
    )

    async def one(n: int) -> None:
        if put:
            await store.put_async(f"{job['prefix']}{n}", body, use_multipart=False)
        else:
            await (await store.get_async(job["keys"][n % len(job["keys"])])).bytes_async()

    return asyncio.run(in_tasks(job, one))


def s5cmd(job: dict[str, Any], put: bool) -> tuple[int, float, float]:
    from storelab.engines.s5cmd import client as engine
    from storelab.stores.protocols.endpoint import Endpoint

    scratch = Path(job["scratch"])
    keys, slots = job["keys"], max(job["workers"], 4)
    if put:
        lines = (f"cp {job['body']} s3://{job['bucket']}/{job['prefix']}{n}\n" for n in range(job["most"]))
    else:
        lines = (f"cp s3://{job['bucket']}/{keys[n % len(keys)]} {scratch}/{n % slots}\n" for n in range(job["most"]))
    commands = scratch / "commands"
    commands.write_text("".join(lines))
    endpoint = Endpoint(job["url"])
    command = ["timeout", "-s", "INT", str(job["seconds"]), *engine.command(endpoint, job["workers"]), str(commands)]
    done = subprocess.run(command, capture_output=True, text=True, env=engine.environ(endpoint))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return json.loads(done.stdout.strip().splitlines()[-1])["success"], job["seconds"], used.ru_utime + used.ru_stime


def warp(job: dict[str, Any], put: bool) -> tuple[int, float, float]:
    at = urlsplit(job["url"])
    options = [
        f"--host={at.netloc}",
        f"--bucket={job['bucket']}",
        f"--concurrent={job['workers']}",
        f"--duration={job['seconds']}s",
    ]
    options += ["--lookup=path", "--noclear", "--full", "--no-color", f"--benchdata={job['scratch']}/warp"]
    options += [
        f"--access-key={os.environ['AWS_ACCESS_KEY_ID']}",
        f"--secret-key={os.environ['AWS_SECRET_ACCESS_KEY']}",
    ]
    if put:  # one PUT per object and no checksum of the body, as ours
        what = [
            "put",
            f"--obj.size={job['size']}",
            f"--prefix={job['prefix']}",
            "--disable-multipart",
            "--disable-sha256-payload",
        ]
    else:
        what = [
            "get",
            "--list-existing",
            f"--objects={len(job['keys'])}",
            f"--prefix={job['keys'][0].rpartition('/')[0]}/",
        ]
    done = subprocess.run([shutil.which("warp") or "warp", *what, *options], capture_output=True, text=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    file = Path(
        f"{job['scratch']}/warp.csv.zst"
    )  # its own mean leaves out runs of few operations: counted here, as for the others
    if not file.exists():
        raise SystemExit(f"warp wrote no operations: {(done.stdout + done.stderr)[-300:]}")
    with pyarrow.CompressedInputStream(file, "zstd") as stream:
        rows = list(csv.DictReader((r for r in io.TextIOWrapper(stream) if not r.startswith("#")), delimiter="\t"))
    whole = [r for r in rows if r["op"] == ("PUT" if put else "GET") and not r["error"]]
    begun = min(datetime.fromisoformat(r["start"]) for r in whole)
    operations = sum((datetime.fromisoformat(r["end"]) - begun).total_seconds() <= job["seconds"] for r in whole)
    return operations, job["seconds"], used.ru_utime + used.ru_stime


PEERS = {"boto3": boto3, "obstore": obstore, "s3fs": s3fs, "s5cmd": s5cmd, "warp": warp}


def main() -> None:
    name, what, path = sys.argv[1:]
    operations, seconds, cpu_s = PEERS[name](json.loads(Path(path).read_text()), what == "put")
    print(json.dumps({"operations": operations, "seconds": seconds, "cpu_s": cpu_s}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
