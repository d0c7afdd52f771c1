"""Which launcher a configuration asks for, and whether it can be had (level 3, measuring side)."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from storelab.config import Config
from storelab.gang import condor, keys, remote, srun
from storelab.gang.local import LocalLauncher
from storelab.model import MeasurementFailed, Point, UserError
from storelab.stores.base import Store
from storelab.stores.clients import LOOPBACK

LOCAL = "local"


def make(config: Config, point: Point, folder: Path, environs: list[dict[str, str]]) -> Any:
    """The launcher of one point's gang. Raises UserError: not to be had, too few nodes; MeasurementFailed: too little time left."""
    settings, clients = config.launcher, point.axes["clients"]
    if settings.kind == LOCAL:
        return LocalLauncher(folder, clients, environs)
    seconds = point.fixed["duration_ns"] / 1e9
    if reason := keys.too_short(os.environ, seconds):
        raise MeasurementFailed(reason)
    nodes = remote.spread(clients, point.axes.get("clients_per_node", 0), most_nodes(config), f"sweeps.{point.sweep}.axes.clients")
    if settings.kind == "htcondor":
        return condor.CondorLauncher(folder, nodes, environs, settings)
    left = srun.left_s(os.environ)
    if left is not None and left < seconds + srun.BESIDE_S:
        raise MeasurementFailed(f"the job has {left:.0f} s of walltime left, the point takes {seconds + srun.BESIDE_S:.0f} s")
    return srun.SrunLauncher(folder, nodes, environs, settings)


def most_nodes(config: Config) -> int:
    """How many nodes a gang may have. Raises UserError."""
    if config.launcher.kind == "htcondor":
        condor.require()
        if config.launcher.nodes is None:
            raise UserError("launcher.nodes", "HTCondor does not say how many nodes a gang may have", "give a number")
        return config.launcher.nodes
    around = srun.allocation(os.environ)
    wanted = config.launcher.nodes or around
    if wanted > around:
        raise UserError("launcher.nodes", f"{wanted} nodes are asked, the allocation has {around}", "ask for a larger allocation")
    return wanted


def check(config: Config, points: list[Point], stores: Mapping[str, Store]) -> None:
    """Before anything is measured: nodes enough for every point, and stores that other hosts can reach. Raises UserError."""
    if config.launcher.kind == LOCAL:
        for p in points:
            k = p.axes.get("clients_per_node", 0)
            if k and k < p.axes["clients"]:
                raise UserError(
                    f"sweeps.{p.sweep}.axes.clients_per_node",
                    f"{p.axes['clients']} clients, {k} on a node, need several nodes, and the launcher is local",
                    "choose launcher.kind srun or htcondor, or sweep fewer clients",
                )
        return
    nodes = most_nodes(config)
    for p in points:
        place = f"sweeps.{p.sweep}.axes.clients"
        if len(remote.spread(p.axes["clients"], p.axes.get("clients_per_node", 0), nodes, place)) == 1 and nodes == 1:
            continue
        store = stores[p.store]
        here = LOOPBACK.match(config.launcher.address or "")  # the nodes are this very host
        if not here and store.managed and LOOPBACK.match(getattr(store.settings, "address", "")):
            raise UserError(
                f"stores.{p.store}.address",
                f"{store.settings.address} is this host only, and clients run on other nodes",
                "give an address of this host that the nodes reach",
            )
