"""A nightly software release in a repository as CvmFS keeps it (docs/releases.md): `build.py` makes days of it.

`nightly.py` (generated) or `tree.py` (real files) say what is new on a day, `objects.py` compresses and hashes it,
`catalogs.py` writes who refers to what, `walk.py` reads it again; `state.py` and `known.py` keep what is there.
May import: numpy and zlib-ng in functions, `core`.
"""
