"""Medians with intervals, ratios of groups. Pure. May import: `core`."""
