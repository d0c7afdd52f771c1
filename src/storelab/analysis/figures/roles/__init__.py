"""Figures of points that do several things at once, and of what lasts long. May import: what `figures` may."""
