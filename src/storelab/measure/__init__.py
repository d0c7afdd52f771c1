"""Measurement of points: decide, check, run, accept and record; also the doctor and differences between plans.

May import: every subpackage of the measuring side and `core`; never `analysis` or `cli`.
"""
