"""Generated ROOT files that the tests of this folder share."""

from pathlib import Path

import numpy as np
import pytest
import uproot

from storelab.datasets.root import generated
from storelab.datasets.root.reader import Header

TINY = generated.Scale(entries=103, branches=60, clusters=3, bytes_per_entry=700.0, named=True)


@pytest.fixture(scope="module")
def s_file(tmp_path_factory) -> tuple[Path, dict]:
    """Return the path and the facts of a generated file of size S, to read only."""
    path = tmp_path_factory.mktemp("root") / "s.root"
    return path, generated.generate(path, "S", 20150413)


@pytest.fixture
def tiny_scale(monkeypatch) -> str:
    """Return the name of a scale of 103 entries, 60 branches and 3 clusters."""
    monkeypatch.setitem(generated.SCALES, "tiny", TINY)
    return "tiny"


@pytest.fixture(scope="module")
def tiny_file(tmp_path_factory) -> Path:
    """Return the path of a generated file of that scale, to read only."""
    path = tmp_path_factory.mktemp("root") / "tiny.root"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(generated.SCALES, "tiny", TINY)
        generated.generate(path, "tiny", 3)
    return path


@pytest.fixture
def tiny(tiny_file) -> tuple[np.ndarray, Header]:
    """Return the bytes, shape (n,), and the header of that file."""
    with uproot.open(tiny_file) as file:
        return np.fromfile(tiny_file, np.uint8), Header.of(file[generated.TREE], {})
