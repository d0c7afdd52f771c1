"""Faults planted in the engine loadgen (Go) that one of its own tests sees.

mutation/loadgen.toml lists them, each a place in a file and what would stand there. Each is planted alone in a copy of
`loadgen/`, and the tests of all packages that use the file's are run. `loadgen_mutants_killed` is the share for which a
test fails; a fault that does not compile ends the benchmark: it says nothing. What is left stands in the output.
"""

import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from common import ROOT, absent, options, report, run, say, sized

from storelab.core.errors import UserError
from storelab.install import golang

LIST = Path(__file__).parent / "mutation" / "loadgen.toml"
PACKAGES = ("./job/...", "./load/...", "./records/...", "./sigv4/...")
TIME_OUT_S = 120  # a fault may make a loop endless; the tests take ten seconds
ENDS = "-timeout=100s"  # by itself before that, so that go leaves no test running
FIRST_S = 900  # nothing is compiled yet


def planted(text: str, fault: dict[str, str]) -> str:
    """The file's text with the fault. Raises UserError where its place is not there, or not only once."""
    if text.count(fault["before"]) != 1:
        raise UserError(str(LIST), f"{fault['file']} has not exactly one {fault['before']!r}", "mend the list")
    return text.replace(fault["before"], fault["after"])


@contextmanager
def there(folder: Path, fault: dict[str, str]) -> Iterator[None]:
    """The fault stands in its file, for so long."""
    file = folder / fault["file"]
    text = file.read_text()
    file.write_text(planted(text, fault))
    try:
        yield
    finally:
        file.write_text(text)


def go(words: list[str], folder: Path, environ: dict[str, str], limit_s: float = TIME_OUT_S) -> tuple[bool, str]:
    """Whether go does that within `limit_s` and finds nothing wrong, and what it says.

    It builds anew only what a change reaches.
    """
    try:
        done = subprocess.run(
            ["go", *words], cwd=folder, env=environ, capture_output=True, text=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        return False, f"it did not end in {limit_s:g} s"
    return done.returncode == 0, done.stdout + done.stderr


def main() -> None:
    args = options(__doc__.splitlines()[0])
    if absent(["go"]):
        raise UserError("loadgen_mutants", "go is not installed", "install Go, and have it in PATH")
    faults = tomllib.loads(LIST.read_text())["fault"]
    chosen = sized(args, faults, faults[::4], faults[-2:])  # of sigv4, whose tests are the quickest
    packages = sized(args, PACKAGES, PACKAGES, PACKAGES[-1:])
    killed: list[float] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder, environ = Path(scratch) / "loadgen", golang.go_environ(Path(scratch))
        shutil.copytree(ROOT / "loadgen", folder)
        passed, told = go(["test", *packages], folder, environ, FIRST_S)
        if not passed:
            say(told)
            sys.exit("loadgen_mutants: the tests fail without a fault")
        for fault in chosen:  # before any is judged: all that was judged would be lost
            with there(folder, fault):
                built, told = go(["build", "./..."], folder, environ, FIRST_S)
            if not built:
                say(told)
                sys.exit(f"loadgen_mutants: {fault['file']}: this fault does not compile: {fault['after']}")
        for n, fault in enumerate(chosen, 1):
            with there(folder, fault):
                passed, told = go(["test", "-failfast", ENDS, *packages], folder, environ)
            killed.append(float(not passed))
            say(f"loadgen_mutants: {n} of {len(chosen)}: {'SURVIVED' if passed else 'killed'}: {fault['means']}")
    share = sum(killed) / len(killed)
    report("loadgen_mutants", len(killed), {"loadgen_mutants_killed": [share]}, args)


if __name__ == "__main__":
    run(main)
