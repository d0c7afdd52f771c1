"""A campaign's files, rows and windows; the numbers that earlier evaluations printed. May import: `core`."""
