"""Staging: data sets as objects in a store with a manifest; buckets; removal of uploaded objects.

May import: `engines`, `stores`, `host`, `datasets`, `core`.
"""
