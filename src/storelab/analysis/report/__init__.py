"""Write the page of a campaign: `report.html`, one file that loads nothing else.

`build` writes it. `page.html`, `report.css` and the JavaScript files are the page; the modules make its data. May
import: `figures`, `tables`, `parts`, `records`, `statistics`, `core`.
"""
