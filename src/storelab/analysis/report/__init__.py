"""The page of a campaign, `report.html`: a single file that loads nothing from the network.

`build` writes the page. `page.html`, `report.css` and the JavaScript files are its template; the other modules make its
data. May import: `figures`, `tables`, `parts`, `records`, `statistics`, `core`.
"""
