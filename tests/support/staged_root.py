"""Stage the ROOT file of size S in a bucket, and make jobs that read it, for tests of all selection readers."""

import atexit
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from storelab.core import clock
from storelab.core.model import Point
from storelab.datasets.root import baskets, generated
from storelab.engines.common.selections import Late
from storelab.engines.contract import Job, Result
from storelab.stores.protocols.endpoint import Bucket, Endpoint
from storelab.workloads import WORKLOADS

PREFIX, SIDE_CAR = "part/", "root-S.baskets.parquet"


@cache
def _generated() -> tuple[Path, dict[str, Any]]:
    """Make the S file and its side-car file once in a process. Return their folder and the description of the file."""
    folder = Path(tempfile.mkdtemp(prefix="storelab-tests-root-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder, generated.generate_with_side_car(folder / "s.root", folder / SIDE_CAR, "S", 1)


def s_file(folder: Path) -> dict[str, Any]:
    """Copy the S file (`s.root`) and its side-car file to `folder`. Return the description of the file."""
    made, facts = _generated()
    for name in ("s.root", SIDE_CAR):
        shutil.copyfile(made / name, folder / name)
    return dict(facts)


@contextmanager
def staged_root(store: Any, bucket: str, folder: Path) -> Iterator[tuple[Endpoint, Path, dict[str, Any]]]:
    """Upload the S file (`good`) and a copy with a changed byte (`bad`). Return endpoint, folder and description."""
    facts = s_file(folder)
    access = store.access()
    access.make_bucket(bucket)
    data = bytearray((folder / "s.root").read_bytes())
    access.write(bucket, PREFIX + "good", bytes(data))
    row = baskets.read(folder / SIDE_CAR).slice(777, 1).to_pylist()[0]
    data[row["offset"] + row["size"] - 3] ^= 1
    access.write(bucket, PREFIX + "bad", bytes(data))
    yield store.endpoints(1)[0], folder, facts
    access.delete(bucket, [PREFIX + key for key in ("good", "bad")])
    access.drop_bucket(bucket)


def job_for(
    bucket: str,
    folder: Path,
    facts: dict[str, Any],
    url: str,
    workload: str,
    axes: dict[str, Any],
    key: str = "good",
    **more: Any,
) -> Job:
    """Return a job of 2 s that reads one of the objects. more: fields of `Job`, and `protocol`.

    The defaults are client 0 and S3.
    """
    manifest = folder / f"{key}.json"
    objects = {"key": [key], "bucket": [0], "body": [0]}
    manifest.write_text(json.dumps({"buckets": [[bucket, PREFIX]], "objects": objects, "root": facts}))
    point = Point("s", workload, axes, 1, "key", "sweep", 11, 1, {"duration_ns": 2_000_000_000})
    return Job(
        point,
        more.pop("client", 0),
        Endpoint(url, protocol=more.pop("protocol", "s3")),
        [Bucket(bucket, PREFIX)],
        folder / "scratch",
        manifest,
        **more,
    )


@contextmanager
def prepared(bucket: str, folder: Path, facts: dict[str, Any]) -> Iterator[Any]:
    """Return a function that prepares a client. It has the arguments url, workload, axes, key, and those of `job_for`.

    All clients are closed at the end.
    """
    made: list[Any] = []

    def one(url: str, workload: str, axes: dict[str, Any], key: str = "good", **more: Any) -> Any:
        every = {a.name: a.default for a in WORKLOADS[workload].axes} | axes
        made.append(WORKLOADS[workload].client(job_for(bucket, folder, facts, url, workload, every, key, **more)))
        made[-1].prepare()
        return made[-1]

    yield one
    for client in made:
        client.close()


def run(client: Any, seconds: float = 2.0) -> tuple[Result, float]:
    """Run a prepared client until a deadline. Return the result, and the delay of its end after the deadline in s."""
    start = clock.now_ns()
    client.run(start, start + int(seconds * 1e9))
    return client.result(), (clock.now_ns() - start) / 1e9 - seconds


def read(client: Any, count: int) -> Result:
    """Return the result of a prepared client after `count` successful or failed reads.

    The number of reads does not depend on the speed of the machine.
    """
    one = client._read

    def counted(number: int) -> Any:
        if number == count:
            raise Late
        return one(number)

    client._read = counted
    return run(client, 60.0)[0]


def failed(result: Result) -> set[str]:
    """Return the names of the failed checks."""
    return {c.name for c in result.checks if not c.ok}
