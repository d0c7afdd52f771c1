"""Every benchmark runs at its smallest size, and makes the figures that benchmarks/README.md names."""

import json
import os
import subprocess
import sys

import pytest
import table
from laboratory import LONG_BUILDS

pytestmark = [pytest.mark.real, pytest.mark.heavy]

NAMES = table.named((table.HERE / "README.md").read_text())
TIME_OUT_S = 900  # at most a minute on an idle machine


def group(name: str) -> str:
    """Return the group of a smoke; cluster_overhead starts a testbed, which takes the machine for itself."""
    return "testbed" if name == "cluster_overhead" else f"smoke-{name}"


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.xdist_group(group(n))) for n in NAMES])
def test_smoke(name: str) -> None:
    """If a program is missing, all existing figures must still be named; the rest is skipped with the reason."""
    command = [sys.executable, str(table.HERE / f"{name}.py"), "--smoke", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            out, output = process.communicate(timeout=TIME_OUT_S)
        except subprocess.TimeoutExpired:
            process.terminate()  # it stops its servers then
            raise
    if process.returncode == 2 and "is not installed" in output:
        pytest.skip(output.strip().splitlines()[-1])
    assert process.returncode == 0, output[-3000:]
    result = json.loads(out.strip().splitlines()[-1])
    figures = list(result["figures"])
    assert table.unnamed(figures, NAMES[name]) == []
    unmade, missing = table.unmade(figures, NAMES[name]), result.get("missing", [])
    if unmade and (other := [m for m in missing if m.partition(":")[0] not in LONG_BUILDS]):
        pytest.skip("; ".join(other))
    assert unmade == [] or missing
    assert all(f["low"] <= f["median"] <= f["high"] and f["n"] for f in result["figures"].values())


def test_smoke_is_never_kept() -> None:
    command = [sys.executable, str(table.HERE / "plan_scale.py"), "--smoke", "--save"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)
    assert done.returncode == 2 and "--smoke and --save: " in done.stderr
