"""Change one byte of a campaign's raw files at a random place: every reader of the campaign must report it on one line.

The readers are the check before each rebuild, `load` (tables, notebooks, `verify`), and `load_run` for the files of a
record. For every tenth change, also the real commands `storelab verify` and `snakemake` run, over finished outputs.
"""

import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from common import BIN, ROOT, environ, say

sys.path.append(str(ROOT / "tests" / "support"))
import unsealed

from storelab.analysis.records import campaign
from storelab.cli import workflow
from storelab.core import integrity
from storelab.core.errors import UserError

REAL_EVERY = 10
CAMPAIGN, NAME = "compare", "compared"  # small, with manifests; one copy is sealed, another is only collected


def laid_out(folder: Path, sealed: bool) -> Path:
    """Copy the campaign to a separate checkout; return its folder."""
    for name in ("Snakefile", "rules", "paper", "notebooks", "profiles", "src", "campaigns", "config.yaml"):
        (folder / name).symlink_to(ROOT / name)
    target = folder / "results" / NAME
    if sealed:
        shutil.copytree(ROOT / "results" / NAME / "raw", target / "raw")
    else:
        unsealed.write(ROOT / "results" / NAME / "raw", target / "raw")
        integrity.write_sums(target / "raw")
    return target


def refused(look: Callable[[], object], place: Path) -> bool:
    """Return whether the call raises a UserError of one line that names a file of the campaign."""
    try:
        look()
    except UserError as error:
        return "\n" not in str(error) and str(place) in str(error)
    return False


def commands(folder: Path, place: Path) -> bool:
    """Return whether the real commands refuse with exit code 2 and one line, without a traceback."""
    storelab = [str(BIN / "storelab"), "verify", "--campaign-dir", str(place)]
    rebuild = [
        str(BIN / "snakemake"),
        "--profile",
        "profiles/local",
        "--config",
        "measure=false",
        f"campaign={CAMPAIGN}",
        f"name={NAME}",
    ]
    for command in (storelab, [*rebuild, "--", "tables"]):
        done = subprocess.run(command, cwd=folder, env=environ(), capture_output=True, text=True)
        lines = [line for line in done.stderr.splitlines() if line.startswith("storelab: ")]
        if done.returncode != 2 or len(lines) != 1 or "Traceback" in done.stderr + done.stdout:
            return False
    return True


def figures(number: int, seed: int = 1) -> dict[str, float]:
    """Return the counts flips and missed."""
    rng, missed = random.Random(seed), 0
    with tempfile.TemporaryDirectory(prefix="storelab-flips-") as base:
        places = []
        for sealed in (True, False):
            folder = Path(base) / ("sealed" if sealed else "collected")
            folder.mkdir()
            places.append((folder, laid_out(folder, sealed)))
        for i in range(number):
            folder, place = rng.choice(places)
            kinds: dict[str, list[Path]] = {}
            for path in sorted((place / "raw").rglob("*")):
                if path.is_file():
                    kinds.setdefault(path.suffix if path.suffix == ".parquet" else path.name, []).append(path)
            path = rng.choice(kinds[rng.choice(sorted(kinds))])
            was = path.read_bytes()
            data, at = bytearray(was), rng.randrange(len(was))
            data[at] ^= rng.randrange(1, 256)
            path.write_bytes(data)
            looks = [
                refused(partial(workflow.existing, place / "raw", NAME), place),
                refused(partial(campaign.load, place), place),
            ]
            if (path.parent / "run.json").exists() and (folder.name == "collected" or path.suffix == ".parquet"):
                looks.append(not integrity.load_run(path.parent))
            if i % REAL_EVERY == 0:
                looks.append(commands(folder, place))
            if not all(looks):
                missed += 1
                say(f"hardening: missed: byte {at} of {path.relative_to(base)}, {was[at]} -> {data[at]}: {looks}")
            path.write_bytes(was)
        say(f"hardening: {number} flips, {missed} missed")
    return {"flips": number, "missed": missed}
