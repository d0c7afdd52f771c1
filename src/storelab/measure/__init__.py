"""Measurement of points: decide, check, run, accept and record; also the doctor and differences between plans.

This package may import every subpackage of the measuring side and `core`, but never `analysis` or `cli`.
"""
