"""Make project folders with one campaign, and run the program `storelab` in them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def write(folder: Path, name: str, stores: dict[str, Any], sweeps: dict[str, Any], **campaign: Any) -> None:
    """Write config.yaml and the file of a campaign on these stores. campaign: other keys of the campaign."""
    (folder / "campaigns").mkdir(exist_ok=True)
    body = {"name": name, "stores_to_measure": list(stores), "calibrate": False, "repetitions": 1, "sweeps": sweeps}
    (folder / "campaigns" / f"{name}.yaml").write_text(json.dumps(body | campaign))
    (folder / "config.yaml").write_text(json.dumps({"campaign": name, "stores": stores}))


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "storelab", *arguments]


def begin(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    """Start the command. Output and errors go into one pipe."""
    pipe = subprocess.PIPE
    return subprocess.Popen(command(*arguments), cwd=folder, stdout=pipe, stderr=subprocess.STDOUT, text=True)


def run(folder: Path, *arguments: str) -> str:
    """Run a command that must succeed, and return its output."""
    process = begin(folder, *arguments)
    text = process.communicate(timeout=180)[0]
    assert process.returncode == 0, text
    return text
