"""Staging: data sets as objects in a store with a manifest, buckets, and removal of uploaded objects.

This package imports only `engines`, `stores`, `host`, `datasets` and `core`.
"""
