"""Plant faults in the engine loadgen (Go), and count those that its own tests detect.

mutation/loadgen.toml lists the faults: a place in a file and its replacement. Each is planted separately in a copy of
`loadgen/`, and the tests of all packages that use the file's package are run. `loadgen_mutants_killed` is the fraction
for which a test fails. The output lists the faults that survive. A fault that does not compile proves nothing, and ends
the benchmark.
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
ENDS = "-timeout=100s"  # Go ends the tests itself before TIME_OUT_S, so that none keeps running
FIRST_S = 900  # limit of the first run, which compiles everything


def planted(text: str, fault: dict[str, str]) -> str:
    """Return the file's text with the fault. Raise UserError unless its place occurs exactly once."""
    if text.count(fault["before"]) != 1:
        raise UserError(str(LIST), f"{fault['file']} has not exactly one {fault['before']!r}", "correct the list")
    return text.replace(fault["before"], fault["after"])


@contextmanager
def there(folder: Path, fault: dict[str, str]) -> Iterator[None]:
    """Have the fault in its file until the block ends."""
    file = folder / fault["file"]
    text = file.read_text()
    file.write_text(planted(text, fault))
    try:
        yield
    finally:
        file.write_text(text)


def go(words: list[str], folder: Path, environ: dict[str, str], limit_s: float = TIME_OUT_S) -> tuple[bool, str]:
    """Return whether go ends within `limit_s` without an error, and its output.

    Go builds only the packages that a change affects.
    """
    try:
        done = subprocess.run(
            ["go", *words], cwd=folder, env=environ, capture_output=True, text=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        return False, f"not finished after {limit_s:g} s"
    return done.returncode == 0, done.stdout + done.stderr


def main() -> None:
    args = options(__doc__.splitlines()[0])
    if absent(["go"]):
        raise UserError("loadgen_mutants", "go is not installed", "install Go and add it to PATH")
    faults = tomllib.loads(LIST.read_text())["fault"]
    chosen = sized(args, faults, faults[::4], faults[-2:])  # smoke: those of sigv4, which has the quickest tests
    packages = sized(args, PACKAGES, PACKAGES, PACKAGES[-1:])
    killed: list[float] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder, environ = Path(scratch) / "loadgen", golang.go_environ(Path(scratch))
        shutil.copytree(ROOT / "loadgen", folder)
        passed, output = go(["test", *packages], folder, environ, FIRST_S)
        if not passed:
            say(output)
            sys.exit("loadgen_mutants: the tests fail without a fault")
        for fault in chosen:  # first, because a fault that does not compile would waste the run
            with there(folder, fault):
                built, output = go(["build", "./..."], folder, environ, FIRST_S)
            if not built:
                say(output)
                sys.exit(f"loadgen_mutants: {fault['file']}: this fault does not compile: {fault['after']}")
        for n, fault in enumerate(chosen, 1):
            with there(folder, fault):
                passed, output = go(["test", "-failfast", ENDS, *packages], folder, environ)
            killed.append(float(not passed))
            say(f"loadgen_mutants: {n} of {len(chosen)}: {'SURVIVED' if passed else 'killed'}: {fault['means']}")
    share = sum(killed) / len(killed)
    report("loadgen_mutants", len(killed), {"loadgen_mutants_killed": [share]}, args)


if __name__ == "__main__":
    run(main)
