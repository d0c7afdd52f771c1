"""Commands for clusters: `testbed`, and `size`, which estimates how many clients fill a link.

A command imports what it needs when it runs.
"""

import os
import sys
from pathlib import Path
from typing import Any

import click

from storelab.cli import Settings, campaigns, example, pass_settings
from storelab.cli.machine import json_option, print_json
from storelab.core.errors import UserError

MAX_LENGTH = 80  # maximum length of the folder's path, because the path of a socket in it is limited to 107 bytes
DEFAULT = "results/reference"  # default campaign of `size`
POINTS, POINT_S = 100, 60.0  # number and duration (seconds) of the points for which `size` estimates the records


def _absolute(_: click.Context, __: click.Parameter, value: Path) -> Path:
    folder = value.absolute()
    if len(str(folder)) > MAX_LENGTH:
        raise UserError(
            "--folder",
            f"the path {folder} is too long for a socket in it",
            f"use a path of at most {MAX_LENGTH} characters",
        )
    return folder


FOLDER = click.option(
    "--folder",
    default=".storelab/testbed",
    show_default=True,
    type=click.Path(path_type=Path),
    callback=_absolute,
    help="The folder of the testbed.",
)


@click.group()
def testbed() -> None:
    """Create a real Slurm cluster or HTCondor pool on this machine for tests and teaching (docs/cluster.md)."""


@testbed.command(epilog=example("storelab testbed up --nodes 4"))
@FOLDER
@click.option("--nodes", default=4, show_default=True, type=click.IntRange(1, 100), help="The number of nodes.")
@click.option(
    "--port",
    default=16817,
    show_default=True,
    type=click.IntRange(1024, 32000),
    help="The controller's port; the nodes use the ports after it.",
)
@click.option(
    "--links", is_flag=True, help="Put each node into its own network namespace with its own link (needs root)."
)
@click.option(
    "--htcondor",
    is_flag=True,
    help="Create an HTCondor pool with links instead (needs root and `storelab install condor`).",
)
@click.option(
    "--rate",
    "rates",
    multiple=True,
    help="The rate of the nodes' links, in the notation of tc. If given several times, the nodes get these rates in "
    "turn. Default: 100mbit.",
)
@click.option(
    "--front-ends",
    default=4,
    show_default=True,
    type=click.IntRange(0, 8),
    help="The number of addresses of the head node that front-ends of a store can use.",
)
@click.option("--front-end-rate", default="150mbit", show_default=True, help="The rate of each front-end's link.")
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
    """Start the testbed, and wait until all nodes are idle."""
    from storelab.gang.testbed import links as linked
    from storelab.gang.testbed import pool
    from storelab.gang.testbed.slurm import LOOPBACK, Cluster, Node

    def report(line: str) -> None:
        click.echo(f"    {line}", err=True)

    existing = _existing(folder)
    if existing.pids() and (htcondor or isinstance(existing, pool.Pool)):
        hint = "run `storelab testbed down` first, or use another --folder"
        raise UserError("testbed", f"a testbed is up in {folder}", hint)
    if links or htcondor:
        node_rates = [(rates or ("100mbit",))[i % len(rates or (1,))] for i in range(nodes)]
        plan = linked.Plan(node_rates, [front_end_rate] * front_ends, pool.PREFIX if htcondor else linked.PREFIX)
        cluster = pool.Pool(folder) if htcondor else linked.up(folder, plan, port, report)
        if htcondor:
            cluster.up(plan, report)
        click.echo(
            f"{nodes} nodes; links: {', '.join(dict.fromkeys(node_rates))}; front-ends: "
            f"{', '.join(plan.addresses) or 'none'} ({front_end_rate} each)"
        )
    else:
        cluster = Cluster(folder)
        cluster.up(LOOPBACK, port, [Node(f"node{i}", LOOPBACK, port + i) for i in range(1, nodes + 1)], report)
        click.echo(f"{nodes} nodes on loopback")
    if htcondor:
        click.echo("to run a command in the pool: storelab testbed run -- condor_status")
    else:
        click.echo(
            f"SLURM_CONF={cluster.conf}; to run a command in the cluster: storelab testbed run -- salloc -N{nodes} …"
        )


def _existing(folder: Path) -> Any:
    """Return the HTCondor pool of the folder if it is up; otherwise the Slurm cluster, which may be down."""
    from storelab.gang.testbed.pool import Pool
    from storelab.gang.testbed.slurm import Cluster

    pool = Pool(folder)
    return pool if pool.pids() else Cluster(folder)


@testbed.command(epilog=example("storelab testbed down"))
@FOLDER
def down(folder: Path) -> None:
    """Stop the testbed, and remove its network namespaces. If it is down, the command does nothing."""
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
    """Show the running daemons and the links of the testbed."""
    from storelab.gang.testbed.links import Network

    plan, pids = Network(folder).planned(), _existing(folder).pids()
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
    """Run COMMAND on the head node of the testbed.

    It runs in the network of the head node. SLURM_CONF is set for Slurm, and PATH contains HTCondor's commands.
    """
    from storelab.gang.testbed.links import Network, enter

    cluster = _existing(folder)
    if not cluster.pids():
        raise UserError("testbed", f"no testbed is up in {folder}", "run `storelab testbed up` first")
    plan = Network(folder).planned()
    full_command = [*(enter(plan.head) if plan else ()), *command]
    sys.stdout.flush()
    try:
        # Replace this process, so that the command gets the signals: salloc then releases its job.
        os.execvpe(full_command[0], full_command, cluster.environ())
    except FileNotFoundError:
        raise UserError("testbed run", f"there is no program {command[0]!r}", "check the command") from None


def _rate(value: str, place: str) -> int:
    """Return a rate in bytes per second. Raises UserError if the text is not a rate above 0."""
    from storelab.core import units

    if not (parsed := units.parse(value, "rate", place)):
        raise UserError(place, f"{value!r} is 0", "give a rate above 0")
    return parsed


@click.command()
@click.option("--link", required=True, help="The rate of the link that the clients fill, e.g. 20 Gbit/s.")
@click.option("--client-link", required=True, help="The rate of the link of each client node, e.g. 1 Gbit/s.")
@campaigns.argument("campaign")
@click.option(
    "--campaign-dir",
    hidden=True,
    type=click.Path(path_type=Path),
    help="The older way to give the folder of the campaign.",
)
@click.option(
    "--operation",
    default="get",
    show_default=True,
    type=click.Choice(["get", "put"]),
    help="The operation: downloads or uploads.",
)
@click.option("--engine", default="s5cmd", show_default=True, help="The engine of the clients.")
@json_option
@pass_settings
def size(
    settings: Settings,
    link: str,
    client_link: str,
    campaign: str | None,
    campaign_dir: Path | None,
    operation: str,
    engine: str,
    as_json: bool,
) -> None:
    """Estimate from the results of a campaign how many clients fill a link, and the size of their records.

    CAMPAIGN is the one in which the rate of one client was measured; default: reference. The estimate assumes
    the largest measured objects, and the records of 100 points of 60 s each.
    """
    from storelab.analysis import sizing
    from storelab.analysis.records.campaign import load
    from storelab.analysis.tables import build
    from storelab.core import units

    link_rate, client_rate = _rate(link, "--link"), _rate(client_link, "--client-link")
    folder = campaign_dir or campaigns.find(settings, campaign or DEFAULT).folder
    measured = load(folder)
    found = {name: build.read(folder, name) for name in ("calibration", "throughput")}
    size_bytes = sizing.largest(found, operation, engine)
    one = sizing.one_client(measured, found, operation, engine, size_bytes)
    clients = sizing.clients_for(link_rate, client_rate, one.bytes_per_s)
    with_room = max(1, round(1.25 * clients))
    rate = min(client_rate, one.bytes_per_s) / size_bytes
    counts = dict.fromkeys((clients, 64, 512, 5000))
    volumes = {count: sizing.estimate(measured, count, POINTS, POINT_S, rate) for count in counts}
    if as_json:
        print_json(
            "size",
            link_bytes_per_s=link_rate,
            client_link_bytes_per_s=client_rate,
            one_client={"bytes_per_s": one.bytes_per_s, "source": one.source},
            clients=clients,
            clients_with_room=with_room,
            points=POINTS,
            records=[
                {
                    "clients": count,
                    "operations_a_point": volume["operations a point"],
                    "records_a_point_bytes": volume["records a point"],
                    "records_bytes": volume["records of the campaign"],
                    "files": volume["files of the campaign"],
                }
                for count, volume in volumes.items()
            ],
        )
        return
    click.echo(
        f"one client ({engine}, {operation} of {units.human_size(size_bytes)}): {one.bytes_per_s / 1e6:.4g} MB/s, "
        f"{one.source}; link of a client: {client_rate / 1e6:.4g} MB/s"
    )
    click.echo(f"{clients} clients fill {link}; with {with_room} clients the link is clearly the limit")
    for count, volume in volumes.items():
        click.echo(
            f"{count:5d} clients, {POINTS} points: {volume['operations a point']:.3g} operations and "
            f"{units.human_size(volume['records a point'])} of records "
            f"per point, {units.human_size(volume['records of the campaign'])} in {volume['files of the campaign']} "
            "files in total"
        )
