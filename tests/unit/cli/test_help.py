"""What `--help` says: whole sentences, an example of each command that can be typed as it stands, completion."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from paths import ROOT

from storelab.cli import COMMANDS, Settings, cli

KNOWN = {name: known for section in COMMANDS.values() for name, known in section.items()}


def every() -> dict[str, click.Command]:
    """All commands and sub-commands, by what one types."""
    out: dict[str, click.Command] = {}
    for name in cli.list_commands(None):
        command = cli.get_command(None, name)
        out[name] = command
        if isinstance(command, click.Group):
            out |= {f"{name} {sub}": command.commands[sub] for sub in command.commands}
    return out


EVERY = every()


def sentence(text: str) -> bool:
    return bool(re.match(r"[A-Z]", text)) and text.endswith(".")


@pytest.mark.parametrize("name", EVERY)
def test_help_is_in_whole_sentences(name):
    command = EVERY[name]
    assert sentence(" ".join(command.help.split()))
    for option in command.params:
        if isinstance(option, click.Option):
            assert sentence(option.help or ""), f"{name} {option.name}"
    if name in KNOWN:
        assert sentence(KNOWN[name].does) and len(KNOWN[name].does) < 70


@pytest.mark.parametrize("name", EVERY)
def test_every_example_can_be_typed(name, monkeypatch):
    """The parser takes it as it stands, and it is of this very command."""
    monkeypatch.chdir(ROOT)
    (line,) = re.findall(r"^  (storelab .*)$", EVERY[name].epilog, flags=re.MULTILINE)
    words = shlex.split(line)[1:]
    outer = cli.make_context("storelab", words)
    outer.obj = Settings(**outer.params)
    command, typed = cli, ""
    rest = [*outer._protected_args, *outer.args]
    while isinstance(command, click.Group):
        word, command, rest = command.resolve_command(outer, rest)
        typed = f"{typed} {word}".strip()
        if typed == name:
            break
    command.make_context(name, rest, parent=outer)
    assert typed == name


def test_global_examples_are_commands():
    lines = re.findall(r"^  (storelab .*)$", cli.epilog, flags=re.MULTILINE)
    assert len(lines) == 2 and all(any(word in KNOWN for word in line.split()) for line in lines)


def test_a_command_that_is_none_is_told_the_nearest(monkeypatch, capsys):
    from storelab.cli import main

    monkeypatch.setattr(sys, "argv", ["storelab", "chek"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == "storelab: 'chek': is no command; did you mean 'check'?\n"


def test_the_shell_completes_commands_and_options():
    def completed(line: str) -> set[str]:
        env = os.environ | {
            "_STORELAB_COMPLETE": "bash_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(line.split(" ")) - 1),
        }
        program = Path(sys.executable).with_name("storelab")
        done = subprocess.run([str(program)], env=env, capture_output=True, text=True, timeout=60)
        return {word.partition(",")[2] for word in done.stdout.split()}

    assert completed("storelab ver") == {"verify", "verdict"}
    assert "--front-ends" in completed("storelab up --front")
