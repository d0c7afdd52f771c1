"""Measure rebuild_s: `make paper` of the sealed reference campaign in a fresh copy.

The rebuild has no network (as root), no s5cmd and no S3 variables. papers_s: the same for one paper of all sealed
campaigns. `--smoke` uses only the smallest ones, because tests/real/test_stale_paper.py rebuilds the reference.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from common import BIN, ROOT, absent, options, report, run, say, sized, timed

from storelab.core import integrity


def copy_tree(target: Path) -> None:
    """Copy the files that git tracks, in their current state, and a .venv without s5cmd and weed."""
    files = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout.split("\0")
    for name in filter(None, files):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    tools = target / ".venv" / "bin"
    tools.mkdir(parents=True)
    for tool in BIN.iterdir():
        if tool.name not in ("s5cmd", "weed"):
            (tools / tool.name).symlink_to(tool)
    for name in ("lib", "pyvenv.cfg"):  # python finds its packages by them
        (target / ".venv" / name).symlink_to(BIN.parent / name)
    locked = (BIN.parent / "storelab-lock").read_text().splitlines()[0]
    (target / ".venv" / "storelab-lock").write_text(f"{locked}\n{target / '.venv'}\n")


def bare_environ() -> dict[str, str]:
    """Return this environment without S3 variables, and without the folders in PATH that contain s5cmd."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "S3_"))}
    env["PATH"] = ":".join(p for p in env["PATH"].split(":") if not (Path(p) / "s5cmd").exists())
    return env


def without_network() -> list[str]:
    """Return the command prefix that disables the network; empty without root."""
    return ["unshare", "--net"] if os.geteuid() == 0 else []


def sealed() -> list[str]:
    """Return the names of the sealed campaigns in the repository, those with the fewest points first."""
    seals = [p.parents[1] for p in (ROOT / "results").glob("*/raw/SEAL")]
    return [p.name for p in sorted(seals, key=lambda p: (integrity.seal_of(p / "raw")["points"], p.name))]


def main() -> None:
    args = options(__doc__)
    n = sized(args, 7, 3, 1)
    missing = [f"rebuild_s: {name} is not installed" for name in absent(["latexmk"])]
    values: list[float] = []
    joined: list[float] = []
    names = sealed()[:2] if args.smoke else sealed()
    one = names[0] if args.smoke else "reference"
    folder = Path(tempfile.mkdtemp(prefix="storelab-rebuild-"))
    try:
        for i in range(0 if missing else n):
            copy_tree(folder / str(i))
            command = [*without_network(), "make", "paper", f"CAMPAIGN={one}"]
            values.append(timed(command, folder / str(i), bare_environ()))
            assert (folder / str(i) / "results" / one / "paper.pdf").exists()
            papers = folder / "papers" / str(i)
            papers.mkdir(parents=True)
            copy_tree(papers)
            command = [*without_network(), "make", "paper", f"CAMPAIGN={' '.join(names)}"]
            joined.append(timed(command, papers, bare_environ()))
            assert (papers / "results/papers" / "+".join(names) / "paper.pdf").exists()
            say(f"rebuild: {i + 1} of {n}: {values[-1]:.1f} s, of {len(names)} campaigns {joined[-1]:.1f} s")
    finally:
        shutil.rmtree(folder)
    report("rebuild", len(values), {"rebuild_s": values, "papers_s": joined}, args, missing)


if __name__ == "__main__":
    run(main)
