"""Whole objects and ranges of them: `put`, `get`, `get_range`, `delete`, `rewrite`.

May import: what `workloads` may.
"""
