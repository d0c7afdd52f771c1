"""Sub-commands of the measuring side."""

from pathlib import Path
from typing import Any

import click

from storelab.cli import Settings
from storelab.core import plan as planning
from storelab.core import records, units
from storelab.core.config import Config
from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.model import Point
from storelab.measure import plan_file
from storelab.workloads import WORKLOADS
from storelab.workloads.staging import left_over

WIDE = 110  # letters of a table that is not folded


def load(settings: Settings) -> tuple[Config, list[Point]]:
    config = settings.load()
    return config, planning.make(config, WORKLOADS)


def load_stores(config: Config) -> dict[str, Any]:
    from storelab.stores import all_stores

    return all_stores(config)


def load_everywhere(config: Config, name: str | None = None) -> dict[str, Any]:
    """All stores (or the one of this name) with the deployments that there have been of them."""
    from storelab.stores import everywhere

    return {n: s for n, s in everywhere(config).items() if name in (None, n.partition("+")[0])}


@click.command()
@click.pass_obj
def check(settings: Settings) -> None:
    """Validate the configuration; print what the plan asks for, and whether room and limits allow it."""
    from rich.console import Console
    from rich.table import Table

    from storelab.measure import check as checks

    config, points = load(settings)
    stores = load_stores(config)
    console = Console()
    for store in planning.stores_of(config, points):
        total = checks.summarise(points, store)
        table = Table("workload", "points", "measuring", title=f"campaign {config.name}, store {store}", title_justify="left")
        for workload, n in total.points.items():
            table.add_row(workload, str(n), units.human_duration(total.seconds[workload] * 1e9))
        console.print(table)
        whole = (sum(total.seconds.values()) + 2 * sum(total.points.values())) * 1e9
        free = stores[store].free_bytes()
        console.print(
            f"staged: {total.staged_objects} objects, {units.human_size(total.staged_bytes)}, as many PUT requests · buckets: {total.buckets} · "
            f"free: {units.human_size(free) if free is not None else 'cannot be asked'} · tmpfs: {units.human_size(total.scratch_bytes)}"
        )
        console.print(
            f"estimated time: {units.human_duration(whole)}, at 2 s beside each window; uploads and requests last until each deadline"
        )
    checks.everything(config, points, WORKLOADS, stores)
    todo = records.missing(config.raw, [p.key for p in points])
    console.print(f"{len(points)} points, {len(points) - len(todo)} measured already" + (", sealed" if records.sealed(config.raw) else ""))
    for line in plan_file.differences(config, points):
        console.print(f"[yellow]differs from the records:[/yellow] {line}")
    console.print("room and limits: good")


@click.command()
@click.option("--write", is_flag=True, help="Write raw/plan.json of the campaign.")
@click.pass_obj
def plan(settings: Settings, write: bool) -> None:
    """List the points in the order of measuring."""
    config, points = load(settings)
    if write:
        from storelab.measure import check as checks

        checks.everything(config, points, WORKLOADS, load_stores(config))
        plan_file.write(config, points, WORKLOADS)
        return
    for p in points:
        state = "done" if (config.raw / p.key / "run.json").exists() else "failed" if (config.raw / p.key / "failed.json").exists() else "-"
        click.echo(f"{p.order:5d}  {state:6s}  {p.key}")


@click.command()
@click.option(
    "--nodes", is_flag=True, help="Look at every node of the allocation: versions, s5cmd, endpoints, tmpfs, open files, clock, link."
)
@click.pass_obj
def doctor(settings: Settings, nodes: bool) -> None:
    """Look at this machine: programs, versions, credentials, endpoints, clock, room, limits."""
    from storelab.measure import doctor as examination

    if nodes:
        _doctor_of_nodes(settings.load())
        return
    findings = examination.examine(settings.load())
    examination.print_findings(findings)
    if any(f.level == "fail" for f in findings):
        raise UserError("doctor", "something is missing", "see the lines marked fail")


def _doctor_of_nodes(config: Config) -> None:
    from rich.console import Console
    from rich.table import Table

    from storelab.gang import inspect

    rows, down = inspect.nodes(config, load_stores(config))
    table = Table(*inspect.COLUMNS, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(row[c] for c in inspect.COLUMNS))
    Console(width=max(Console().width, WIDE)).print(table)
    for row in rows:
        if row["problem"]:
            click.echo(f"{row['host']}: {row['problem']}")
    for name in down:
        click.echo(f"{name}: is down, so no node looked whether it reaches it; `storelab up {name}`")
    if bad := [r for r in rows if r["problem"]]:
        raise UserError(
            "doctor --nodes", f"{len(bad)} of {len(rows)} nodes are not fit, the first is {bad[0]['host']}", "see their problems"
        )


@click.command()
@click.argument("kinds", nargs=-1, required=True, metavar="KIND…")
@click.option("--dry-run", is_flag=True, help="Only say what would be downloaded and what that needs.")
def install(kinds: tuple[str, ...], dry_run: bool) -> None:
    """Install what managed stores of these KINDs need (ceph, nginx, xrootd, versitygw, minio, hdfs, loadgen, root), what testbeds do (slurm, condor), or
    Snakemake's executor for Slurm (slurm-plugin). What is there stays.

    What is no Debian package goes into the folder that STORELAB_TOOLS names, else into storelab's in the user's cache folder.
    """
    import time

    from storelab import install as installing

    todo = [(kind, part) for kind in kinds for part in installing.parts(kind, installing.tools_folder())]
    for n, (kind, part) in enumerate(todo, 1):
        head = f"[{n}/{len(todo)}] {kind}: {part.what}"
        if part.present():
            click.echo(f"{head}: is there")
            continue
        click.echo(f"{head}: {part.needs}")
        if dry_run:
            continue
        begun = time.monotonic()
        part.run(lambda line, kind=kind: click.echo(f"    {kind}: {line}", err=True))
        if not part.present():
            raise MeasurementFailed(f"install: {kind}: {part.what} is not there after its installation")
        click.echo(f"    {kind}: done in {units.human_duration((time.monotonic() - begun) * 1e9)}")


def chosen(config: Config, name: str | None, all_: bool, command: str) -> dict[str, Any]:
    """The stores a command speaks of. Raises UserError."""
    import difflib

    stores = load_stores(config)
    if all_:
        return load_everywhere(config) if command == "down" else {name: stores[name] for name in config.use_stores}
    if name is None:
        raise UserError(command, "no store named", f"one of {', '.join(stores)}, or --all")
    if name not in stores:
        near = difflib.get_close_matches(name, stores, 1)
        raise UserError(
            command, f"no one defined the store {name!r}", f"did you mean {near[0]!r}?" if near else f"defined: {', '.join(stores)}"
        )
    return load_everywhere(config, name) if command == "down" else {name: stores[name]}


@click.command()
@click.argument("name", required=False)
@click.option("--all", "all_", is_flag=True, help="All stores of the campaign.")
@click.option("--front-ends", default=1, show_default=True, help="How many front-ends.")
@click.option("--accounts", default=1, show_default=True, help="How many accounts.")
@click.option("--planned", is_flag=True, help="All deployments that the plan asks for, each with its most front-ends and accounts.")
@click.pass_obj
def up(settings: Settings, name: str | None, all_: bool, front_ends: int, accounts: int, planned: bool) -> None:
    """Start a managed store, or look whether an external one answers."""
    wanted = (
        planned_stores(settings) if planned else [(s, front_ends, accounts) for s in chosen(settings.load(), name, all_, "up").values()]
    )
    for store, front, owners in wanted:
        store.up(front, owners)
        click.echo(f"{store.name}: up, {', '.join(e.url for e in store.endpoints(front))}")


def planned_stores(settings: Settings) -> list[tuple[Any, int, int]]:
    """The deployments of the plan's points, with the most front-ends and accounts that a point asks for."""
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
@click.option("--all", "all_", is_flag=True, help="All stores of config.yaml, and what clients keep on tmpfs.")
@click.pass_obj
def down(settings: Settings, name: str | None, all_: bool) -> None:
    """Stop managed stores. Their data stay."""
    from storelab.host import scratch
    from storelab.measure.point import measuring_lock

    config = settings.load()
    for store in chosen(config, name, all_, "down").values():
        if store.managed:
            click.echo(f"{store.name}: stopped {len(store.down())} processes")
    if all_:
        with measuring_lock(Path(config.state)):
            if not scratch.clear(config.scratch):
                click.echo("files on tmpfs stay: another campaign of yours uses them")


@click.command()
@click.pass_obj
def status(settings: Settings) -> None:
    """State of all stores."""
    for store in load_everywhere(settings.load()).values():
        s = store.status()
        click.echo(f"{s.name} ({s.kind}): {s.state} {s.version} {' '.join(s.endpoints)} {s.detail}".rstrip())


@click.command()
@click.option("--store", "only", help="Only this store.")
@click.option("--dataset", help="Only this data set.")
@click.option("--again", is_flag=True, help="Upload it again.")
@click.pass_obj
def stage(settings: Settings, only: str | None, dataset: str | None, again: bool) -> None:
    """Upload the data sets of the campaign. What is there already is not moved."""
    from storelab.host import scratch
    from storelab.stores import deployed
    from storelab.workloads.staging import stage as staging

    config, points = load(settings)
    stores = load_stores(config)
    wanted = {(p.store, planning.deployment(p), p.dataset["name"]): p for p in points if p.dataset}
    wanted = {k: p for k, p in wanted.items() if only in (None, k[0]) and dataset in (None, k[2])}
    if not wanted:
        raise UserError("stage", f"the plan has no data set {dataset or ''} for {only or 'any store'}", "see `storelab plan`")
    for p in wanted.values():
        store = deployed(stores[p.store], p.axes)
        store.up(1, p.axes.get("accounts", 1))
        with scratch.using(config.scratch):
            staging.ensure(config, store, p.dataset, staging.report, again)


@click.command()
@click.argument("key")
@click.option("--again", is_flag=True, help="Measure anew, into the same place.")
@click.pass_obj
def measure(settings: Settings, key: str, again: bool) -> None:
    """Measure the point KEY of the plan; returns at once where its record is there."""
    from storelab.gang import coordinator
    from storelab.measure import point as measuring

    coordinator.heed_signals()
    records.without_pandas()
    config, points = load(settings)
    measuring.point(config, points, key, again)


@click.command()
@click.pass_obj
def collect(settings: Settings) -> None:
    """Look whether all points are there, and write SHA256SUMS over the raw records."""
    config, points = load(settings)
    if records.sealed(config.raw):
        records.verify(config.raw)
        return
    absent = records.missing(config.raw, [p.key for p in points], failed_counts=True)
    if absent:
        raise UserError(
            f"campaign {config.name}",
            f"{len(absent)} of {len(points)} points are not measured, the first is {absent[0]}",
            "run with measure=true",
        )
    for name, store in load_everywhere(config).items():
        if left_over.left(config, name)["buckets"]:
            store.up(1)
            left_over.remove(config, store, always=True)
    click.echo(f"{config.name}: {records.write_sums(config.raw)} raw files of {len(points)} points", err=True)
    if failed := records.missing(config.raw, [p.key for p in points]):
        reason = records.read_json(config.raw / failed[0] / "failed.json")["reason"]
        click.echo(f"{config.name}: {len(failed)} of {len(points)} points failed, the first is {failed[0]}: {reason}", err=True)
        click.echo("run it again to try them anew; with measure=false the paper is built without them and lists them", err=True)


@click.command()
@click.argument("campaign")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def clean(settings: Settings, campaign: str, yes: bool) -> None:
    """Remove the buckets and objects that CAMPAIGN made in its stores. Records are never touched."""
    from storelab.workloads.staging import buckets

    config = settings.load()
    if campaign != config.name:
        raise UserError("clean", f"the configured campaign is {config.name!r}, not {campaign!r}", f"--set campaign={campaign}")
    if not yes:
        click.confirm(f"Remove the buckets of campaign {campaign} from {', '.join(config.use_stores)}?", abort=True)
    for name, store in load_everywhere(config).items():
        if name.partition("+")[0] not in config.use_stores or store.settings.read_only:
            continue
        store.up(1)
        try:
            click.echo(f"{name}: removed {buckets.remove(store, campaign)}")
        except MeasurementFailed as error:
            raise MeasurementFailed(f"{name}: {error}") from None
        store.reclaim()
