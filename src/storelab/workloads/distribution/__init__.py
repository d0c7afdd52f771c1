"""Distribution of software: a release is published day by day (`publish`), and copied to a second store (`replicate`).

May import: what `workloads` may.
"""
