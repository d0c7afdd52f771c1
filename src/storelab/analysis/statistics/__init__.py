"""Statistics of runs: medians with intervals, ratios of groups, rules, shapes of curves, trends.

May import: `core`.
"""
