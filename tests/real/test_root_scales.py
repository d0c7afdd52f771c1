"""The larger generated files, one of them that of the paper: read by uproot, and by ROOT if it is installed."""

import json
import random
import subprocess
import sys

import numpy as np
import pytest
import uproot

from storelab.datasets.root import baskets
from storelab.install import wheels

# A separate process reports its largest memory; the rusage of a fork begins with that of its parent.
MAKE = """
import json, re, sys
from pathlib import Path
from storelab.datasets.root import generated
facts = generated.generate_with_side_car(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], 20150413)
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
print(json.dumps({**facts, "peak_gb": peak * 1024 / 1e9}))
"""


pytestmark = [pytest.mark.real, pytest.mark.heavy]  # the unit tests generate scale S
EXPECTED = {"M": (4000, 2000, 8), "L": (11_918, 5860, 23)}


@pytest.fixture(scope="module")
def made(request, tmp_path_factory):
    """Return (path, facts, table) of a file of the scale `request.param`."""
    folder = tmp_path_factory.mktemp("root")
    path, side_car = folder / "f.root", folder / "f.parquet"
    command = [sys.executable, "-c", MAKE, path, side_car, request.param]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    yield path, json.loads(done.stdout), baskets.read(side_car)
    path.unlink()


@pytest.mark.parametrize("made", EXPECTED, indirect=True, scope="module")
def test_file_has_its_scale_and_little_memory(made):
    path, facts, table = made
    entries, branches, clusters = EXPECTED[facts["scale"]]
    assert (facts["entries"], facts["clusters"]) == (entries, clusters)
    assert branches < facts["branches"] < 1.05 * branches and facts["peak_gb"] < 0.5
    layout = baskets.Baskets.from_table(table)
    assert len(np.unique(layout.entry_start)) == clusters and not layout.embedded
    assert len(layout) == clusters * facts["branches"]
    with uproot.open(path) as file:
        tree = file[facts["tree"]]
        assert (tree.num_entries, tree.member("fAutoFlush")) == (entries, -(-entries // clusters))
        names = random.Random(1).sample(layout.names, 20)
        for name, array in tree.arrays(names, library="np", entry_start=entries - 3).items():
            assert len(array) == 3, name
    assert max(map(len, layout.names)) > 40, "names as long as those of ATLAS files"


@pytest.mark.parametrize("made", ["L"], indirect=True, scope="module")
def test_scale_l_is_file_of_paper(made):
    _, facts, table = made
    layout = baskets.Baskets.from_table(table)
    edges, where = np.unique(layout.entry_start, return_inverse=True)
    size = np.bincount(where, weights=layout.size)
    opening = facts["bytes"] - size.sum()
    assert facts["bytes"] == pytest.approx(758.42e6, rel=0.02)
    for count, printed, bound in ((12, 320.92, 0.08), (1, 42.08, 0.15)):  # Table 2
        percent = 100 * count / facts["entries"] - 1e-9
        drawn = [baskets.select_entries(facts["entries"], percent, seed) for seed in range(200)]
        assert {len(d) for d in drawn} == {count}
        clusters = [np.unique(np.searchsorted(edges, d, side="right") - 1) for d in drawn]
        mean = np.mean([opening + size[c].sum() for c in clusters]) / 1e6
        assert mean == pytest.approx(printed, rel=bound)
    # The stress case, in which small branches are scattered: docs/sparse-reads.md, docs/read-planner.md.
    chosen = baskets.select_branches(table, 1)
    offset, size = np.array(baskets.ranges(layout, chosen, np.arange(facts["entries"]))[2]).T
    edges = np.flatnonzero(offset[1:] != (offset + size)[:-1])  # of runs: where a range does not touch the next
    assert (len(chosen), len(offset), size.sum(), len(edges) + 1) == (1081, 24_863, 7_469_447, 18_906)
    assert np.median(offset[1:][edges] - (offset + size)[:-1][edges]) == 3696


@pytest.mark.parametrize("made", EXPECTED, indirect=True, scope="module")
def test_root_reads_file(made):
    if not wheels.has("ROOT"):
        pytest.skip("ROOT is not installed: storelab install root")
    import ROOT

    path, facts, _ = made
    file = ROOT.TFile.Open(str(path))
    tree = file.Get(facts["tree"])
    assert (tree.GetEntries(), tree.GetAutoFlush()) == (facts["entries"], -(-facts["entries"] // facts["clusters"]))
    assert tree.GetEntry(facts["entries"] // 2) > 0
    file.Close()
