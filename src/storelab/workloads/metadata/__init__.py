"""Workloads that move no objects, but what a store knows of them: `stat`, `list`.

May import: what `workloads` may.
"""
