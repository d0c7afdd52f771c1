"""Part of hardening.py (`figures`): every console block of README.md and docs/, run as it stands in a copy of the
checkout, or counted as needing something first.

A block is a script: its lines that begin with `$ `, with what belongs to them (here-documents, open quotes); all else
is output. A block whose first line is `# needs: …` is not run. What a person does before is done: the environment is
active, `<this repository>` is this one, and a YAML block above whose first line names a file (`# campaigns/mine.yaml`)
is in that file. A store gets a free port.
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
LIMIT_S = 500.0  # below the time that pytest gives a test, so that this says what still runs
# What takes longer than some seconds is left to .ci/run: a block that calls one of these.
LONG = ("git clone", "make ", "benchmarks/", "test_pictures", "storelab up ")
# One run of each point, and none of the engine alone: that a block runs is asked here, not what it measures. Each as
# long as it is: in a second, no upload of 4 MB may end on a busy machine.
LESS = {"CONFIG": "repetitions=1 calibrate=false"}


@dataclass(frozen=True)
class Block:
    """A console block: its page, its number there, what it needs first (empty: nothing), commands, files above it."""

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
    """The console blocks of a page. Raises ValueError for one without a command."""
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
    """What stands behind `$ `, with the lines that complete it."""
    lines = iter(body.splitlines())
    for line in lines:
        if not line.startswith("$ "):
            continue
        command = line.removeprefix("$ ")
        while not whole(command):
            if (more := next(lines, None)) is None:
                raise ValueError(f"the shell waits for more behind: {command}")
            command += "\n" + more
        yield command


def whole(command: str) -> bool:
    """Whether the shell waits for no more lines."""
    read = subprocess.run(["bash", "-n"], input=command.replace(REPOSITORY, ".") + "\n", capture_output=True, text=True)
    return read.returncode == 0 and "here-document" not in read.stderr and not command.endswith("\\")


def copy(folder: Path) -> None:
    """A checkout of its own, with free ports for its store and the near-null server."""
    copy_tree(folder)
    shutil.rmtree(folder / ".venv")
    (folder / ".venv").symlink_to(ROOT / ".venv")
    (folder / ".repository").mkdir()
    (folder / ".repository" / "storelab").symlink_to(ROOT)  # what is cloned has this name
    config = folder / "config.yaml"
    config.write_text(
        config.read_text().replace(
            "kind: seaweedfs\n",
            f"kind: seaweedfs\n    port: {ports.block()}\n  nullserver: {{kind: nullserver, port: {ports.block(2)}}}\n",
            1,
        )
    )


def run(block: Block, folder: Path, limit_s: float | None = None) -> tuple[int | None, str]:
    """Run the block in `folder`: its exit code, None after limit_s (None: LIMIT_S); and what it said, then also what
    still ran. Nothing that it began stays, nor what a clone that it made began.
    """
    for name, text in block.files:
        (folder / name).write_text(text)
    script = "\n".join(
        ["set -o pipefail", *(f"{{ {command}\n}} || exit $?" for command in block.commands), ""]
    ).replace(REPOSITORY, shlex.quote(str(folder / ".repository" / "storelab")))
    tools = folder / ".venv" / "bin"
    env = bare_environ() | LESS
    env["PATH"] = f"{tools}:{env['PATH']}"
    with tempfile.TemporaryFile("w+") as said:  # no pipe: whatever keeps it open would be waited for
        begun = psutil.Popen(
            ["bash", "-c", script], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT
        )
        code, still = None, ""
        try:
            code = begun.wait(limit_s or LIMIT_S)
        except psutil.TimeoutExpired:
            running = begun.children(recursive=True)
            still = "".join(f"\nstill there: {p.pid} {p.status()} {' '.join(p.cmdline())[:200]}" for p in running)
            for process in (begun, *running):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            begun.wait()
        finally:
            for checkout in (folder, *(snakefile.parent for snakefile in folder.glob("*/Snakefile"))):
                subprocess.run([str(tools / "storelab"), "down", "--all"], cwd=checkout, env=env, capture_output=True)
        said.seek(0)
        return code, said.read() + still


def failure(block: Block, folder: Path) -> str:
    """Run the block in `folder`; what it said where it failed, else ''."""
    code, said = run(block, folder)
    if code == 0:
        return ""
    how = f"not done after {LIMIT_S:g} s" if code is None else f"exit code {code}"
    return f"{how}: {said[-2500:]}"


def figures(quick: bool = False, most: int | None = None, root: Path = ROOT) -> dict[str, int]:
    """blocks, blocks_named (need something first), blocks_run, blocks_failed.

    quick: without those that take minutes; most: no more.
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
