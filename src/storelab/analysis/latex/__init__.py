"""Tables in, LaTeX and the paper out. May import: `figures`, `tables`, `parts`, `statistics`, `compare`, `core`."""
