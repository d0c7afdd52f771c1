"""Checks of a plan before any store is used, for `storelab check` and before each point.

`everything` checks a whole plan and the space that it needs. `one_point` checks the point that is measured next.
`validate` refuses values of axes that an engine, a store or another axis excludes. The catalogue of engines lists the
axes that each engine supports. This module may import `datasets`, `engines`, `gang`, `host`, `stores`, `workloads` and
`core`.
"""

import math
import os
import resource
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from storelab import engines, workloads
from storelab.core import calibration, folders, plan, records, units
from storelab.core.axes import roles
from storelab.core.config import Config
from storelab.core.engines import CATALOGUE, engines_of, obeyed, protocols
from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.model import Point, Workload
from storelab.core.plan import stores_of
from storelab.core.plan.roles import placed
from storelab.datasets import own_file
from storelab.gang import inspect
from storelab.gang.launchers import choose
from storelab.host import scratch
from storelab.host.console import report
from storelab.measure import cold, deployment, distance, faults, jobs, plan_file
from storelab.stores import all_stores, changed, deployed, make
from storelab.stores.base import Store
from storelab.stores.managed import users
from storelab.stores.managed.base import LOOPBACK, Managed
from storelab.stores.managed.daemon import within
from storelab.stores.managed.daemons import holder
from storelab.stores.managed.network import free
from storelab.workloads.staging import filling
from storelab.workloads.staging.stage import in_parts, summarise

FILES_OF_WORKER, OTHER_FILES = 2, 64  # open files of a client: a socket and a body for each worker, and other files
SNAKEMAKE = Path(".snakemake")  # Snakemake's own files
STAGING = "s5cmd"  # the engine that uploads data sets to S3
BINNING = ("loadgen", "obstore")  # engines that can record counts in bins instead of single operations


def everything(
    config: Config, points: list[Point], workloads: Mapping[str, Workload], stores: Mapping[str, Store]
) -> None:
    """Run all checks of a plan, the cheapest first. Raises UserError."""

    def made(p: Point) -> Store:
        return make(*changed(stores[p.store], p.axes), stores[p.store].state)

    with placed(config):
        named_files(config)
        root_files(points)
        limits(config, points)
        open_files(config, points)
        choose.check(config, points, stores)
        cold.check(config, points)
        ports(config, points, stores)
        rights(config, points, workloads, stores)
        programs(points, stores)
        filling.check(config, points, dict(stores))
        require_space(config, points, stores)
        places({name: stores[name] for name in stores_of(config, points)})
        faults.check_plan(config, points, made, report)


def hosts(config: Config, points: list[Point], stores: Mapping[str, Store]) -> list[UserError]:
    """Return why hosts of the launcher `ssh` cannot measure these points, one error for each host."""
    if config.launcher.kind != "ssh" or not points:
        return []
    needed = max(math.ceil(summarise([p], p.store).scratch_bytes / choose.nodes_of(config, p)) for p in points)
    rows, _ = inspect.nodes(config, stores, needed)
    named = zip(config.launcher.hosts, rows, strict=False)  # a gang can have fewer hosts than the list
    return [UserError("launcher.hosts", f"{host}: {row['problem']}") for host, row in named if row["problem"]]


def refuse_sealed(config: Config) -> None:
    """Raise UserError if the campaign is sealed."""
    if records.sealed(config.raw):
        problem = "the campaign is sealed: it is not measured any more"
        raise UserError(str(config.raw), problem, "give the new campaign another name")


def one_point(config: Config, points: list[Point], point: Point) -> Store:
    """Check a point that is measured next, and return its store in the deployment that the point uses.

    Raises UserError if the campaign is sealed, its records were measured with other settings, or the point cannot be
    measured.
    """
    refuse_sealed(config)
    stores = all_stores(config)
    store = deployed(stores[point.store], point.axes)
    validate(point, store)
    deployment.refuse_second(config, point, stores)
    faults.refuse(config, point, store)
    plan_file.refuse_differences(config, points)
    return store


# Checks of the plan, the stores and this host


def _calibrations_last(points: list[Point]) -> list[Point]:
    """Return the points with calibrations last.

    An error is then reported for the sweep that causes it, and not for the calibration that belongs to the sweep.
    """
    return sorted(points, key=lambda p: p.workload == calibration.WORKLOAD)


def named_files(config: Config) -> None:
    """Raise UserError if a ROOT file of the configuration does not exist, or its protocol is unknown."""
    for name, file in config.files.items():
        own_file.findable(file.path, f"files.{name}.path")


def limits(config: Config, points: list[Point]) -> None:
    """Raise UserError if the plan exceeds one of the configured `limits`."""
    for store in stores_of(config, points):
        total = summarise(points, store)
        for what, value, show in (
            ("stored_bytes", total.staged_bytes, units.human_size),
            ("objects", total.staged_objects, str),
            ("buckets", total.buckets, str),
        ):
            _within(config, what, value, f"campaign {config.name} needs {show(value)} in store {store}", show)
    _due(config, points, {store: summarise(points, store).staged_bytes for store in stores_of(config, points)})
    for p in _calibrations_last(points):
        each, who = [(len(part.ranks), part.point.axes) for part in p.parts()], f"sweep {p.sweep} needs"
        clients, workers = p.clients, sum(n * axes.get("workers", 1) for n, axes in each)
        _within(config, "clients", clients, f"{who} {clients} clients")
        _within(config, "connections", workers, f"{who} {workers} workers")


def open_files(config: Config, points: list[Point]) -> None:
    """Raise UserError if the limit of open files is too low for the files and sockets of a client's workers.

    `inspect` checks the limits of other nodes.
    """
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if config.launcher.kind != "local" or hard == resource.RLIM_INFINITY:
        return
    for p in in_parts(_calibrations_last(points)):
        workers = p.axes.get("workers", 1)
        if (needed := OTHER_FILES + FILES_OF_WORKER * workers) > hard:
            raise UserError(
                f"sweeps.{p.sweep}",
                f"a client of {workers} workers opens up to {needed} files, but this shell allows only {hard}",
                f"raise the limit (ulimit -Hn {needed}), or sweep fewer workers",
            )


def _due(config: Config, points: list[Point], staged: Mapping[str, int]) -> None:
    """Raise UserError if the uploads of an open loop and the staged data exceed the limit of stored bytes."""
    for p in in_parts(_calibrations_last(points)):
        if p.workload != "put" or not (rate := p.axes.get("arrival_rate", 0)):
            continue
        size, seconds = p.axes["object_size"], p.fixed["duration_ns"] / 1e9
        stored = staged[p.store] + round(rate * seconds * size)
        what = f"sweep {p.sweep} uploads {rate} objects of {units.human_size(size)} a second for {seconds:g} s, and so"
        _within(config, "stored_bytes", stored, f"{what} needs {units.human_size(stored)}", units.human_size)


def _within(config: Config, what: str, value: int, problem: str, show: Callable[[int], str] = str) -> None:
    if value > (limit := getattr(config.limits, what)):
        raise UserError(
            f"limits.{what}", f"{problem}, but the limit is {show(limit)}", "raise the limit, or reduce the sweep"
        )


def rights(config: Config, points: list[Point], workloads: Mapping[str, Workload], stores: Mapping[str, Store]) -> None:
    """Raise UserError if a store does not support, or does not allow, what the plan needs."""
    for p in in_parts(_calibrations_last(points)):
        settings: Any = config.stores[p.store]
        if settings.read_only and workloads[p.workload].direction == "write":
            raise UserError(
                f"sweeps.{p.sweep}",
                f"workload {p.workload} writes, but store {p.store} is read-only",
                "remove the sweep or the store",
            )
        _able(config, p, stores[p.store], workloads[p.workload])
        jobs.reaches(p, stores[p.store])
        distance.require(p, stores[p.store], place(p, distance.AXIS))
        deployment.refuse_second(config, p, stores)
        accounts = p.axes.get("accounts", 1)
        stores[p.store].bucket(config.name, p.axes.get("buckets", accounts) - 1, accounts - 1)
        engine, addressing = CATALOGUE.get(p.axes["engine"]), getattr(settings, "addressing", "path")
        if engine and addressing not in engine.addressings:
            raise UserError(
                f"stores.{p.store}.addressing",
                f"{engine.name} supports only the addressing {' or '.join(engine.addressings)} at this endpoint",
                f"set `{engine.addressings[0]}`, or leave this engine out of the sweep",
            )
        if getattr(settings, "bucket", None) and p.axes.get("buckets", 1) > 1:
            raise UserError(
                place(p, "buckets"),
                f"store {p.store} has only one bucket: {settings.bucket!r}",
                "sweep one bucket, or remove `bucket` so that storelab creates the buckets",
            )


def retention(config: Config, stores: Mapping[str, Store]) -> Iterator[str]:
    """Yield one line for each bucket of an existing store whose versioning or object lock affects the campaign.

    Stores that cannot be reached are skipped. Buckets that do not exist yet are checked when they are created.
    """
    for name, store in stores.items():
        if store.managed or store.protocol != "s3":
            continue
        with suppress(UserError, MeasurementFailed):
            bucket = store.bucket(config.name, 0)
            if meaning := store.access().retention(bucket.name).meaning():
                yield f"store {name}, bucket {bucket.name}: {meaning}"


def ports(config: Config, points: list[Point], stores: Mapping[str, Store]) -> None:
    """Raise UserError if two stores of the campaign use the same port."""
    taken: dict[int, str] = {}
    for name in stores_of(config, points):
        for port in (port for block in stores[name].ports() for port in block):
            if port in taken:
                raise UserError(
                    f"stores.{name}.port",
                    f"port {port} is used by both stores {taken[port]} and {name}",
                    "set their `port` further apart",
                )
            taken[port] = name


def free_ports(points: list[Point], stores: Mapping[str, Store]) -> None:
    """Raise UserError if another process uses the first port of a store that a run has to start.

    Without this check, every point of the store would fail with this error.
    """
    for name in {p.store: None for p in points if changed(stores[p.store], p.axes)[0] == p.store}:
        store, settings = stores[name], stores[name].settings
        if not isinstance(store, Managed) or getattr(settings, "address", "") != LOOPBACK or not store.ports():
            continue
        port = store.ports()[0][0]
        if store.daemons.elsewhere() or store.daemons.running():
            continue
        if not within(1.0, partial(free, LOOPBACK, port), pause=0.02):  # as `check_ports` of a store that starts
            hint = f"stop that process, or set {store.place}.port to another block"
            raise UserError(f"{store.place}.port", f"port {port} is in use{holder(port)}", hint)


def places(stores: Mapping[str, Store]) -> None:
    """Raise UserError if a managed store has an address of another machine, or if folders of stores overlap."""
    folders: dict[Path, str] = {}
    for name, store in stores.items():
        if not isinstance(store, Managed) or store.daemons.elsewhere():
            continue
        settings = store.settings
        for key, host in [("address", getattr(settings, "address", LOOPBACK))] + [
            ("front_end_addresses", host) for host in getattr(settings, "front_end_addresses", ())
        ]:
            try:
                free(host, 0)
            except OSError as error:
                why = error.strerror or str(error)
                raise UserError(
                    f"stores.{name}.{key}",
                    f"this machine cannot listen on {host} ({why[0].lower()}{why[1:]})",
                    "give an address of this machine, such as 127.0.0.1",
                ) from None
        data = store.data.resolve()
        for other, whose in folders.items() if settings.directory else ():
            if data == other or other in data.parents or data in other.parents:
                problem = f"{settings.directory} overlaps with the folder of store {whose}"
                raise UserError(f"stores.{name}.directory", problem, "give each store a separate folder")
        folders[data] = name


def _able(config: Config, point: Point, store: Store, workload: Workload) -> None:
    """Raise UserError if the deployment of the store that the point uses cannot do what the point needs."""
    axes, needs = point.axes, workload.needs
    _null_server(point, store, workload)
    changed(store, axes)
    if "used_bytes" in needs and not store.reports_usage:
        raise UserError(
            f"sweeps.{point.sweep}.workload",
            f"{point.workload} needs the used space, which store {store.name} (kind {store.settings.kind}) "
            "does not report",
            "remove the sweep or the store",
        )
    validate(point, store)
    for axis in ("front_ends", "accounts"):
        if axes.get(axis, 1) > (most := store.most(axis)):
            hint = "list more of them in the configuration, or sweep fewer" if not store.managed else "sweep fewer"
            hint += factor(config, point, axis, most)
            raise UserError(
                place(point, axis),
                f"store {store.name} (kind {store.settings.kind}) has at most {most}",
                hint,
            )
    owned, allowed = -(-axes.get("buckets", 1) // axes.get("accounts", 1)), store.buckets_per_account()
    if allowed and owned > allowed:
        raise UserError(
            place(point, "buckets"),
            f"an account of store {store.name} can have {allowed} buckets, but the sweep needs {owned}",
            f"sweep at most {allowed * axes.get('accounts', 1)} buckets, or {-(-axes['buckets'] // allowed)} `accounts`"
            + factor(config, point, "buckets", allowed * axes.get("accounts", 1)),
        )
    if "second_account" not in needs:
        enough_accounts(point)


def _null_server(point: Point, store: Store, workload: Workload) -> None:
    """Raise UserError unless exactly the calibrations use the near-null server."""
    if ("null_server" in workload.needs) == store.retains_data:
        problem = "stores data" if store.retains_data else "stores nothing"
        hint = "use a store of kind `nullserver`" if store.retains_data else "only the workload `calibrate` can use it"
        raise UserError(
            f"sweeps.{point.sweep}.workload",
            f"{workload.name} at store {store.name} (kind {store.settings.kind}), which {problem}",
            hint,
        )


def programs(points: list[Point], stores: Mapping[str, Store]) -> None:
    """Raise UserError if a program that an engine or a managed store needs is not installed.

    The error contains the command that installs it.
    """
    used = {STAGING, *(p.axes["engine"] for p in in_parts(points))} & CATALOGUE.keys()
    for name in sorted(used):
        if CATALOGUE[name].program:
            engines.load(CATALOGUE[name].program)()
    for point in points:
        workloads.workload_of(point).require(point)
    for part in in_parts(points):
        if part.axes.get(distance.AXIS):
            distance.proxy_program(place(part, distance.AXIS))
    for other in sorted({name for p in points if (name := deployment.second_name(p))}):
        stores[other].require()
    for point in {plan.deployment(p): p for p in _calibrations_last(points)}.values():
        store = stores[point.store]
        if store.managed:
            name, settings = changed(store, point.axes)
            try:
                made = make(name, settings, store.state)
                made.require()
                made.drives.require()  # type: ignore[attr-defined]  # a managed store
            except UserError as error:
                if store.retains_data:
                    raise
                raise UserError(error.place, error.problem, f"{error.hint}, or set `calibrate: false`") from None
        else:
            store.require()


def missing_programs(stores: Mapping[str, Store]) -> Iterator[str]:
    """Yield a note for each store that cannot run on this machine. A sealed campaign does not need its stores."""
    for name, store in stores.items():
        try:
            store.require()
        except UserError as error:
            yield f"store {name}: {error.problem}; a sealed campaign does not need it"


def require_space(config: Config, points: list[Point], stores: Mapping[str, Store]) -> None:
    """Raise UserError if there is too little space on the disk of a store, on the clients' tmpfs or for the results."""
    for name in stores_of(config, points):
        total, disk = summarise(points, name), stores[name].free_bytes()
        if disk is not None and total.staged_bytes > disk:
            raise UserError(
                f"stores.{name}",
                f"the data sets of campaign {config.name} need {units.human_size(total.staged_bytes)}, but its disk "
                f"has only {units.human_size(disk)} free",
                "free space, or lower `objects`",
            )
        tmpfs = shutil.disk_usage(scratch.folder(config.scratch)).free
        if total.scratch_bytes > tmpfs:
            raise UserError(
                "scratch",
                f"the clients need {units.human_size(total.scratch_bytes)} of tmpfs, but {config.scratch} has only "
                f"{units.human_size(tmpfs)} free",
                "free space, or lower object_size, workers or clients",
            )
    folders.require_trusted(config)
    results = _folder("results", config.results)
    _folder("state", config.state)
    if shutil.disk_usage(results).free < 100_000_000 or not os.access(results, os.W_OK):
        raise UserError(
            "results",
            f"{config.results!r} has less than 100 MB free or cannot be written",
            "free space, or set another folder",
        )


def writable(config: Config) -> None:
    """Raise UserError if a run cannot write in a folder that it uses, for example in a project of another user."""
    state = Path(config.state)
    hint = "get write permission, or use your own copy of the project folder"
    for key, folder, below in (
        ("results", config.campaign_dir, config.campaign_dir.glob("*/")),
        ("state", state, [users.folder(state, users.of_campaign(config.name))]),
        ("run", SNAKEMAKE, SNAKEMAKE.glob("*/")),
    ):
        for path in (folder, *sorted(below)):
            _folder(key, str(path), hint)


def _folder(key: str, given: str, hint: str = "name a folder with write permission") -> Path:
    """Return the folder, or its closest parent that exists. Raise UserError if the folder cannot be created."""
    path = Path(given).absolute()
    while not path.exists() and not path.is_symlink():
        path = path.parent
    if not path.is_dir():
        raise UserError(key, f"{given!r}: {path.name} is not a folder", "name another folder, or move the file")
    if not os.access(path, os.W_OK | os.X_OK):
        raise UserError(key, f"{given!r} cannot be written", hint)
    return path


# Values of axes


def validate(point: Point, store: Store) -> None:
    """Raise UserError if a value of an axis cannot be measured in this store."""
    for part in point.parts():
        _validate_part(part.point, store)


def place(point: Point, axis: str) -> str:
    """Return the place of an axis in the configuration. Axes of the whole point belong to the sweep, not to a role."""
    sweep = point.sweep.partition(".roles.")[0] if axis in roles.WHOLE_NAMES else point.sweep
    return f"sweeps.{sweep}.axes.{axis}"


def factor(config: Config, point: Point, axis: str, most: int) -> str:
    """Return a hint with the largest `scale` for which an axis is at most `most`; '' if the axis is not scaled."""
    name, _, role = point.sweep.partition(".roles.")
    sweep = config.sweeps.get(name)
    if sweep is None or axis not in (sweep.roles[role] if role else sweep).scale_axes:
        return ""
    requested = point.axes[axis] / config.scale  # approximately the value in the campaign file
    fits = math.floor(1000 * (most + 0.4) / requested) / 1000
    return f", or set `scale` to {fits:g}" if fits > 0 else ""


def _validate_part(point: Point, store: Store) -> None:
    _require_protocol(point, store)
    _obeyed(point)
    _binned(point)
    _parts(point, store)
    workloads.workload_of(point).validate(point)
    if point.axes.get("arrivals", "even") != "even" and not point.axes["arrival_rate"]:
        raise UserError(
            place(point, "arrivals"),
            f"{point.axes['arrivals']} arrivals need a rate, because the loop is closed without one",
            "set `arrival_rate` too",
        )
    if point.axes.get("transport") == "http" and store.protocol not in ("s3", "http"):
        raise UserError(
            place(point, "transport"),
            f"http needs S3 or HTTP, but store {store.name} (kind {store.settings.kind}) uses {store.protocol}",
            "set the axis transport to `default`, or remove the store",
        )


def _require_protocol(point: Point, store: Store) -> None:
    """Raise UserError if the point's engine does not support the store's protocol."""
    engine, workload = point.axes["engine"], point.workload
    if store.protocol in (spoken := protocols(engine, workload)):
        return
    others = [e.name for e in engines_of(workload) if store.protocol in protocols(e.name, workload)]
    raise UserError(
        place(point, "engine"),
        f"{engine} supports {' and '.join(spoken)}, but store {store.name} (kind {store.settings.kind}) uses "
        f"{store.protocol}",
        f"use the engine `{others[0]}`, or remove the store" if others else "remove the store",
    )


def _obeyed(point: Point) -> None:
    """Raise UserError if an axis that the engine does not support has another value than its default."""
    engine = point.axes["engine"]
    for axis in workloads.workload_of(point).axes:
        able = obeyed(point.workload).get(axis.name)
        if able is not None and engine not in able and point.axes[axis.name] != axis.default:
            raise UserError(
                place(point, axis.name), f"engine {engine} has no {axis.name}", f"use the engine {' or '.join(able)}"
            )


def enough_accounts(point: Point) -> None:
    """Raise UserError if an account has no bucket, or if no client can sign its requests."""
    requested, buckets, clients = (point.axes.get(axis, 1) for axis in ("accounts", "buckets", "clients"))
    role = f", role {point.sweep.rpartition('.')[2]} too" if ".roles." in point.sweep else ""
    if requested > buckets:
        problem = f"{requested} accounts need at least {requested} buckets{role}"
        raise UserError(place(point, "accounts"), problem, f"raise `buckets` to {requested}, or lower `accounts`")
    if requested <= clients:
        return
    engine = CATALOGUE[point.axes["engine"]]
    kept = point.workload == "rewrite" or point.axes.get("ledger") == "kept"
    if engine.many_accounts and not kept:
        return
    why = "a ledger belongs to one account" if kept else f"a client of engine {engine.name} uses only one account"
    able = [e.name for e in engines_of(point.workload) if e.many_accounts and not kept]
    hint = f"raise `clients` to {requested}, or lower `accounts`" + (f", or use the engine {able[0]}" if able else "")
    raise UserError(
        place(point, "accounts"), f"{requested} accounts need at least {requested} clients{role}: {why}", hint
    )


def _binned(point: Point) -> None:
    """Raise UserError if the sweep sets `bins`, but the engine of the point does not support them."""
    if "bin_ns" in point.fixed and (engine := point.axes["engine"]) not in BINNING:
        sweep = point.sweep.partition(".roles.")[0]
        hint = f"use the engine {' or '.join(BINNING)}, or remove `bins`"
        raise UserError(f"sweeps.{sweep}.bins", f"engine {engine} records each operation separately", hint)


def _parts(point: Point, store: Store) -> None:
    part, size, engine = point.axes.get("part_size", 0), point.axes.get("object_size", 0), point.axes["engine"]
    if not part:
        return
    if engine in CATALOGUE and part % (unit := CATALOGUE[engine].part_unit):
        raise UserError(
            place(point, "part_size"),
            f"{units.format_size(part)} is not a multiple of {units.format_size(unit)}, which {engine} requires",
            f"write it like {units.format_size(16 * unit)}",
        )
    if point.workload == "put" and part < size and not store.multipart():
        raise UserError(
            place(point, "part_size"),
            f"store {store.name} does not support multipart uploads",
            "remove this axis; each object is then uploaded by a single PUT",
        )


def root_files(points: list[Point]) -> None:
    """Raise UserError if a ROOT file of the user cannot be read by the engines of the plan."""
    every = [part.point for p in points for part in p.parts()]
    for dataset in {p.dataset["name"]: p.dataset for p in every if p.dataset and "file" in p.dataset}.values():
        if own_file.check(dataset) == "RNTuple":
            for point in every:
                if point.dataset and point.dataset["name"] == dataset["name"] and point.axes.get("engine") == "root":
                    raise UserError(
                        f"sweeps.{point.sweep}.axes.engine",
                        f"the engine `root` reads TTrees, but {dataset['scale']} is an RNTuple",
                        "use the engine `planned` or `uproot-s3fs`",
                    )
