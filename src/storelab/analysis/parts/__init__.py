"""Functions shared by tables, figures and LaTeX: words, speeds, checksums. May import: `statistics`, `core`."""
