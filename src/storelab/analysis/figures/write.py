"""Write the figures: tables in, `figures/*.pdf`, `*.png`, `*.json` and `index.json` out. Same tables, same bytes."""

import gc
import io
import multiprocessing
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fontTools import subset
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.figure import Figure

from storelab.analysis.figures import KINDS, catalogue, draw, panels, plots
from storelab.analysis.figures.specification import Declared
from storelab.analysis.parts import derived
from storelab.analysis.tables import build as tables
from storelab.core import records

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized

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
    """What is written of each figure, in their order. This process draws, and others beside it; each takes the next
    figure that nobody has begun, so that one which starts late, or has a slow figure, holds up nobody."""
    names, written = list(figures), dict[int, list[Path]]()
    if min(jobs, len(names)) < 2:
        return [_one(folder, name, figures[name], campaign_dir, kinds) for name in names]
    # Begun anew: pandas and Arrow have threads, and what is forked beside them may wait for a lock for good.
    spawn = multiprocessing.get_context("spawn")
    begun, processes, ends = spawn.Value("i", 0), [], []
    try:
        for _ in range(1, min(jobs, len(names))):
            here, there = spawn.Pipe(duplex=False)
            process = spawn.Process(
                target=_share, args=(there, begun, folder, campaign_dir, names, kinds, gc.get_threshold()), daemon=True
            )
            process.start()
            there.close()
            processes.append(process)
            ends.append(here)
        for i in _taken(begun, len(names)):
            written[i] = _one(folder, names[i], figures[names[i]], campaign_dir, kinds)
        for end in ends:
            try:
                told = end.recv()
            except EOFError:
                missing = [name for i, name in enumerate(names) if i not in written]
                raise RuntimeError(f"a process that drew one of {', '.join(missing)} was ended") from None
            if isinstance(told, Exception):
                raise told
            written |= told
    finally:
        for process in processes:
            process.terminate()
            process.join()
    return [written[i] for i in range(len(names))]


def _taken(begun: "Synchronized[int]", number: int) -> Iterator[int]:
    """Places of figures that this process shall draw, of so many, one at a time."""
    while True:
        with begun.get_lock():
            i = begun.value
            begun.value += 1
        if i >= number:
            return
        yield i


def _share(
    told: Connection,
    begun: "Synchronized[int]",
    folder: Path,
    campaign_dir: Path,
    names: Sequence[str],
    kinds: Sequence[str],
    garbage: tuple[int, int, int],
) -> None:
    """Work of another process: what it wrote of each figure that it took, or the mistake that ended it. garbage: when
    Python looks for some, as in the process that asks."""
    gc.set_threshold(*garbage)
    try:
        figures = catalogue.of(records.read_json(campaign_dir / "raw" / "plan.json"))
        taken = _taken(begun, len(names))
        told.send({i: _one(folder, names[i], figures[names[i]], campaign_dir, kinds) for i in taken})
    except Exception as error:  # noqa: BLE001  (told to whoever asked)
        error.add_note(traceback.format_exc())
        told.send(error)


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
