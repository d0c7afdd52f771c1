"""A campaign as one file that others can check and rebuild.

`members.py` determines what is in it and describes it (RO-Crate); `archive.py` writes the file, takes it apart, and
makes the tables and figures again.

May import: `figures`, `tables`, `records`, `core`.
"""
