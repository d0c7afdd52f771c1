"""The page of a campaign: `report.html`, one file that asks for nothing else. `build` writes it.

`page.html`, `report.css` and the JavaScript beside them are the page; the modules make its data. May import: `figures`,
`tables`, `parts`, `records`, `statistics`, `core`.
"""
