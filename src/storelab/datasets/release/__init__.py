"""A nightly software release in a repository as CvmFS keeps it (docs/releases.md): `build.py` makes days of it.

`nightly.py` (generated) or `tree.py` (real files) say what is new on a day, `objects.py` compresses and hashes it,
`catalogs.py` writes who refers to what, and reads it again; `state.py` keeps what is there; `trees.py` has days as
plain files. May import: numpy and zlib-ng in functions, `core`.
"""
