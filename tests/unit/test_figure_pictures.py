"""Reference pictures: a figure that looks different is seen. `python tests/unit/test_figure_pictures.py --update` renews them.

Small pictures in tests/data/pictures/, of the figures of recorded campaigns. A renderer of another version moves strokes by parts of a
pixel: so both pictures are blurred, and what is compared is the mean difference in tiles.
"""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from PIL import Image, ImageFilter

from storelab.analysis.figures import catalogue, write
from storelab.analysis.figures.draw import draw
from storelab.analysis.tables import build
from storelab.core import records

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "tests" / "data" / "pictures"
RECORDS = {"reference": ROOT / "results/reference/raw", "transfers": ROOT / "tests/data/golden/transfers/raw"}
DPI = 60
TILE, MOST = 16, 12.0  # pixels; mean difference of a tile, of 255


def drawn(name: str, folder: Path) -> Iterator[tuple[str, bytes]]:
    """(figure, PNG) of each figure of a campaign, from its records."""
    shutil.copytree(RECORDS[name], folder / "raw")
    build.build(folder)
    for figure, spec in catalogue.of(records.read_json(folder / "raw" / "plan.json")).items():
        if fig := draw(spec, build.read(folder, spec.table)):
            with mpl.rc_context({"font.family": "DejaVu Sans"}):
                yield figure, write.render(fig, "png", DPI)


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


@pytest.mark.parametrize("name", RECORDS)
def test_figures_look_as_they_did(name, tmp_path):
    made = {}
    for figure, png in drawn(name, tmp_path / name):
        made[figure] = tmp_path / f"{figure}.png"
        made[figure].write_bytes(png)
    assert sorted(made) == sorted(p.stem for p in (PICTURES / name).glob("*.png"))
    apart = {figure: difference(path, PICTURES / name / f"{figure}.png") for figure, path in made.items()}
    assert not {f: round(d, 1) for f, d in apart.items() if d > MOST}, (
        f"look at {tmp_path}; renew with --update (docs/figures.md)"
    )


def test_a_changed_curve_is_seen_and_a_shifted_letter_is_not(tmp_path):
    path = PICTURES / "reference" / "metadata_upload.png"
    picture = Image.open(path).convert("RGB")
    picture.transform(picture.size, Image.AFFINE, (1, 0, 0.3, 0, 1, 0.3), Image.BILINEAR).save(tmp_path / "shifted.png")
    assert difference(path, tmp_path / "shifted.png") < MOST
    changed = np.asarray(picture).copy()
    changed[80:110, 120:150] = changed[80:110, 120:150, ::-1] // 2
    Image.fromarray(changed).save(tmp_path / "changed.png")
    assert difference(path, tmp_path / "changed.png") > MOST


def update() -> None:
    for name in RECORDS:
        shutil.rmtree(PICTURES / name, ignore_errors=True)
        (PICTURES / name).mkdir(parents=True)
        with tempfile.TemporaryDirectory() as folder:
            for figure, png in drawn(name, Path(folder) / name):
                Image.open(_written(Path(folder) / f"{figure}.png", png)).quantize(64).save(
                    PICTURES / name / f"{figure}.png", optimize=True
                )


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


if __name__ == "__main__":
    sys.exit(update() if sys.argv[1:] == ["--update"] else __doc__)
