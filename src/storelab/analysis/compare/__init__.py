"""Two sides, point by point. May import: `tables`, `records`, `parts`, `statistics`, `core`."""
