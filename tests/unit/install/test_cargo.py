"""Building a program from crates, with a script in place of cargo."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from storelab.core.errors import MeasurementFailed, UserError
from storelab.install import cargo

CRATE = b"the sources of tiny, packed"
TINY = cargo.Program(
    "tiny",
    "1.2.3",
    hashlib.sha256(CRATE).hexdigest(),
    ("one", "two"),
    (1, 89),
    (("sh", "dash"),),
    "nothing to download",
    1e6,
)
# It notes its arguments, fetches its crate and builds a program that prints its version.
CARGO = """#!/bin/sh
[ "$1" = --version ] && echo "cargo {version} (abc 2025-01-01)" && exit
here={here}
echo "$*" > $here/asked
echo "$CARGO_TARGET_DIR" > $here/target
echo "  Downloaded tiny v1.2.3" >&2
echo "   Compiling tiny v1.2.3" >&2
[ -e $here/broken ] && echo "error: could not compile tiny" >&2 && exit 101
while [ "$1" != --root ]; do shift; done
mkdir -p "$2/bin"
printf '#!/bin/sh\\necho tiny cargo:{built} [features: one]\\n' > "$2/bin/tiny"
chmod 755 "$2/bin/tiny"
"""


@pytest.fixture
def rust(tmp_path, monkeypatch):
    """Return a function that puts such a cargo into the folder of Rust's installer, and first in PATH."""

    def make(version: str = "1.95.0", built: str = "1.2.3") -> Path:
        home = tmp_path / "rust"
        (home / "bin").mkdir(parents=True, exist_ok=True)
        program = home / "bin" / "cargo"
        program.write_text(CARGO.format(version=version, built=built, here=tmp_path))
        program.chmod(0o755)
        crate = home / "registry" / "cache" / "index" / "tiny-1.2.3.crate"
        crate.parent.mkdir(parents=True, exist_ok=True)
        crate.write_bytes(CRATE)
        return program

    monkeypatch.setenv("CARGO_HOME", str(tmp_path / "rust"))
    monkeypatch.setenv("PATH", f"{tmp_path}/rust/bin:/usr/bin:/bin")
    monkeypatch.delenv("CARGO_TARGET_DIR", raising=False)
    return make


def refused(error, match, tmp_path, program=TINY, tools="tools"):
    """Check that the installation fails and places nothing."""
    with pytest.raises(error, match=match):
        cargo.install(program, tmp_path / tools, print)
    assert not list((tmp_path / tools).glob("*/*"))


def test_program_is_built_once(rust, tmp_path):
    program, tools, lines = rust(), tmp_path / "tools", []
    (part,) = TINY.parts(tools)
    assert "tiny 1.2.3" in part.what and part.needs == "nothing to download" and not part.present()
    part.run(lines.append)
    assert part.present() and str(program) in lines[0]
    asked = (tmp_path / "asked").read_text().split()
    assert asked[:2] == ["install", "tiny"] and {"--locked", "--no-default-features"} < set(asked)
    assert asked[asked.index("--version") + 1] == "=1.2.3" and asked[asked.index("--features") + 1] == "one,two"
    assert (tmp_path / "target").read_text().strip() == str(tools / "cache" / "tiny" / "target")
    assert {p.name for p in (tools / "bin").iterdir()} == {"tiny", "tiny.json"}
    assert not list((tools / "cache").iterdir()), "the compiled files are removed"
    stamp, built = json.loads((tools / "bin/tiny.json").read_text()), tools / "bin/tiny"
    found = {"version": "1.2.3", "features": "one two", "sha256": TINY.sha256, "bytes": built.stat().st_size}
    assert found.items() <= stamp.items()
    (tmp_path / "asked").unlink()
    cargo.install(TINY, tools, lines.append)  # a second one that waited for the first
    assert not (tmp_path / "asked").exists()
    assert not cargo.present(replace(TINY, features=("one",)), tools), "built with other features"
    (tools / "bin" / "tiny").write_text("another program")
    assert not part.present()


def test_target_folder_of_the_user_is_kept(rust, tmp_path, monkeypatch):
    rust()
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path / "mine"))
    cargo.install(TINY, tmp_path / "tools", print)
    assert (tmp_path / "target").read_text().strip() == str(tmp_path / "mine")


def test_old_cargo_is_refused(rust, tmp_path):
    for version, words in (("1.63.0", r"1\.63\.0.*1\.89"), ("1.89.0-nightly", r"unknown.*1\.89")):
        rust(version)
        refused(UserError, f"rust/bin/cargo has version {words}", tmp_path)
    exact, program = replace(TINY, least=(1, 89, 0)), rust("1.89.0")
    assert cargo.cargo_of(exact) == program
    rust("1.88.9")
    with pytest.raises(UserError, match=r"1\.88\.9.*1\.89\.0"):
        cargo.cargo_of(exact)


def test_versions_of_cargo():
    for printed, version in (
        ("cargo 1.95.0 (f2d3ce0bd 2026-03-21)\n", (1, 95, 0)),
        ("1.89.0", (1, 89, 0)),
        ("cargo 1.90.0-beta.2 (abc)", ()),
        ("", ()),
    ):
        assert cargo.numbers(printed) == version


def test_newest_cargo_is_found(rust, tmp_path, monkeypatch):
    """Use the one of Rust's installer, with an old one in PATH or none; without any, name the fix."""
    program, old = rust(), tmp_path / "system" / "cargo"
    old.parent.mkdir()
    monkeypatch.setenv("PATH", str(old.parent))
    assert cargo.cargo_of(replace(TINY, tools=())) == program
    old.write_text("#!/bin/sh\necho cargo 1.63.0\n")
    old.chmod(0o755)
    assert cargo.cargo_of(replace(TINY, tools=())) == program
    program.unlink()
    old.unlink()
    refused(UserError, r"cargo.*rust/bin.*install Rust 1\.89", tmp_path)


def test_missing_tools_are_named_by_package(rust, tmp_path):
    rust()
    needs = replace(TINY, tools=(("no-such-compiler", "gcc"), ("sh", "dash"), ("no-such-make", "make")))
    refused(UserError, "apt-get install gcc make", tmp_path, needs)


def test_failed_or_wrong_build_leaves_nothing(rust, tmp_path):
    """Other sources and another version than the pinned ones are not placed."""
    rust()
    (tmp_path / "broken").touch()
    refused(MeasurementFailed, "could not compile tiny", tmp_path)
    (tmp_path / "broken").unlink()
    rust(built="1.2.4")
    refused(MeasurementFailed, r"1\.2\.3", tmp_path)
    rust()
    (tmp_path / "rust/registry/cache/index/tiny-1.2.3.crate").write_bytes(b"other sources")
    refused(MeasurementFailed, r"tiny 1\.2\.3", tmp_path)


def test_no_space_and_no_folder(rust, tmp_path):
    rust()
    refused(UserError, "GB free.*STORELAB_TOOLS", tmp_path, replace(TINY, needed_bytes=1e18))
    (tmp_path / "file").touch()
    refused(UserError, "STORELAB_TOOLS", tmp_path, tools="file/tools")
