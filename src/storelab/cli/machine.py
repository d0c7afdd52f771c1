"""Words for machines: `--json` prints one object on stdout, as `answers` declares it (room `cli`).

`--help` loads this module, so what is slow to load (pydantic, pandas) is loaded when an object is printed. May import:
`core`.
"""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from storelab import __version__

if TYPE_CHECKING:
    import pandas as pd


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--json`; the command gets `as_json`."""
    told = "Print one JSON object on stdout and nothing else there (docs/machine.md)."
    return click.option("--json", "as_json", is_flag=True, help=told)(command)


def say(command: str, **told: Any) -> None:
    """Print the object of a command. What `answers` does not declare, or lacks here, is an error of ours."""
    from storelab.cli.answers import ANSWERS, SCHEMA_VERSION

    model = ANSWERS[command]
    head = {"command": command, "schema_version": SCHEMA_VERSION, "storelab": __version__}
    click.echo(model.model_validate(head | told).model_dump_json(indent=1))


def rows(table: "pd.DataFrame", within: dict[str, list[str]] | None = None) -> list[dict[str, Any]]:
    """The rows of a table, null where it has no value. within: columns that come together into an object of this name;
    one that has no value in a row is left out there."""
    out: list[dict[str, Any]] = json.loads(table.to_json(orient="records", double_precision=15))
    for name, columns in (within or {}).items():
        for row in out:
            inner = {c: row.pop(c, None) for c in columns}
            row[name] = {c: v for c, v in inner.items() if v is not None}
    return out
