"""Commands that plan and measure: check, plan, stage, measure, collect and clean.

This module may import every package. A command imports what it needs when it runs, so that other commands start fast.
"""

import sys
from typing import TYPE_CHECKING, Any

import click

from storelab.cli import Settings, campaigns
from storelab.cli.campaigns import config_argument
from storelab.cli.machine import json_option, print_json
from storelab.core import integrity, records, units
from storelab.core.errors import MeasurementFailed, UserError

if TYPE_CHECKING:
    from storelab.core.config import Config
    from storelab.core.model import Point


def load(settings: Settings) -> "tuple[Config, list[Point]]":
    """Return the configuration and the points of its plan."""
    from storelab.core import plan as planning
    from storelab.workloads import WORKLOADS

    config = settings.load()
    return config, planning.make(config, WORKLOADS)


def load_for_plan(settings: Settings) -> "tuple[Config, list[Point]]":
    """Return the configuration and the points of its plan.

    Raises UserError if a figure of the campaign has the name of a built-in figure.
    """
    config, points = load(settings)
    if config.figures:
        from storelab.analysis.figures import catalogue

        for name in filter(catalogue.is_built_in, config.figures):
            raise UserError(
                f"figures.{name}",
                f"{name!r} is the name of a built-in figure",
                f"use another name, for example 'my_{name}'",
            )
    return config, points


def _warn_overruled(settings: Settings) -> None:
    if line := settings.overruled():
        click.echo(f"storelab: {line}", err=True)


def load_stores(config: "Config", past: bool = False) -> dict[str, Any]:
    """Return the configured stores by name; with `past`, also their earlier deployments (`ceph+ec-2-1`)."""
    from storelab import stores

    return (stores.everywhere if past else stores.all_stores)(config)


@click.command()
@config_argument
@json_option
@click.pass_obj
def check(settings: Settings, as_json: bool) -> None:
    """Check the configuration, and print the space and time that the plan needs.

    The command fails if the space or the limits are too small.
    """
    from storelab.core import plan as planning
    from storelab.measure import check as checks
    from storelab.measure import cold, plan_file
    from storelab.workloads import WORKLOADS

    config, points = load_for_plan(settings)
    _warn_overruled(settings)
    stores = load_stores(config)
    used = planning.stores_of(config, points)
    demands = [_demand(points, name, stores[name].free_bytes()) for name in used]
    if not as_json:
        _show_demands(config.name, demands)
    sealed, of_campaign = records.sealed(config.raw), {name: stores[name] for name in used}
    if sealed:
        notes = list(checks.missing_programs(of_campaign))
    else:
        checks.everything(config, points, WORKLOADS, stores)
        notes = [*cold.notes(points, stores), *checks.retention(config, of_campaign)]
    todo = integrity.missing(config.raw, [p.key for p in points])
    if errors := checks.hosts(config, [p for p in points if p.key in {*todo}], stores):
        for error in errors[:-1]:
            click.echo(f"storelab: {error}", err=True)
        raise errors[-1]
    state = {
        "points": len(points),
        "measured": len(points) - len(todo),
        "sealed": sealed,
        "differences": plan_file.differences(config, points),
        "notes": notes,
    }
    if as_json:
        print_json("check", campaign=config.name, folder=str(config.campaign_dir), stores=demands, **state)
    else:
        _show_ready(state)


def _demand(points: "list[Point]", store: str, free_bytes: int | None) -> dict[str, Any]:
    """Return the demands of the plan on one store, with the keys of `answers.Demands`."""
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


def _show_demands(campaign: str, demands: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    from storelab.workloads import WORKLOADS

    console = Console()
    for demand in demands:
        title = f"campaign {campaign}, store {demand['store']}"
        table = Table("workload", "points", "measuring", title=title, title_justify="left")
        for work in demand["workloads"]:
            table.add_row(work["workload"], str(work["points"]), units.human_duration(work["measuring_s"] * 1e9))
        console.print(table)
        free = demand["free_bytes"]
        space = units.human_size(free) if free is not None else "not known"
        staged, tmpfs = (units.human_size(demand[key]) for key in ("staged_bytes", "scratch_bytes"))
        objects, buckets = demand["staged_objects"], demand["buckets"]
        console.print(
            f"staged: objects: {objects} ({staged}, one PUT request each) · buckets: {buckets} · "
            f"free: {space} · tmpfs: {tmpfs}"
        )
        used = [WORKLOADS[w["workload"]] for w in demand["workloads"] if w["workload"] in WORKLOADS]
        early = ", ".join(w.name for w in used if w.finishes)
        console.print(
            f"estimated time: {units.human_duration(demand['estimated_s'] * 1e9)}, with 2 s added to each window; "
            f"uploads and requests last until the deadline{early and f'; these can end earlier: {early}'}"
        )


def _show_ready(state: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console()
    sealed = ", sealed" if state["sealed"] else ""
    console.print(f"points: {state['points']}, already measured: {state['measured']}{sealed}")
    for line in state["differences"]:
        console.print(Text.assemble(("differs from the records:", "yellow"), f" {line}"))
    for line in state["notes"]:
        console.print(Text.assemble(("note:", "yellow"), f" {line}"))
    if not state["sealed"]:
        console.print("space and limits: ok")


@click.command()
@config_argument
@click.option("--write", is_flag=True, help="Write the plan to raw/plan.json of the campaign; do not print it.")
@json_option
@click.pass_obj
def plan(settings: Settings, write: bool, as_json: bool) -> None:
    """List the points in the order of their measurement: number, state, engine and size, key."""
    from storelab import workloads
    from storelab.core.model import ALWAYS_SHOWN, axis_texts
    from storelab.workloads import WORKLOADS

    if write and as_json:
        raise UserError("plan", "--write and --json cannot be combined", "leave one of them out")
    config, points = load_for_plan(settings)
    if write:
        from storelab.measure import check as checks
        from storelab.measure import plan_file

        checks.everything(config, points, WORKLOADS, load_stores(config))
        plan_file.write(config, points, WORKLOADS)
        return
    _warn_overruled(settings)
    if as_json:
        planned = [_planned(p, _state(config, p)) for p in points]
        print_json("plan", campaign=config.name, folder=str(config.campaign_dir), points=planned)
        return
    descriptions = {p.key: " ".join(axis_texts(p, workloads.workload_of(p), ALWAYS_SHOWN)) for p in points}
    width = max(map(len, descriptions.values()))
    shown = {"measured": "done", "failed": "failed", "to do": "-"}
    for p in points:
        click.echo(f"{p.order:5d}  {shown[_state(config, p)]:6s}  {descriptions[p.key]:{width}s}  {p.key}")


def _state(config: "Config", point: "Point") -> str:
    """Return the state of a point: measured, failed or to do."""
    if integrity.has(config.raw, point.key):
        return "measured"
    return "failed" if integrity.has(config.raw, point.key, records.FAILED) else "to do"


def _planned(point: "Point", state: str) -> dict[str, Any]:
    """Return a point with the keys of `answers.Planned`."""
    values = {name: getattr(point, name) for name in ("order", "key", "store", "workload", "sweep", "rep", "clients")}
    return values | {"state": state, "duration_s": point.fixed["duration_ns"] / 1e9, "axes": dict(point.axes)}


@click.command()
@config_argument
@click.option("--store", "only", help="Upload into this store only.")
@click.option("--dataset", help="Upload this data set only.")
@click.option("--again", is_flag=True, help="Upload data sets again, even if they are in the store.")
@click.pass_obj
def stage(settings: Settings, only: str | None, dataset: str | None, again: bool) -> None:
    """Upload the data sets of the campaign. A data set that is already in the store is not uploaded again."""
    from storelab.core import plan as planning
    from storelab.measure import attempts
    from storelab.measure import check as checks

    config, points = load(settings)
    stores = load_stores(config)
    reads = [(p, part.point.dataset) for p in points for part in p.parts() if part.point.dataset]
    wanted = {(p.store, planning.deployment(p), read["name"]): (p, read) for p, read in reads}
    wanted = {k: p for k, p in wanted.items() if only in (None, k[0]) and dataset in (None, k[2])}
    if not wanted:
        raise UserError(
            "stage",
            f"the plan has no data set{f' {dataset}' if dataset else ''} for {only or 'any store'}",
            "run `storelab plan` to list the points",
        )
    with attempts.nothing_measured(config):
        checks.refuse_sealed(config)
        for p, read in wanted.values():
            try:
                _stage(config, stores[p.store], p, read, again)
            except (UserError, MeasurementFailed) as error:
                # Record the failure, so that the paper can be built from the other points and reports these as failed.
                for waiting, dataset_read in reads:
                    if (waiting.store, dataset_read) == (p.store, read):
                        attempts.skip(config, waiting, f"its data set {read['name']} is not staged: {error}")
                raise


def _stage(config: "Config", store: Any, point: "Point", dataset: dict[str, Any], again: bool) -> None:
    """Upload a data set into the store's deployment that the point uses."""
    from storelab.host import scratch
    from storelab.measure import deployment
    from storelab.stores import deployed
    from storelab.workloads.staging import stage as staging

    store = deployed(store, point.axes)
    deployment.connect(config, store, accounts=point.axes.get("accounts", 1))
    with scratch.using(config.scratch, config.campaign_dir):
        staging.ensure(config, store, dataset, again)


@click.command()
@click.argument("words", nargs=-1, metavar="[CAMPAIGN] KEY", shell_complete=campaigns.complete)
@click.option("--again", is_flag=True, help="Measure the point again, even if it has a record.")
@click.pass_obj
def measure(settings: Settings, words: tuple[str, ...], again: bool) -> None:
    """Measure the point of the plan with this KEY. A point that has a record is not measured again."""
    from storelab.gang import coordinator, prefork
    from storelab.gang.launchers import choose

    coordinator.handle_signals()
    if not 1 <= len(words) <= 2:
        raise UserError(
            "measure", f"takes a campaign and a key, not {len(words)} words", "see `storelab plan CAMPAIGN`"
        )
    key = words[-1]
    config, points = load(campaigns.configured(settings, words[0] if len(words) == 2 else None))
    with choose.spare(config, next((p for p in points if p.key == key), None)) as spare:
        # Imported here, because the spare process imports the clients' modules at the same time. Each takes 0.5 s.
        from storelab.measure import point as measuring
        from storelab.measure import progress

        prefork.without_pandas()
        with progress.shown(config.campaign_dir):
            measuring.point(config, points, key, again, spare)


@click.command()
@config_argument
@click.option(
    "--after-error",
    is_flag=True,
    help="Do nothing if no point was tried, and print no reason: the errors were printed before.",
)
@click.pass_obj
def collect(settings: Settings, after_error: bool) -> None:
    """Check that all points are measured and complete, and write the checksums of the raw records to SHA256SUMS."""
    from storelab.measure import attempts

    config, points = load(settings)
    if records.sealed(config.raw):
        integrity.verify(config.raw)
        return
    keys = [p.key for p in points]
    if after_error and len(integrity.missing(config.raw, keys, failed_counts=True)) == len(keys):
        return
    with attempts.nothing_measured(config):
        _collect(config, points, after_error)


def _collect(config: "Config", points: "list[Point]", after_error: bool) -> None:
    """Do what `collect` does. No point of the campaign is measured at the same time."""
    from storelab.measure import check as checks
    from storelab.measure import collect as collecting
    from storelab.measure import deployment
    from storelab.workloads.staging import filling, left_over

    checks.refuse_sealed(config)  # another process may have sealed it before this one had the lock
    collecting.refuse(config, points)
    for name, store in load_stores(config, past=True).items():
        if left_over.left(config, name)["buckets"] or filling.may_have_filler(config, store):
            try:
                deployment.connect(config, store)
                left_over.remove(config, store, always=True)
                filling.ensure(config, store, 0)
            except (UserError, MeasurementFailed) as error:  # the paper can be built while a store is down
                click.echo(f"{name}: uploaded objects could not be removed yet: {error}", err=True)
    if config.launcher.kind == "ssh":
        from storelab.gang.launchers import ssh

        ssh.remove(config.launcher)
    files = collecting.write_sums(config, points)
    click.echo(f"{config.name}: points: {len(points)}, raw files: {files}", err=True)
    if failed := integrity.missing(config.raw, [p.key for p in points]):
        reason = "" if after_error else f": {records.read_json(config.raw / failed[0] / 'failed.json')['reason']}"
        count = f"{len(failed)} of {len(points)} points failed"
        click.echo(f"{config.name}: {count}, the first is {failed[0]}{reason}", err=True)
        click.echo(
            "to repeat the failed points, run the campaign again; with measure=false, the paper is built without them "
            "and lists them",
            err=True,
        )


@click.command()
@click.argument("campaign", shell_complete=campaigns.complete)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.pass_obj
def clean(settings: Settings, campaign: str, yes: bool) -> None:
    """Remove the buckets and objects of CAMPAIGN from its stores.

    Objects that storelab did not write are kept and listed. Records are never removed.
    """
    from storelab.measure import attempts

    config = campaigns.configured(settings, campaign).load()
    if not yes:
        question = f"Remove the buckets of campaign {config.name} from {', '.join(config.stores_to_measure)}?"
        try:
            agreed = click.confirm(question)
        except click.Abort as abort:
            if sys.stdin.isatty():
                raise
            raise UserError("clean", "there is no terminal to answer the question", "confirm with --yes") from abort
        if not agreed:
            click.echo(f"nothing was removed from {', '.join(config.stores_to_measure)}", err=True)
            raise click.Abort
    with attempts.nothing_measured(config):
        failed = _clean(config)
    if failed:
        raise MeasurementFailed("; ".join(failed))


def _clean(config: "Config") -> list[str]:
    """Remove the objects of the campaign from its stores; return what failed."""
    from storelab.measure import deployment

    failed: list[str] = []
    for name, store in load_stores(config, past=True).items():
        if name.partition("+")[0] not in config.stores_to_measure or store.settings.read_only:
            continue
        deployment.connect(config, store)
        try:
            removed = deployment.clean(config, store)
            click.echo(f"{name}: removed {removed}")
            if not removed.complete:
                failed.append(f"{name}: some objects that storelab wrote could not be deleted")
        except MeasurementFailed as error:
            failed.append(f"{name}: {error}")
        store.reclaim()
    return failed
