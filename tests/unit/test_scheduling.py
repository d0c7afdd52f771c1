"""Tests on several workers, of which one dies: the others run what is left, and pytest ends."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from scheduling import Files, pytest_collection_modifyitems

TESTS = Path(__file__).parents[1]
DIES = "import os\ndef test_first(): pass\ndef test_dies(): os._exit(1)\ndef test_last(): pass\n"
SLEEPS = "import time\ndef test_one(): time.sleep(0.2)\n"


@pytest.mark.heavy  # two rounds of workers: twenty seconds
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


@pytest.mark.heavy
def test_after_so_many_minutes_no_test_begins_and_each_says_so(tmp_path, monkeypatch):
    monkeypatch.delenv("STORELAB_TEST_TURN", raising=False)  # of `.ci/run`: it may begin with the second file
    (tmp_path / "conftest.py").write_text(f"import sys\nsys.path.insert(0, {str(TESTS)!r})\nfrom scheduling import *\n")
    fixture = "import pytest, time\n@pytest.fixture(scope='module')\ndef store(): open('started', 'w')\n"
    (tmp_path / "test_a.py").write_text("import time\ndef test_one(): time.sleep(1.3)\n")
    (tmp_path / "test_b.py").write_text(f"{fixture}def test_two(store): pass\n")
    told = []
    for minutes in ("0.02", "5"):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            env=os.environ | {"STORELAB_TEST_MINUTES": minutes},
        )
        assert done.returncode == 0, done.stdout
        told.append((done.stdout, (tmp_path / "started").exists()))
    assert "1 passed, 1 skipped" in told[0][0] and not told[0][1]
    assert "not begun: 0.02 minutes of tests are over (STORELAB_TEST_MINUTES)" in told[0][0]
    assert "2 passed" in told[1][0] and told[1][1]


@pytest.mark.parametrize(
    ("turn", "order"),
    [
        (None, ["stranger", "slurm", "console", "paper", "a", "b", "b", "c"]),
        ("0", ["stranger", "slurm", "a", "console", "b", "b", "paper", "c"]),
        ("7", ["stranger", "console", "b", "b", "paper", "c", "slurm", "a"]),
        ("2", ["stranger", "paper", "c", "slurm", "a", "console", "b", "b"]),
    ],
)
def test_the_longest_begin_and_thirds_take_turns(monkeypatch, turn, order):
    """So that a slow machine, where the time ends first, does not always leave out the same."""
    monkeypatch.delenv("STORELAB_TEST_TURN", raising=False)
    if turn:
        monkeypatch.setenv("STORELAB_TEST_TURN", turn)
    files = ("a", "b", "b", "console", "c", "slurm", "stranger", "paper")
    items = [SimpleNamespace(path=Path(f"test_{name}.py")) for name in files]
    pytest_collection_modifyitems(items)
    assert [item.path.stem.removeprefix("test_") for item in items] == order


class Worker:
    """What the scheduler asks of a worker; a dead one refuses what it is sent, as a closed pipe does."""

    shutting_down = dead = False

    def __init__(self):
        self.sent, self.gateway = [], SimpleNamespace(id="gw")

    def send_runtest_some(self, places):
        if self.dead:
            raise OSError("cannot send (already closed?)")
        self.sent += places

    def shutdown(self):
        self.shutting_down = True


def test_work_that_a_dead_worker_was_sent_goes_to_another(monkeypatch, pytestconfig):
    monkeypatch.setattr(pytestconfig.option, "tx", ["popen"] * 2, raising=False)
    monkeypatch.setattr(pytestconfig.option, "px", [], raising=False)
    monkeypatch.setattr(pytestconfig.option, "loadscopereorder", False, raising=False)
    files = Files(pytestconfig)
    workers = dying, other = [Worker(), Worker()]
    tests = [f"test_{name}.py::test_one" for name in "abcdefgh"]
    for worker in workers:
        files.add_node(worker)
        files.add_node_collection(worker, tests)
    files.schedule()
    dying.dead = True
    died = dying.sent[1]
    files.mark_test_complete(dying, dying.sent[0])  # told before it died; xdist now sends it more
    assert files.remove_node(dying) == tests[died]
    ended = set()
    while other.sent and not ended.issuperset(other.sent):
        place = next(place for place in other.sent if place not in ended)
        ended.add(place)
        files.mark_test_complete(other, place)
    assert ended == set(range(len(tests))) - {dying.sent[0], died}


@pytest.mark.heavy
def test_what_costs_most_cpu_is_told_with_the_durations(tmp_path):
    """With the processes that a test waits for, and its fixtures; over all workers."""
    (tmp_path / "conftest.py").write_text(f"import sys\nsys.path.insert(0, {str(TESTS)!r})\nfrom cpu_times import *\n")
    work = "import subprocess, sys, time, pytest\nSPIN = 'import time\\nwhile time.process_time() < 0.4: pass'\n"
    spin = "subprocess.run([sys.executable, '-c', SPIN], check=True)"
    (tmp_path / "test_a.py").write_text(f"{work}def test_waits(): time.sleep(0.4)\n")
    (tmp_path / "test_b.py").write_text(
        f"{work}@pytest.fixture\ndef made():\n    {spin}\n    yield\n    {spin}\ndef test_spins(made): pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-n", "2", "--durations=1", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    told = done.stdout.partition("CPU seconds, ")[2].splitlines()
    assert " in 2 tests" in told[0] and "test_b.py::test_spins" in told[1], done.stdout
    assert 0.8 <= float(told[1].split("s ")[0]) < 3 and "test_waits" not in told[2]
