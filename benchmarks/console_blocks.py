"""Run every console block of README.md and docs/ in a copy of the checkout. Part of hardening.py (`figures`).

A block is a script: its commands are the lines that begin with `$ `, with their continuation (here-documents, open
quotes); all other lines are output. A block whose first line is `# needs: …` is counted, but not run. The setup of a
reader is done first: the environment is active, and `<this repository>` is this checkout. A YAML block above the
console block whose first line names a file (`# campaigns/mine.yaml`) is written to that file. A store gets a free
port.
"""

import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import ports
import psutil
from common import ROOT, say
from rebuild import bare_environ, copy_tree

NEEDS = "# needs: "
REPOSITORY = "<this repository>"
LIMIT_S = 500.0  # shorter than pytest's limit of a test, so that this module reports the processes that still run
# A block that calls one of these takes longer than some seconds; only .ci/run runs it.
LONG = ("git clone", "make ", "benchmarks/", "test_pictures", "storelab up ")
# One run of each point, without calibration: the test asks if a block runs, not how fast. Windows keep their length,
# because an upload of 4 MB may not finish within a second on a busy machine.
LESS = {"CONFIG": "repetitions=1 calibrate=false"}


@dataclass(frozen=True)
class Block:
    """A console block: page, number on the page, needs (empty: none), commands, and files from YAML blocks above it."""

    page: str
    number: int
    needs: str
    commands: tuple[str, ...]
    files: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        return f"{self.page}-{self.number}"

    @property
    def long(self) -> bool:
        return any(word in command for command in self.commands for word in LONG)


def pages(root: Path = ROOT) -> list[Path]:
    return [
        root / "README.md",
        root / "CONTRIBUTING.md",
        *sorted((root / "docs").rglob("*.md")),
        root / "benchmarks/README.md",
    ]


def blocks(root: Path = ROOT) -> list[Block]:
    return [block for page in pages(root) for block in of_page(page.read_text(), str(page.relative_to(root)))]


def of_page(text: str, page: str) -> Iterator[Block]:
    """Yield the console blocks of a page. Raise ValueError for a block without a command."""
    files: list[tuple[str, str]] = []
    number = 0
    for kind, body in re.findall(r"^```(\w+)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        first = body.partition("\n")[0]
        if kind == "yaml" and (named := re.fullmatch(r"# (\S+\.yaml)", first)):
            files.append((named[1], body))
        if kind in ("console", "bash", "sh", "shell"):
            number += 1
            found = tuple(commands(body))
            if not found:
                raise ValueError(f"{page}, console block {number}: has no line that begins with `$ `")
            needs = first.removeprefix(NEEDS) if first.startswith(NEEDS) else ""
            yield Block(page, number, needs, found, tuple(files))


def commands(body: str) -> Iterator[str]:
    """Yield the commands behind `$ `, each with its continuation lines."""
    lines = iter(body.splitlines())
    for line in lines:
        if not line.startswith("$ "):
            continue
        command = line.removeprefix("$ ")
        while not whole(command):
            if (more := next(lines, None)) is None:
                raise ValueError(f"the command is incomplete: {command}")
            command += "\n" + more
        yield command


def whole(command: str) -> bool:
    """Return whether the shell needs no more lines to run the command."""
    read = subprocess.run(["bash", "-n"], input=command.replace(REPOSITORY, ".") + "\n", capture_output=True, text=True)
    return read.returncode == 0 and "here-document" not in read.stderr and not command.endswith("\\")


def copy(folder: Path) -> None:
    """Copy the checkout to `folder`, with free ports for its store and the near-null server."""
    copy_tree(folder)
    shutil.rmtree(folder / ".venv")
    (folder / ".venv").symlink_to(ROOT / ".venv")
    (folder / ".repository").mkdir()
    (folder / ".repository" / "storelab").symlink_to(ROOT)  # a clone gets this name
    config = folder / "config.yaml"
    config.write_text(
        config.read_text().replace(
            "kind: seaweedfs\n",
            f"kind: seaweedfs\n    port: {ports.block()}\n  nullserver: {{kind: nullserver, port: {ports.block(2)}}}\n",
            1,
        )
    )


def run(block: Block, folder: Path, limit_s: float | None = None) -> tuple[int | None, str]:
    """Run the block in `folder`; return its exit code and its output.

    The exit code is None after limit_s (None: LIMIT_S); the output then lists the processes that still ran. Everything
    that the block started is stopped, also stores of clones that it made.
    """
    for name, text in block.files:
        (folder / name).write_text(text)
    script = "\n".join(
        ["set -o pipefail", *(f"{{ {command}\n}} || exit $?" for command in block.commands), ""]
    ).replace(REPOSITORY, shlex.quote(str(folder / ".repository" / "storelab")))
    tools = folder / ".venv" / "bin"
    env = bare_environ() | LESS
    env["PATH"] = f"{tools}:{env['PATH']}"
    # a file, because with a pipe this would wait for every process that has it open
    with tempfile.TemporaryFile("w+") as output:
        begun = psutil.Popen(
            ["bash", "-c", script],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        code, still = None, ""
        try:
            code = begun.wait(limit_s or LIMIT_S)
        except psutil.TimeoutExpired:
            running = begun.children(recursive=True)
            still = "".join(f"\nstill running: {p.pid} {p.status()} {' '.join(p.cmdline())[:200]}" for p in running)
            for process in (begun, *running):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            begun.wait()
        finally:
            for checkout in (folder, *(snakefile.parent for snakefile in folder.glob("*/Snakefile"))):
                subprocess.run([str(tools / "storelab"), "down", "--all"], cwd=checkout, env=env, capture_output=True)
        output.seek(0)
        return code, output.read() + still


def failure(block: Block, folder: Path) -> str:
    """Run the block in `folder`; return its output if it failed, else ''."""
    code, output = run(block, folder)
    if code == 0:
        return ""
    how = f"not finished after {LIMIT_S:g} s" if code is None else f"exit code {code}"
    return f"{how}: {output[-2500:]}"


def figures(quick: bool = False, most: int | None = None, root: Path = ROOT) -> dict[str, int]:
    """Return the counts blocks, blocks_named (those with needs), blocks_run and blocks_failed.

    quick: skip blocks that take minutes; most: maximum number of blocks.
    """
    found = blocks(root)
    chosen = [b for b in found if not b.needs and not (quick and b.long)][:most]
    failed = 0
    for block in chosen:
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="storelab-blocks-") as folder:
            copy(Path(folder))
            why = failure(block, Path(folder))
        failed += bool(why)
        say(f"console block {block.name}: {why or 'runs'} ({time.monotonic() - begun:.0f} s)")
    named = sum(bool(b.needs) for b in found)
    return {"blocks": len(found), "blocks_named": named, "blocks_run": len(chosen), "blocks_failed": failed}
