"""Tests on several workers, of which one dies: the others run what is left, and pytest ends."""

import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
DIES = "import os\ndef test_first(): pass\ndef test_dies(): os._exit(1)\ndef test_last(): pass\n"
SLEEPS = "import time\ndef test_one(): time.sleep(0.2)\n"


def test_a_worker_that_dies_takes_only_its_test_along(tmp_path):
    (tmp_path / "conftest.py").write_text(f"import sys\nsys.path.insert(0, {str(TESTS)!r})\nfrom scheduling import *\n")
    for name in "abcdef":
        (tmp_path / f"test_{name}.py").write_text(SLEEPS)
    (tmp_path / "test_dying.py").write_text(DIES)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-n",
            "2",
            "--dist",
            "loadfile",
            "--no-loadscope-reorder",
            "-p",
            "no:cacheprovider",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1 and "crashed while running 'test_dying.py::test_dies'" in done.stdout, done.stdout
    assert "1 failed, 8 passed" in done.stdout, done.stdout
