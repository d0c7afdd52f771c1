"""Faults in the middle of a point: which acts a point has and whether they can be done, the runner that does them.

May import: `stores`, `host`, `core`.
"""
