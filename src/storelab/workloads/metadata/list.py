"""`list`: clients list a whole folder of known keys (ListObjectsV2), page after page, until the deadline.

One operation is one whole listing of the folder, with all its pages, as warp's `list` has it; the rate is in keys
listed per second. The folder is listed with all that is below it, so `prefix_depth` changes the tree and not the number
of keys. Each answer is held against what was staged: a key that is missing, foreign, doubled, out of order or of
another size is an error by name, as are a page that is longer than was asked for, and a listing that never ends. A
listing that fails counts with all its keys.
"""

from dataclasses import replace

from storelab.core import axes
from storelab.core.errors import UserError
from storelab.core.model import Point
from storelab.datasets import payload
from storelab.workloads.base import Workload

MOST_PAGE = 1000  # keys of one page (Amazon S3 API reference)


class List(Workload):
    def possible(self, point: Point) -> None:
        """Raises UserError for more keys, longer pages or deeper folders than there can be."""
        place, values = f"sweeps.{point.sweep}.axes", point.axes
        if values["keys"] > payload.MOST_KEYS:
            raise UserError(f"{place}.keys", f"{values['keys']} keys are too many", f"at most {payload.MOST_KEYS}")
        if values["page_size"] > MOST_PAGE:
            problem = f"a page has no {values['page_size']} keys"
            raise UserError(f"{place}.page_size", problem, f"at most {MOST_PAGE}")
        if values["prefix_depth"] >= (most := payload.key_digits(values["keys"])):
            problem = f"{values['keys']} keys do not fill folders {values['prefix_depth']} levels deep"
            raise UserError(f"{place}.prefix_depth", problem, f"at most {most - 1}, or more `keys`")


LIST = List(
    "list",
    (
        axes.engine("list", "loadgen", "What lists."),
        axes.KEYS,
        axes.PREFIX_DEPTH,
        replace(axes.OBJECT_SIZE, default=100),
        *axes.PLACES,
        axes.ARRIVAL_RATE,
        axes.BALANCE,
        *axes.DEPLOYMENT,
        axes.CLIENTS_PER_NODE,
    ),
    "Listing of a whole folder of staged keys, all pages; every key is checked. The rate is in keys/s.",
    dataset="keys",
)
