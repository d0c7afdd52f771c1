"""Data sets: what is staged into a store before it is read (level 2, measuring side).

A manifest lies in `raw/manifests/<store>/<data set>.json`:
{"schema": 1, "dataset": {name, kind, …}, "store": name, "buckets": [[bucket, prefix], …],
 "bodies": [{"size": bytes, "sha256": hex}, …],
 "objects": {"key": [...], "bucket": [index, …], "body": [index, …]},     # shape (n,) each
 "root": {…}}                                                             # ROOT files only
"""
