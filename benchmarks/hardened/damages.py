"""Damage a derived file of a campaign at a random place, and run commands that read it.

A command must name the file on one line, or make it again; it must not use it or end in a traceback. "Used" means that
the command ends with 0, and its output differs from the output with whole files.
"""

import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import mistaken
from common import ROOT, say
from mistaken import Mistake

CAMPAIGN = "compared"
READERS = {
    "tables": (("verdict",), ("figures",), ("latex",), ("report",)),
    "figures": (("latex",), ("figures", "--stale")),
    "tex": (("join", "--output", "joined"),),
}
Damage = Callable[[random.Random, bytes], bytes]


def _flipped(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ rng.randrange(1, 256)]) + data[at + 1 :]


DAMAGES: tuple[Damage, ...] = (
    _flipped,
    lambda rng, data: data[: rng.randrange(len(data))],
    lambda rng, data: data + rng.randbytes(rng.randint(1, 100)),
    lambda rng, data: rng.choice((b"[]\n", b"{}\n", b"7\n", b"null\n", b"\x00" * 100)),
    lambda rng, data: b"".join(sorted(data.splitlines(keepends=True), reverse=True)) + b"\n",
)


def written(folder: Path, command: tuple[str, ...]) -> dict[str, bytes]:
    """Return the files that the command wrote, except its log and the checksums of pictures."""
    kinds = {"figures": "figures/*.json", "latex": "tex/*.tex", "report": "report.html", "join": "joined/tex/*.tex"}
    return {p.name: p.read_bytes() for p in folder.glob(kinds.get(command[0], "no file"))}


def figures(number: int, seed: int = 1) -> dict[str, float]:
    """Return the counts damages, damages_traceback and damages_used."""
    rng, found = random.Random(seed), {"damages": number, "damages_traceback": 0, "damages_used": 0}
    with tempfile.TemporaryDirectory(prefix="storelab-damages-") as base:
        made, there = Path(base) / "whole", Path(base) / "damaged"
        made.mkdir()
        (made / "raw").symlink_to(ROOT / "results" / CAMPAIGN / "raw")

        def asked(folder: Path, command: tuple[str, ...]) -> tuple[object, str, str]:
            where = (str(folder),) if command[0] == "join" else ("--campaign-dir", str(folder))
            if command[0] in ("latex", "join"):
                where += ("--paper-dir", str(ROOT / "paper"))
            return mistaken.run(folder, Mistake("", (*command, *where)))

        for command in (("tables",), ("figures",), ("latex",), ("report",)):
            if (answer := asked(made, command))[0] != 0:
                raise RuntimeError(f"storelab {command[0]} fails on whole files: {answer}")
        for i in range(number):
            shutil.rmtree(there, ignore_errors=True)
            shutil.copytree(made, there, symlinks=True)
            kind = rng.choice(sorted(READERS))
            command = rng.choice(READERS[kind])
            path = rng.choice(sorted(p for p in (there / kind).iterdir() if p.is_file()))
            was = path.read_bytes()
            if not was or (damaged := rng.choice(DAMAGES)(rng, was)) == was:
                continue
            path.write_bytes(damaged)
            before = written(made, command)
            code, out, err = asked(there, command)
            if isinstance(code, str) or "Traceback" in err + out:
                found["damages_traceback"] += 1
                say(f"hardening: traceback: {command} with {kind}/{path.name}: {str(code)[-300:]}{err[-300:]}")
            elif code == 0 and command[0] != "join" and written(there, command) != before:
                found["damages_used"] += 1
                say(f"hardening: used: {command} with {kind}/{path.name} ({i})")
            elif code not in (0, 2) or (code == 2 and path.name not in err):
                found["damages_used"] += 1
                say(f"hardening: not named: {command} with {kind}/{path.name}: {code} {err[-300:]}")
    return {name: float(count) for name, count in found.items()}
