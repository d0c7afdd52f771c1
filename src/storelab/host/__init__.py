"""Access the local host: kernel state, monitor, scratch folders, processes, page cache, and environment.

This package imports only `core`.
"""
