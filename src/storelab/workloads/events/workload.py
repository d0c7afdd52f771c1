"""`events`: the jobs of a node, each on its own file, process events until they are stopped together.

Experiment 16, the storage laboratory of the HEPiX Storage Working Group (progress notes, September 2010): events processed are counted, and the
MB/s into the nodes. There a job had many files; here it goes through its one again and again, each time with empty caches. Its CMS use case is a scan, almost serial; its ATLAS use case navigates at random.
"""

from storelab.core import axes
from storelab.core.model import Axis, Workload
from storelab.engines.contract import Client, Job
from storelab.workloads import read_axes

AHEAD = ("readahead", "bytes", "blockcache")  # caches of fsspec that read on by `read_ahead`
SPEC = Workload(
    "events",
    (
        Axis(
            "engine",
            "text",
            "fsspec",
            "Engine",
            "How a job reads: `fsspec`, basket by basket through a file object with a `cache` (all protocols); `planned`: each step's baskets at once, "
            "by the read planner.",
            choices=("fsspec", "planned"),
        ),
        read_axes.SCALE,
        Axis(
            "navigation",
            "text",
            "scan",
            "Navigation",
            "Where the next step begins: `scan`, behind the last; `random`, anywhere in the file.",
            choices=("scan", "random"),
        ),
        Axis("step", "int", 50, "Step", "Consecutive events of one step; of a random navigation, the events at each place."),
        read_axes.VOLUME,
        axes.CLIENTS,
        Axis("files", "int", 1, "Files", "Copies of the file in one bucket; job i has copy i for itself, so at least as many as clients."),
        Axis(
            "cache",
            "text",
            "none",
            "Cache",
            "The file object's cache, by its name in fsspec: `readahead` and `bytes` read on from where they are asked, `blockcache` keeps 32 blocks, "
            "`all` the whole file.",
            choices=("none", *AHEAD, "all"),
        ),
        Axis(
            "read_ahead", "size", 0, "Read-ahead", "Bytes that the cache reads on, or its blocks have; 0 where it does neither.", minimum=0
        ),
        axes.FRONT_ENDS,
        *axes.DEPLOYMENT,
        read_axes.CODEC,
        read_axes.THRIFT,
        read_axes.AMPLIFICATION,
        axes.CLIENTS_PER_NODE,
    ),
    "Jobs on files of their own, stopped together: events processed, and bytes moved for each; scan or random navigation.",
    dataset="root",
)


def client(job: Job) -> Client:
    """The reader of one job; uproot and fsspec are imported only here."""
    from storelab.workloads.events import client as events

    return events.client(job)
