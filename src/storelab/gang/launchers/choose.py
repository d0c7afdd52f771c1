"""Functions that select the configured launcher, and check whether this host can use it."""

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from storelab.core.config import Config
from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.model import Point
from storelab.gang import client, credentials
from storelab.gang.launchers import condor, local, remote, srun, ssh
from storelab.gang.launchers.local import Spare as Spare
from storelab.stores.base import Store
from storelab.stores.protocols.endpoint import LOOPBACK

LOCAL = "local"


def spare(config: Config, point: Point | None) -> AbstractContextManager[Spare]:
    """Yield a process for `make`, which imports the modules of the point's clients while the point is prepared.

    It is None if there is no point, or if no client starts on this host.
    """
    if point is None or config.launcher.kind != LOCAL:
        return nullcontext()
    return local.spare(sorted({place for part in point.parts() if (place := client.place_of(part.point))}))


def make(
    config: Config,
    point: Point,
    folder: Path,
    environs: list[dict[str, str]],
    store: Store | None = None,
    spare: Spare = None,
) -> Any:
    """Return the launcher of one point's gang. Some stores require that clients run on the hosts of their servers.

    Raises UserError if the batch system is missing or there are too few nodes, and MeasurementFailed if the job has too
    little time left.
    """
    settings = config.launcher
    if settings.kind == LOCAL:
        return local.LocalLauncher(
            folder, point.clients, environs, store.command_prefix if store else lambda rank: (), spare
        )
    if store and store.command_prefix(0):
        raise UserError(
            f"{store.place}.jobs_on_servers", f"the launcher is {settings.kind}", "set launcher.kind to local"
        )
    seconds = point.fixed["duration_ns"] / 1e9
    if reason := credentials.too_short(os.environ, seconds):
        raise MeasurementFailed(reason)
    if settings.kind == "htcondor":
        return condor.CondorLauncher(folder, _spread(point, most_nodes(config)), environs, settings)
    if settings.kind == "ssh":
        return ssh.SshLauncher(folder, _spread(point, most_nodes(config)), environs, settings)
    around = srun.allocation(os.environ)
    nodes = _spread(point, settings.nodes or around)
    if len(nodes) > around:
        raise UserError(
            "launcher.nodes",
            f"the gang needs {len(nodes)} nodes, but the allocation has {around}",
            "ask for a larger allocation",
        )
    left = srun.left_s(os.environ)
    if left is not None and left < seconds + srun.OVERHEAD_S:
        raise MeasurementFailed(
            f"the job has {left:.0f} s of walltime left, but the point needs {seconds + srun.OVERHEAD_S:.0f} s"
        )
    return srun.SrunLauncher(folder, nodes, environs, settings)


def most_nodes(config: Config) -> int:
    """Return the maximum number of nodes of a gang.

    Raises UserError if it is unknown, or if the configuration asks for more nodes than there are.
    """
    if config.launcher.kind == "htcondor":
        condor.require()
        if config.launcher.nodes is None:
            raise UserError("launcher.nodes", "HTCondor does not report the number of available nodes", "set a number")
        return config.launcher.nodes
    if config.launcher.kind == "ssh":
        ssh.require()
        return _within_list(config.launcher.nodes, len(config.launcher.hosts))
    if config.launcher.nodes and not srun.inside(os.environ):  # each point becomes its own job
        srun.require(os.environ)
        if (there := srun.cluster()) is not None and there < config.launcher.nodes:
            raise UserError(
                "launcher.nodes",
                f"{config.launcher.nodes} nodes are configured, but the cluster has {there}",
                f"set at most {there}",
            )
        return config.launcher.nodes
    around = srun.allocation(os.environ)
    wanted = config.launcher.nodes or around
    if wanted > around:
        raise UserError(
            "launcher.nodes",
            f"{wanted} nodes are configured, but the allocation has {around}",
            "ask for a larger allocation",
        )
    return wanted


def _within_list(wanted: int | None, listed: int) -> int:
    """Return the maximum number of hosts of a gang. Raises UserError if it is more than the listed hosts, or none."""
    if not listed:
        raise UserError(ssh.PLACE, "the list is empty, but launcher.kind is ssh", "list the hosts of the clients")
    if wanted and wanted > listed:
        raise UserError(
            "launcher.nodes", f"{wanted} nodes are configured, but launcher.hosts has {listed}", "list more hosts"
        )
    return wanted or listed


def nodes_of(config: Config, point: Point) -> int:
    """Return the number of nodes that a point needs, if hosts are reached over ssh or each point is a separate job.

    Raises UserError if there are too few nodes.
    """
    return len(_spread(point, config.launcher.nodes or len(config.launcher.hosts) or point.clients))


def _spread(point: Point, nodes: int) -> list[list[int]]:
    """Return the ranks of the point's clients for each node. Raises UserError if there are too few nodes."""
    place = f"sweeps.{point.sweep}" + (".roles" if "roles" in point.fixed else ".axes.clients")
    return remote.spread(point.clients, point.axes.get("clients_per_node", 0), nodes, place)


def require_running(config: Config, store: Store, front_ends: int) -> None:
    """Raise UserError if a managed store is down when a measuring job starts.

    If the job started the store, it would run on a node of the clients, and end with the job.
    """
    if store.managed and config.launcher.kind == "srun" and srun.on_node(os.environ):
        try:
            store.endpoints(front_ends)
        except UserError as error:
            raise UserError(
                error.place,
                f"{error.problem}, and a measuring job does not start stores",
                "run `storelab up --planned` on the store's host first",
            ) from None


def check(config: Config, points: list[Point], stores: Mapping[str, Store]) -> None:
    """Check that every point has enough nodes, and that other hosts can reach the stores. Raises UserError."""
    if config.launcher.kind == LOCAL:
        for p in points:
            k = p.axes.get("clients_per_node", 0)
            if k and k < p.clients:
                raise UserError(
                    f"sweeps.{p.sweep}.axes.clients_per_node",
                    f"{p.clients} clients, {k} on a node, need several nodes, but the launcher is local",
                    "choose launcher.kind ssh, srun or htcondor, or sweep fewer clients",
                )
        return
    nodes = most_nodes(config)
    for p in points:
        if len(_spread(p, nodes)) == 1 and nodes == 1:
            continue
        store = stores[p.store]
        here = LOOPBACK.match(config.launcher.address or "")  # all nodes are on this host
        if not here and store.managed and LOOPBACK.match(getattr(store.settings, "address", "")):
            raise UserError(
                f"stores.{p.store}.address",
                f"{store.settings.address} can only be reached from this host, but clients run on other nodes",
                "set an address of this host that the nodes can reach",
            )
