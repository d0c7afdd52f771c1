"""The questions to an S3 store, and the requests that ask them.

May import: what `workloads` may.
"""
