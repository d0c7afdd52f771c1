"""Testbed (a): several slurmd on loopback, as one ordinary user (level 3, measuring side)."""

from collections.abc import Callable
from pathlib import Path

from storelab.gang.testbed.slurm import Cluster, Node

HEAD = "127.0.0.1"


def up(folder: Path, nodes: int, port: int, report: Callable[[str], None]) -> Cluster:
    """`nodes` nodes node1, node2 … of 16 processors each (over-declared: they are shared). Ports: the controller's, then one for each node."""
    cluster = Cluster(folder)
    cluster.up(HEAD, port, [Node(f"node{i + 1}", HEAD, port + 1 + i) for i in range(nodes)], 16, report)
    return cluster
