"""Testbed (a): several slurmd on loopback, as one ordinary user."""

from collections.abc import Callable
from pathlib import Path

from storelab.gang.testbed.slurm import Cluster, Node

HEAD = "127.0.0.1"


def up(folder: Path, nodes: int, port: int, report: Callable[[str], None]) -> Cluster:
    """Start nodes node1, node2 …; each declares 16 processors, which they share.

    Ports: the controller's, then one for each node.
    """
    cluster = Cluster(folder)
    cluster.up(HEAD, port, [Node(f"node{i + 1}", HEAD, port + 1 + i) for i in range(nodes)], 16, report)
    return cluster
