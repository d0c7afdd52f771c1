"""<selection>_<link>_vs_davix and more: davix's vector read beside the read planner, on the same file, ranges and link.

The L file of `sparse.py` on SeaweedFS, which answers no request for several ranges, behind a proxy that adds a round
trip to each request (0 and 20 ms). Both fetch the same ranges in processes of their own, one after the other in random
order; the bytes of both must have one checksum. davix gets all ranges in one call.

*_vs_davix: davix's time over the planner's (its plan is in it, its calibration is not); *_requests, *_wire: requests
and wire bytes of davix over the planner's.
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
                            told = sparse.measure_cell(lab, url, selection, WAYS, rng)
                            say(f"davix: {rep + 1} of {n}: {selection} {delay} ms: {told}")
                            for figure, name in MEASURED:
                                ratio = told["davix"][name] / told["planned"][name]
                                values.setdefault(f"{selection}_{delay}ms_{figure}", []).append(ratio)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report("davix", n, values, args, servers=["seaweedfs"])


if __name__ == "__main__":
    run(main)
