"""Distribution of software: a release is published day by day (`publish`), copied to a second store (`replicate`), and
what only its older days need is deleted (`collect_garbage`).

May import: what `workloads` may.
"""
