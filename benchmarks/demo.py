"""demo_s, setup_s: `make demo` in a fresh clone, and where its time goes: set-up, TeX, measuring, tables, figures,
paper, page; then the Go programs.

What `make demo` downloads comes from the network each time: caches of pip, uv and Go are empty, and so is storelab's
folder of tools. `--smoke` takes this environment, and a copy of the files as they are.
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

# Part -> rules of Snakemake; the paper is LaTeX written and typeset.
PARTS = {
    "measure_s": ("plan", "stage", "measure", "collect"),
    "tables_s": ("make_tables",),
    "figures_s": ("draw_figures",),
    "paper_s": ("write_latex", "typeset_paper"),
    "report_s": ("write_report",),
}
LEAST = ["CONFIG=repetitions=1", "CAMPAIGN=least", "measure"]  # of make, with --smoke
SWEEPS = {"up": {"workload": "put", "duration": "600 ms", "warm_up": "100 ms"}}
Job = tuple[str, float, float]  # rule, begin and end in seconds


def jobs(folder: Path) -> Iterator[Job]:
    """The jobs that Snakemake ran in a folder, as it noted them; one of several outputs is there several times."""
    for path in (folder / ".snakemake" / "metadata").rglob("*"):
        if path.is_file():
            told = json.loads(path.read_text())
            if told.get("rule") and told.get("starttime") and told.get("endtime"):
                yield told["rule"], told["starttime"], told["endtime"]


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """Seconds in which at least one of the spans (begin, end) lies."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def parts(done: Iterable[Job], whole_s: float) -> dict[str, float]:
    """Seconds of each part; `other_s` is what no job was running: Snakemake itself, servers that stop."""
    every = list(done)
    out = {name: covered((b, e) for rule, b, e in every if rule in rules) for name, rules in PARTS.items()}
    return out | {"other_s": max(0.0, whole_s - covered((b, e) for _, b, e in every))}


def environ(folder: Path) -> dict[str, str]:
    """That of somebody who never used storelab, nor what it downloads: empty caches, and this environment out of
    sight.
    """
    env = {k: v for k, v in bare_environ().items() if k not in ("VIRTUAL_ENV", "CONFIG", "CAMPAIGN")}
    env["PATH"] = ":".join(p for p in env["PATH"].split(":") if Path(p).resolve() != BIN.resolve())
    own = {
        "STORELAB_TOOLS": "tools",
        "XDG_CACHE_HOME": "cache",
        "UV_CACHE_DIR": "cache/uv",
        "PIP_CACHE_DIR": "cache/pip",
    }
    own |= {"GOPATH": "go", "GOCACHE": "go/objects", "GOMODCACHE": "go/modules"}
    return env | {name: str(folder / place) for name, place in own.items()}


def with_free_ports(folder: Path) -> None:
    """Another store may have the usual ones."""
    config = folder / "config.yaml"
    config.write_text(
        config.read_text().replace("kind: seaweedfs\n", f"kind: seaweedfs\n    port: {ports.block()}\n", 1)
    )


def clone(folder: Path) -> None:
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)


def copy(folder: Path) -> None:
    """The files as they are, with this environment, and a campaign of two points."""
    copy_tree(folder)
    shutil.rmtree(folder / ".venv")
    (folder / ".venv").symlink_to(BIN.parent)
    body = {"name": "least", "use_stores": ["seaweedfs"], "calibrate": False, "sweeps": SWEEPS}
    (folder / "campaigns" / "least.yaml").write_text(yaml.safe_dump(body))


def once(folder: Path, smoke: bool) -> dict[str, float]:
    """Seconds of a whole demonstration in a new folder."""
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
    missing = ["tex_s: TeX was there already, its download is in no figure"] if has_tex else []
    report("demo", n, values, args, missing, servers=["seaweedfs"])


if __name__ == "__main__":
    run(main)
