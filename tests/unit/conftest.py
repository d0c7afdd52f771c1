"""Unit tests draw no pictures: to render the figures of a campaign takes 8 times as long as everything else about them."""

from collections.abc import Iterator

import pytest
from matplotlib.figure import Figure

LOOK_AT_PICTURES = ("test_figures", "test_figures_own", "test_figure_pictures", "test_golden")


@pytest.fixture(autouse=True, scope="module")
def undrawn(request: pytest.FixtureRequest) -> Iterator[None]:
    """A saved figure is an empty picture, in all modules but those that look at pictures."""
    with pytest.MonkeyPatch.context() as patch:
        if request.module.__name__ not in LOOK_AT_PICTURES:
            patch.setattr(Figure, "savefig", lambda figure, sink, **options: sink.write(b""))
        yield
