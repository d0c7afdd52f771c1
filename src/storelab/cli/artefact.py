"""Commands that hand on a campaign and the laboratory itself: pack, unpack, init (room `cli`).

May import: `analysis`, `core`, `install`, the other modules of this room; what a command needs, when it runs.
"""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from storelab.cli import Settings
from storelab.core import config, records
from storelab.core.errors import UserError, shown
from storelab.stores.config import load_rebuild

if TYPE_CHECKING:
    from storelab.analysis.records.campaign import Campaign

ENDING = ".crate.zip"
LICENSE = re.compile(r"[A-Za-z0-9.+-]{2,64}")  # an identifier of SPDX


@click.command()
@click.argument("campaign")
@click.option("--output", metavar="FILE", help="The pack; default: <name>.crate.zip in the campaign's folder.")
@click.option("--license", default="CC-BY-4.0", show_default=True, help="License of the data, as SPDX names it.")
@click.option("--again", is_flag=True, help="Write over a pack of another content.")
@click.pass_obj
def pack(settings: Settings, campaign: str, output: str | None, license: str, again: bool) -> None:
    """Pack a measured CAMPAIGN as one file that others can check, cite and rebuild (an RO-Crate).

    CAMPAIGN is a name in campaigns/, a campaign file, or the folder of its results. Its tables and figures are made
    first where they are not those of the records.
    """
    from storelab.analysis.artefact import members
    from storelab.analysis.records.campaign import load
    from storelab.install import project

    if not LICENSE.fullmatch(license):
        raise UserError("--license", f"{shown(license)} is no identifier of SPDX", "write one such as CC-BY-4.0")
    layers, folder = _found(settings, campaign)
    called = config.merged(layers)["campaign"]
    if not (folder / "raw" / "plan.json").exists():
        mend = f"measure it first: `make measure CAMPAIGN={called}`"
        raise UserError(f"campaign {folder.name}", f"has no records in {folder / 'raw'}", mend)
    loaded = load(folder)
    _make(loaded)
    root = settings.main.parent
    own = project.files(root) if (root / "Snakefile").is_file() else project.files()
    own |= {"LICENSE": project.shipped("LICENSE")}
    everything, left = members.everything(loaded, layers, own, license)
    target = Path(output) if output else folder / f"{folder.name}{ENDING}"
    _write(target, everything, again)
    size, digest = target.stat().st_size / 1e6, records.sha256(target)
    click.echo(f"{target}: {len(everything)} files, {size:.1f} MB")
    click.echo(f"SHA-256 of the pack: {digest}")
    for name in left:
        mend = f"`make {members.PAPERS[name]} CAMPAIGN={called}` makes it again"
        click.echo(f"storelab: {name} is older than the tables and was left out; {mend}", err=True)


def _found(settings: Settings, campaign: str) -> tuple[config.Layers, Path]:
    """The layers of the configuration with this campaign, and the folder of its results. Raises UserError."""
    given = Path(campaign) if Path(campaign).name not in ("", "..") else Path(campaign).resolve()
    more: dict[str, str] = {"campaign": campaign}
    if (given / "raw").is_dir():
        more = {"campaign": _file_of(settings.main.parent, given.resolve().name), "results": str(given.parent)}
    over = config.merge(more, config.parse_set(settings.set_))
    light = load_rebuild(settings.main, settings.extra, over)
    layers, _ = config.read_layers(settings.main, settings.extra, over)
    return layers, Path(light.results) / light.name


def _file_of(root: Path, name: str) -> str:
    """The campaign file whose campaign has this name. Raises UserError: there is none."""
    for stem in config.names_of_campaigns(root):
        if config.read_yaml(root / "campaigns" / f"{stem}.yaml").get("name") == name:
            return stem
    raise UserError(f"campaign {name}", "has no file in campaigns/", "put its campaign file there")


def _make(campaign: "Campaign") -> None:
    """Tables and figures, where they are not those of the records; what is the same stays untouched."""
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
            click.echo(f"storelab: {number} {noun} of {folder} were made anew", err=True)


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _write(target: Path, everything: dict, again: bool) -> None:
    """Raises UserError where something else is there."""
    from storelab.analysis.artefact import archive

    if target.is_dir():
        raise UserError(str(target), "is a folder", "give the path of a file")
    if again or not (target.exists() or target.is_symlink()):
        archive.write(target, everything)
        return
    beside = target.with_name(f".{target.name}.{os.getpid()}.new.tmp")
    try:
        archive.write(beside, everything)
        if not target.is_file() or records.sha256(beside) != records.sha256(target):
            raise UserError(str(target), "is there already, with another content", "give --again, or another --output")
    finally:
        beside.unlink(missing_ok=True)


@click.command()
@click.argument("pack_", metavar="FILE")
@click.argument("folder", required=False)
@click.option("--no-rebuild", is_flag=True, help="Only check and unpack; do not make tables and figures anew.")
def unpack(pack_: str, folder: str | None, no_rebuild: bool) -> None:
    """Check the pack FILE, unpack it into a new FOLDER, rebuild tables and figures, and compare.

    FOLDER is by default the name of the pack without its ending, here. It is a project folder afterwards.
    """
    from storelab.analysis.artefact import archive as module

    path = Path(pack_)
    target = Path(folder) if folder else Path(path.name.removesuffix(".zip").removesuffix(".crate"))
    campaign_dir, files, there = module.unpack(path, target)
    done = "is there already, and as it was packed" if there else "unpacked"
    click.echo(f"{target}: {done}: {files} files, every checksum holds")
    if no_rebuild:
        return
    made = module.rebuild(campaign_dir, _cores())
    click.echo(f"{campaign_dir}: rebuilt from its records: {made.tables} tables, bit-identical to those packed")
    same = made.same_pictures
    pictures = "the same bytes" if same == made.pictures else f"{same} of them the same bytes: another drawing library"
    click.echo(f"{campaign_dir}: {made.figures} figures, the same data; {made.pictures} pictures, {pictures}")


@click.command()
@click.argument("folder")
def init(folder: str) -> None:
    """Write a project FOLDER: Snakefile, rules, profiles, configuration, campaigns, notebooks, the paper's text.

    What lies there already is never written over; what is the same stays.
    """
    from storelab.install import project

    new = project.init(Path(folder))
    click.echo(
        f"{folder}: {len(new)} files written; what to do there: make demo, or edit config.yaml and storelab check"
    )
