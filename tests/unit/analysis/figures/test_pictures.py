"""Reference pictures: a figure that looks different is seen. `python tests/unit/analysis/figures/test_pictures.py --update` renews them.

Small pictures in tests/data/pictures/, of the figures of recorded campaigns, with the font that matplotlib brings and without hinting;
larger ones in docs/pictures/, of those figures of the reference campaign that README.md shows.
What is left of differences between renderers is parts of a pixel: so both pictures are blurred, and the mean differences of tiles are
compared. The same figure gives about 1 (the stored pictures have 256 colours), a median that moves by 5 % of its value 4 or more.
"""

import io
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from fontTools import subset
from matplotlib import font_manager
from matplotlib.figure import Figure
from paths import ROOT
from PIL import Image, ImageFilter

from storelab.analysis.figures import catalogue, write
from storelab.analysis.figures.draw import draw
from storelab.analysis.figures.specification import Declared
from storelab.analysis.tables import build
from storelab.core import records

PICTURES = ROOT / "tests" / "data" / "pictures"
GOLDEN = ROOT / "tests" / "data" / "golden"
RECORDS = {"reference": ROOT / "results/reference/raw", "transfers": GOLDEN / "transfers/raw"}
DPI, COLOURS = 60, 256
SHOWN, SHOWN_DPI = ROOT / "docs" / "pictures", 110
PLAIN = {"font.family": "DejaVu Sans", "text.hinting": "none", "text.hinting_factor": 1}
TILE, MOST = 16, 3.5  # pixels; mean difference of a tile, of 255
FONT = font_manager.findfont("DejaVu Sans")


def tabled(name: str, folder: Path) -> Path:
    """A campaign with the plan of its records and the tables that test_golden.py expects of them."""
    (folder / "raw").mkdir(parents=True)
    shutil.copy2(RECORDS[name] / "plan.json", folder / "raw")
    shutil.copytree(GOLDEN / name / "expected" / "tables", folder / "tables")
    return folder


def drawn(name: str, folder: Path) -> Iterator[tuple[str, bytes]]:
    """(figure, PNG) of each figure of a campaign, from its tables."""
    tabled(name, folder)
    for figure, spec in catalogue.of(records.read_json(folder / "raw" / "plan.json")).items():
        if picture := png(spec, build.read(folder, spec.table)):
            yield figure, picture


def png(spec: Declared, table: pd.DataFrame, dpi: int = DPI) -> bytes | None:
    with mpl.rc_context(PLAIN):
        fig = draw(spec, table)
        return write.render(fig, "png", dpi) if fig else None


def shown(folder: Path) -> Iterator[tuple[str, bytes]]:
    """(figure, PNG) of each figure that README.md shows, from the tables of the reference campaign."""
    tabled("reference", folder)
    figures = catalogue.of(records.read_json(folder / "raw" / "plan.json"))
    for name in re.findall(r"\(docs/pictures/(\w+)\.png\)", (ROOT / "README.md").read_text()):
        picture = png(figures[name], build.read(folder, figures[name].table), SHOWN_DPI)
        assert picture
        yield name, picture


def difference(first: Path, second: Path) -> float:
    """The largest mean difference of a tile; infinite for pictures of different sizes."""
    pictures = [Image.open(p).convert("RGB") for p in (first, second)]
    if pictures[0].size != pictures[1].size:
        return float("inf")
    one, two = (np.asarray(p.filter(ImageFilter.GaussianBlur(1.5)), dtype=float) for p in pictures)
    apart = np.abs(one - two).mean(axis=2)
    return max(
        apart[y : y + TILE, x : x + TILE].mean()
        for y in range(0, len(apart), TILE)
        for x in range(0, apart.shape[1], TILE)
    )


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["reference", "transfers"])
def test_figures_look_as_they_did(name, tmp_path):
    made = {}
    for figure, picture in drawn(name, tmp_path / name):
        made[figure] = _written(tmp_path / f"{figure}.png", picture)
    assert sorted(made) == sorted(p.stem for p in (PICTURES / name).glob("*.png"))
    apart = {figure: difference(path, PICTURES / name / f"{figure}.png") for figure, path in made.items()}
    assert not {f: round(d, 1) for f, d in apart.items() if d > MOST}, (
        f"look at {tmp_path}; renew with --update (docs/figures.md)"
    )


@pytest.mark.heavy
def test_readme_shows_three_figures_of_the_reference_as_they_are(tmp_path):
    made = {name: _written(tmp_path / f"{name}.png", picture) for name, picture in shown(tmp_path / "reference")}
    assert len(made) == 3 and sorted(made) == sorted(p.stem for p in SHOWN.glob("*.png"))
    apart = {name: difference(path, SHOWN / f"{name}.png") for name, path in made.items()}
    assert not {f: round(d, 1) for f, d in apart.items() if d > MOST}, "renew with --update (docs/figures.md)"


def test_a_moved_point_and_a_lost_interval_are_seen(tmp_path):
    table, known = (
        build.read(tabled("reference", tmp_path / "reference"), "throughput"),
        PICTURES / "reference" / "metadata_upload.png",
    )
    chosen = (
        (table["workload"] == "put")
        & (table["object_size_bytes"] < 1e6)
        & (table["clients"] == 1)
        & (table["store"] == "versitygw")
    )
    columns = [f"rate_{part}_per_s" for part in ("median", "low", "high")]
    moved, bare = table.copy(), table.copy()
    moved.loc[chosen, columns] *= 1.05
    for column in columns[1:]:
        bare.loc[chosen, column] = bare.loc[chosen, columns[0]]
    assert chosen.sum() == 1
    for changed, seen in ((table, False), (moved, True), (bare, True)):
        path = _written(tmp_path / "picture.png", png(catalogue.FIGURES["metadata_upload"], changed))
        assert bool(difference(path, known) > MOST) is seen


def update() -> None:
    for name in RECORDS:
        with tempfile.TemporaryDirectory() as folder:
            _keep(PICTURES / name, drawn(name, Path(folder) / name))
    with tempfile.TemporaryDirectory() as folder:
        _keep(SHOWN, shown(Path(folder) / "reference"))


def _keep(target: Path, pictures: Iterator[tuple[str, bytes]]) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name, picture in pictures:
        image = Image.open(io.BytesIO(picture)).convert("RGB")
        image.quantize(COLOURS, Image.Quantize.MAXCOVERAGE).save(target / f"{name}.png", optimize=True)


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


if __name__ == "__main__":
    sys.exit(update() if sys.argv[1:] == ["--update"] else __doc__)


def test_fonts_are_embedded_without_the_tables_that_place_glyphs(monkeypatch):
    opened, load = [], subset.load_font

    def seen(*args, **options):
        opened.append(load(*args, **options))
        return opened[-1]

    monkeypatch.setattr(subset, "load_font", seen)
    fig = Figure(figsize=(2, 1))
    fig.supxlabel("Clients at AV 1")
    assert set(write.SHAPING) & set(subset.load_font(FONT, subset.Options()).keys()), "the font has some"
    opened.clear()
    pdf = write.render(fig, "pdf")
    assert opened and not any(set(write.SHAPING) & set(font.keys()) for font in opened)
    assert b"/FontFile2" in pdf and subset.load_font is seen, "what was there before is there again"
