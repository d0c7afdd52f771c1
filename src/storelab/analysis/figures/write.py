"""Write the figures: tables in, `figures/*.pdf`, `*.png`, `*.json` and `index.json` out. Same tables, same bytes."""

import gc
import io
import multiprocessing
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any

from fontTools import subset
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.figure import Figure

from storelab.analysis.figures import KINDS, catalogue, draw, panels, plots
from storelab.analysis.figures.specification import Declared
from storelab.analysis.parts import derived
from storelab.analysis.tables import build as tables
from storelab.core import records

DPI = 200
CANVASES = dict(zip(KINDS, (FigureCanvasPdf, FigureCanvasAgg), strict=True))
SHAPING = ("GSUB", "GPOS", "GDEF", "kern")  # tables of a font that say which glyphs stand where


@contextmanager
def bare_fonts() -> Iterator[None]:
    """Fonts are embedded without SHAPING: matplotlib has placed every glyph, and to cut these tables down to the glyphs
    of a figure takes as long as to draw it. A hook for matplotlib 3.11, which opens a font by `subset.load_font`."""
    load = subset.load_font

    def bare(*args: Any, **options: Any) -> Any:
        font = load(*args, **options)
        for tag in SHAPING:
            if tag in font:
                del font[tag]
        return font

    subset.load_font = bare
    try:
        yield
    finally:
        subset.load_font = load


def render(fig: Figure, kind: str, dpi: float = DPI) -> bytes:
    """The figure as `pdf` or `png`, without times, so that equal tables give equal files. Its layout, which takes as
    long as drawing, is found for the first of them: left to matplotlib, each file would be drawn twice."""
    sink = io.BytesIO()
    metadata = {"CreationDate": None, "Creator": "storelab", "Producer": None} if kind == "pdf" else {"Software": None}
    with plots.style(), bare_fonts():
        if engine := fig.get_layout_engine():
            fig.set_dpi(dpi)
            CANVASES[kind](fig)  # which measures its text
            engine.execute(fig)
            fig.set_layout_engine(None)
        fig.savefig(sink, format=kind, dpi=dpi, metadata=metadata)
    return sink.getvalue()


def build(
    campaign_dir: Path, only: Sequence[str] | None = None, jobs: int = 1, kinds: Sequence[str] = KINDS
) -> list[Path]:
    """Draw the figures that the campaign can have, or only these, and write of each what it is (`<name>.json`);
    without `only` the index too, and what an older state left goes. jobs: processes that draw side by side. kinds: of
    files; those of other kinds go, for they show what was. Raises UserError without tables, KeyError for a name that
    the campaign's plan knows nothing of."""
    plan = records.read_json(campaign_dir / "raw" / "plan.json")
    figures, folder, paths = catalogue.of(plan), campaign_dir / "figures", []
    wanted = {name: figures[name] for name in (figures if only is None else only)}
    for written in _each(jobs, folder, wanted, campaign_dir, kinds):
        paths += written
    if only is None:
        drawn = {*catalogue.FIGURES, *(p.stem for p in folder.glob("*.json"))} - {*figures, "index"}
        for name in drawn:  # nothing else: people leave files of their own here
            for kind in (*KINDS, "json"):
                (folder / f"{name}.{kind}").unlink(missing_ok=True)
        paths.append(index(campaign_dir))
    return paths


def _each(
    jobs: int, folder: Path, figures: Mapping[str, Declared], campaign_dir: Path, kinds: Sequence[str]
) -> list[list[Path]]:
    """Return what is written of each figure, in their order.

    This process draws from the end of the list, other processes from its begin, until nothing is left.
    """
    names = list(figures)
    if min(jobs, len(names)) < 2:
        return [_one(folder, name, figures[name], campaign_dir, kinds) for name in names]
    # Spawned, not forked: pandas and Arrow have threads, and a process forked next to them may wait for a lock forever.
    spawn = multiprocessing.get_context("spawn")
    others = ProcessPoolExecutor(min(jobs, len(names)) - 1, spawn, _begin, (gc.get_threshold(),))
    try:
        drawn = {name: others.submit(_one_of_plan, folder, name, campaign_dir, kinds) for name in names}
        mine = {
            name: _one(folder, name, figures[name], campaign_dir, kinds)
            for name in reversed(names)
            if drawn[name].cancel()
        }
        return [mine[name] if name in mine else drawn[name].result() for name in names]
    finally:
        others.shutdown(cancel_futures=True)


def _begin(garbage: tuple[int, int, int]) -> None:
    """Prepare a process that draws: it ends with the one that asked for it, and collects garbage as often."""
    gc.set_threshold(*garbage)
    parent = multiprocessing.parent_process()
    assert parent is not None
    Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


@cache
def _figures_of(campaign_dir: Path) -> dict[str, Declared]:
    return catalogue.of(records.read_json(campaign_dir / "raw" / "plan.json"))


def _one_of_plan(folder: Path, name: str, campaign_dir: Path, kinds: Sequence[str]) -> list[Path]:
    """Draw a figure in another process, which reads the plan: the functions of a specification cannot be sent."""
    return _one(folder, name, _figures_of(campaign_dir)[name], campaign_dir, kinds)


def _one(folder: Path, name: str, figure: Declared, campaign_dir: Path, kinds: Sequence[str]) -> list[Path]:
    table, paths = tables.read(campaign_dir, figure.table), []
    shown = panels.of(figure, table)
    fig = draw.draw(figure, table, *(tables.read(campaign_dir, other) for other in figure.beside), shown=shown)
    for kind in KINDS:
        path = folder / f"{name}.{kind}"
        if fig is None or kind not in kinds:
            path.unlink(missing_ok=True)
            continue
        records.write_atomic(path, render(fig, kind))
        paths.append(path)
    entry: dict[str, Any] = {"table": f"{figure.table}.csv", "empty": fig is None}
    if fig is None and (reason := panels.too_few(figure, table)):
        entry["left_out"] = reason
    if fig is not None:
        entry |= {kind: f"{name}.{kind}" for kind in kinds} | {"caption": catalogue.caption(figure, table, shown)}
        entry = derived.with_pictures(folder, entry, kinds)
    records.write_summed(folder / f"{name}.json", entry)
    return [*paths, folder / f"{name}.json"]


def index(campaign_dir: Path) -> Path:
    """Write `index.json` from what was written of each figure: those that have data, in the order of the paper, and
    those that are left out although they have some, with the reason."""
    folder, entries, left_out = campaign_dir / "figures", {}, {}
    plan = records.read_json(campaign_dir / "raw" / "plan.json")
    for name in catalogue.names(plan):
        path = folder / f"{name}.json"
        entry = derived.figure(path) if path.exists() else {"empty": True}
        if "left_out" in entry:
            left_out[name] = {key: entry[key] for key in ("table", "left_out")}
        if not entry.pop("empty"):
            entries[name] = entry | ({"own": True} if name in plan.get("figures", {}) else {})
    records.write_summed(folder / "index.json", {"schema": 1, "figures": entries, "left_out": left_out})
    return folder / "index.json"
