"""The gang: it starts the clients of a point together. Coordinator, rendezvous, node agents, launchers, clocks.

May import: `workloads`, `engines`, `stores`, `install`, `host`, `core`.
"""
