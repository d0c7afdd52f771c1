"""Durability: is every acknowledged write still there? Ledgers of an attempt, read back and judged (room `measure`).

May import: `engines`, `stores`, `host`, `datasets`, `core`.
"""
