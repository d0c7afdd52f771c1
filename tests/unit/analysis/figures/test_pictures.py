"""Reference pictures (pytest-mpl): a changed look of a figure is detected.

Small pictures in `tests/data/pictures/` are those of figures of synthetic campaigns; larger ones in `docs/pictures/`
are the figures of the reference campaign that README.md shows. docs/figures.md says how to renew them.
"""

import io
import re
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import pandas as pd
import pytest
from fontTools import subset
from matplotlib import font_manager
from matplotlib.figure import Figure
from matplotlib.testing.compare import compare_images
from paths import DATA, ROOT
from PIL import Image

import campaigns
from storelab.analysis.figures import catalogue, write
from storelab.analysis.figures.draw import draw
from storelab.analysis.tables import build
from storelab.core import records

DPI, SHOWN_DPI, COLOURS = 60, 110, 256
PLAIN = {"font.family": "DejaVu Sans", "text.hinting": "none"}
MAX_DIFFERENCE = 0.5  # root mean square of the values of pixels, of 255
SMALL, SHOWN = DATA / "pictures", ROOT / "docs" / "pictures"
FIGURES = {
    "broad": ("throughput_download", "latency_open", "entries", "events_bars", "phases"),
    "roles": ("soak", "role_phases"),
}
README = re.findall(r"\(docs/pictures/(\w+)\.png\)", (ROOT / "README.md").read_text())


@dataclass
class Picture:
    """A figure of a campaign that pytest-mpl saves and compares."""

    campaign: str
    name: str
    dpi: int = DPI

    @property
    def table(self) -> pd.DataFrame:
        return build.read(campaigns.built(self.campaign), self.specification.table)

    @property
    def specification(self):
        return catalogue.figures_of_plan(records.read_json(campaigns.built(self.campaign) / "raw" / "plan.json"))[
            self.name
        ]

    def savefig(self, path: Path, table: pd.DataFrame | None = None, **options) -> None:
        """Render the figure, of another table where one is given, with few colours to keep the file small."""
        others = (build.read(campaigns.built(self.campaign), name) for name in self.specification.further_tables)
        with mpl.rc_context(PLAIN):
            fig = draw(self.specification, self.table if table is None else table, *others)
            image = Image.open(io.BytesIO(write.render(fig, "png", self.dpi))).convert("RGB")
        image.quantize(COLOURS, Image.Quantize.MAXCOVERAGE).save(path, optimize=True)


def compared(folder: Path, campaign: str, name: str):
    """Return a case whose picture pytest-mpl compares with `<name>.png` in `folder`."""
    options = {"baseline_dir": str(folder), "filename": f"{name}.png", "tolerance": MAX_DIFFERENCE, "style": "default"}
    return pytest.param(campaign, name, id=name, marks=pytest.mark.mpl_image_compare(**options))


@pytest.mark.parametrize(
    ("campaign", "name"), [compared(SMALL, c, name) for c, names in FIGURES.items() for name in names]
)
def test_figures_look_as_before(campaign, name):
    return Picture(campaign, name)


@pytest.mark.heavy
@pytest.mark.parametrize(("campaign", "name"), [compared(SHOWN, "reference", name) for name in README])
def test_pictures_of_the_readme_are_the_figures(campaign, name):
    return Picture(campaign, name, SHOWN_DPI)


def test_pictures_are_those_that_are_compared():
    assert sorted(p.stem for p in SMALL.glob("*.png")) == sorted(name for names in FIGURES.values() for name in names)
    assert len(README) == 1 and sorted(p.stem for p in SHOWN.glob("*.png")) == sorted(README)


def test_moved_point_and_missing_interval_are_seen(tmp_path):
    picture = Picture("broad", "throughput_download")
    table = picture.table
    chosen = (table["workload"] == "get") & (table["object_size_bytes"] == 10**7) & (table["clients"] == 4)
    chosen &= (table["store"] == "alpha") & (table["front_ends"] == 4)
    median, low, high = (f"throughput_{part}_mb_per_s" for part in ("median", "low", "high"))
    moved, bare = table.copy(), table.copy()
    moved.loc[chosen, [median, low, high]] *= 1.05
    bare.loc[chosen, low] = bare.loc[chosen, high] = bare.loc[chosen, median]
    assert chosen.sum() == 1
    for changed, seen in ((table, False), (moved, True), (bare, True)):
        picture.savefig(tmp_path / "picture.png", changed)
        found = compare_images(str(SMALL / f"{picture.name}.png"), str(tmp_path / "picture.png"), MAX_DIFFERENCE)
        assert (found is not None) is seen, found


def test_fonts_are_embedded_without_the_tables_that_place_glyphs(monkeypatch):
    opened, load = [], subset.load_font

    def seen(*args, **options):
        opened.append(load(*args, **options))
        return opened[-1]

    monkeypatch.setattr(subset, "load_font", seen)
    fig = Figure(figsize=(2, 1))
    fig.supxlabel("Clients at AV 1")
    font = font_manager.findfont("DejaVu Sans")
    assert set(write.SHAPING) & set(subset.load_font(font, subset.Options()).keys()), "the font has some"
    opened.clear()
    pdf = write.render(fig, "pdf")
    assert opened and not any(set(write.SHAPING) & set(font.keys()) for font in opened)
    assert b"/FontFile2" in pdf and subset.load_font is seen, "the state is restored"
