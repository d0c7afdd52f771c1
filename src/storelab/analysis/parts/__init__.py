"""What tables, figures and LaTeX share: words, speeds. May import: `statistics`, `core`."""
