"""Tidy table in, figure out.

`catalogue` lists the figures, `specification` declares what one is, `panels` arranges its rows, `draw` and `plots` draw
it, and `write` writes the files. The other modules define figures, a module for each subject.

May import: `tables`, `parts`, `records`, `statistics`, `core`.
"""

KINDS = ("pdf", "png")  # files of a figure, next to what it is (`<name>.json`); a paper needs the first
