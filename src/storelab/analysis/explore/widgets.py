"""The menus of the picker: campaign and filters, and what a view lets one choose. Needs ipywidgets."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import ipywidgets as w
from IPython.display import display

from storelab.analysis.explore import opened
from storelab.analysis.parts import words

if TYPE_CHECKING:
    from storelab.analysis.explore.picker import Picker, View

ROWS = 5  # of a list of values
WIDE = w.Layout(width="auto", max_width="60em")


def panel(picker: "Picker") -> w.VBox:
    """A menu of campaigns, and lists of values to filter by; nothing marked in a list: all of them."""
    here = picker.opened.folder.resolve()
    known = {p.resolve(): p.name for p in [*opened.named(), here]}
    campaigns = w.Dropdown(
        description="Campaign", options=[(name, folder) for folder, name in known.items()], value=here
    )
    box = w.VBox()

    def filters() -> None:
        lists = {
            column: w.SelectMultiple(
                description=words.heading(column),
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


def menus(picker: "Picker", place: int, view: "View", options: Mapping[str, Any]) -> None:
    """Display the menus of a view, and below them what it yields, again whenever one of them or the picker changes."""
    out, wanted = w.Output(), dict[str, Any]()
    found, _ = opened.resolved(picker.opened, options)
    drops = {name: w.Dropdown(description=name.replace("_", " ").capitalize(), layout=WIDE) for name in found}
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
