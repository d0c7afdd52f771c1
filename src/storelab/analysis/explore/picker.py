"""Choose a campaign and filters in a notebook, and show views of it.

If a user can choose, views have menus. Otherwise, the first entry of each menu is used. IPython is required, and
ipywidgets for the menus. Both are loaded when something is displayed.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from storelab.analysis.explore import opened
from storelab.analysis.explore.opened import Displayable, Filters, Opened, displayable, escaped
from storelab.analysis.parts import labels
from storelab.core.errors import UserError

View = Callable[..., Iterable[Displayable]]
ROWS = 5  # maximum number of visible rows of a list of values
WIDE = {"width": "auto", "max_width": "60em"}


class Picker:
    """A campaign chosen by the user, its filters, and the views that are shown.

    opened: the campaign with its filters; shown: the last output of each call of `show`, in order.
    """

    def __init__(self, campaign: str | Path | None = None, filters: Filters | None = None) -> None:
        self.opened = opened.open_campaign(opened.place(campaign), filters)
        self.shown: list[list[Displayable]] = []
        self._watching: list[Callable[[], None]] = []

    def choose(self, campaign: str | Path) -> None:
        """Select another campaign, and remove all filters."""
        self._set(opened.open_campaign(opened.place(campaign)))

    def filter(self, **filters: Iterable[Any]) -> None:
        """Set the filters: column -> accepted values. Without arguments, remove all filters."""
        self._set(opened.filtered(self.opened.campaign, {c: tuple(v) for c, v in filters.items() if v}))

    def _set(self, now: Opened) -> None:
        self.opened = now
        for callback in self._watching:
            callback()

    def watch(self, callback: Callable[[], None]) -> None:
        """Register a function that is called whenever the campaign or the filters change."""
        self._watching.append(callback)

    def show(self, view: View, **options: Any) -> None:
        """Show the output of `view(opened, **chosen)`, and update it whenever a choice changes.

        An option is a value, or a function of the opened campaign and the previous options. The function returns a
        menu, whose first entry is the initial choice.
        """
        place = len(self.shown)
        self.shown.append([])
        if is_headless():
            self.render(place, view, opened.resolved(self.opened, options)[1])
            return
        _menus(self, place, view, options)

    def render(self, place: int, view: View, chosen: Mapping[str, Any]) -> None:
        """Call a view with the chosen values, and display its output. A UserError is displayed as one line.

        place: index of the call of `show`.
        """
        from IPython.display import display

        try:
            items = list(view(self.opened, **chosen))
        except UserError as error:
            items = [escaped(str(error))]
        self.shown[place] = items
        for shown in items:
            display(displayable(shown))

    def operations(self, keys: Iterable[str] | None = None) -> pd.DataFrame:
        """Return the raw operations of the chosen campaign, or of these points (`Opened.operations`)."""
        return self.opened.operations(keys)

    def _ipython_display_(self) -> None:
        from IPython.display import Markdown, display

        if is_headless():
            display(Markdown(self.selection_text()))
            return
        display(_panel(self))

    def selection_text(self) -> str:
        """Return the name of the campaign and the filters as one line of text."""
        only = [
            f"{labels.heading(c)} {', '.join(labels.cell(c, v) for v in vs)}" for c, vs in self.opened.filters.items()
        ]
        return escaped(f"Campaign {self.opened.name}: {'; '.join(only) if only else 'all points'}")


def is_headless() -> bool:
    """Return True if there are no menus, because the environment names the campaign or ipywidgets is not installed."""
    return opened.NAMED in os.environ or find_spec("ipywidgets") is None


def _panel(picker: Picker) -> Any:
    """Return a menu of campaigns, and lists of values for the filters.

    A list without a selection accepts all values.
    """
    import ipywidgets as w

    here = picker.opened.folder.resolve()
    known = {p.resolve(): p.name for p in [*opened.named(), here]}
    campaigns = w.Dropdown(
        description="Campaign", options=[(name, folder) for folder, name in known.items()], value=here
    )
    box = w.VBox()

    def filters() -> None:
        lists = {
            column: w.SelectMultiple(
                description=labels.heading(column),
                options=menu,
                value=picker.opened.filters.get(column, ()),
                rows=min(ROWS, len(menu)),
            )
            for column, menu in opened.choices(picker.opened.plan).items()
            if len(menu) > 1
        }

        def marked(_: Any) -> None:
            picker.filter(**{column: one.value for column, one in lists.items()})

        for one in lists.values():
            one.observe(marked, "value")
        box.children = [campaigns, w.HBox(list(lists.values()))]

    def chosen(change: Mapping[str, Any]) -> None:
        picker.choose(change["new"])
        filters()

    campaigns.observe(chosen, "value")
    filters()
    return box


def _menus(picker: Picker, place: int, view: View, options: Mapping[str, Any]) -> None:
    """Display the menus of a view, and its output below them. The output is updated when a choice changes."""
    import ipywidgets as w
    from IPython.display import display

    out, wanted = w.Output(), dict[str, Any]()
    found, _ = opened.resolved(picker.opened, options)
    drops = {
        name: w.Dropdown(description=name.replace("_", " ").capitalize(), layout=w.Layout(**WIDE)) for name in found
    }
    setting = False

    def again() -> None:
        nonlocal setting
        menus_now, chosen = opened.resolved(picker.opened, options, wanted)
        setting = True
        for name, drop in drops.items():
            drop.options = menus_now[name]
            drop.value = chosen[name]
        setting = False
        with out:
            out.clear_output(wait=True)
            picker.render(place, view, chosen)

    def changed(name: str, value: Any) -> None:
        if not setting:
            wanted[name] = value
            again()

    for name, drop in drops.items():
        drop.observe(lambda change, name=name: changed(name, change["new"]), "value")
    picker.watch(again)
    display(w.VBox([*drops.values(), out]))
    again()
