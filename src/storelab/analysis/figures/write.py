"""Write the figures of a campaign (`figures/*.pdf`, `*.png`, `*.json` and `index.json`) from its tables.

The same tables give the same bytes.
"""

import gc
import io
import multiprocessing
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
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
from storelab.core import records, renamed
from storelab.core.errors import UserError

DPI = 200
CANVASES = dict(zip(KINDS, (FigureCanvasPdf, FigureCanvasAgg), strict=True))
SHAPING = ("GSUB", "GPOS", "GDEF", "kern")  # tables of a font that control the placement of glyphs


@contextmanager
def bare_fonts() -> Iterator[None]:
    """Return a context in which matplotlib embeds fonts without the tables in SHAPING.

    matplotlib has already placed every glyph, and subsetting these tables would take as long as drawing the figure. The
    context replaces `subset.load_font`, by which matplotlib 3.11 opens a font.
    """
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
    """Return the figure as bytes of a `pdf` or `png` without time stamps, so that equal tables give equal files.

    The layout is computed only once, because this takes as long as drawing. matplotlib would compute it for each file.
    """
    sink = io.BytesIO()
    metadata = {"CreationDate": None, "Creator": "storelab", "Producer": None} if kind == "pdf" else {"Software": None}
    with plots.style(), bare_fonts():
        if engine := fig.get_layout_engine():
            fig.set_dpi(dpi)
            CANVASES[kind](fig)  # the canvas measures the text
            engine.execute(fig)
            fig.set_layout_engine(None)
        fig.savefig(sink, format=kind, dpi=dpi, metadata=metadata)
    return sink.getvalue()


def build(
    campaign_dir: Path, only: Sequence[str] | None = None, jobs: int = 1, kinds: Sequence[str] = KINDS
) -> list[Path]:
    """Draw the figures of a campaign, write a description `<name>.json` of each, and return the paths written.

    Parameters
    ----------
    campaign_dir
        The folder of the campaign.
    only
        Names of the figures to draw. Without it, all figures that the campaign can have are drawn, the index is
        written, and the files of figures that the campaign no longer has are deleted.
    jobs
        Number of processes that draw in parallel.
    kinds
        File types to write. Files of other types are deleted, because they would be outdated.

    Raises
    ------
    UserError
        There are no tables.
    KeyError
        The plan does not define a name in `only`.
    """
    plan = renamed.of_plan(records.read_json(campaign_dir / "raw" / "plan.json"))
    figures, folder, paths = catalogue.figures_of_plan(plan), campaign_dir / "figures", []
    wanted = {name: figures[name] for name in (figures if only is None else only)}
    for written in _write_all(jobs, folder, wanted, campaign_dir, kinds):
        paths += written
    if only is None:
        drawn = {*catalogue.FIGURES, *(p.stem for p in folder.glob("*.json") if _is_entry(p))} - {*figures, "index"}
        for name in drawn:  # other files are not deleted, because users can store their own files here
            for kind in (*KINDS, "json"):
                (folder / f"{name}.{kind}").unlink(missing_ok=True)
        paths.append(index(campaign_dir))
    return paths


def _is_entry(path: Path) -> bool:
    """Return whether a file is the description of a figure that storelab wrote."""
    try:
        entry = records.read_json(path)
    except UserError:
        return False
    return isinstance(entry, dict) and {"table", "empty"} <= entry.keys()


def _write_all(
    jobs: int, folder: Path, figures: Mapping[str, Declared], campaign_dir: Path, kinds: Sequence[str]
) -> list[list[Path]]:
    """Draw the figures, and return the paths written for each of them, in the order of the figures.

    This process draws figures from the end of the list, the other processes from its beginning, until all are drawn.
    """
    names = list(figures)
    if min(jobs, len(names)) < 2:
        return [_write_figure(folder, name, figures[name], campaign_dir, kinds) for name in names]
    # Processes are spawned, not forked: pandas and Arrow have threads, so that a forked process can wait for a lock
    # forever.
    spawn = multiprocessing.get_context("spawn")
    workers = ProcessPoolExecutor(min(jobs, len(names)) - 1, spawn, _initialize_worker, (gc.get_threshold(),))
    try:
        drawn = {name: workers.submit(_write_figure_in_worker, folder, name, campaign_dir, kinds) for name in names}
        drawn_here = {
            name: _write_figure(folder, name, figures[name], campaign_dir, kinds)
            for name in reversed(names)
            if drawn[name].cancel()
        }
        return [drawn_here[name] if name in drawn_here else drawn[name].result() for name in names]
    except BrokenProcessPool:
        problem = "a process that draws ended unexpectedly: it was killed, or there is not enough memory"
        raise UserError(str(folder), problem, "end other programs, or use `--jobs 1`") from None
    finally:
        workers.shutdown(cancel_futures=True)


def _initialize_worker(garbage: tuple[int, int, int]) -> None:
    """Prepare a process for drawing: it exits together with its parent, and has the same thresholds of `gc`."""
    gc.set_threshold(*garbage)
    parent = multiprocessing.parent_process()
    assert parent is not None
    Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


@cache
def _load_figures(campaign_dir: Path) -> dict[str, Declared]:
    return catalogue.figures_of_plan(renamed.of_plan(records.read_json(campaign_dir / "raw" / "plan.json")))


def _write_figure_in_worker(folder: Path, name: str, campaign_dir: Path, kinds: Sequence[str]) -> list[Path]:
    """Draw a figure in another process, and return the paths written.

    The process reads the plan itself, because the functions of a specification cannot be pickled.
    """
    return _write_figure(folder, name, _load_figures(campaign_dir)[name], campaign_dir, kinds)


def _write_figure(folder: Path, name: str, figure: Declared, campaign_dir: Path, kinds: Sequence[str]) -> list[Path]:
    table, paths = tables.read(campaign_dir, figure.table), []
    shown = panels.layout_of(figure, table)
    fig = draw.draw(figure, table, *(tables.read(campaign_dir, other) for other in figure.further_tables), shown=shown)
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
    """Write `index.json` from the descriptions of the figures, and return its path.

    It lists the figures that have data, in the order of the paper. It also lists the figures that were not drawn
    because they have too few data, with the reason.
    """
    folder, entries, left_out = campaign_dir / "figures", {}, {}
    plan = renamed.of_plan(records.read_json(campaign_dir / "raw" / "plan.json"))
    for name in catalogue.names(plan):
        path = folder / f"{name}.json"
        entry = derived.figure(path) if path.exists() else {"empty": True}
        if "left_out" in entry:
            left_out[name] = {key: entry[key] for key in ("table", "left_out")}
        if not entry.pop("empty"):
            entries[name] = entry | ({"own": True} if name in plan.get("figures", {}) else {})
    records.write_summed(folder / "index.json", {"schema": 1, "figures": entries, "left_out": left_out})
    return folder / "index.json"
