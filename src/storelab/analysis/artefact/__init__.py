"""A campaign as one file that others can check and rebuild: `members.py` says what is in it, `crate.py` what that is
(RO-Crate), `archive.py` is the file, `unpack.py` takes it apart and makes the tables and figures anew.

May import: `figures`, `tables`, `records`, `core`.
"""
