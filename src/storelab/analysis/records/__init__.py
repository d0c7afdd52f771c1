"""The files, rows and windows of a campaign; the published numbers of earlier evaluations. May import: `core`."""
