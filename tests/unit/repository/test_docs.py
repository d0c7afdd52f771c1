"""What a user can name stands in the docs: commands, kinds of stores, campaigns, columns of tables (configuration keys: test_analysis_cli).

Columns are those of two synthetic campaigns, which have every kind of table.
"""

import csv
import functools
import re

from paths import ROOT

import campaigns
from storelab.cli import cli
from storelab.core.stores import KINDS
from storelab.workloads import WORKLOADS

PAGES = {p.name: p.read_text() for p in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))}
SHARED = "Columns of several tables"


def sections(page: str) -> dict[str, str]:
    """Heading of level 2, without its marks -> its text."""
    parts = re.split(r"^## (.+)$", PAGES[page], flags=re.MULTILINE)
    return {head.strip("`"): text for head, text in zip(parts[1::2], parts[2::2], strict=True)}


def quoted(text: str) -> set[str]:
    return set(re.findall(r"`([^`\n]+)`", text))


def test_commands_stand_in_their_page_and_no_others():
    listed = re.findall(
        r"`storelab (\w+)`", "".join(re.findall(r"^\| (`.+?) \|", PAGES["commands.md"], flags=re.MULTILINE))
    )
    assert sorted(listed) == sorted(cli.list_commands(None))


def test_campaigns_stand_in_the_list_and_no_others():
    _, _, rest = PAGES["campaigns.md"].partition("\n| campaign |")
    listed = re.findall(r"^\| `([\w-]+)` \|", rest.partition("\n\n")[0], flags=re.MULTILINE)
    assert sorted(listed) == sorted(p.stem for p in (ROOT / "campaigns").glob("*.yaml"))


def test_workloads_and_kinds_of_stores_stand_in_the_docs():
    assert set(WORKLOADS) <= quoted(PAGES["campaigns.md"])
    assert set(KINDS) <= quoted(PAGES["stores.md"]) | quoted(PAGES["calibration.md"])


@functools.cache
def columns() -> dict[str, set[str]]:
    """Return table -> its columns in both campaigns."""
    out: dict[str, set[str]] = {}
    for path in (path for name in ("broad", "roles") for path in (campaigns.built(name) / "tables").glob("*.csv")):
        with path.open(newline="") as f:
            out.setdefault(path.name, set()).update(next(csv.reader(f)))
    return out


def family(column: str) -> str:
    """The name that stands in docs/tables.md for a column, its parts and its windows; of a role's axis the axis alone."""
    column = re.sub("_(median|low|high)_", "_*_", re.sub("^[a-z]+[.]", "", column))
    return re.sub("^errors_[0-9]+$", "errors_<status>", re.sub("^(overlap|first_done|last_done)_", "<window>_", column))


def test_columns_are_explained():
    page = sections("tables.md")
    for table, found in columns().items():
        explained = quoted(page[table]) | quoted(page[SHARED])
        assert not {c for c in found if c not in explained and family(c) not in explained}, table


def test_axes_are_explained_and_no_table_is_made_up():
    page = sections("tables.md")
    axes = {a.column for w in WORKLOADS.values() for a in w.axes}
    assert not axes - quoted(page[SHARED])
    assert page.keys() - {SHARED} == columns().keys()


def test_no_explained_column_is_made_up():
    """The first cell of a row names columns that are there."""
    page, known = sections("tables.md"), columns()
    for table in known:
        rows = re.findall(r"^\| (`.+?) \|", page[table], flags=re.MULTILINE)
        named = {name for row in rows for name in quoted(row)} - {"overlap_…", "first_done_…", "last_done_…"}
        assert named and not named - known[table] - {family(c) for c in known[table]}, table
