"""Statistics of runs: medians with intervals, ratios of groups, rules, shapes of curves, trends. Pure.

May import: `core`.
"""
