"""The command `storelab quick ENDPOINT`: measure an S3 endpoint in about five minutes, and print one page.

It measures the campaign `quick` on that endpoint, in a temporary folder. This module may import every package. Modules
that only a measurement needs are imported when it starts.
"""

import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from storelab.cli import Settings, output_file
from storelab.cli.campaigns import complete_store
from storelab.core.errors import MeasurementFailed, UserError, nearest, shown

CAMPAIGN = "quick"


@click.command()
@click.argument("endpoint", shell_complete=complete_store)
@click.option(
    "--keep",
    metavar="FOLDER",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep the records and tables in this new folder, for `storelab compare`.",
)
@click.option(
    "--profile", help="The AWS profile with the keys; default: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are used."
)
@click.option("--region", help="The region for the signature; default: us-east-1.")
@click.option("--bucket", help="An existing bucket to use; default: storelab creates buckets and removes them.")
@click.option(
    "--ca-file",
    metavar="FILE",
    type=click.Path(),
    help="CA certificates (PEM) that verify the certificate of the endpoint.",
)
@click.option(
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=output_file(".html", ".txt"),
    help="Also write the page to FILE (.html or .txt).",
)
@click.pass_obj
def quick(
    settings: Settings,
    endpoint: str,
    keep: Path | None,
    profile: str | None,
    region: str | None,
    bucket: str | None,
    ca_file: str | None,
    output: Path | None,
) -> None:
    """Measure an S3 endpoint for about five minutes and print one page.

    ENDPOINT is a URL, or the name of a store in config.yaml that uses S3. The page shows the capabilities of the
    endpoint, the rates of uploads and downloads of small and large objects, the latency of one operation, the rate of
    sparse reads of a ROOT file, and what limited them. Afterwards, the objects that this command created are
    removed.
    """
    from storelab.gang import coordinator
    from storelab.measure.attempts import measuring_lock

    coordinator.handle_signals()
    if keep and (keep.exists() or not keep.parent.is_dir()):
        problem = f"{str(keep)!r} already exists" if keep.exists() else f"{str(keep.parent)!r} is not a folder"
        raise UserError("--keep", problem, "name a new folder in an existing one")
    options = {"profile": profile, "region": region, "bucket": bucket, "ca_file": ca_file}
    given = {name: value for name, value in options.items() if value is not None}
    config = settings.load_with({"campaign": CAMPAIGN})
    if endpoint in config.stores:
        name, store, hints = endpoint, None, nullcontext()
        managed = _suitable(config, name, given).managed
    else:
        name, managed, store = store_name(endpoint), False, {"kind": "s3", "endpoint": endpoint} | given
        hints = spelled(name)
        _refuse_misspelt(endpoint, list(config.stores))
        with spelled(name):
            _check_endpoint(settings, name, store, Path(config.state))
    # A managed store stays in the configured state folder, because it may be running. Each point locks this folder.
    lock = nullcontext() if managed else measuring_lock(Path(config.state))
    if managed:
        with measuring_lock(Path(config.state)):
            pass  # wait for another measurement before the plan is checked
    with hints, lock, working_folder() as folder:
        page, failed = measured(settings, folder, name, store, managed)
        if keep:
            kept = next((folder / "results").iterdir())
            shutil.rmtree(kept / "work", ignore_errors=True)
            shutil.move(kept, keep)
    click.echo(page.text())
    if output:
        output.write_text(page.html() if output.suffix == ".html" else page.text())
        click.echo(f"{output}", err=True)
    if keep:
        compare = shlex.join(["storelab", "compare", str(keep), "OTHER"])
        click.echo(f"{keep}: records and tables; `{compare}` compares them", err=True)
    if failed:
        raise MeasurementFailed(f"quick: points failed: {len(failed)}; the page has the reasons")


def _suitable(config: Any, name: str, given: dict[str, str]) -> Any:
    """Return the configured store. Raises UserError if it does not use S3, or if options of an endpoint are given."""
    from storelab import stores

    if given:
        option = next(iter(given))
        hint = f"set stores.{name}.{option} in config.yaml, or give the URL of the endpoint"
        raise UserError(_spelled_option(option), f"is not possible with the configured store {name!r}", hint)
    store = stores.all_stores(config)[name]
    if store.protocol != "s3":
        hint = "measure a campaign on it, for example `storelab run site`"
        raise UserError("quick", f"the store {name!r} uses {store.protocol}, not S3", hint)
    return store


def _check_endpoint(settings: Settings, name: str, store: dict[str, Any], state: Path) -> None:
    """Raise UserError if an option or the URL is wrong, or keys are missing, before anything is prepared or printed."""
    from storelab import stores

    try:
        endpoint = stores.make(name, stores.parse(store), state)
    except ValueError:  # a wrong option: the whole configuration reports it with its key
        settings.load_with({"campaign": CAMPAIGN, "stores": {name: store}})
        return
    _ = endpoint.urls
    endpoint.credentials()


def _refuse_misspelt(endpoint: str, names: list[str]) -> None:
    """Raise UserError if the text is not a URL and is similar to the name of a store."""
    hint = nearest(endpoint, names)
    if "://" not in endpoint and hint.startswith("did you mean"):
        raise UserError("quick", f"{shown(endpoint)} is not a URL or a store in config.yaml", hint)


def measured(
    settings: Settings, folder: Path, name: str, store: dict[str, Any] | None, managed: bool = False
) -> tuple[Any, list[str]]:
    """Measure the campaign `quick` in `folder`. Return the page with its results, and the keys of failed points.

    `store` has the settings of the endpoint; it is None for a configured store, which may be managed.
    """
    from storelab.analysis import pages
    from storelab.analysis.tables import build as tables
    from storelab.core import integrity
    from storelab.core import plan as planning
    from storelab.host.console import report
    from storelab.measure import quick as measuring
    from storelab.workloads import WORKLOADS

    config = settings.load_with(
        {
            "campaign": CAMPAIGN,
            "name": f"{CAMPAIGN}-{secrets.token_hex(4)}",
            "stores": ({name: store} if store else {}) | near_null(settings),
            "stores_to_measure": [name],
            **without_loadgen(settings),
        }
    )
    # These values override even `--set`, because this command stops its stores at the end. Only the lock is in the
    # configured state folder.
    config = config.model_copy(update={"results": str(folder / "results")})
    if not managed:
        config = config.model_copy(update={"state": str(folder / "state")})
    points = planning.make(config, WORKLOADS)
    seconds = measuring.measure(config, points)
    report("    making the page")
    tables.build(config.campaign_dir)
    page = pages.page(config.campaign_dir, store["endpoint"] if store else name, seconds)
    return page, integrity.missing(config.raw, [p.key for p in points])


def near_null(settings: Settings) -> dict[str, Any]:
    """Return settings of the near-null server with a free port; an empty dictionary if its configured port is free."""
    from storelab.core import calibration
    from storelab.stores.managed import network
    from storelab.stores.managed.base import LOOPBACK

    configured = settings.load_with({"campaign": CAMPAIGN}).stores.get(calibration.STORE)
    if configured is None or network.free(LOOPBACK, configured.port):
        return {}
    free = next((p for p in range(configured.port + 1, configured.port + 1000) if network.free(LOOPBACK, p)), None)
    return {calibration.STORE: {"kind": calibration.STORE, "port": free}} if free else {}


def without_loadgen(settings: Settings) -> dict[str, Any]:
    """Return changes of the campaign that are needed if storelab's Go programs are not built.

    They replace the engine `loadgen` by `obstore`, and switch the calibration off.
    """
    from storelab import install
    from storelab.install import golang

    if golang.present(golang.LOADGEN, install.tools_folder()):
        return {}
    click.echo(
        "storelab: the Go programs are not built, so the limit of the client is not known; "
        "to build them: storelab install loadgen",
        err=True,
    )
    sweeps = settings.load_with({"campaign": CAMPAIGN, "calibrate": False}).sweeps
    other = {n: {"axes": {"engine": "obstore"}} for n, s in sweeps.items() if s.axes.get("engine") == "loadgen"}
    return {"calibrate": False, "sweeps": other}


def store_name(url: str) -> str:
    """Return the name of the store: host and port of the URL, or `endpoint` if the URL has no host."""
    try:
        parts = urlsplit(url)
        host = f"{parts.hostname or ''}-{parts.port or ''}"
    except ValueError:
        host = ""
    return re.sub(r"[^a-z0-9.-]+", "-", host).strip("-.") or "endpoint"


def _spelled_option(key: str) -> str:
    """Return the option of the command line for a key of a store."""
    return f"--{key.replace('_', '-')}"


@contextmanager
def spelled(name: str) -> Iterator[None]:
    """Rewrite errors about the store of this name, so that they name options instead of configuration keys."""

    def plain(text: str) -> str:
        key = rf"(config\.yaml: |command line: )?stores\.{re.escape(name)}"
        text = re.sub(rf"{key}\.(profile|region|bucket|ca_file)\b", lambda found: _spelled_option(found[2]), text)
        text = re.sub(rf"{key}(\.endpoint)?\b", "quick", text)
        text = text.replace("the store's `endpoint`", "the URL")
        return re.sub(r"the store's `(profile|region|bucket|ca_file)`", lambda found: _spelled_option(found[1]), text)

    try:
        yield
    except UserError as error:
        raise UserError(*map(plain, (error.place, error.problem, error.hint))) from None
    except MeasurementFailed as error:
        raise MeasurementFailed(plain(str(error))) from None


@contextmanager
def working_folder() -> Iterator[Path]:
    """Yield a temporary folder, which is removed at the end, even if this process is killed."""
    folder = Path(tempfile.mkdtemp(prefix="storelab-quick-"))
    try:
        with watched(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def watched(folder: Path) -> Iterator[None]:
    """Run a second process, `python -m storelab.cli.quick`, that cleans up if this process is killed in the block.

    If this process is killed, the kernel closes the pipe between them, which the second process notices.
    """
    from storelab.stores.protocols import environment

    command = [sys.executable, "-m", "storelab.cli.quick", str(folder)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
    environ = environment.explicit(os.environ)  # this process does not need credentials
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=environ, **quiet) as waiting:
        assert waiting.stdin
        try:
            yield
        finally:
            with suppress(OSError):
                waiting.stdin.write(b"done")
                waiting.stdin.close()
            waiting.wait(30)


def end_killed() -> None:
    """Wait until the parent process ends. If it was killed, stop the daemons that it started and remove its folder."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if sys.stdin.buffer.read():
        return
    from storelab.stores.managed.daemons import Daemons

    folder = Path(sys.argv[1])
    for store in (folder / "state").glob("*/"):
        with suppress(Exception):  # an error of one store must not prevent stopping the others
            daemons = Daemons(store, "quick")
            daemons.stop()
            daemons.sweep()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    end_killed()
