"""The catalogue of engines: workloads, clients and packages agree with it."""

import re
import tomllib

from paths import ROOT

from storelab.core import calibration, engines
from storelab.engines import client_of, load
from storelab.engines.contract import Client
from storelab.workloads import WORKLOADS


def test_choices_of_a_workload_are_those_of_the_catalogue():
    for workload in (w for w in WORKLOADS.values() if w.name != calibration.WORKLOAD):
        axis, able = workload.axis("engine"), [e.name for e in engines.engines_of(workload.name)]
        assert list(axis.choices) == able and axis.default in able, workload.name


def test_uses_have_a_client_and_known_axes():
    for engine in engines.ALL:
        assert not engine.program or callable(load(engine.program))
        for workload, use in engine.uses.items():
            assert issubclass(client_of(workload, engine.name), Client), (engine.name, workload)
            assert set(use.obeys) <= {a.name for a in WORKLOADS[workload].axes}, (engine.name, workload)


def test_packages_of_engines_are_pinned():
    """ROOT is installed separately (`storelab install root`); numpy comes with the others."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = project["dependencies"] + [line for lines in project["optional-dependencies"].values() for line in lines]
    pinned = {re.split(r"[=<>\[ ]", line)[0] for line in needed}
    assert set(engines.PACKAGES) - pinned == {"numpy", "root"}
