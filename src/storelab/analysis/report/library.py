"""Vega and Vega-Lite, which draw the figures of the page: the copies that Snakemake's wheel brings for its own report.

So the page needs no package and no network beyond those of the analysis. Nothing of Snakemake is imported.
"""

import importlib.util
from functools import cache
from pathlib import Path

from storelab.analysis.report import page
from storelab.core.errors import UserError

SCRIPTS = ("vega/vega.js", "vega-lite/vega-lite.js")


def folder() -> Path:
    """Where Snakemake keeps them. Raises UserError without Snakemake, or with one that has none."""
    found = importlib.util.find_spec("snakemake")
    places = list(found.submodule_search_locations or ()) if found else []
    for place in places:
        data = Path(place) / "assets" / "data"
        if all((data / script).is_file() for script in SCRIPTS):
            return data
    raise UserError(
        "report", "Vega is not there, which draws the figures of the page", "install Snakemake 9 (`make setup`)"
    )


@cache
def packed() -> dict[str, str]:
    """Name of a block -> packed text: `library` has both scripts, `licences` those of all that is in them."""
    data = folder()
    scripts = "\n;\n".join((data / script).read_text() for script in SCRIPTS)
    return {"library": page.pack(scripts), "licences": page.pack(_licences(data))}


def _licences(data: Path) -> str:
    """The licences of Vega and of what is bundled with it; not of what only Snakemake's own report shows."""
    others = {"snakemake", "react", "tailwindcss", "heroicons", "pygments", "prop-types", "vega-embed"}
    others |= {"vega-themes", "vega-tooltip"}
    texts = [
        f"{path.parent.name}\n\n{path.read_text(errors='replace').strip()}"
        for path in sorted(data.glob("*/LICENSE*"))
        if path.parent.name not in others
    ]
    return "\n\n\n".join(texts) + "\n"
