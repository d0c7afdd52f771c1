"""Figures of a campaign, drawn from its tables.

`catalogue` lists the figures, `specification` defines the data types that describe a figure, `panels` arranges the
rows, `draw` and `plots` draw them, and `write` writes the files. The other modules define figures, one module for each
subject.

May import: `tables`, `parts`, `records`, `statistics`, `core`.
"""

KINDS = ("pdf", "png")  # files of a figure in addition to its description (`<name>.json`); a paper needs the first
