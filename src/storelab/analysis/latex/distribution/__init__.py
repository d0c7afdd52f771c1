"""LaTeX of the distribution of software. May import: what `latex` may."""
