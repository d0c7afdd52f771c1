"""This machine: the kernel's view of it, the monitor, scratch folders, processes, the page cache, the environment.

May import: `core`.
"""
