"""Test which console blocks the docs contain, and how they run; tests/real/test_console.py runs them."""

import re
import shutil

import console_blocks
import psutil
import pytest
from console_blocks import commands, of_page
from paths import ROOT

FENCE = "```"


def console(*bodies):
    """Make a page of console blocks."""
    return "".join(f"{FENCE}console\n{body}\n{FENCE}\n" for body in bodies)


def test_a_block_is_a_script_of_its_commands():
    body = "$ a 'x\n y' \\\n b   # why\noutput\n$ cat > f <<'END'\nlauncher: {}\nEND\n$ c\n…\n"
    assert list(commands(body)) == ["a 'x\n y' \\\n b   # why", "cat > f <<'END'\nlauncher: {}\nEND", "c"]


def test_needs_and_files_above_are_found():
    page = f"{FENCE}yaml\n# campaigns/x.yaml\nname: x\n{FENCE}\n" + console("# needs: root\n$ a", "$ make b")
    first, second = of_page(page, "p")
    assert (first.needs, first.name, first.long) == ("root", "p-1", False)
    assert first.files == second.files == (("campaigns/x.yaml", "# campaigns/x.yaml\nname: x\n"),)
    assert (second.needs, second.name, second.long) == ("", "p-2", True)


def test_block_without_a_command_is_refused():
    with pytest.raises(ValueError, match="p, console block 1"):
        list(of_page(console("make demo"), "p"))


@pytest.fixture
def storelab(tmp_path):
    """Put a command `storelab` into a folder that writes down its words and place."""
    stub = tmp_path / ".venv/bin/storelab"
    stub.parent.mkdir(parents=True)
    stub.write_text(f"#!/bin/sh\necho $* in $PWD >> {tmp_path}/stopped\n")
    stub.chmod(0o755)
    return stub


def test_block_that_fails_is_counted(monkeypatch, storelab):
    page = console("$ true", "$ false\n$ true", "# needs: luck\n$ false")
    monkeypatch.setattr(console_blocks, "blocks", lambda root: list(of_page(page, "p")))
    monkeypatch.setattr(console_blocks, "copy", lambda folder: shutil.copytree(storelab.parent, folder / ".venv/bin"))
    assert console_blocks.figures() == {"blocks": 3, "blocks_named": 1, "blocks_run": 2, "blocks_failed": 1}


def test_hanging_block_is_stopped_and_lists_processes(monkeypatch, tmp_path, storelab):
    monkeypatch.setattr(console_blocks, "LIMIT_S", 0.3)
    (block,) = of_page(console("$ echo begun\n$ sleep 61.25"), "p")
    message = console_blocks.failure(block, tmp_path)
    assert "0.3 s: begun\n" in message and "sleep 61.25" in message
    assert not [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "61.25"]]


def test_stores_of_a_clone_are_stopped_too(tmp_path, storelab):
    """A store that keeps running would block the port of the next try."""
    (block,) = of_page(console("$ mkdir clone && touch clone/Snakefile\n$ sleep 61.5"), "p")
    assert console_blocks.run(block, tmp_path, 0.3)[0] is None
    stopped = (tmp_path / "stopped").read_text().splitlines()
    assert stopped == [f"down --all in {tmp_path}", f"down --all in {tmp_path}/clone"]


def test_blocks_of_the_docs_are_found():
    found = console_blocks.blocks()
    # The steps of a tutorial need the steps before them.
    named = [b for b in found if b.needs and not b.page.startswith("docs/tutorials/")]
    assert len(found) >= 20 and {b.page for b in found} >= {"README.md", "docs/stores.md", "docs/verdicts.md"}
    assert not found[0].needs and found[0].page == "README.md", "the first one needs nothing"
    assert found[0].commands[0].startswith("git clone") and "source .venv/bin/activate" in found[0].commands[1]
    assert len(named) <= 14, "blocks that do not run as they are"


def test_command_has_one_spelling():
    """Write `storelab`, which the environment of README.md provides, not a path to it."""
    folders = [*(ROOT / "campaigns").glob("*.yaml"), *(ROOT / "profiles").rglob("*.yaml")]
    pages = [*console_blocks.pages(), ROOT / "config.yaml", *folders]
    assert not [p.name for p in pages if re.search(r"\.venv/bin/(?!activate)", p.read_text())]
