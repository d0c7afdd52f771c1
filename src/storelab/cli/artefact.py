"""Commands that share a campaign or create a project folder: pack, unpack, init.

This module may import `analysis`, `core`, `install` and the other modules of this package. A command imports what it
needs when it runs.
"""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from storelab.cli import Settings, campaigns
from storelab.core import config, records
from storelab.core.errors import UserError, shown
from storelab.host import console

if TYPE_CHECKING:
    from storelab.analysis.records.campaign import Campaign

ENDING = ".crate.zip"
LICENSE = re.compile(r"[A-Za-z0-9.+-]{2,64}")  # pattern of an SPDX identifier


@click.command()
@click.argument("campaign", shell_complete=campaigns.complete)
@click.option("--output", metavar="FILE", help="The pack's file; default: <name>.crate.zip in the campaign's folder.")
@click.option("--license", default="CC-BY-4.0", show_default=True, help="License of the data, as an SPDX identifier.")
@click.option("--again", is_flag=True, help="Overwrite a pack with different content.")
@click.pass_obj
def pack(settings: Settings, campaign: str, output: str | None, license: str, again: bool) -> None:
    """Pack a measured CAMPAIGN into one file that others can check, cite and rebuild (an RO-Crate).

    CAMPAIGN is a name, a campaign file, or a folder with results. Tables and figures that do not match
    the records are made again first.
    """
    from storelab.analysis.artefact import members
    from storelab.analysis.records.campaign import load
    from storelab.install import project

    if not LICENSE.fullmatch(license):
        raise UserError("--license", f"{shown(license)} is not an SPDX identifier", "use for example CC-BY-4.0")
    found = campaigns.find(settings, campaign)
    folder, chosen = found.folder, settings.choosing(found.required_overrides())
    layers, _ = config.read_layers(settings.main, settings.extra, chosen.overrides())
    configured = config.merged(layers)["campaign"]
    if not (folder / "raw" / "plan.json").exists():
        hint = f"measure it first: `storelab run {configured}`"
        raise UserError(f"campaign {folder.name}", f"has no records in {folder / 'raw'}", hint)
    loaded = load(folder)
    console.announce(f"{folder.name}: making again what does not match the records, and packing")
    _make(loaded)
    root = settings.main.parent
    project_files = project.files(root) if (root / "Snakefile").is_file() else project.files()
    project_files |= {"LICENSE": project.shipped("LICENSE")}
    everything, omitted = members.everything(loaded, layers, project_files, license)
    target = Path(output) if output else folder / f"{folder.name}{ENDING}"
    _write(target, everything, again)
    size, digest = target.stat().st_size / 1e6, records.sha256(target)
    click.echo(f"{target}: {len(everything)} files, {size:.1f} MB")
    click.echo(f"SHA-256 of the pack: {digest}")
    for name in omitted:
        hint = f"to update it: `make {members.PAPERS[name]} CAMPAIGN={configured}`"
        click.echo(f"storelab: {name} is older than the tables and was left out; {hint}", err=True)


def _make(campaign: "Campaign") -> None:
    """Make those tables and figures again that do not match the records. Other files are not changed."""
    from storelab.analysis.figures import write
    from storelab.analysis.parts import derived
    from storelab.analysis.tables import build
    from storelab.cli.workflow import stale_figures

    folder = campaign.folder
    made = {folder / "tables" / name: text for name, text in build.texts(folder).items()}
    new = [path for path, text in made.items() if not path.is_file() or path.read_bytes() != text]
    for path in new:
        records.write_atomic(path, made[path])
    if new or derived.damaged_tables(folder, build.NAMES):
        derived.write_sums(folder, build.NAMES)
    stale = stale_figures(folder, campaign.plan)
    if stale or not (folder / "figures" / "index.json").is_file():
        write.build(folder, stale, _cores())
        write.index(folder)
    for noun, number in (("tables", len(new)), ("figures", len(stale))):
        if number:
            click.echo(f"storelab: {folder}: {noun} that were made again: {number}", err=True)


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _write(target: Path, everything: dict, again: bool) -> None:
    """Write the pack. Raises UserError if the target exists with different content and `again` is not set."""
    from storelab.analysis.artefact import archive

    if target.is_dir():
        raise UserError(str(target), "is a folder", "give the path of a file")
    if again or not (target.exists() or target.is_symlink()):
        archive.write(target, everything)
        return
    temporary = target.with_name(f".{target.name}.{os.getpid()}.new.tmp")
    try:
        archive.write(temporary, everything)
        if not target.is_file() or records.sha256(temporary) != records.sha256(target):
            hint = "use --again to overwrite it, or another --output"
            raise UserError(str(target), "already exists with different content", hint)
    finally:
        temporary.unlink(missing_ok=True)


@click.command()
@click.argument("pack_", metavar="FILE", type=click.Path())
@click.argument("folder", required=False, type=click.Path())
@click.option("--no-rebuild", is_flag=True, help="Only check and unpack; do not rebuild tables and figures.")
def unpack(pack_: str, folder: str | None, no_rebuild: bool) -> None:
    """Check the pack FILE, unpack it into a new FOLDER, and compare its tables and figures with rebuilt ones.

    FOLDER becomes a project folder. Its default is the name of the pack without the suffix, in the current folder.
    """
    from storelab.analysis.artefact import archive as module

    path = Path(pack_)
    target = Path(folder) if folder else Path(path.name.removesuffix(".zip").removesuffix(".crate"))
    campaign_dir, files, existed = module.unpack(path, target)
    state = "already unpacked and unchanged" if existed else "unpacked"
    click.echo(f"{target}: {state}: {files} files, all checksums match")
    if no_rebuild:
        return
    console.announce(f"{target}: making tables and figures again, to compare them")
    rebuilt = module.rebuild(campaign_dir, _cores())
    click.echo(f"{campaign_dir}: rebuilt from its records: {rebuilt.tables} tables, bit-identical to the packed ones")
    identical = rebuilt.same_pictures
    pictures = f"{rebuilt.pictures} picture files, {identical} of them identical to the packed ones"
    if identical != rebuilt.pictures:
        pictures += " (the others were drawn with another version of the drawing library)"
    click.echo(f"{campaign_dir}: {rebuilt.figures} figures with identical data; {pictures}")


@click.command()
@click.argument("folder", type=click.Path())
def init(folder: str) -> None:
    """Create a project FOLDER with Snakefile, rules, profiles, configuration, campaigns, notebooks and paper templates.

    Existing files are never overwritten. A file that exists with different content is an error.
    """
    from storelab.install import project

    new = project.init(Path(folder))
    click.echo(f"{folder}: {len(new)} files written; next: `storelab run demo` there, or edit config.yaml first")
