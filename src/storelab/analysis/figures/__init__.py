"""Tidy table in, figure out. May import: `tables`, `parts`, `statistics`, `core`."""

KINDS = ("pdf", "png")  # the files of a figure, beside what it is (`<name>.json`); a paper needs the first
