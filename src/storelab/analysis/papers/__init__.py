"""One paper from several campaigns, and where each of its figures, tables and numbers comes from.

May import: all other folders of the analysis, `core`. Nothing here measures, makes tables or draws: `write` reads what
the rules of each campaign left in `tables/`, `figures/` and `tex/`, and writes `results/papers/<names>/`.
"""
