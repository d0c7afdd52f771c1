"""A real Slurm cluster or HTCondor pool on one machine, for tests and teaching.

This package may import `install`, `host` and `core`.
"""
