"""Building a program of crates with a cargo that is a script: what it is asked, what is placed, each mistake in one line."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from storelab.core.errors import MeasurementFailed, UserError
from storelab.install import cargo, running

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
# A cargo that notes what it is asked, fetches its crate, and builds a program that tells its version.
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
    """A function that puts such a cargo where Rust's installer would, and before any other in PATH. version: its own."""

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


def test_built_placed_and_not_built_again(rust, tmp_path):
    program, tools, lines = rust(), tmp_path / "tools", []
    (part,) = TINY.parts(tools)
    assert part.what == "tiny 1.2.3, built from source" and part.needs == "nothing to download" and not part.present()
    part.run(lines.append)
    assert part.present() and lines[0] == f"downloading and building with {program}"
    asked = (tmp_path / "asked").read_text().split()
    assert asked[:2] == ["install", "tiny"] and {"--locked", "--no-default-features"} < set(asked)
    assert asked[asked.index("--version") + 1] == "=1.2.3" and asked[asked.index("--features") + 1] == "one,two"
    assert (tmp_path / "target").read_text().strip() == str(tools / "cache" / "tiny" / "target")
    assert {p.name for p in (tools / "bin").iterdir()} == {"tiny", "tiny.json"}
    assert not list((tools / "cache").iterdir()), "what was compiled is gone"
    (tmp_path / "asked").unlink()
    cargo.install(TINY, tools, lines.append)  # a second one that waited for the first
    assert not (tmp_path / "asked").exists()
    assert not cargo.present(replace(TINY, features=("one",)), tools), "built with other features"
    (tools / "bin" / "tiny").write_text("another program")
    assert not part.present()


def test_a_target_folder_of_the_users_own_is_kept(rust, tmp_path, monkeypatch):
    rust()
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path / "mine"))
    cargo.install(TINY, tmp_path / "tools", print)
    assert (tmp_path / "target").read_text().strip() == str(tmp_path / "mine")


@pytest.mark.parametrize(
    ("version", "line"),
    [
        ("1.63.0", r"install: .*/rust/bin/cargo is 1\.63\.0, and tiny needs 1\.89; install Rust 1\.89 or newer"),
        ("1.89.0-nightly", r"install: .*/rust/bin/cargo is no release, and tiny needs 1\.89; install Rust"),
    ],
)
def test_a_cargo_that_is_too_old(rust, tmp_path, version, line):
    rust(version)
    with pytest.raises(UserError, match=line):
        cargo.install(TINY, tmp_path / "tools", print)
    assert not (tmp_path / "tools").exists()


def test_the_least_version_is_enough(rust):
    exact, program = replace(TINY, least=(1, 89, 0)), rust("1.89.0")
    assert cargo.cargo_of(exact) == program
    rust("1.88.9")
    with pytest.raises(UserError, match=r"is 1\.88\.9, and tiny needs 1\.89\.0"):
        cargo.cargo_of(exact)


def test_cargo_where_rusts_installer_puts_it_and_an_old_one_in_path(rust, tmp_path, monkeypatch):
    program, old = rust(), tmp_path / "system" / "cargo"
    old.parent.mkdir()
    monkeypatch.setenv("PATH", str(old.parent))
    assert cargo.cargo_of(replace(TINY, tools=())) == program
    old.write_text("#!/bin/sh\necho cargo 1.63.0\n")
    old.chmod(0o755)
    assert cargo.cargo_of(replace(TINY, tools=())) == program


def test_no_cargo_at_all(rust, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    line = r"install: there is no cargo in PATH or .*/rust/bin, which builds tiny; install Rust 1\.89 or newer"
    with pytest.raises(UserError, match=line):
        cargo.install(TINY, tmp_path / "tools", print)


def test_what_the_build_needs_besides_is_named_by_its_package(rust, tmp_path):
    rust()
    needs = replace(TINY, tools=(("no-such-compiler", "gcc"), ("sh", "dash"), ("no-such-make", "make")))
    with pytest.raises(UserError, match=r"the build of tiny needs gcc and make; apt-get install gcc make, or the like"):
        cargo.install(needs, tmp_path / "tools", print)


def test_what_does_not_build_leaves_nothing(rust, tmp_path):
    rust()
    (tmp_path / "broken").touch()
    with pytest.raises(MeasurementFailed, match=r"install: cargo install failed: .*could not compile tiny"):
        cargo.install(TINY, tmp_path / "tools", print)
    assert not list((tmp_path / "tools" / "bin").iterdir()) and not list((tmp_path / "tools" / "cache").iterdir())


@pytest.mark.parametrize(
    ("crate", "built", "line"),
    [
        (b"other sources", "1.2.3", "tiny 1.2.3 is not the crate that storelab pins"),
        (CRATE, "1.2.4", "the tiny that was built is not 1.2.3, or does not run here"),
    ],
)
def test_what_is_not_what_was_pinned_is_not_placed(rust, tmp_path, crate, built, line):
    rust(built=built)
    (tmp_path / "rust/registry/cache/index/tiny-1.2.3.crate").write_bytes(crate)
    with pytest.raises(MeasurementFailed, match=line):
        cargo.install(TINY, tmp_path / "tools", print)
    assert not list((tmp_path / "tools" / "bin").iterdir())


def test_no_room_and_no_folder(rust, tmp_path):
    rust()
    with pytest.raises(UserError, match=r"GB free; the build takes .* name another folder in STORELAB_TOOLS"):
        cargo.install(replace(TINY, room=1e18), tmp_path / "tools", print)
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="STORELAB_TOOLS"):
        cargo.install(TINY, tmp_path / "file" / "tools", print)


def test_the_stamp_tells_what_was_built(rust, tmp_path):
    rust()
    cargo.install(TINY, tmp_path / "tools", print)
    stamp = json.loads((tmp_path / "tools/bin/tiny.json").read_text())
    assert stamp["version"] == "1.2.3" and stamp["features"] == "one two" and stamp["sha256"] == TINY.sha256
    assert stamp["bytes"] == (tmp_path / "tools/bin/tiny").stat().st_size


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ("cargo 1.95.0 (f2d3ce0bd 2026-03-21)\n", (1, 95, 0)),
        ("1.89.0", (1, 89, 0)),
        ("cargo 1.90.0-beta.2 (abc)", ()),
        ("", ()),
    ],
)
def test_versions_of_cargo(told, version):
    assert cargo.numbers(told) == version


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (
            "    Updating index\n  Downloaded a v1\n  Downloaded b v2\n   Compiling a v1\n",
            "2 crates downloaded, 1 compiled",
        ),
        ("  Downloaded a v1\n", "1 crates downloaded, 0 compiled"),
        ("go: downloading x v1\nx/y\nx/z\n", "1 modules downloaded, 2 packages compiled"),
        ("", "0 modules downloaded, 0 packages compiled"),
    ],
)
def test_how_far_a_build_is(tmp_path, lines, told):
    (tmp_path / "build.log").write_text(lines)
    assert running._so_far(tmp_path / "build.log") == told
