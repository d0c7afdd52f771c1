"""Check `--help`: whole sentences, an example of each command that the parser takes, completion."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from laboratory import in_process
from paths import ROOT

from storelab.cli import COMMANDS, Settings, cli, main

KNOWN = {name: known for section in COMMANDS.values() for name, known in section.items()}
EXAMPLE = re.compile(r"^  (storelab .*)$", flags=re.MULTILINE)


def commands() -> dict[str, click.Command]:
    """Return all commands and subcommands by what a user types."""
    out: dict[str, click.Command] = {}
    for name in cli.list_commands(None):
        out[name] = command = cli.get_command(None, name)
        if isinstance(command, click.Group):
            out |= {f"{name} {sub}": command.commands[sub] for sub in command.commands}
    return out


def completed(command: click.Command) -> dict[str, bool]:
    """Return whether the shell completes each argument."""
    arguments = [p for p in command.params if isinstance(p, click.Argument)]
    typed = (click.Choice, click.Path)
    return {p.name: p._custom_shell_complete is not None or isinstance(p.type, typed) for p in arguments}


def test_every_argument_is_completed():
    """Names of tables and figures are not, and the command that the testbed runs."""
    missing = {
        (name, key) for name, command in commands().items() for key, done in completed(command).items() if not done
    }
    assert {key for _, key in missing} <= {"names", "command"}, missing


def test_stores_kinds_and_profiles_are_completed(monkeypatch, tmp_path):
    def found(*words: str) -> list[str]:
        from click.shell_completion import ShellComplete

        return [
            item.value for item in ShellComplete(cli, {}, "storelab", "X").get_completions(list(words[:-1]), words[-1])
        ]

    monkeypatch.chdir(ROOT)
    assert found("up", "sea") == found("down", "sea") == found("quick", "sea") == ["seaweedfs"]
    assert found("install", "loadg") == ["loadgen"] and found("run", "--profile", "slurm-") == ["slurm-allocation"]
    assert found("compare", "a", "refer") == found("join", "refer") == found("pack", "refer") == ["reference"]
    monkeypatch.chdir(tmp_path)
    assert found("up", "sea") == []


def test_command_line_without_a_command_prints_the_help(tmp_path):
    for words in ((), ("testbed",)):
        code, out, err = in_process(tmp_path, *words)
        assert code == 0 and not err and out.startswith("Usage: storelab") and out.count("\n") > 10


def resolved(line: str, name: str) -> str:
    """Return the command that the parser finds for a line, as far as it is `name`; its options are parsed too."""
    words = shlex.split(line)[1:]
    outer = cli.make_context("storelab", words)
    outer.obj = Settings(**outer.params)
    command, typed = cli, ""
    rest = [*outer._protected_args, *outer.args]
    while isinstance(command, click.Group) and typed != name:
        word, command, rest = command.resolve_command(outer, rest)
        typed = f"{typed} {word}".strip()
    command.make_context(name, rest, parent=outer)
    return typed


def test_help_texts_are_whole_sentences():
    texts = {name: " ".join(command.help.split()) for name, command in commands().items()}
    for name, command in commands().items():
        texts |= {f"{name} {o.name}": o.help or "" for o in command.params if isinstance(o, click.Option)}
    texts |= {f"list of commands: {name}": known.does for name, known in KNOWN.items()}
    assert [name for name, text in texts.items() if not re.fullmatch(r"[A-Z].*\.", text, re.DOTALL)] == []
    assert [name for name, known in KNOWN.items() if len(known.does) >= 70] == []


def test_examples_can_be_typed(monkeypatch):
    monkeypatch.chdir(ROOT)
    wrong = []
    for name, command in commands().items():
        (line,) = EXAMPLE.findall(command.epilog)
        try:
            found = resolved(line, name)
        except click.ClickException as error:
            found = error.format_message()
        if found != name:
            wrong.append((line, found))
    assert not wrong
    lines = EXAMPLE.findall(cli.epilog)
    assert len(lines) == 2 and all(KNOWN.keys() & set(line.split()) for line in lines)


def test_unknown_command_gets_the_nearest(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["storelab", "chek"])
    with pytest.raises(SystemExit) as ended:
        main()
    message = capsys.readouterr().err
    assert ended.value.code == 2 and "'chek'" in message and "'check'" in message and message.count("\n") == 1


def test_shell_completes_commands_and_options():
    def completed(line: str) -> set[str]:
        env = {"_STORELAB_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
        program = Path(sys.executable).with_name("storelab")
        done = subprocess.run([program], env=os.environ | env, capture_output=True, text=True, timeout=60)
        return {word.partition(",")[2] for word in done.stdout.split()}

    assert completed("storelab ver") == {"verify", "verdict"}
    assert "--front-ends" in completed("storelab up --front")
