"""What the notebooks show: each view is a function of an opened campaign, and of what was chosen, that gives lines of
Markdown, tables, pictures and interactive charts. Nothing is measured or written here, but for tables that are missing
or older than the records.

May import: `report`, `figures`, `compare`, `tables`, `parts`, `records`, `statistics`, `core`.
"""
