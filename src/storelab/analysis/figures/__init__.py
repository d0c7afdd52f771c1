"""Tidy table in, figure out. May import: `tables`, `parts`, `statistics`, `core`."""
