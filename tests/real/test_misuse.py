"""Misuse: arbitrary bytes, values of the schema, and command lines.

Exit code 0 or 2, one line, no traceback, within 5 s.

3000 inputs run in this process, 50 more as real commands.
"""

import contextlib
import json
import os
import resource
import shutil
import subprocess
import time
from pathlib import Path

import mistaken
import pytest
import yaml
from common import BIN, ROOT
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mistaken import Mistake

from storelab.cli import COMMANDS
from storelab.stores.config import Config

pytestmark = [pytest.mark.real, pytest.mark.heavy]

HARMLESS = ("check", "plan", "verify", "tables", "verdict", "compare", "size", "latex", "figures", "seal", "collect")
TEXTS = [
    "4 kB",
    "2 s",
    "0 s",
    "1 Gbit/s",
    "true",
    "one",
    "s5cmd",
    "S",
    "../x",
    "/dev/null",
    "~",
    "\0",
    "auto",
    "a" * 500,
]
PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(10**400), 10**400),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(TEXTS),
)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)),
    max_leaves=8,
)
TOP = sorted(Config.model_fields)
BELOW = {
    "limits": ["objects", "buckets", "clients", "throughput", "error_fraction", "stored_bytes"],
    "launcher": ["kind", "options", "nodes", "python", "port", "heartbeat_timeout", "clock_bound"],
    "sweeps": ["up", "down", "x"],
    "stores": ["one", "far", "door", "new"],
    "figures": ["mine"],
    "files": ["mine"],
}
OF_A_SWEEP = "workload axes duration warm_up objects repetitions stores scale_axes"
OF_A_STORE = "kind endpoint port prefix bucket region ca_file path tls servers token user"
DEEP = {
    "sweeps": [*OF_A_SWEEP.split(), "axes.clients", "axes.object_size", "axes.engine"],
    "stores": OF_A_STORE.split(),
    "figures": ["table", "x", "y", "where", "limits", "hue"],
    "files": ["path", "tree"],
}
OPTIONS = "--campaign-dir --stores --jobs --stale --link --client-link --all --set --days --margin --nodes --write"
WORDS = [
    "--with-failures",
    "-h",
    "--",
    "-",
    "0",
    "-1",
    "file",
    ".",
    "/",
    "one",
    "a,b",
    "nan",
    "1 Gbit/s",
    "results=file",
]
WORDS += OPTIONS.split()


@st.composite
def keys(draw):
    top = draw(st.sampled_from(TOP))
    if top not in BELOW or draw(st.booleans()):
        return top
    below = f"{top}.{draw(st.sampled_from(BELOW[top]))}"
    return f"{below}.{draw(st.sampled_from(DEEP[top]))}" if top in DEEP and draw(st.booleans()) else below


@st.composite
def values(draw):
    """Any value at any key of the schema."""
    sets = draw(st.lists(st.tuples(keys(), VALUES), min_size=1, max_size=3))
    words = []
    for key, value in sets:
        text = yaml.safe_dump(value, default_flow_style=True, width=10**9, allow_unicode=True).removesuffix("\n...\n")
        words += ["--set", f"{key}={text}".replace("\0", "")]
    return Mistake("values", (*words, draw(st.sampled_from(["check", "plan"]))))


@st.composite
def contents(draw):
    """Bytes in place of a file, or somewhere in it."""
    name, text = draw(st.sampled_from([("config.yaml", mistaken.MAIN), ("campaigns/small.yaml", mistaken.CAMPAIGN)]))
    words = st.text(max_size=40).map(lambda t: t.encode("utf-8", "replace"))
    data, noise = text.encode(), draw(st.one_of(st.binary(max_size=60), words))
    where, cut = draw(st.integers(0, len(data))), draw(st.integers(0, 40))
    written = draw(st.sampled_from([noise, data[:where] + noise + data[where + cut :]]))
    return Mistake("contents", ("check",), {name: written})


@st.composite
def command_lines(draw):
    """Options and words in any order, of commands that start nothing."""
    command = draw(st.sampled_from(HARMLESS))
    rest = draw(
        st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=12).map(lambda t: t.replace("\0", ""))), max_size=6)
    )
    return Mistake("command line", (command, *(word.encode("utf-8", "replace").decode() for word in rest)))


@st.composite
def rebuilds(draw):
    """Values of Snakemake's --config, with and without measuring."""
    out = draw(st.dictionaries(st.one_of(st.sampled_from(TOP), st.text(max_size=8)), VALUES, max_size=3))
    text = json.dumps(out, default=str).replace("NaN", "1").replace("Infinity", "2")
    return Mistake("rebuild", rebuild=json.loads(text))


ANY = st.one_of(values(), values(), contents(), command_lines(), rebuilds())
QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]


def holds(folder: Path, mistake: Mistake) -> None:
    mistaken.laid_out(folder)
    for name, data in mistake.files.items():
        (folder / name).write_bytes(data)
    begun = time.process_time()
    code, out, err = mistaken.run(folder, mistake)
    one_line_or_none(mistake, code, out, err, time.process_time() - begun)


def one_line_or_none(mistake: Mistake, code: object, out: str, err: str, seconds: float) -> None:
    assert code in (0, 2), (mistake, code, err)
    assert "Traceback" not in out + err and seconds < mistaken.MOST_S, (mistake, err, seconds)
    shown = [line for line in err.splitlines() if line.startswith("storelab: ")]
    if code == 2:
        assert len(shown) == 1 and shown[0] == err.splitlines()[-1], (mistake, err)


def test_commands_that_are_tried_are_there():
    assert set(HARMLESS) <= {name for section in COMMANDS.values() for name in section}


@settings(max_examples=1000, deadline=None, suppress_health_check=QUIET)
@given(mistake=ANY)
def test_the_fuzz(tmp_path, mistake):
    holds(tmp_path / "here", mistake)


def as_command(folder: Path, mistake: Mistake) -> tuple[int, str, str, float]:
    mistaken.laid_out(folder)
    for name, data in mistake.files.items():
        (folder / name).write_bytes(data)
    command = [str(BIN / "storelab"), *mistake.arguments]
    if mistake.rebuild is not None:
        (folder / "Snakefile").symlink_to(ROOT / "Snakefile")
        program = f"from storelab.cli import workflow; workflow.start({mistake.rebuild!r})"
        command = [str(BIN / "python"), "-c", program]
    begun = os.times()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, errors="replace")
    ended = os.times()
    spent = ended.children_user + ended.children_system - begun.children_user - begun.children_system
    return done.returncode, done.stdout, done.stderr, spent


@settings(max_examples=25, deadline=None, suppress_health_check=QUIET)
@given(mistake=ANY)
def test_the_fuzz_as_real_commands(tmp_path, mistake):
    one_line_or_none(mistake, *as_command(tmp_path / "here", mistake))


def test_mistakes_as_real_commands(tmp_path):
    bad = []
    for mistake in mistaken.inputs(25, 11):
        answer = mistaken.judged(*as_command(tmp_path / "here", mistake))
        bad += [(mistake, answer)] if answer.outcome != "reported" else []
    assert not bad, bad[:3]


def test_2000_mistakes_are_reported(tmp_path):
    found, bad = mistaken.counts(tmp_path / "here", 2000, 2026)
    assert found["reported"] == 2000, bad[:5]


def refused(folder: Path, *arguments: str, before=None) -> str:
    command = [str(BIN / "storelab"), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, preexec_fn=before)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    (shown,) = [line for line in done.stderr.splitlines() if line.startswith("storelab: ")]
    return shown.replace(str(folder), "…")


def test_a_file_that_cannot_grow_is_one_line(tmp_path):
    """A limit of file sizes replaces a full disk: a write fails in the middle."""
    shutil.copytree(ROOT / "results" / "probes" / "raw", tmp_path / "c" / "raw")

    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    found = refused(tmp_path, "tables", "--campaign-dir", str(tmp_path / "c"), before=small)
    assert found == "storelab: …/c/tables/calibration.csv: file too large; raise the limit of file sizes (ulimit -f)"
    assert not list((tmp_path / "c" / "tables").iterdir())


@pytest.fixture
def disk(tmp_path):
    """Return a separate disk with a measured campaign on it: (folder, full, read_only)."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("privilege: a tmpfs cannot be mounted")
    shutil.copytree(ROOT / "results" / "probes", folder / "c")

    def full() -> None:
        with contextlib.suppress(OSError), open(folder / "fill", "wb") as file:
            while True:
                file.write(bytes(4096))

    def read_only() -> None:
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)

    try:
        yield folder, full, read_only
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.root
@pytest.mark.parametrize("state", [0, 1], ids=["full", "read-only"])
def test_a_disk_that_takes_nothing_is_one_line(disk, state):
    folder, *states = disk
    words = (
        "no space left on device; free space on this disk",
        "read-only file system; use a folder on a writable disk",
    )[state]
    at = ("--campaign-dir", str(folder / "c"))
    subprocess.run([str(BIN / "storelab"), "tables", *at], cwd=ROOT, check=True, capture_output=True)
    states[state]()
    for command in ("tables", "figures"):
        assert words in refused(folder, command, *at)
    assert words in refused(folder, "capabilities", *at, "--output", str(folder / "page.md"))
    if state == 1:
        words = ("--set", f"results={folder}", "--set", "campaign=smoke", "plan", "--write")
        assert "cannot be written" in refused(folder, *words)
