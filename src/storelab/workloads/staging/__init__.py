"""Staging: a data set becomes objects in a store and a manifest; buckets; what uploads leave behind.

May import: `engines`, `stores`, `host`, `datasets`, `core`.
"""
