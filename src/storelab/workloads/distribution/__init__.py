"""Workloads for the distribution of software.

A release is published day by day (`publish`) and copied to a second store (`replicate`). Objects that only older days
need are deleted (`collect_garbage`). Applications are started from the release (`launch`).
"""
