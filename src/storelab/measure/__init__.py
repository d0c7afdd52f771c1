"""Decides, accepts and records a point: the point itself, checks before it, the doctor, differences of plans.

May import: every room of the measuring side and `core`; never `analysis` or `cli`.
"""
