"""Fixtures that several unit tests share: an example campaign, and figures without rendering.

Rendering takes 8 times as long as all other work on the figures.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

import campaigns
from storelab import install

ESSENTIAL = ("nsenter", "unshare")  # of util-linux, which every Debian has
LOOK_AT_PICTURES = (
    "analysis/figures/test_figures",
    "analysis/figures/test_pictures",
    "analysis/test_snapshots",
    "analysis/history/test_history",
)


@pytest.fixture(autouse=True, scope="module")
def undrawn(request: pytest.FixtureRequest) -> Iterator[None]:
    """Save figures as empty pictures, except in modules that check pictures."""
    with pytest.MonkeyPatch.context() as patch:
        if not str(request.path.with_suffix("")).endswith(LOOK_AT_PICTURES):
            patch.setattr(Figure, "savefig", lambda figure, sink, **options: sink.write(b""))
            patch.setattr(ConstrainedLayoutEngine, "execute", lambda engine, figure: None)  # takes as long as to draw
        yield


@pytest.fixture(autouse=True, scope="module")
def as_on_a_new_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Hide programs that `storelab install` installs, also if this machine has them; a test that needs one replaces it.

    This ends with each module, because the same process may run a real test next.
    """

    def which(name: str, path: str) -> str | None:
        found = shutil.which(name, path=path)
        return None if found and Path(found).is_relative_to("/usr") and name not in ESSENTIAL else found

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORELAB_TOOLS", str(tmp_path_factory.mktemp("tools")))
        patch.setattr(install, "shutil", SimpleNamespace(which=which))
        yield


@pytest.fixture(scope="session")
def example() -> Path:
    """Return the folder of a campaign of 90 points with its tables, to read only."""
    return campaigns.built("example")
