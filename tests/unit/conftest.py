"""What unit tests share: one example campaign, and no pictures: to render figures takes 8 times as long as all else about them."""

from collections.abc import Iterator
from pathlib import Path

import make_examples
import pytest
from matplotlib.figure import Figure

from storelab.analysis.tables import build

LOOK_AT_PICTURES = ("test_figures", "test_figure_pictures", "test_golden", "test_history")


@pytest.fixture(autouse=True, scope="module")
def undrawn(request: pytest.FixtureRequest) -> Iterator[None]:
    """A saved figure is an empty picture, in all modules but those that look at pictures."""
    with pytest.MonkeyPatch.context() as patch:
        if request.module.__name__ not in LOOK_AT_PICTURES:
            patch.setattr(Figure, "savefig", lambda figure, sink, **options: sink.write(b""))
        yield


@pytest.fixture(scope="session")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign of 90 points with its tables, one for all modules: who writes into it takes a copy."""
    folder = tmp_path_factory.mktemp("example")
    make_examples.make(folder)
    build.build(folder)
    return folder
