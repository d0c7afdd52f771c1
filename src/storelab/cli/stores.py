"""Commands that manage stores and machines: doctor, install, up, down, status.

May import: every package. What only one command needs is imported when it runs.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from storelab.cli import Settings, known
from storelab.cli.machine import json_option, print_json
from storelab.cli.measuring import load, load_stores
from storelab.core import units
from storelab.core.errors import MeasurementFailed, UserError

if TYPE_CHECKING:
    from storelab.core.config import Config

MIN_WIDTH = 110  # characters; a narrower table would be folded


@click.command()
@click.option(
    "--nodes",
    is_flag=True,
    help="Check every node of the allocation instead: versions, s5cmd, endpoints, tmpfs, open files, clock, link.",
)
@json_option
@click.pass_obj
def doctor(settings: Settings, nodes: bool, as_json: bool) -> None:
    """Check this machine: programs, versions, credentials, endpoints, clock, space, limits. Show how to fix errors."""
    from storelab.measure import doctor as examination

    if nodes:
        _check_nodes(settings.load(), as_json)
        return
    findings = examination.examine(settings.load())
    fit = not any(f.level == "fail" for f in findings)
    if as_json:
        print_json("doctor", fit=fit, findings=[vars(f) for f in findings], nodes=[], stores_down=[])
    else:
        examination.print_findings(findings)
    if not fit:
        raise UserError("doctor", "some checks failed", "see the lines marked `fail`")


def _check_nodes(config: "Config", as_json: bool) -> None:
    from storelab.gang import inspect

    rows, down = inspect.nodes(config, load_stores(config))
    bad = [r for r in rows if r["problem"]]
    if as_json:
        named = [{column.replace(" ", "_"): value for column, value in row.items()} for row in rows]
        print_json("doctor", fit=not bad, findings=[], nodes=named, stores_down=down)
    else:
        _show_nodes(rows, down, inspect.COLUMNS)
    if bad:
        raise UserError(
            "doctor --nodes",
            f"{len(bad)} of {len(rows)} nodes cannot measure, the first is {bad[0]['host']}",
            "see the problems above",
        )


def _show_nodes(rows: list[dict[str, str]], down: list[str], columns: Sequence[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(row[c]) for c in columns))
    Console(width=max(Console().width, MIN_WIDTH)).print(table)
    for row in rows:
        if row["problem"]:
            click.echo(f"{row['host']}: {row['problem']}")
    for name in down:
        click.echo(f"{name}: is down, so no node could check whether it reaches it; run `storelab up {name}`")


class _Install(click.Command):
    """A command with a help text that lists what can be installed."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from storelab.stores import recipes

        super().format_help_text(ctx, formatter)
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(f"KIND is one of: {', '.join(recipes.names())}.")


@click.command(cls=_Install)
@click.argument("kinds", nargs=-1, required=True, metavar="KIND…")
@click.option("--dry-run", is_flag=True, help="Install nothing; show what would be downloaded, and the requirements.")
def install(kinds: tuple[str, ...], dry_run: bool) -> None:
    """Install the software for these KINDs. Installed software is not changed.

    A KIND is a store (seaweedfs: another version, for upgrades), an engine or its library (loadgen, davix, root), a
    testbed (slurm, condor), slurm-plugin (Snakemake's executor for Slurm), sshd (OpenSSH's server), or squid (the HTTP
    cache of the workload launch). Debian packages are installed in the system. Everything else is installed in the
    folder STORELAB_TOOLS; default: storelab's folder in your cache folder.
    """
    import time

    from storelab.install import tools_folder
    from storelab.stores import recipes

    todo = [(kind, part) for kind in kinds for part in recipes.parts(kind, tools_folder())]
    for n, (kind, part) in enumerate(todo, 1):
        head = f"[{n}/{len(todo)}] {kind}: {part.what}"
        if part.present():
            click.echo(f"{head}: is there")
            continue
        click.echo(f"{head}: {part.needs}")
        if dry_run:
            continue
        started = time.monotonic()
        part.run(lambda line, kind=kind: click.echo(f"    {kind}: {line}", err=True))
        if not part.present():
            raise MeasurementFailed(f"install: {kind}: {part.what} was not found after its installation")
        click.echo(f"    {kind}: done in {units.human_duration((time.monotonic() - started) * 1e9)}")


def chosen(config: "Config", name: str | None, all_: bool, command: str) -> dict[str, Any]:
    """Return the stores that a command applies to; for `down`, also their earlier deployments. Raises UserError."""
    stores = load_stores(config)
    if all_:
        names = list(config.stores_to_measure)
    elif name is None:
        raise UserError(command, "no store is given", f"give one of {', '.join(stores)}, or --all")
    else:
        known(command, [name], list(stores), "store")
        names = [name]
    if command != "down":
        return {name: stores[name] for name in names}
    return {n: s for n, s in load_stores(config, past=True).items() if all_ or n.partition("+")[0] in names}


@click.command()
@click.argument("name", required=False)
@click.option("--all", "all_", is_flag=True, help="Start all stores of the campaign.")
@click.option(
    "--front-ends", default=1, type=click.IntRange(1, 10_000), show_default=True, help="The number of front-ends."
)
@click.option(
    "--planned",
    is_flag=True,
    help="Start all deployments of the plan, each with the highest number of front-ends and accounts that it needs.",
)
@click.pass_obj
def up(settings: Settings, name: str | None, all_: bool, front_ends: int, planned: bool) -> None:
    """Start the managed store NAME of config.yaml, or check whether an external store answers."""
    if planned:
        wanted = planned_stores(settings)
    else:
        wanted = [(s, front_ends, 1) for s in chosen(settings.load(), name, all_, "up").values()]
    _repair(settings.load())
    for store, number, accounts in wanted:
        store.up(number, accounts)
        click.echo(f"{store.name}: up, {', '.join(e.url for e in store.endpoints(number))}")


def _repair(config: "Config") -> None:
    """Undo the faults that a killed storelab process left in any store."""
    for store in load_stores(config, past=True).values():
        try:
            lines = store.repair()
        except UserError as error:
            lines = [str(error)]
        for line in lines:
            click.echo(line)


def planned_stores(settings: Settings) -> list[tuple[Any, int, int]]:
    """Return the deployments of the plan, with the highest number of front-ends and accounts that a point needs."""
    from storelab.stores import deployed

    config, points = load(settings)
    stores, out = load_stores(config), {}
    for p in points:
        store = deployed(stores[p.store], p.axes)
        _, front_ends, accounts = out.get(store.name, (store, 1, 1))
        out[store.name] = store, max(front_ends, p.axes.get("front_ends", 1)), max(accounts, p.axes.get("accounts", 1))
    return list(out.values())


@click.command()
@click.argument("name", required=False)
@click.option(
    "--all", "all_", is_flag=True, help="Stop all stores of config.yaml, and remove what clients keep on tmpfs."
)
@click.pass_obj
def down(settings: Settings, name: str | None, all_: bool) -> None:
    """Stop the managed store NAME, or all of them. Their data are kept."""
    from storelab.host import scratch
    from storelab.measure.attempts import measuring_lock
    from storelab.stores.managed import users

    config = settings.load()
    _repair(config)
    for store in chosen(config, name, all_, "down").values():
        if not store.managed:
            continue
        if pids := users.others(Path(config.state), store.name):
            users_text = f"process {pids[0]}" if len(pids) == 1 else f"{len(pids)} other processes"
            click.echo(f"{store.name}: not stopped, in use by {users_text}; the last one stops it")
            continue
        click.echo(f"{store.name}: stopped {len(store.down())} processes")
    if all_:
        with measuring_lock(Path(config.state)):
            if not scratch.clear(config.scratch):
                click.echo("files on tmpfs are kept: another campaign of yours uses them")


@click.command()
@json_option
@click.pass_obj
def status(settings: Settings, as_json: bool) -> None:
    """Show the state of all stores: up or down, version, endpoints."""
    states = (store.status() for store in load_stores(settings.load(), past=True).values())
    if as_json:
        keys = ("kind", "state", "version", "endpoints", "detail")
        print_json("status", stores=[{"store": s.name} | {key: getattr(s, key) for key in keys} for s in states])
        return
    for s in states:
        click.echo(f"{s.name} ({s.kind}): {s.state} {s.version} {' '.join(s.endpoints)} {s.detail}".rstrip())
