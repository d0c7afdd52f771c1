"""Write the figures: tables in, `figures/*.pdf`, `*.png` and `index.json` out (level 3, analysis). Same tables, same bytes."""

import io
from pathlib import Path

from matplotlib.figure import Figure

from storelab.analysis.figures import catalogue
from storelab.analysis.tables import build as tables
from storelab.core import records

DPI = 200


def render(fig: Figure, kind: str) -> bytes:
    """The figure as `pdf` or `png`, without times, so that equal tables give equal files."""
    sink = io.BytesIO()
    metadata = {"CreationDate": None, "Creator": "storelab", "Producer": None} if kind == "pdf" else {"Software": None}
    with catalogue.style():
        fig.savefig(sink, format=kind, dpi=DPI, metadata=metadata)
    return sink.getvalue()


def build(campaign_dir: Path) -> list[Path]:
    """Draw every figure that has data, drop old ones that have none any more; the index last. Raises UserError without tables."""
    folder, entries, paths = campaign_dir / "figures", {}, []
    for name, spec in catalogue.FIGURES.items():
        table = tables.read(campaign_dir, spec.table)
        fig = spec.function(table)
        for kind in ("pdf", "png"):
            path = folder / f"{name}.{kind}"
            if fig is None:
                path.unlink(missing_ok=True)
                continue
            records.write_atomic(path, render(fig, kind))
            paths.append(path)
        if fig is not None:
            entries[name] = {
                "pdf": f"{name}.pdf",
                "png": f"{name}.png",
                "table": f"{spec.table}.csv",
                "caption": catalogue.caption(name, table),
            }
    records.write_json(folder / "index.json", {"schema": 1, "figures": entries})
    return [*paths, folder / "index.json"]
