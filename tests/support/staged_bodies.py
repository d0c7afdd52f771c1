"""Stage a data set of small objects in a store in memory, and make jobs of clients that use it."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from honest_s3 import Object, md5, quoted

from storelab.core.model import Point
from storelab.datasets import payload
from storelab.engines.contract import Job
from storelab.stores.protocols.endpoint import Bucket, Endpoint


def staged(store: SimpleNamespace, url: str, folder: Path, size: int, count: int, **more: Any) -> Job:
    """Put `count` objects of `size` bytes into the bucket `b`, and return the job of a client that uses them.

    more: fields of the job, or axes of its point.
    """
    files = payload.body_files(folder, 7, size)
    dataset = {"name": "d", "seed": 7, "objects": count, "buckets": 1}
    objects = payload.objects(dataset)
    for key, body in zip(objects["key"], objects["body"], strict=True):
        data = files[body].read_bytes()
        store.buckets["b"].objects[f"p/{key}"] = Object(data, {}, quoted(md5(data).hex()))
    manifest = folder / "manifest.json"
    manifest.write_text(json.dumps({"dataset": dataset, "bodies": payload.body_sums(files), "objects": objects}))
    fields = {name: more.pop(name) for name in set(more) & {"limits", "extra", "progress_file"}}
    axes = {"object_size": size, "clients": 1, "workers": 2} | more
    point = Point("s", "get", axes, 1, "k", "s", 5, 0, {"data_seed": 7, "duration_ns": 10**10})
    return Job(point, 0, Endpoint(url), [Bucket("b", "p/")], folder / "client", manifest, "a1b2", **fields)
