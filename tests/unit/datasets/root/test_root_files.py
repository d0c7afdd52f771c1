"""Files of the shapes that experiments write (tests/support/make_root_files.py), on every machine: all branches, as uproot reads them."""

import make_root_files as made
import numpy as np
import pytest
import uproot
from root_truth import compare, hold_against_uproot

from storelab.datasets import own_file
from storelab.datasets.root import baskets

# file -> branches, baskets or pages, as the script writes them
HELD = {"nanoaod": (13, 13), "xaod": (6, 24), "delphes": (11, 55), "ntuple": (19, 112), "lists": (7, 28)}


def of(name: str) -> tuple:
    return made.FOLDER / f"{name}.root", made.FILES[f"{name}.root"][0]


@pytest.mark.parametrize("entries", [range(200), [0, 7, 50, 199], [101]], ids=["all", "some", "one"])
@pytest.mark.parametrize("name", HELD)
def test_every_branch_is_what_uproot_reads(name, entries):
    assert hold_against_uproot(*of(name), np.array(entries)) == HELD[name][0]


@pytest.mark.parametrize("name", HELD)
def test_all_baskets_are_tabled_within_the_file(name):
    path, tree = of(name)
    facts, table = own_file.look(path, "mine", tree)
    b = baskets.Baskets.from_table(table)
    assert len(table) == HELD[name][1] and (b.offset > 0).all() and (b.offset + b.size <= path.stat().st_size).all()
    assert (facts["entries"], facts["unreadable"], b.entry_stop.max()) == (200, {}, 200)


@pytest.mark.parametrize("name", ["nanoaod", "lists"])
def test_plain_branches_are_decoded_in_place(name):
    assert compare(*of(name), np.array([0, 7, 50, 101, 199])) >= 6


def test_the_script_makes_what_is_kept(tmp_path):
    """Without ROOT it writes uproot's files: the same values."""
    made.lists(tmp_path / "lists.root")
    with uproot.open(tmp_path / "lists.root") as new, uproot.open(made.FOLDER / "lists.root") as kept:
        for name in ("x", "n", "hits", "empty", "name"):
            assert new["events"][name].array().tolist() == kept["events"][name].array().tolist()
        assert kept["events"]["hits"].array()[100:150].tolist() == [[]] * 50
    assert sum(p.stat().st_size for p in made.FOLDER.glob("*.root")) < 200_000
