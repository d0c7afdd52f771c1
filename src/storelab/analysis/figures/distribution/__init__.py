"""Figures of the distribution of software. May import: what `figures` may."""
