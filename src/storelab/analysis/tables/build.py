"""Build the tables of a campaign, `tables/*.csv`, from its raw records.

`TABLES` names the module of each table, which describes its content. 1 MB is 10^6 bytes. The name of a column ends with
its unit. `median`, `low` and `high` are defined in `statistics.medians`. May import: `records`, `parts`, `core`. Slow
modules are only imported within functions.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storelab.analysis.parts import derived
from storelab.analysis.records.campaign import Campaign, load
from storelab.analysis.tables import GIVEN, TABLES
from storelab.core import integrity, records
from storelab.core.errors import UserError, error_text

if TYPE_CHECKING:
    import pandas as pd

NAMES = tuple(TABLES)
NEEDED = {"start_ns", "deadline_ns", "clients"}  # keys of run.json
TEXTS = ("numbers", "environment")  # tables whose values are read as text


class Tables(Mapping[str, Any]):
    """The tables of a campaign and their inputs, by name. Each is made when it is first requested."""

    def __init__(self, campaign: Campaign, **known: Any) -> None:
        """Store the campaign. known: tables that need not be made, by name."""
        self._made: dict[str, Any] = {"campaign": campaign, "plan": campaign.plan, "tables": self, **known}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            with python_strings(), impossible_values(self._made["campaign"].raw):
                self._made[name] = (TABLES | GIVEN)[name].make(self)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made | TABLES | GIVEN)

    def __len__(self) -> int:
        return len(self._made | TABLES | GIVEN)


def complete(campaign: Campaign) -> Campaign:
    """Return the campaign. Raises UserError if a run does not have the keys that all tables need."""
    for key, run in campaign.runs.items():
        if lost := NEEDED - run.keys():
            place = f"{campaign.raw}: run.json of {key}"
            raise UserError(place, f"has no {min(lost)!r}: the file is damaged", integrity.MEASURE_AGAIN)
    return campaign


@contextmanager
def impossible_values(raw: Path) -> Iterator[None]:
    """Convert DuckDB's errors about columns and values of Parquet files to a UserError with the same message."""
    import duckdb

    try:
        yield
    except (
        duckdb.BinderException,
        duckdb.InvalidInputException,
        duckdb.ConversionException,
        duckdb.OutOfRangeException,
    ) as error:
        problem = f"a Parquet file has columns or values that storelab does not write ({error_text(error)})"
        raise UserError(str(raw), problem, integrity.MEASURE_AGAIN) from None


@contextmanager
def python_strings() -> Iterator[None]:
    """Use Python strings in tables. Arrow strings take longer to load, and to select and group a few rows."""
    import pandas as pd

    with pd.option_context("mode.string_storage", "python"):
        yield


def build(campaign_dir: Path, names: Iterable[str] = NAMES) -> list[Path]:
    """Verify the raw records, write tables, and return their paths. Each file is written atomically.

    names: the tables to write; default: all. Raises UserError if points were altered, are missing, or were not
    measured.
    """
    wanted = list(names)
    made = {campaign_dir / "tables" / name: text for name, text in texts(campaign_dir, wanted).items()}
    for path, text in made.items():
        records.write_atomic(path, text)
    derived.write_sums(campaign_dir, wanted)
    derived.outdate_future(campaign_dir)
    return list(made)


def texts(campaign_dir: Path, names: Iterable[str] = NAMES) -> dict[str, bytes]:
    """Return the content of the files that `build` writes: name of the file -> content."""
    from storelab.analysis.records import scan

    campaign = complete(load(campaign_dir))
    with impossible_values(campaign.raw):
        scan.check_operations(campaign)
    tables = Tables(campaign)
    made = {name: tables[name] for name in names}  # make all tables before writing one
    return {f"{name}.csv": table.to_csv(index=False, float_format="%.9g").encode() for name, table in made.items()}


def read(campaign_dir: Path, name: str) -> "pd.DataFrame":
    """Read a table written by `build`. Raises UserError if it does not exist, was altered, or is out of date."""
    import pandas as pd

    path = derived.require_table(campaign_dir, name)
    text = name in TEXTS
    with python_strings():
        table = pd.read_csv(path, dtype={"value": str} if text else None, keep_default_na=not text, low_memory=False)
    # Selecting rows of a wide table takes time for each block of memory. Strings of pandas have one block for each
    # column, objects have one in all.
    return table.astype(dict.fromkeys(table.select_dtypes("str"), object)).copy()
