"""Stores of files and folders that clients see as a mounted file system.

`directory.py`: one that is mounted already; `mounted.py`: what those share that storelab starts and mounts itself.
May import: what `stores` may.
"""
