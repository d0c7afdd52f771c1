"""Output for programs: `--json` prints one object on stdout, with the keys that `answers` declares.

`--help` imports this module. Therefore slow libraries (pydantic, pandas) are imported only when an object is printed.
This module may import `core`.
"""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from storelab import __version__

if TYPE_CHECKING:
    import pandas as pd


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option `--json`; the command gets `as_json`."""
    text = "Print one JSON object on stdout, and nothing else (docs/machine.md)."
    return click.option("--json", "as_json", is_flag=True, help=text)(command)


def print_json(command: str, **values: Any) -> None:
    """Print the JSON object of a command. Raises ValidationError if a key is missing or not declared."""
    from storelab.cli.answers import ANSWERS, SCHEMA_VERSION

    model = ANSWERS[command]
    head = {"command": command, "schema_version": SCHEMA_VERSION, "storelab": __version__}
    click.echo(model.model_validate(head | values).model_dump_json(indent=1))


def rows(table: "pd.DataFrame", within: dict[str, list[str]] | None = None) -> list[dict[str, Any]]:
    """Return the rows of a table, with null for missing values.

    `within` maps the name of an inner object to the columns that it contains. An inner object contains only columns
    that have a value in this row.
    """
    out: list[dict[str, Any]] = json.loads(table.to_json(orient="records", double_precision=15))
    for name, columns in (within or {}).items():
        for row in out:
            inner = {c: row.pop(c, None) for c in columns}
            row[name] = {c: v for c, v in inner.items() if v is not None}
    return out
