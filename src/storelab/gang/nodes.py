"""What the record of a point says of its nodes."""

from typing import Any


def record(launcher: Any, results: list[dict[str, Any]], watched: dict[str, Any]) -> dict[str, Any]:
    """Keys `nodes`, `host`, `coordinator`, `shared_machine` of `run.json`; none if the clients ran on this host only.

    nodes: host, clock and monitor of each node; host: all machines together, with this host if it took part. Nodes on
    one machine (the same boot id: network namespaces, several slurmd) count once.
    """
    if not hasattr(launcher, "about"):
        return {}
    nodes = [{k: v for k, v in about.items() if k not in ("clients", "pid", "packages")} for about in launcher.about()]
    machines = {about.get("boot_id"): about.get("watched") or {} for about in nodes}
    whole = dict(next(iter(machines.values()), {}))
    for name in ("cores", "cpu_busy_s"):
        values = [m.get(name) for m in machines.values()]
        whole[name] = None if None in values else sum(values)
    whole["server_cpu_s"] = watched.get("server_cpu_s") if _here(nodes) else None
    whole["client_cpu_s"] = sum(r["cpu_user_s"] + r["cpu_system_s"] for r in results)
    return {"nodes": nodes, "host": whole, "coordinator": watched, "shared_machine": _here(nodes)}


def _here(nodes: list[dict[str, Any]]) -> bool:
    """Whether a node is the coordinator's machine."""
    from storelab.gang.agent import BOOT_ID

    return any(n.get("boot_id") == BOOT_ID.read_text().strip() for n in nodes)
