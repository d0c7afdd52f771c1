"""This machine: what the kernel says of it, the monitor, scratch folders, processes, page cache, environment.

May import: `core`.
"""
