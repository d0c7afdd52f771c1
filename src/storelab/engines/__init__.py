"""Engines: what moves the bytes. `contract` (Job, Client, Result), a folder for each engine, `common` for what several share.

May import: `stores`, `install`, `host`, `datasets`, `readplan`, `core`.
"""
