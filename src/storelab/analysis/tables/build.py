"""All tables of a campaign: raw records in, `tables/*.csv` out. May import: `records`, `parts`, `core`, and nothing
slow at first.

The module that `TABLES` names says what a table holds. MB = 10^6 bytes; the unit ends a column's name; `median`, `low`,
`high` are those of `statistics.medians`.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storelab.analysis.parts import derived
from storelab.analysis.records.campaign import Campaign, load
from storelab.analysis.tables import GIVEN, TABLES
from storelab.core import records

if TYPE_CHECKING:
    import pandas as pd

NAMES = tuple(TABLES)
TEXTS = ("numbers", "environment")  # tables whose values are text, read as they stand


class Tables(Mapping[str, Any]):
    """The tables of a campaign and what they depend on, by name: each made when it is first asked for. known: what is
    known already."""

    def __init__(self, campaign: Campaign, **known: Any) -> None:
        self._made: dict[str, Any] = {"campaign": campaign, "plan": campaign.plan, "tables": self, **known}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            with python_strings():
                self._made[name] = (TABLES | GIVEN)[name].make(self)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made | TABLES | GIVEN)

    def __len__(self) -> int:
        return len(self._made | TABLES | GIVEN)


@contextmanager
def python_strings() -> Iterator[None]:
    """Texts of tables are Python's: Arrow's take longer to load, and to choose and group few rows by."""
    import pandas as pd

    with pd.option_context("mode.string_storage", "python"):
        yield


def build(campaign_dir: Path, names: Iterable[str] = NAMES) -> list[Path]:
    """Verify the raw records, then write all tables, or those of these names, atomically. Raises UserError: altered,
    missing or unmeasured points."""
    wanted = list(names)
    made = {campaign_dir / "tables" / name: text for name, text in texts(campaign_dir, wanted).items()}
    for path, text in made.items():
        records.write_atomic(path, text)
    derived.write_sums(campaign_dir, wanted)
    return list(made)


def texts(campaign_dir: Path, names: Iterable[str] = NAMES) -> dict[str, bytes]:
    """File -> what `build` writes into it."""
    tables = Tables(load(campaign_dir))
    made = {name: tables[name] for name in names}  # all of them, before one is written
    return {f"{name}.csv": table.to_csv(index=False, float_format="%.9g").encode() for name, table in made.items()}


def read(campaign_dir: Path, name: str) -> "pd.DataFrame":
    """A table as written by `build`. Raises UserError where it is not there, or not as it was written."""
    import pandas as pd

    path = derived.require_table(campaign_dir, name)
    text = name in TEXTS
    with python_strings():
        table = pd.read_csv(path, dtype={"value": str} if text else None, keep_default_na=not text, low_memory=False)
    # In a block for each type: whoever takes rows of a wide table waits for each block, and pandas' own texts have one
    # for each column.
    return table.astype(dict.fromkeys(table.select_dtypes("str"), object)).copy()
