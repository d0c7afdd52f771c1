"""`replay`: the ranges of a selection, read again without ROOT.

May import: what `workloads` may.
"""
