"""The real publishing tool of CernVM-FS, `cvmfs_swissknife`, as an engine of `publish`: without a mount, on trees.

`program.py` runs it, `keys.py` gives it keys, `repository.py` makes and publishes, `client.py` is the client.
May import: what `workloads` may.
"""
