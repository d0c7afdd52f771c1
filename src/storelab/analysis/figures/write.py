"""Write the figures: tables in, `figures/*.pdf`, `*.png` and `index.json` out (level 3, analysis). Same tables, same bytes."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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


def build(campaign_dir: Path, only: Sequence[str] | None = None) -> list[Path]:
    """Draw the figures `only` (default: all). Each leaves its `.json`; beside it PDF and PNG, unless the tables have no data for it.

    The index is written when all are asked for, or by `index`. Raises UserError without tables.
    """
    folder, paths = campaign_dir / "figures", []
    for name in catalogue.FIGURES if only is None else only:
        spec = catalogue.FIGURES[name]
        table = tables.read(campaign_dir, spec.table)
        fig = spec.function(table)
        for kind in ("pdf", "png"):
            path = folder / f"{name}.{kind}"
            if fig is None:
                path.unlink(missing_ok=True)
                continue
            records.write_atomic(path, render(fig, kind))
            paths.append(path)
        entry: dict[str, Any] = {"empty": True}
        if fig is not None:
            entry = {"pdf": f"{name}.pdf", "png": f"{name}.png", "table": f"{spec.table}.csv", "caption": catalogue.caption(name, table)}
        records.write_json(folder / f"{name}.json", entry)
        paths.append(folder / f"{name}.json")
    return [*paths, index(campaign_dir, list(catalogue.FIGURES))] if only is None else paths


def index(campaign_dir: Path, names: Sequence[str]) -> Path:
    """Write `figures/index.json` from the `.json` of each figure: all but the empty ones, in this order."""
    folder = campaign_dir / "figures"
    entries = {name: records.read_json(folder / f"{name}.json") for name in names}
    drawn = {name: entry for name, entry in entries.items() if not entry.get("empty")}
    records.write_json(folder / "index.json", {"schema": 1, "figures": drawn})
    return folder / "index.json"
