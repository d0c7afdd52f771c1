"""Commands that plan and measure: what is asked, what lies staged, a point, the end of a campaign (room `cli`).

May import: every room; what a command needs is imported when it runs, for `--help` loads all modules of this room.
"""

from typing import TYPE_CHECKING, Any

import click

from storelab.cli import Settings
from storelab.cli.machine import json_option, say
from storelab.core import evidence, records, units
from storelab.core.errors import MeasurementFailed, UserError

if TYPE_CHECKING:
    from storelab.core.config import Config
    from storelab.core.model import Point


def load(settings: Settings) -> "tuple[Config, list[Point]]":
    """The configuration and the points of its plan."""
    from storelab.core import plan as planning
    from storelab.workloads import WORKLOADS

    config = settings.load()
    return config, planning.make(config, WORKLOADS)


def load_for_plan(settings: Settings) -> "tuple[Config, list[Point]]":
    """As `load`. Raises UserError where a figure of the campaign has the name of a built-in one."""
    config, points = load(settings)
    if config.figures:
        from storelab.analysis.figures import catalogue

        for name in filter(catalogue.is_built_in, config.figures):
            raise UserError(
                f"figures.{name}",
                f"{name!r} is the name of a built-in figure",
                f"give it another name, such as 'my_{name}'",
            )
    return config, points


def _say_overruled(settings: Settings) -> None:
    if line := settings.overruled():
        click.echo(f"storelab: {line}", err=True)


def load_stores(config: "Config", past: bool = False) -> dict[str, Any]:
    """Name -> store. `past`: also the deployments that there have been of them (`ceph+ec-2-1`)."""
    from storelab import stores

    return (stores.everywhere if past else stores.all_stores)(config)


@click.command()
@json_option
@click.pass_obj
def check(settings: Settings, as_json: bool) -> None:
    """Check the configuration; print what the plan asks for, its time, and whether room and limits allow it."""
    from storelab.core import plan as planning
    from storelab.measure import check as checks
    from storelab.measure import cold, plan_file
    from storelab.workloads import WORKLOADS

    config, points = load_for_plan(settings)
    _say_overruled(settings)
    stores = load_stores(config)
    used = planning.stores_of(config, points)
    asked = [_asked(points, name, stores[name].free_bytes()) for name in used]
    if not as_json:
        _show_asked(config.name, asked)
    checks.everything(config, points, WORKLOADS, stores)
    todo = evidence.missing(config.raw, [p.key for p in points])
    told = {
        "points": len(points),
        "measured": len(points) - len(todo),
        "sealed": records.sealed(config.raw),
        "differences": plan_file.differences(config, points),
        "notes": [*cold.notes(points, stores), *checks.retention(config, {name: stores[name] for name in used})],
    }
    if as_json:
        say("check", campaign=config.name, folder=str(config.campaign_dir), stores=asked, **told)
    else:
        _show_ready(told)


def _asked(points: "list[Point]", store: str, free_bytes: int | None) -> dict[str, Any]:
    """What the plan asks of one store, as `answers.Asked` declares it."""
    from storelab.measure import check as checks

    total = checks.summarise(points, store)
    return {
        "store": store,
        "workloads": [
            {"workload": workload, "points": n, "measuring_s": total.seconds[workload]}
            for workload, n in total.points.items()
        ],
        "estimated_s": sum(total.seconds.values()) + 2 * sum(total.points.values()),
        "staged_objects": total.staged_objects,
        "staged_bytes": total.staged_bytes,
        "buckets": total.buckets,
        "free_bytes": free_bytes,
        "scratch_bytes": total.scratch_bytes,
    }


def _show_asked(campaign: str, asked: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    from storelab.workloads import WORKLOADS

    console = Console()
    for of in asked:
        title = f"campaign {campaign}, store {of['store']}"
        table = Table("workload", "points", "measuring", title=title, title_justify="left")
        for work in of["workloads"]:
            table.add_row(work["workload"], str(work["points"]), units.human_duration(work["measuring_s"] * 1e9))
        console.print(table)
        free = of["free_bytes"]
        room = units.human_size(free) if free is not None else "cannot be asked"
        staged, tmpfs = (units.human_size(of[key]) for key in ("staged_bytes", "scratch_bytes"))
        console.print(
            f"staged: {of['staged_objects']} objects, {staged}, as many PUT requests · buckets: {of['buckets']} · "
            f"free: {room} · tmpfs: {tmpfs}"
        )
        asks = [WORKLOADS[w["workload"]] for w in of["workloads"] if w["workload"] in WORKLOADS]
        early = ", ".join(w.name for w in asks if w.finishes)
        console.print(
            f"estimated time: {units.human_duration(of['estimated_s'] * 1e9)}, at 2 s beside each window; "
            f"uploads and requests last until each deadline{early and f'; {early} may end before theirs'}"
        )


def _show_ready(told: dict[str, Any]) -> None:
    from rich.console import Console

    console = Console()
    sealed = ", sealed" if told["sealed"] else ""
    console.print(f"{told['points']} points, {told['measured']} measured already{sealed}")
    for line in told["differences"]:
        console.print(f"[yellow]differs from the records:[/yellow] {line}")
    for line in told["notes"]:
        console.print(f"[yellow]note:[/yellow] {line}")
    console.print("room and limits: good")


@click.command()
@click.option("--write", is_flag=True, help="Write raw/plan.json of the campaign instead.")
@json_option
@click.pass_obj
def plan(settings: Settings, write: bool, as_json: bool) -> None:
    """List the points in the order of measuring: number, state, engine and size, key."""
    from storelab import workloads
    from storelab.core.model import SAID_ALWAYS, said
    from storelab.workloads import WORKLOADS

    if write and as_json:
        raise UserError("plan", "--write lists nothing, so there is nothing for --json", "leave one of them out")
    config, points = load_for_plan(settings)
    if write:
        from storelab.measure import check as checks
        from storelab.measure import plan_file

        checks.everything(config, points, WORKLOADS, load_stores(config))
        plan_file.write(config, points, WORKLOADS)
        return
    _say_overruled(settings)
    if as_json:
        own = [_planned(p, _state(config, p)) for p in points]
        say("plan", campaign=config.name, folder=str(config.campaign_dir), points=own)
        return
    what = {p.key: " ".join(said(p, workloads.of(p), SAID_ALWAYS)) for p in points}
    wide = max(map(len, what.values()))
    shown = {"measured": "done", "failed": "failed", "to do": "-"}
    for p in points:
        click.echo(f"{p.order:5d}  {shown[_state(config, p)]:6s}  {what[p.key]:{wide}s}  {p.key}")


def _state(config: "Config", point: "Point") -> str:
    """What became of a point so far."""
    if evidence.has(config.raw, point.key):
        return "measured"
    return "failed" if evidence.has(config.raw, point.key, records.FAILED) else "to do"


def _planned(point: "Point", state: str) -> dict[str, Any]:
    """A point, as `answers.Planned` declares it."""
    own = {name: getattr(point, name) for name in ("order", "key", "store", "workload", "sweep", "rep", "clients")}
    return own | {"state": state, "duration_s": point.fixed["duration_ns"] / 1e9, "axes": dict(point.axes)}


@click.command()
@click.option("--store", "only", help="Upload into this store only.")
@click.option("--dataset", help="Upload this data set only.")
@click.option("--again", is_flag=True, help="Upload it again, although it is there.")
@click.pass_obj
def stage(settings: Settings, only: str | None, dataset: str | None, again: bool) -> None:
    """Upload the data sets of the campaign. What is there already is not moved."""
    from storelab.core import plan as planning
    from storelab.host import scratch
    from storelab.measure import attempts
    from storelab.stores import deployed
    from storelab.workloads.staging import stage as staging

    config, points = load(settings)
    stores = load_stores(config)
    every = [(p, part.point.dataset) for p in points for part in p.parts() if part.point.dataset]
    wanted = {(p.store, planning.deployment(p), read["name"]): (p, read) for p, read in every}
    wanted = {k: p for k, p in wanted.items() if only in (None, k[0]) and dataset in (None, k[2])}
    if not wanted:
        raise UserError(
            "stage", f"the plan has no data set {dataset or ''} for {only or 'any store'}", "see `storelab plan`"
        )
    for p, read in wanted.values():
        try:
            store = deployed(stores[p.store], p.axes)
            store.up(1, p.axes.get("accounts", 1))
            with scratch.using(config.scratch):
                staging.ensure(config, store, read, again)
        except (UserError, MeasurementFailed) as error:
            for waits, its in every:  # so that the paper of the others can be built, and says so
                if (waits.store, its) == (p.store, read):
                    attempts.leave(config, waits, f"its data set {read['name']} is not staged: {error}")
            raise


@click.command()
@click.argument("key")
@click.option("--again", is_flag=True, help="Measure the point anew, although it has a record.")
@click.pass_obj
def measure(settings: Settings, key: str, again: bool) -> None:
    """Measure the point KEY of the plan. A point that has its record is not measured again."""
    from storelab.gang import coordinator, prefork
    from storelab.gang.launchers import choose

    coordinator.heed_signals()
    config, points = load(settings)
    with choose.spare(config, next((p for p in points if p.key == key), None)) as spare:
        # Only now, while the other process loads what the clients need: both take half a second.
        from storelab.measure import point as measuring
        from storelab.measure import progress

        prefork.without_pandas()
        with progress.shown(config.campaign_dir):
            measuring.point(config, points, key, again, spare)


@click.command()
@click.pass_obj
def collect(settings: Settings) -> None:
    """Check that all points are measured and whole, and write SHA256SUMS over the raw records."""
    from storelab.measure import collect as collecting
    from storelab.workloads.staging import filling, left_over

    config, points = load(settings)
    if records.sealed(config.raw):
        evidence.verify(config.raw)
        return
    collecting.refuse(config, points)
    for name, store in load_stores(config, past=True).items():
        if left_over.left(config, name)["buckets"] or filling.there(config, store):
            try:
                store.up(1)
                left_over.remove(config, store, always=True)
                filling.ensure(config, store, 0)
            except (UserError, MeasurementFailed) as error:  # a store that is down keeps no paper from the others
                click.echo(f"{name}: what points uploaded stays for now: {error}", err=True)
    click.echo(f"{config.name}: {collecting.write_sums(config, points)} raw files of {len(points)} points", err=True)
    if failed := evidence.missing(config.raw, [p.key for p in points]):
        reason = records.read_json(config.raw / failed[0] / "failed.json")["reason"]
        count = f"{len(failed)} of {len(points)} points failed"
        click.echo(f"{config.name}: {count}, the first is {failed[0]}: {reason}", err=True)
        click.echo(
            "run it again to try them anew; with measure=false the paper is built without them and lists them",
            err=True,
        )


@click.command()
@click.argument("campaign")
@click.option("--yes", is_flag=True, help="Remove them without asking.")
@click.pass_obj
def clean(settings: Settings, campaign: str, yes: bool) -> None:
    """Remove the buckets and objects that CAMPAIGN made in its stores. What storelab did not write stays and is told;
    records are never touched.

    CAMPAIGN must be the one that is configured, so that nobody removes another by mistake.
    """
    from storelab.measure import deployment

    config = settings.load()
    if campaign != config.name:
        raise UserError(
            "clean", f"the configured campaign is {config.name!r}, not {campaign!r}", f"--set campaign={campaign}"
        )
    if not yes:
        click.confirm(f"Remove the buckets of campaign {campaign} from {', '.join(config.use_stores)}?", abort=True)
    failed: list[str] = []
    for name, store in load_stores(config, past=True).items():
        if name.partition("+")[0] not in config.use_stores or store.settings.read_only:
            continue
        store.up(1)
        try:
            removed = deployment.clean(config, store)
            click.echo(f"{name}: removed {removed}")
            if not removed.complete:
                failed.append(f"{name}: not all that storelab wrote could be deleted")
        except MeasurementFailed as error:
            failed.append(f"{name}: {error}")
        store.reclaim()
    if failed:
        raise MeasurementFailed("; ".join(failed))
