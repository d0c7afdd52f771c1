"""Compare davix's vector read with the read planner on the same file, ranges and link.

The L file of `sparse.py` is on SeaweedFS, which does not support requests for several ranges. A proxy adds a round trip
of 0 or 20 ms to each request. Both clients fetch the same ranges in separate processes, one after the other in random
order; the bytes of both must have the same checksum. davix gets all ranges in one call.

*_vs_davix: davix's time divided by the planner's (with its plan, without its calibration); *_requests, *_wire: requests
and wire bytes of davix divided by those of the planner.
"""

import os
import random
import shutil
import tempfile
from pathlib import Path

import sparse
from common import options, report, run, say, sized

from storelab.engines import davix_program

WAYS = {"davix": {"way": "davix"}, "planned": {"way": "planned"}}
MEASURED = (("vs_davix", "seconds"), ("requests", "requests"), ("wire", "wire_bytes"))


def main() -> None:
    args = options(__doc__)
    davix_program.binary()
    n = sized(args, 5, 2, 1)
    values: dict[str, list[float]] = {}
    rng = random.Random(sparse.SEED)
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="storelab-davix-", dir=shared))
    try:
        lab = sparse.Laboratory(folder, sized(args, "L", "L", "S"))
        with lab.store():
            for rep in range(n):
                for delay in sized(args, (0, 20), (0, 20), (20,)):
                    with lab.link(delay) as url:
                        for selection in ("volume1", "volume50_12", "all_12"):
                            measured = sparse.measure_cell(lab, url, selection, WAYS, rng)
                            say(f"davix: {rep + 1} of {n}: {selection} {delay} ms: {measured}")
                            for figure, name in MEASURED:
                                ratio = measured["davix"][name] / measured["planned"][name]
                                values.setdefault(f"{selection}_{delay}ms_{figure}", []).append(ratio)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report("davix", n, values, args, servers=["seaweedfs"])


if __name__ == "__main__":
    run(main)
