"""Packs: a campaign as one file that others can check and rebuild.

`members` lists the files of a pack and describes them (RO-Crate). `archive` writes and unpacks the file, and makes the
tables and figures again.

May import: `figures`, `tables`, `records`, `core`.
"""
