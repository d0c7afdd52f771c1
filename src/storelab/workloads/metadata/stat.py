"""`stat`: clients ask for the metadata of staged objects (HEAD) until the deadline.

What other programs call STAT (warp) or HEAD (COSBench): the way to an object without its bytes. A status that is not
200 and a Content-Length that is not the object's size are errors.
"""

from storelab.core import axes
from storelab.workloads.base import Workload

STAT = Workload(
    "stat",
    (
        axes.engine("stat", "obstore", "What asks."),
        axes.OBJECT_SIZE,
        *axes.PLACES,
        axes.ARRIVAL_RATE,
        axes.BALANCE,
        *axes.DEPLOYMENT,
        axes.CLIENTS_PER_NODE,
    ),
    "HEAD of staged objects, each client in an order of its own. A wrong status or size is an error.",
    dataset="payload",
)
