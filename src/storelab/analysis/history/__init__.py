"""Follow a campaign that was measured repeatedly: its entries on disk, medians over time, and changes.

It is above all other folders of the analysis. May import: `compare`, `figures`, `tables`, `records`, `parts`,
`statistics`, `pages`, `core`.
"""
