"""The gang of a point: all its clients, which start at the same time on one or more nodes.

This package contains the coordinator, the rendezvous, the agents of nodes, the launchers and the comparison of clocks.
It may import `workloads`, `engines`, `stores`, `install`, `host` and `core`.
"""
