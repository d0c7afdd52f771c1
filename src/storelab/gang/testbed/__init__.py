"""A real Slurm cluster or HTCondor pool on one machine, for tests and teaching.

May import: `install`, `host`, `core`.
"""
