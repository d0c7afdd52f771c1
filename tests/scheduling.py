"""Which tests may run beside each other, in which order, and for how long: hooks that conftest.py takes."""

import contextlib
import os
import time
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

BEGUN = time.monotonic()
MINUTES = "STORELAB_TEST_MINUTES"  # of the environment: tests of which no more begin after it
TURN = "STORELAB_TEST_TURN"  # of the environment: a number that says which third of the files begins

# At every turn: what the README says first; pages and numbers against sealed records.
FIRST = ("test_stranger", "test_pages", "test_page_sums", "test_registry")
# Testbeds take the machine for themselves (cgroups, links, namespaces): one at a time.
TESTBEDS = ("test_slurm", "test_slurm_plugin", "test_cluster_failures", "test_htcondor")
WITH_A_TESTBED = "test_smoke[cluster_overhead]"

# The files that take longest come next, so that no worker is left with one at the end. All others follow.
LONGEST = (
    *("test_benchmarks_smoke", "test_nullserver", "test_misuse", "test_console", "test_quick_look"),
    *("test_root_scales", "test_systems", "test_ceph", "test_hdfs", "test_xrootd", "test_golden", "test_events"),
    *("test_calibration", "test_timed_engines", "test_seaweedfs"),
    *(
        "test_stale_paper",
        "test_campaign",
        "test_paper",
        "test_protocol_reads",
        "test_extending",
        "test_golden_requests",
    ),
    *(
        "test_tables",
        "test_figures",
        "test_latex",
        "test_figures_own",
        "test_figure_pictures",
        "test_dag",
        "test_comparing",
    ),
    *("test_notebooks", "test_probe", "test_uproot_s3fs", "test_gang", "test_planned_reads", "test_fsspec_engine"),
)
ORDER = (*TESTBEDS, *LONGEST)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`--no-loadscope-reorder` lets xdist hand out files in this order, instead of by their number of tests. With a TURN
    a third of the files begins, then the next one, each with its longest files first: where the time ends before the
    tests, each of them comes first at one turn of three."""
    there = dict.fromkeys(item.path.stem for item in items)
    names = [*(name for name in ORDER if name in there), *(name for name in there if name not in (*FIRST, *ORDER))]
    if turn := os.environ.get(TURN):
        names = [name for third in range(3) for name in names[(int(turn) + third) % 3 :: 3]]
    place = {name: i for i, name in enumerate((*FIRST, *names))}
    items.sort(key=lambda item: place[item.path.stem])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A run that must end in its time on a slow machine too says what it left out. Before any fixture starts something."""
    most = float(os.environ.get(MINUTES, "inf"))
    if time.monotonic() - BEGUN > 60 * most:
        pytest.skip(f"not begun: {most:g} minutes of tests are over ({MINUTES})")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """With `--dist loadfile` one worker takes all testbeds: others would only wait for their lock."""
    return Files(config, log) if config.getoption("dist") == "loadfile" else None


class Files(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        path = super()._split_scope(nodeid)
        return "testbeds" if Path(path).stem in TESTBEDS or nodeid.endswith(WITH_A_TESTBED) else path

    def remove_node(self, node: WorkerController) -> str | None:
        """The test in which a worker died; it does not run again. xdist (3.8) hands out again all that the worker ever had,
        and waits for tests that have ended."""
        work = self.assigned_work[node]
        died = next((test for unit in work.values() for test, ended in unit.items() if not ended), None)
        for unit in work.values():
            if died in unit:
                unit[died] = True
        self.assigned_work[node] = {scope: unit for scope, unit in work.items() if not all(unit.values())}
        super().remove_node(node)
        return died

    def _assign_work_unit(self, node: WorkerController) -> None:
        """A worker that has died, of which xdist does not know yet, is told in vain: `remove_node` hands its work to others."""
        with contextlib.suppress(OSError):
            super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        """A worker begins a test when it has the next one, or knows that there is none; a worker that comes later too."""
        super()._reschedule(node)
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)
