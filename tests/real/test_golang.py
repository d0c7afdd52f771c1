"""Build a Go program from pins: a tiny one, whose module is next to it, so that nothing is downloaded."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import managed
import pytest
from laboratory import NO_GO
from process_table import folder_of, having

from storelab.core.errors import MeasurementFailed, UserError
from storelab.install import golang
from storelab.stores import minio, versitygw

pytestmark = pytest.mark.heavy
TINY = golang.Program("tiny", "example.org/tiny", "example.org/tiny/cmd/tiny", "nothing", 1e6)
MAIN = 'package main\n\nfunc main() { println("tiny") }\n'


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Return the cache of the compiler, shared by these tests."""
    return tmp_path_factory.mktemp("go")


@pytest.fixture
def pins(tmp_path, monkeypatch, compiled):
    if not shutil.which("go"):
        pytest.skip(NO_GO)
    source = tmp_path / "pins" / "tiny" / "source"
    (source / "cmd" / "tiny").mkdir(parents=True)
    (source / "go.mod").write_text("module example.org/tiny\n\ngo 1.24\n")
    (source / "cmd" / "tiny" / "main.go").write_text(MAIN)
    text = (
        "module storelab/tiny\n\ngo 1.24\n\nrequire example.org/tiny v1.2.3\n\nreplace example.org/tiny => ./source\n"
    )
    (source.parent / "go.mod").write_text(text + "\ntool example.org/tiny/cmd/tiny\n")
    (source.parent / "go.sum").write_text("")
    monkeypatch.setattr(golang, "PINS", source.parents[1])
    monkeypatch.setenv("GOCACHE", str(compiled))
    return source.parent


def test_program_is_built_once(pins, tmp_path):
    tools, lines = tmp_path / "tools", []
    (part,) = TINY.parts(tools)
    assert part.what == "tiny 1.2.3, built from source" and not part.present()
    part.run(lines.append)
    binary = tools / "bin" / "tiny"
    assert part.present() and subprocess.run([binary], check=True, capture_output=True).stderr == b"tiny\n"
    assert golang.module_version(binary, TINY.module) == "1.2.3"
    assert golang.module_version(binary, "example.org/other") == ""
    assert {p.name for p in (tools / "bin").iterdir()} == {"tiny", "tiny.json"} and not [*(tools / "cache").iterdir()]
    assert lines[0] == f"downloading and building with {shutil.which('go')}"
    before = binary.stat().st_mtime_ns
    golang.install(TINY, tools, lines.append)  # a second one that waited for the first
    assert binary.stat().st_mtime_ns == before
    (pins / "go.sum").write_text("example.org/x v1.0.0 h1:abc=\n")
    assert not part.present()  # of other pins


def test_exchanged_binary_is_built_again(pins, tmp_path):
    tools = tmp_path / "tools"
    golang.install(TINY, tools, print)
    shutil.copy(sys.executable, tools / "bin" / "tiny")
    assert not golang.present(TINY, tools)
    golang.install(TINY, tools, print)
    assert golang.present(TINY, tools)


def test_failed_build_leaves_nothing(pins, tmp_path):
    tools, lines = tmp_path / "tools", []
    (pins / "source" / "cmd" / "tiny" / "main.go").write_text("package main\n\nfunc main() { nonsense }\n")
    with pytest.raises(MeasurementFailed, match=r"install: go build failed: .*undefined: nonsense"):
        golang.install(TINY, tools, lines.append)
    assert not list((tools / "bin").iterdir()) and not list((tools / "cache").iterdir())


def test_module_without_hash_is_refused(pins, tmp_path):
    """Go trusts go.sum, and fetches nothing that it does not list."""
    text = (pins / "go.mod").read_text()
    (pins / "go.mod").write_text(text.replace("replace example.org/tiny => ./source\n", ""))
    with pytest.raises(MeasurementFailed, match=r"missing go.sum entry"):
        golang.install(TINY, tmp_path / "tools", print)


def test_build_without_space_is_refused(pins, tmp_path):
    huge = golang.Program("tiny", TINY.module, TINY.package, "", 1e18)
    with pytest.raises(UserError, match=r"GB free; the build needs .* set another folder in STORELAB_TOOLS"):
        golang.install(huge, tmp_path / "tools", print)


def test_unwritable_tools_folder_is_refused(pins, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="STORELAB_TOOLS"):
        golang.install(TINY, tmp_path / "file" / "tools", print)


def test_interrupted_build_ends_with_its_children(pins, tmp_path, monkeypatch):
    slow = tmp_path / "bin" / "go"
    slow.parent.mkdir()
    slow.write_text(
        '#!/bin/sh\n[ "$1" = env ] && echo go1.99.0 && exit\necho "go: downloading x v1" >&2\nsleep 60 &\nwait\n'
    )
    slow.chmod(0o755)
    code = (
        "from pathlib import Path; from storelab.install import golang, running\n"
        "golang.PINS = Path({!r}); running.EVERY = 0.3\n"
        "tiny = golang.Program('tiny', 'example.org/tiny', 'example.org/tiny/cmd/tiny', '', 1e6)\n"
        "golang.install(tiny, Path({!r}), print)"
    )
    environ = os.environ | {"PATH": f"{slow.parent}:{os.environ['PATH']}", "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-c", code.format(str(pins.parent), str(tmp_path / "tools"))]
    child = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert child.stdout is not None
    assert "building with" in child.stdout.readline()
    assert "1 modules downloaded, 0 packages compiled" in child.stdout.readline()
    child.send_signal(signal.SIGINT)
    assert child.wait(60) != 0
    child.stdout.close()
    managed.until(lambda: not [pid for pid in having() if folder_of(pid) == str(pins)])
    assert not list((tmp_path / "tools" / "cache").iterdir()) and not list((tmp_path / "tools" / "bin").iterdir())


def test_versions_of_go():
    ascending = ("devel go1.27-abc", "go1.25rc1", "go1.25", "go1.25.1 X:nocoverageredesign")
    assert sorted(ascending, key=golang._numbers) == list(ascending)
    assert golang._numbers("go1.26.8") == (1, 26, 8) and golang._numbers("1.25") == (1, 25, 0)
    assert golang._numbers("devel go1.27-abc") == ()


def test_pins_are_whole():
    for program in (versitygw.PROGRAM, minio.PROGRAM):
        folder = Path(golang.PINS) / program.kind
        assert golang.pinned(program) and f"tool {program.package}\n" in (folder / "go.mod").read_text()
        assert f"{program.module} v{golang.pinned(program)} h1:" in (folder / "go.sum").read_text()
