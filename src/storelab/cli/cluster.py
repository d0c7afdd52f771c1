"""Sub-commands for clusters: the testbed, and how many clients a link needs. Each imports its own side only."""

import os
import sys
from pathlib import Path
from typing import Any

import click

from storelab.cli import example
from storelab.cli.machine import json_option, say
from storelab.core.errors import UserError

LONGEST = 80  # letters of the folder's path: the path of a socket in it has at most 107
POINTS, POINT_S = 100, 60.0  # of the campaign whose records `size` estimates


def _absolute(_: click.Context, __: click.Parameter, value: Path) -> Path:
    folder = value.absolute()
    if len(str(folder)) > LONGEST:
        raise UserError(
            "--folder", f"{folder} is too long for a socket's path", f"give one of at most {LONGEST} letters"
        )
    return folder


FOLDER = click.option(
    "--folder",
    default=".storelab/testbed",
    show_default=True,
    type=click.Path(path_type=Path),
    callback=_absolute,
    help="The folder that it lives in.",
)


@click.group()
def testbed() -> None:
    """Make a real Slurm cluster or HTCondor pool on this machine, for tests and for teaching (docs/cluster.md)."""


@testbed.command(epilog=example("storelab testbed up --nodes 4"))
@FOLDER
@click.option("--nodes", default=4, show_default=True, type=click.IntRange(1, 100), help="How many nodes it gets.")
@click.option(
    "--port",
    default=16817,
    show_default=True,
    type=click.IntRange(1024, 32000),
    help="The controller's port; nodes take the next ones.",
)
@click.option(
    "--links", is_flag=True, help="Put each node into a network namespace with a link of its own (needs root)."
)
@click.option(
    "--htcondor",
    is_flag=True,
    help="Make an HTCondor pool instead, with such links (needs root and `storelab install condor`).",
)
@click.option(
    "--rate",
    "rates",
    multiple=True,
    help="The rate of the nodes' links, as tc writes it; give several for the nodes in turn. Default: 100mbit.",
)
@click.option(
    "--front-ends",
    default=4,
    show_default=True,
    type=click.IntRange(0, 8),
    help="How many addresses the head has for a store's front-ends.",
)
@click.option("--front-end-rate", default="150mbit", show_default=True, help="The rate of each of their links.")
def up(
    folder: Path,
    nodes: int,
    port: int,
    links: bool,
    htcondor: bool,
    rates: tuple[str, ...],
    front_ends: int,
    front_end_rate: str,
) -> None:
    """Start the testbed, and wait until all its nodes are idle."""
    from storelab.gang.testbed import links as linked
    from storelab.gang.testbed import pool
    from storelab.gang.testbed.slurm import LOOPBACK, Cluster, Node

    def report(line: str) -> None:
        click.echo(f"    {line}", err=True)

    there = _there(folder)
    if there.pids() and (htcondor or isinstance(there, pool.Pool)):
        raise UserError("testbed", f"one is up in {folder}", "`storelab testbed down` first, or give another --folder")
    if links or htcondor:
        each = [(rates or ("100mbit",))[i % len(rates or (1,))] for i in range(nodes)]
        plan = linked.Plan(each, [front_end_rate] * front_ends, pool.PREFIX if htcondor else linked.PREFIX)
        cluster = pool.Pool(folder) if htcondor else linked.up(folder, plan, port, report)
        if htcondor:
            cluster.up(plan, report)
        click.echo(
            f"{nodes} nodes; links: {', '.join(dict.fromkeys(each))}; front-ends: "
            f"{', '.join(plan.addresses) or 'none'} ({front_end_rate} each)"
        )
    else:
        cluster = Cluster(folder)
        cluster.up(LOOPBACK, port, [Node(f"node{i}", LOOPBACK, port + i) for i in range(1, nodes + 1)], report)
        click.echo(f"{nodes} nodes on loopback")
    if htcondor:
        click.echo("commands in it: storelab testbed run -- condor_status")
    else:
        click.echo(f"SLURM_CONF={cluster.conf}; commands in it: storelab testbed run -- salloc -N{nodes} …")


def _there(folder: Path) -> Any:
    """What is up in the folder: a pool, or else Slurm (or nothing)."""
    from storelab.gang.testbed.pool import Pool
    from storelab.gang.testbed.slurm import Cluster

    pool = Pool(folder)
    return pool if pool.pids() else Cluster(folder)


@testbed.command(epilog=example("storelab testbed down"))
@FOLDER
def down(folder: Path) -> None:
    """Stop the testbed, and remove its namespaces. To do so twice does no harm."""
    from storelab.gang.testbed.links import Network, enter
    from storelab.gang.testbed.pool import Pool
    from storelab.gang.testbed.slurm import Cluster

    network = Network(folder)
    plan = network.planned()
    stopped = [*Pool(folder).stop(), *Cluster(folder, enter(plan.head) if plan else ()).down()]
    removed = network.down()
    click.echo(f"stopped {len(stopped)} daemons, removed {len(removed)} namespaces")


@testbed.command(epilog=example("storelab testbed status"))
@FOLDER
def status(folder: Path) -> None:
    """Show what of the testbed runs."""
    from storelab.gang.testbed.links import Network

    plan, pids = Network(folder).planned(), _there(folder).pids()
    for name, pid in pids.items():
        click.echo(f"{name}: {pid}")
    if plan:
        click.echo(
            f"links: {len(plan.rates)} nodes ({', '.join(dict.fromkeys(plan.rates))}), front-ends "
            f"{', '.join(plan.addresses)}"
        )
    if not pids and not plan:
        click.echo("down")


@testbed.command(
    context_settings={"ignore_unknown_options": True}, epilog=example("storelab testbed run -- salloc -N4 hostname")
)
@FOLDER
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(folder: Path, command: tuple[str, ...]) -> None:
    """Run COMMAND on the testbed's head.

    It has the testbed's SLURM_CONF or HTCondor's commands, and the head's network.
    """
    from storelab.gang.testbed.links import Network, enter

    cluster = _there(folder)
    if not cluster.pids():
        raise UserError("testbed", f"it is not up in {folder}", "`storelab testbed up` first")
    plan = Network(folder).planned()
    whole = [*(enter(plan.head) if plan else ()), *command]
    sys.stdout.flush()
    try:
        os.execvpe(whole[0], whole, cluster.environ())  # signals are the command's: salloc gives its job back
    except FileNotFoundError:
        raise UserError("testbed run", f"there is no program {command[0]!r}", "look at the command") from None


def _rate(value: str, place: str) -> int:
    """Return a rate in bytes per second. Raises UserError: it is no rate, or 0."""
    from storelab.core import units

    if not (parsed := units.parse(value, "rate", place)):
        raise UserError(place, f"{value!r} is nothing", "give a rate of more than 0")
    return parsed


@click.command()
@click.option("--link", required=True, help="The rate of the link to be filled, e.g. 20 Gbit/s.")
@click.option("--client-link", required=True, help="The rate of the link of each client's node, e.g. 1 Gbit/s.")
@click.option(
    "--campaign-dir",
    default="results/reference",
    show_default=True,
    type=click.Path(path_type=Path),
    help="The campaign that tells what one client does.",
)
@click.option(
    "--operation", default="get", show_default=True, type=click.Choice(["get", "put"]), help="Downloads or uploads."
)
@click.option("--engine", default="s5cmd", show_default=True, help="The engine of the clients.")
@json_option
def size(link: str, client_link: str, campaign_dir: Path, operation: str, engine: str, as_json: bool) -> None:
    """Estimate how many clients fill a link, and what their records take, from what a campaign measured.

    The objects are the largest that it measured; the records are those of a campaign of 100 points of 60 s.
    """
    from storelab.analysis import sizing
    from storelab.analysis.records.campaign import load
    from storelab.analysis.tables import build
    from storelab.core import units

    wanted, each = _rate(link, "--link"), _rate(client_link, "--client-link")
    campaign = load(campaign_dir)
    found = {name: build.read(campaign_dir, name) for name in ("calibration", "throughput")}
    size_bytes = sizing.largest(found, operation, engine)
    one = sizing.one_client(campaign, found, operation, engine, size_bytes)
    clients = sizing.clients_for(wanted, each, one.bytes_per_s)
    with_room = max(1, round(1.25 * clients))
    rate = min(each, one.bytes_per_s) / size_bytes
    counts = dict.fromkeys((clients, 64, 512, 5000))
    volumes = {count: sizing.estimate(campaign, count, POINTS, POINT_S, rate) for count in counts}
    if as_json:
        say(
            "size",
            link_bytes_per_s=wanted,
            client_link_bytes_per_s=each,
            one_client={"bytes_per_s": one.bytes_per_s, "source": one.source},
            clients=clients,
            clients_with_room=with_room,
            points=POINTS,
            records=[
                {
                    "clients": count,
                    "operations_a_point": told["operations a point"],
                    "records_a_point_bytes": told["records a point"],
                    "records_bytes": told["records of the campaign"],
                    "files": told["files of the campaign"],
                }
                for count, told in volumes.items()
            ],
        )
        return
    click.echo(
        f"one client ({engine}, {operation} of {units.human_size(size_bytes)}): {one.bytes_per_s / 1e6:.4g} MB/s, "
        f"{one.source}; its link {each / 1e6:.4g} MB/s"
    )
    click.echo(f"{clients} clients fill {link}; {with_room} leave room to see that the link is the limit")
    for count, told in volumes.items():
        click.echo(
            f"{count:5d} clients, {POINTS} points: {told['operations a point']:.3g} operations and "
            f"{units.human_size(told['records a point'])} of records "
            f"a point, {units.human_size(told['records of the campaign'])} in {told['files of the campaign']} "
            "files in all"
        )
