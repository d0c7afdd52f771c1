"""One client of `sparse.py` in physics mode: reads entries of all branches of the L file over S3.

It prints CPU time and memory as one JSON line. Ways: arrays: uproot on s3fs as shipped, one call of `arrays()` for each
entry; ours: a kept header, planned requests, decoded in place; whole: like ours, with all entries of all branches;
keep: open with uproot and keep the header.
"""

import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import sparse_reader
from sparse_reader import transport


def opened(job: dict[str, Any]) -> Any:
    import uproot

    return uproot.open(
        {f"s3://{job['bucket']}/{job['key']}": job["tree"]},
        key=os.environ["AWS_ACCESS_KEY_ID"],
        secret=os.environ["AWS_SECRET_ACCESS_KEY"],
        endpoint_url=job["url"],
        client_kwargs={"region_name": "us-east-1"},
    )


def known(job: dict[str, Any], store: Any) -> dict[str, Any]:
    """Return the values that identify the version of a file. Each opening requests them from the store."""
    import obstore

    facts = obstore.head(store, job["key"])
    return {"key": job["key"], "size": facts["size"], "etag": facts["e_tag"]}


def main() -> None:
    job = json.loads(sys.stdin.readline())
    way, entries = job["way"], np.array(job.get("entries", []), "i8")
    import uproot  # noqa: F401 - imported before the measurement, on both sides

    from readplan import measure
    from storelab.datasets.root.reader import Header, SelectionReader, Spent

    fetch = transport(job)
    fetch.fetch([0], [64])  # connections, certificates
    sparse_reader.Shipped(job)
    begun, cpu, done = time.perf_counter(), time.process_time(), 0
    out: dict[str, Any] = {}
    if way in ("arrays", "keep"):
        tree = opened(job)
        names = list(dict(tree.iteritems(recursive=True)))
        out |= {"open_s": time.perf_counter() - begun, "open_cpu_s": time.process_time() - cpu}
        if way == "keep":
            Header.of(tree, known(job, fetch.store)).save(Path(job["header"]))
        cpu = time.process_time()
        for entry in entries.tolist():
            arrays = tree.arrays(library="np", entry_start=entry, entry_stop=entry + 1)
            done += sum(len(a) for a in arrays.values())
        out |= {"read_cpu_s": time.process_time() - cpu, "branches": len(names)}
    else:
        head = Header.load(Path(job["header"]), known(job, fetch.store))
        out |= {"open_s": time.perf_counter() - begun, "open_cpu_s": time.process_time() - cpu}
        assert head is not None
        reader, spent = SelectionReader(head, fetch, measure(fetch, job["size"])), Spent()
        cpu, begun = time.process_time(), time.perf_counter()
        wanted = entries if way == "ours" else np.arange(head.entries)
        for _ in reader.read(head.layout.names, wanted, spent):
            pass
        done = spent.decoded
        out |= {"read_cpu_s": time.process_time() - cpu, "read_s": time.perf_counter() - begun, "spent": spent.__dict__}
    out |= {"decoded": done, "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6}
    print(json.dumps(out), flush=True)
    os._exit(0)  # obstore may abort at exit


if __name__ == "__main__":
    main()
