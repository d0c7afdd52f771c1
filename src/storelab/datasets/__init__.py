"""Data sets: what is staged into a store before it is read. Payload objects, ROOT files, the user's own files.

May import: `readplan`, `core`.
"""
