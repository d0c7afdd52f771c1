"""One module per CSV file, `build` makes them all. May import: `records`, `statistics`, `parts`, `core`."""
