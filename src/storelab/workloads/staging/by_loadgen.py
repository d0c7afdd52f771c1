"""Uploading many small objects by storelab's own load generator: each named object once, some thousand a second.

May import: what `workloads` may, but not `upload`, which calls it.
"""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from storelab import install
from storelab.core import records
from storelab.core.errors import MeasurementFailed
from storelab.engines import loadgen
from storelab.host import patience, processes
from storelab.host.patience import Patience
from storelab.install import golang
from storelab.stores.base import Store
from storelab.stores.protocols import environment
from storelab.stores.protocols.endpoint import Bucket

BLOCK = 50_000  # objects that a process is told of
WORKERS = 32
ROUNDS = 3  # in which what failed is tried again
LONGEST_S = 4 * 3600  # of a process, as the program bounds it
SLOWEST = 10**7  # bytes/s: with fewer, objects in flight may take longer than the bound without progress


class Item(NamedTuple):
    """One object to upload: key below the bucket's prefix, number of its body, bytes of it."""

    bucket: Bucket
    key: str
    body: int
    size: int


def able(store: Store) -> bool:
    """Return whether the program is built and reaches the store: by its protocol, and without a proxy."""
    return (
        store.protocol == "s3"
        and golang.present(golang.LOADGEN, install.tools_folder())
        and not environment.proxy(store.endpoints(1)[0])
    )


def put(store: Store, name: str, items: Sequence[Item], bodies: list[Path], step: Callable[[int], Any]) -> None:
    """Upload the items, each by the account that owns its bucket. bodies: files of one length, no shorter than what is
    cut from them; step: is told how many more are done. Raises MeasurementFailed."""
    for account in sorted({item.bucket.account for item in items}):
        mine = [item for item in items if item.bucket.account == account]
        for begin in range(0, len(mine), BLOCK):
            left, said = mine[begin : begin + BLOCK], ""
            for _ in range(ROUNDS):
                left, said = _round(store, name, account, left, bodies, step)
                if not left:
                    break
            else:
                raise MeasurementFailed(
                    f"staging {name} into {store.name}: {len(left)} of {len(items)} objects failed, also when tried "
                    f"{ROUNDS} times: {said}"
                )


def _round(
    store: Store, name: str, account: int, items: list[Item], bodies: list[Path], step: Callable[[int], Any]
) -> tuple[list[Item], str]:
    """What of the items failed, and the first reason."""
    keys = store.credentials(account)
    assert keys is not None
    places = sorted({item.bucket for item in items}, key=lambda b: (b.name, b.prefix))
    number = {place: i for i, place in enumerate(places)}
    now = time.time_ns()
    with tempfile.TemporaryDirectory(prefix="storelab-staging-", dir=bodies[0].parent) as folder:
        ops = Path(folder) / "ops.parquet"
        job = {
            "schema": loadgen.SCHEMA,
            "endpoints": loadgen.described(store.endpoints(1)[:1]),
            "buckets": [place.name for place in places],
            "operations": [{"op": "PUT"}],
            "objects": {
                "key": [item.bucket.prefix + item.key for item in items],
                "bucket": [number[item.bucket] for item in items],
                "body": [item.body for item in items],
                "size": [item.size for item in items],
            },
            "object_size": bodies[0].stat().st_size,
            "bodies": [str(path) for path in bodies],
            "workers": min(WORKERS, len(items)),
            "records": str(ops),
            "start_ns": now,
            "deadline_ns": now + LONGEST_S * 10**9,
            "timeout_s": loadgen.TIMEOUT_S,
        }
        seconds = patience.STALLED_S + job["workers"] * max(item.size for item in items) / SLOWEST
        summary = _run(job, keys.environ(), step, f"staging {name} into {store.name}", seconds)
        if not summary["errors"]:
            return [], ""
        table = records.read_table(ops, ["object", "error"])
        failed = set(table.filter(table["error"].is_valid())["object"].to_pylist())
    said = next(iter(summary["messages"].values()), "nobody says why")
    return [item for item in items if item.bucket.prefix + item.key in failed], said


def _run(
    job: dict[str, Any],
    keys: dict[str, str],
    step: Callable[[int], Any],
    what: str = "staging",
    seconds: float = patience.STALLED_S,
) -> dict[str, Any]:
    """One run of the program, followed to its end; its summary.

    Raises MeasurementFailed, also where no object is stored for `seconds`: errors are no progress.
    """
    run = subprocess.Popen(
        [loadgen.binary()],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment.explicit(os.environ) | keys,
        preexec_fn=processes.die_with_parent(),
    )
    assert run.stdin and run.stderr
    done, other, summary = 0, [], None
    waiting = Patience(what, lambda: f"{done} of {len(job['objects']['key'])} objects are done", None, seconds)
    try:
        run.stdin.write(json.dumps(job).encode() + b"\n")
        run.stdin.close()
        for line in patience.lines(run.stderr, waiting):
            try:
                ((kind, told),) = json.loads(line).items()
            except (ValueError, AttributeError):
                other.append(line.decode(errors="replace").strip())
                continue
            if kind in ("progress", "summary") and (more := told["operations"] - done):
                step(more)
                done += more
                waiting.moved()
            summary = told if kind == "summary" else summary
        status = run.wait(10)
    except BrokenPipeError:
        status = run.wait(10)
    finally:
        processes.stop(run, 2.0)
    if summary is None or status:
        raise MeasurementFailed(f"staging: loadgen failed (status {status}): {processes.why_ended(other, 3)}")
    return summary
