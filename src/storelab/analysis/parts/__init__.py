"""Functions shared by tables, figures and LaTeX: labels, groups of points, checksums.

May import: `statistics`, `core`.
"""
