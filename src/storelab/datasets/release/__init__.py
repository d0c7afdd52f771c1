"""Nightly software releases in a CvmFS repository (docs/releases.md). `build.py` makes the objects of each day.

`nightly.py` (generated) or `tree.py` (real files) determine what is new on a day. `objects.py` compresses and hashes
it. `catalogs.py` writes and reads the catalogs. `state.py` keeps the state between days. `trees.py` writes plain
files. May import: numpy and zlib-ng in functions, `core`.
"""
