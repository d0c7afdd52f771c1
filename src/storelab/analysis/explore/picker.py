"""Choose a campaign and filters, and show views of it: with menus for a user, else the first entry of each menu.

Needs IPython, and ipywidgets for the menus: neither is loaded before something is shown.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from storelab.analysis.explore import opened
from storelab.analysis.explore.opened import Filters, Opened
from storelab.analysis.explore.things import Thing, displayable, escaped
from storelab.analysis.parts import words
from storelab.core.errors import UserError

View = Callable[..., Iterable[Thing]]


class Picker:
    """`opened`: what is looked at. `shown`: what each call of `show` showed last, in their order."""

    def __init__(self, campaign: str | Path | None = None, filters: Filters | None = None) -> None:
        self.opened = opened.open_campaign(opened.place(campaign), filters)
        self.shown: list[list[Thing]] = []
        self._watching: list[Callable[[], None]] = []

    def choose(self, campaign: str | Path) -> None:
        """Look at another campaign, all of it."""
        self._set(opened.open_campaign(opened.place(campaign)))

    def filter(self, **filters: Iterable[Any]) -> None:
        """Look at these values only; without arguments at all."""
        self._set(opened.filtered(self.opened.campaign, {c: tuple(v) for c, v in filters.items() if v}))

    def _set(self, now: Opened) -> None:
        self.opened = now
        for told in self._watching:
            told()

    def watch(self, told: Callable[[], None]) -> None:
        """Call this whenever campaign or filters change."""
        self._watching.append(told)

    def show(self, view: View, **options: Any) -> None:
        """Show what `view(opened, **chosen)` gives, again whenever something else is chosen. An option is a value, or a
        function of what is opened and of the options before it that gives a menu, whose first entry is taken first."""
        place = len(self.shown)
        self.shown.append([])
        if alone():
            self.render(place, view, opened.resolved(self.opened, options)[1])
            return
        from storelab.analysis.explore import widgets

        widgets.menus(self, place, view, options)

    def render(self, place: int, view: View, chosen: Mapping[str, Any]) -> None:
        """Call a view and display what it gives; a person's mistake is one line."""
        from IPython.display import display

        try:
            things = list(view(self.opened, **chosen))
        except UserError as error:
            things = [escaped(str(error))]
        self.shown[place] = things
        for thing in things:
            display(displayable(thing))

    def operations(self, keys: Iterable[str] | None = None) -> pd.DataFrame:
        """Return the raw operations of what is looked at, or of these points, as `Opened.operations` does."""
        return self.opened.operations(keys)

    def _ipython_display_(self) -> None:
        from IPython.display import Markdown, display

        if alone():
            display(Markdown(self.said()))
            return
        from storelab.analysis.explore import widgets

        display(widgets.panel(self))

    def said(self) -> str:
        """What is looked at, in one line."""
        only = [
            f"{words.heading(c)} {', '.join(words.cell(c, v) for v in vs)}" for c, vs in self.opened.filters.items()
        ]
        return escaped(f"Campaign {self.opened.name}: {'; '.join(only) if only else 'all points'}")


def alone() -> bool:
    """Return whether no user can choose: the environment names the campaign, or ipywidgets is not installed."""
    return opened.NAMED in os.environ or find_spec("ipywidgets") is None
