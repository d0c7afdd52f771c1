"""Commands that manage stores and machines: doctor, install, up, down, status.

This module may import every package. Modules that only one command needs are imported when it runs.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from storelab.cli import Settings, known
from storelab.cli.campaigns import beginning, complete_store, config_argument
from storelab.cli.machine import json_option, print_json
from storelab.cli.measuring import load, load_stores
from storelab.core import units
from storelab.core.errors import MeasurementFailed, UserError

if TYPE_CHECKING:
    from storelab.core.config import Config

MIN_WIDTH = 110  # minimum width of a table in characters; with less, rich would wrap the cells


@click.command()
@config_argument
@click.option(
    "--nodes",
    is_flag=True,
    help="Check every node of the allocation instead of this machine: versions, s5cmd, endpoints, tmpfs, open files, "
    "clock, link.",
)
@json_option
@click.pass_obj
def doctor(settings: Settings, nodes: bool, as_json: bool) -> None:
    """Check programs, versions, credentials, endpoints, clock, space and limits of this machine.

    For every problem, the command shows how to fix it.
    """
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
            "fix the problems printed above",
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
        click.echo(f"{name}: is down, so that nodes could not check their connection to it; run `storelab up {name}`")


class _Install(click.Command):
    """The command `install`, whose help text lists all kinds."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from storelab.stores import recipes

        super().format_help_text(ctx, formatter)
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(f"KIND is one of: {', '.join(recipes.names())}.")


def _complete_kind(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    from storelab.stores import recipes

    return beginning(incomplete, recipes.names())


@click.command(cls=_Install)
@click.argument("kinds", nargs=-1, required=True, metavar="KIND…", shell_complete=_complete_kind)
@click.option("--dry-run", is_flag=True, help="Show downloads and requirements, but install nothing.")
def install(kinds: tuple[str, ...], dry_run: bool) -> None:
    """Install the software for these KINDs. Installed software is not changed.

    A KIND is a store (seaweedfs: a second version, for upgrades), a newer version of a store (ceph-18.2, xrootd-5.8),
    an engine or its library (loadgen, davix, root), a testbed (slurm, condor), slurm-plugin (Snakemake's executor for
    Slurm), sshd (OpenSSH's server), or squid (the HTTP cache of the workload launch). Debian packages are installed in
    the system. All other software is installed in the folder that the environment variable STORELAB_TOOLS names. Its
    default is storelab's folder in your cache folder.
    """
    import time

    from storelab.install import tools_folder
    from storelab.stores import recipes

    todo = [(kind, part) for kind in kinds for part in recipes.parts(kind, tools_folder())]
    for n, (kind, part) in enumerate(todo, 1):
        head = f"[{n}/{len(todo)}] {kind}: {part.what}"
        if part.present():
            click.echo(f"{head}: already installed")
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
    """Return the stores by name that a command applies to; for `down`, also their earlier deployments.

    Raises UserError if no store is named, or a store with this name is not configured.
    """
    stores = load_stores(config)
    if all_:
        names = list(config.stores_to_measure)
    elif name is None:
        raise UserError(command, "the name of a store is missing", f"give one of {', '.join(stores)}, or --all")
    else:
        known(command, [name], list(stores), "store")
        names = [name]
    if command != "down":
        return {name: stores[name] for name in names}
    return {n: s for n, s in load_stores(config, past=True).items() if all_ or n.partition("+")[0] in names}


@click.command()
@click.argument("name", required=False, shell_complete=complete_store)
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
    from storelab.measure import attempts

    if planned:
        wanted = planned_stores(settings)
    else:
        wanted = [(s, front_ends, 1) for s in chosen(settings.load(), name, all_, "up").values()]
    _repair(settings.load())
    for store, number, accounts in wanted:
        store.up(number, accounts)
        if store.managed and not planned and attempts.RUN not in os.environ:
            store.keep()
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
@click.argument("name", required=False, shell_complete=complete_store)
@click.option(
    "--all", "all_", is_flag=True, help="Stop all stores of the campaign, and remove the clients' files on tmpfs."
)
@click.option(
    "--planned",
    is_flag=True,
    help="Stop the stores that a run of the campaign started, resume others that it suspended, and remove what clients "
    "keep on tmpfs.",
)
@click.pass_obj
def down(settings: Settings, name: str | None, all_: bool, planned: bool) -> None:
    """Stop the managed store NAME, or all managed stores with --all. Their data are kept."""
    from storelab.host import scratch
    from storelab.measure import deployment
    from storelab.measure.attempts import measuring_lock
    from storelab.stores.managed import users

    config = settings.load()
    _repair(config)
    of_plan = deployment.names(load(settings)[1]) if planned else set()
    measuring = any(users.others(Path(config.state), name) for name in config.stores)
    for store in chosen(config, name, all_ or planned, "down").values():
        if not store.managed:
            continue
        if planned and store.name.partition("+")[0] not in of_plan:
            if not measuring:
                store.resume()
            continue
        if pids := users.others(Path(config.state), store.name):
            users_text = f"process {pids[0]}" if len(pids) == 1 else f"{len(pids)} other processes"
            click.echo(f"{store.name}: not stopped, because it is in use by {users_text}; the last user stops it")
        elif (stopped := deployment.release(store) if planned else store.down()) is None:
            click.echo(f"{store.name}: not stopped, because you started it; stop it with `storelab down {store.name}`")
        elif stopped:
            click.echo(f"{store.name}: stopped {len(stopped)} process{'es' if len(stopped) > 1 else ''}")
        elif name:
            click.echo(f"{store.name}: is not running")
    if all_ or planned:
        with measuring_lock(Path(config.state)):
            if not scratch.clear(config.scratch):
                others = ", ".join(scratch.campaigns(config.scratch)) or "another of your processes"
                click.echo(f"files on tmpfs are kept, because they are in use by {others}")


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
