"""History of a campaign that was measured repeatedly: its entries on disk, medians over time, and changes.

No other folder of the analysis imports this one. May import: `compare`, `figures`, `tables`, `records`, `parts`,
`statistics`, `pages`, `core`.
"""
