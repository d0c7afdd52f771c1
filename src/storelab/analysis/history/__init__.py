"""A campaign that was measured again and again: its entries on disk, medians over time, what changed, and with what.

Above all folders of the analysis. May import: `compare`, `figures`, `tables`, `records`, `parts`, `statistics`,
`pages`, `core`.
"""
