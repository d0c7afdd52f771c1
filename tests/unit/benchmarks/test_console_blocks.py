"""Console blocks of the docs: what a block is, which need something first, one spelling; that they run: tests/real/test_console.py."""

import re

import console_blocks
import psutil
import pytest
from console_blocks import commands, of_page
from paths import ROOT

FENCE = "```"


def test_a_block_is_a_script_of_its_commands():
    body = "$ a 'x\n y' \\\n b   # why\noutput\n$ cat > f <<'END'\nlauncher: {}\nEND\n$ c\n…\n"
    assert list(commands(body)) == ["a 'x\n y' \\\n b   # why", "cat > f <<'END'\nlauncher: {}\nEND", "c"]


def test_needs_and_files_above_are_found():
    page = f"{FENCE}yaml\n# campaigns/x.yaml\nname: x\n{FENCE}\n{FENCE}console\n# needs: root\n$ a\n{FENCE}\n{FENCE}console\n$ make b\n{FENCE}\n"
    first, second = of_page(page, "p")
    assert (first.needs, first.name, first.long) == ("root", "p-1", False)
    assert first.files == second.files == (("campaigns/x.yaml", "# campaigns/x.yaml\nname: x\n"),)
    assert (second.needs, second.name, second.long) == ("", "p-2", True)


def test_a_block_without_a_command_is_a_mistake():
    with pytest.raises(ValueError, match="p, console block 1: has no line that begins with"):
        list(of_page(f"{FENCE}console\nmake demo\n{FENCE}\n", "p"))


def test_a_block_that_fails_is_counted(monkeypatch, tmp_path):
    page = f"{FENCE}console\n$ true\n{FENCE}\n{FENCE}console\n$ false\n$ true\n{FENCE}\n{FENCE}console\n# needs: luck\n$ false\n{FENCE}\n"
    monkeypatch.setattr(console_blocks, "blocks", lambda root: list(of_page(page, "p")))
    monkeypatch.setattr(
        console_blocks, "copy", lambda folder: (folder / ".venv/bin").mkdir(parents=True) or link(folder)
    )

    def link(folder):
        (folder / ".venv/bin/storelab").symlink_to("/bin/true")

    assert console_blocks.figures() == {"blocks": 3, "blocks_named": 1, "blocks_run": 2, "blocks_failed": 1}


def test_a_block_that_hangs_says_what_still_runs_and_leaves_nothing(monkeypatch, tmp_path):
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/storelab").symlink_to("/bin/true")
    monkeypatch.setattr(console_blocks, "LIMIT_S", 0.3)
    (block,) = of_page(f"{FENCE}console\n$ echo begun\n$ sleep 61.25\n{FENCE}\n", "p")
    said = console_blocks.failure(block, tmp_path)
    assert said.startswith("not done after 0.3 s: begun\n") and "sleep 61.25" in said
    assert not [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "61.25"]]


def test_stores_of_a_clone_that_the_block_made_are_stopped_too(tmp_path):
    """One that stayed held the port of the next try."""
    stub = tmp_path / ".venv/bin/storelab"
    stub.parent.mkdir(parents=True)
    stub.write_text(f"#!/bin/sh\necho $* in $PWD >> {tmp_path}/stopped\n")
    stub.chmod(0o755)
    (block,) = of_page(f"{FENCE}console\n$ mkdir clone && touch clone/Snakefile\n$ sleep 61.5\n{FENCE}\n", "p")
    assert console_blocks.run(block, tmp_path, 0.3)[0] is None
    assert (tmp_path / "stopped").read_text().splitlines() == [
        f"down --all in {tmp_path}",
        f"down --all in {tmp_path}/clone",
    ]


def test_what_the_docs_have_is_found():
    found = console_blocks.blocks()
    named = [b for b in found if b.needs]
    assert len(found) >= 20 and {b.page for b in found} >= {"README.md", "docs/stores.md", "docs/verdicts.md"}
    assert not found[0].needs and found[0].page == "README.md", "the first one needs nothing"
    assert len(named) <= 12, "blocks that do not run as they stand"


def test_the_command_has_one_spelling():
    """`storelab`, found after the two commands of README.md; a path stands where the environment is made active alone."""
    pages = [
        *console_blocks.pages(),
        ROOT / "config.yaml",
        *(ROOT / "campaigns").glob("*.yaml"),
        *(ROOT / "profiles").rglob("*.yaml"),
    ]
    wrong = [
        f"{p.name}: {line}"
        for p in pages
        for line in p.read_text().splitlines()
        if re.search(r"\.venv/bin/(?!activate)", line)
    ]
    assert not wrong
    readme = console_blocks.blocks()[0]
    assert readme.commands[0].startswith("git clone") and "source .venv/bin/activate" in readme.commands[1]
    assert readme.commands[2].startswith("storelab ")
