"""Measure demo_s: the time of `make demo` in a fresh clone, and of its parts.

The parts are set-up, TeX, measuring, tables, figures, paper and page. The time to build the Go programs is measured
separately. `make demo` downloads everything each time: the caches of pip, uv and Go and storelab's tool folder are
empty. `--smoke` uses the current environment and a copy of the current files.
"""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import ports
import yaml
from common import BIN, ROOT, absent, options, report, run, say, sized, storelab, timed
from rebuild import bare_environ, copy_tree

# Part -> rules of Snakemake. The paper is written as LaTeX and then typeset.
PARTS = {
    "measure_s": ("plan", "stage", "measure", "collect"),
    "tables_s": ("make_tables",),
    "figures_s": ("draw_figures",),
    "paper_s": ("write_latex", "typeset_paper"),
    "report_s": ("write_report",),
}
LEAST = ["CONFIG=repetitions=1", "CAMPAIGN=least", "measure"]  # targets and settings of make with --smoke
SWEEPS = {"up": {"workload": "put", "duration": "600 ms", "warm_up": "100 ms"}}
Job = tuple[str, float, float]  # rule, begin and end in seconds


def jobs(folder: Path) -> Iterator[Job]:
    """Yield the jobs that Snakemake ran in a folder, from its metadata. A job appears once for each output."""
    for path in (folder / ".snakemake" / "metadata").rglob("*"):
        if path.is_file():
            entry = json.loads(path.read_text())
            if entry.get("rule") and entry.get("starttime") and entry.get("endtime"):
                yield entry["rule"], entry["starttime"], entry["endtime"]


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """Return the seconds that at least one of the spans (begin, end) covers."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def parts(done: Iterable[Job], whole_s: float) -> dict[str, float]:
    """Return the seconds of each part. `other_s`: time in which no job ran (Snakemake itself, stopping servers)."""
    every = list(done)
    out = {name: covered((b, e) for rule, b, e in every if rule in rules) for name, rules in PARTS.items()}
    return out | {"other_s": max(0.0, whole_s - covered((b, e) for _, b, e in every))}


def environ(folder: Path) -> dict[str, str]:
    """Return the environment of a new user: empty caches and tool folder, and this virtual environment not in PATH."""
    env = {k: v for k, v in bare_environ().items() if k not in ("VIRTUAL_ENV", "CONFIG", "CAMPAIGN")}
    env["PATH"] = ":".join(p for p in env["PATH"].split(":") if Path(p).resolve() != BIN.resolve())
    folders = {
        "STORELAB_TOOLS": "tools",
        "XDG_CACHE_HOME": "cache",
        "UV_CACHE_DIR": "cache/uv",
        "PIP_CACHE_DIR": "cache/pip",
    }
    folders |= {"GOPATH": "go", "GOCACHE": "go/objects", "GOMODCACHE": "go/modules"}
    return env | {name: str(folder / place) for name, place in folders.items()}


def with_free_ports(folder: Path) -> None:
    """Set free ports in the configuration, because another store may use the default ones."""
    config = folder / "config.yaml"
    config.write_text(
        config.read_text().replace("kind: seaweedfs\n", f"kind: seaweedfs\n    port: {ports.block()}\n", 1)
    )


def clone(folder: Path) -> None:
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)


def copy(folder: Path) -> None:
    """Copy the current files, link the current environment, and add a campaign of two points."""
    copy_tree(folder)
    shutil.rmtree(folder / ".venv")
    (folder / ".venv").symlink_to(BIN.parent)
    body = {"name": "least", "stores_to_measure": ["seaweedfs"], "calibrate": False, "sweeps": SWEEPS}
    (folder / "campaigns" / "least.yaml").write_text(yaml.safe_dump(body))


def once(folder: Path, smoke: bool) -> dict[str, float]:
    """Return the times of a whole demonstration in a new folder, in seconds."""
    (copy if smoke else clone)(folder)
    with_free_ports(folder)
    env = None if smoke else environ(folder.parent)
    out = {
        "setup_s": timed(["envs/setup.sh", "environment"], folder, env),
        "tex_s": timed(["make", "tex"], folder, env),
    }
    try:
        whole_s = timed(["make", *(LEAST if smoke else ["demo"])], folder, env)
    finally:
        storelab(folder, "down", "--all", check=False)
    out |= {"demo_s": out["setup_s"] + out["tex_s"] + whole_s} | parts(jobs(folder), whole_s)
    say(", ".join(f"{name} {seconds:.1f}" for name, seconds in out.items()))
    return out | {"go_s": timed(["make", "setup"], folder, env)}


def main() -> None:
    args = options(__doc__)
    n = sized(args, 3, 1, 1)
    has_tex = not absent(["latexmk"])
    values: dict[str, list[float]] = {}
    for i in range(n):
        folder = Path(tempfile.mkdtemp(prefix="storelab-demo-"))
        try:
            for name, seconds in once(folder / "storelab", args.smoke).items():
                values.setdefault(name, []).append(seconds)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        say(f"demo: {i + 1} of {n}: {values['demo_s'][-1]:.0f} s")
    missing = ["tex_s: TeX was already installed; its download is in no figure"] if has_tex else []
    report("demo", n, values, args, missing, servers=["seaweedfs"])


if __name__ == "__main__":
    run(main)
