"""The gang: starts the clients of a point together. Coordinator, rendezvous, agents on nodes, launchers, clocks; `testbed/`.

May import: `workloads`, `engines`, `stores`, `install`, `host`, `core`.
"""
