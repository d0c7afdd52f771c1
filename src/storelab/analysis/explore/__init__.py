"""Views of a campaign for the notebooks.

Each view is a function of an opened campaign and of the user's choices. It yields lines of Markdown, tables, pictures
and interactive charts. A view does not measure anything. It does not write files, except tables that are missing or
older than the records.

May import: `report`, `figures`, `compare`, `tables`, `parts`, `records`, `statistics`, `core`.
"""
