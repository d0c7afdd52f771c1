"""Commands about the commands themselves: what a shell completes, and the pages that are made from the code (room
`cli`).

May import: every room; what a command needs is imported when it runs.
"""

import sys
from pathlib import Path

import click

from storelab.core import records
from storelab.core.errors import Exit

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a script that makes SHELL complete commands, options and their values (docs/commands.md)."""
    from click.shell_completion import get_completion_class

    from storelab.cli import cli

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "storelab", "_STORELAB_COMPLETE").source())


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a page is out of step.")
def docs(check: bool) -> None:
    """Write the pages in docs/ that are made from the code: configuration keys and axes; keys of --json, exit codes."""
    wrong = []
    for name, text in pages().items():
        path = Path("docs") / name
        if not check:
            records.write_atomic(path, text.encode())
            click.echo(path)
        elif not path.exists() or path.read_text() != text:
            wrong.append(str(path))
    if wrong:
        click.echo(f"storelab: out of step with the code: {', '.join(wrong)}; run `storelab docs`", err=True)
        sys.exit(Exit.FAILED)


def pages() -> dict[str, str]:
    """Name of a file in docs/ -> what it holds."""
    from storelab.cli import reference

    return {
        "configuration.md": reference.configuration(),
        "machine.md": reference.machine(),
        "machine.schema.json": reference.machine_schema(),
    }
