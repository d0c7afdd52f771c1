"""Data sets that are staged into a store before they are read: payload objects, ROOT files, the user's own files.

May import: `readplan`, `core`.
"""
