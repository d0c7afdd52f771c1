"""The local host: state reported by the kernel, the monitor, scratch folders, processes, page cache, environment.

May import: `core`.
"""
