"""Distribution of software.

A release is published day by day (`publish`) and copied to a second store (`replicate`). Objects that only its older
days need are deleted (`collect_garbage`). Applications are started from it (`launch`).

May import: what `workloads` may.
"""
