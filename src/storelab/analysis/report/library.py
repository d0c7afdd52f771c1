"""Vega and Vega-Lite, which draw the figures of the page: copies of their releases, with the licences of all that is
bundled with them, below `vega/`.
"""

import gzip
from functools import cache
from pathlib import Path

from storelab.analysis.report import page

FOLDER = Path(__file__).with_name("vega")


@cache
def packed() -> dict[str, str]:
    """Name of a block -> packed text: `library` has both scripts, `licences` those of all that is in them."""
    scripts = (gzip.decompress((FOLDER / f"{name}.js.gz").read_bytes()).decode() for name in ("vega", "vega-lite"))
    return {"library": page.pack("\n;\n".join(scripts)), "licences": page.pack((FOLDER / "LICENCES.txt").read_text())}
