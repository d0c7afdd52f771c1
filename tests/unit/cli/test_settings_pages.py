"""Generated pages of the configuration: complete, and with the types that a user writes."""

import re

from storelab import stores
from storelab.cli import settings_pages
from storelab.workloads import WORKLOADS


def owned(page: str, name: str) -> str:
    """Return what the page says about one workload or kind: the head of its part, and its own section."""
    (part,) = (part for part in re.split("^## ", page, flags=re.MULTILINE) if f"\n### `{name}`\n" in part)
    head, *sections = re.split("^### ", part, flags=re.MULTILINE)
    return head + next(text for text in sections if text.startswith(f"`{name}`\n"))


def test_every_axis_is_on_the_page_of_workloads():
    page = settings_pages.workloads()
    for name, workload in WORKLOADS.items():
        missing = [axis.name for axis in workload.axes if f"`{axis.name}`" not in owned(page, name)]
        assert not missing, name


def test_every_key_is_on_the_page_of_stores():
    page = settings_pages.store_kinds()
    for kind in stores.KINDS:
        keys = stores.load(kind).Settings.model_fields.keys() - {"kind"}
        assert not [key for key in keys if f"`{key}`" not in owned(page, kind)], kind


def test_defaults_with_a_unit_have_a_type_with_a_unit():
    text = settings_pages.configuration() + settings_pages.workloads() + settings_pages.store_kinds()
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| `([\d.]+ \w+)` \|", text, flags=re.MULTILINE)
    kinds = {name: kind.partition(" ")[0] for name, kind, _ in rows}
    assert kinds["gang_timeout"] == kinds["duration"] == "duration" and kinds["volume_size"] == "size"
    assert set(kinds.values()) == {"duration", "size"}


def test_shared_rows_are_those_of_half_of_their_owners():
    def row(name: str, default: str) -> settings_pages.Row:
        return name, "size", default, "text"

    owners = {"a": [row("x", "1"), row("y", "1")], "b": [row("x", "1"), row("y", "2")], "c": [row("x", "2")]}
    assert settings_pages.shared_rows(owners) == [row("x", "1")]


def test_names_of_pages_become_links():
    assert settings_pages.linked("reference/a.md", ["docs/own-files.md", "docs/reference/b.md"]) == (
        "[own files](../own-files.md)\n[b](b.md)\n"
    )
