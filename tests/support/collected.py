"""A collected campaign with a failed point and a manifest, and ways to damage and to read it."""

import functools
import shutil
import tempfile
from pathlib import Path

import make_examples

from storelab.analysis.records import campaign
from storelab.cli import workflow
from storelab.core import integrity, records
from storelab.core.errors import UserError
from storelab.stores.config import Config


def write(folder: Path) -> None:
    """Write `raw/` of nine points, of which one failed, with a manifest and checksums."""
    make_examples.make(folder, failed=("alpha/put/rep~002",), sweeps=make_examples.ONE_EACH)
    raw = folder / "raw"
    (raw / "manifests/alpha").mkdir(parents=True)
    (raw / "manifests/alpha/d.baskets.parquet").write_bytes(b"PAR1 of baskets PAR1")
    entries = records.file_entries([raw / "manifests/alpha/d.baskets.parquet"])
    records.write_summed(raw / "manifests/alpha/d.json", {"schema": 1, "objects": {}, "files": entries})
    records.write_summed(raw / "plan.json", records.read_json(raw / "plan.json"))
    integrity.write_sums(raw)


@functools.cache
def _whole() -> tempfile.TemporaryDirectory:
    folder = tempfile.TemporaryDirectory(prefix="storelab-tests-")
    write(Path(folder.name) / "example")
    return folder


def copied(folder: Path) -> Path:
    """Copy the campaign to `folder`/example, and return this path."""
    return shutil.copytree(Path(_whole().name) / "example", folder / "example")


def settings(folder: Path, **more) -> Config:
    """Return the configuration of the campaign in this folder."""
    given = make_examples.CONFIG | {"results": str(folder.parent), "sweeps": make_examples.ONE_EACH} | more
    return Config.model_validate(given)


def flip(path: Path, place: int, bits: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= bits
    path.write_bytes(data)


def looks(folder: Path) -> list[str]:
    """Return the error of each reader of the campaign (`verify`, analysis, workflow); '' without an error."""
    messages = []
    for look in (
        lambda: integrity.verify(folder / "raw"),
        lambda: campaign.load(folder),
        lambda: workflow.existing(folder / "raw", "example"),
    ):
        try:
            look()
            messages.append("")
        except UserError as error:
            messages.append(str(error))
    return messages


FINE = ["", "", ""]
