"""Test that `benchmarks/files.py` counts each kind of wrong reading under its name."""

import random
from collections import Counter

import files
import files_made
import pytest
import uproot
from files_made import Case
from files_read import staged

from storelab.datasets.root import trial

pytestmark = pytest.mark.heavy  # .ci/run tries the whole benchmark


@pytest.fixture
def case(tmp_path):
    types, content = files_made.shapes()["lists"]
    path = tmp_path / "lists-zlib.root"
    return Case(path, None, files_made.tree(path, files_made.CODECS["zlib"], types, content, [40, 40]))


def named(case):
    counts, out = Counter(), []
    files.judged(case, counts, out)
    return [line.split()[0] for line in out]


def test_right_file_has_no_finding(case):
    assert named(case) == [] and len(case.truth["f4"]) == 80 and case.truth["f4"][7] == [7.0, 8.0, 9.0]


def test_branch_with_other_values_is_counted(case):
    case.truth["f4"][77] = [5.0]
    assert named(case) == ["branches_wrong"] * 2, "both readers; the few entries that are read one by one are right"


def test_refused_file_is_counted(case, tmp_path):
    assert named(Case(case.path, "nothing")) == ["refused_though_readable"]
    assert named(Case(case.path, None, refused="is empty")) == ["accepted_then_failed"]
    (text := tmp_path / "text.root").write_text("no ROOT file")
    assert named(Case(text, None, refused="is not a ROOT file")) == []
    assert named(Case(text, None, refused="is empty")) == ["refused_though_readable"], "for another reason"


def test_absent_branch_is_counted(case, monkeypatch):
    assert named(Case(case.path, None, case.truth | {"ghost": []})) == ["refused_though_readable"]
    monkeypatch.setattr(trial.Trial, "_steps", lambda trial, head, *_: 1 / (head.layout.names != ["f4"]))
    assert named(case) == ["refused_though_readable"]
    case.truth["f4"][0] = [1.0]
    assert named(case) == [], "uproot does not read it correctly either"


def test_branch_that_fails_later_is_counted(case, monkeypatch):
    monkeypatch.setattr(files.File, "_events", lambda found, names: {} if "i2" not in names else 1 / 0)
    assert set(named(case)) == {"accepted_then_failed"}


def test_damages_are_seeded_and_of_every_kind():
    data = bytes(range(256)) * 8
    made = [files.damaged(data, random.Random(seed)) for seed in range(60)]
    assert made == [files.damaged(data, random.Random(seed)) for seed in range(60)]
    assert {what.split()[0] for what, _ in made} == {"flip", "cut", "zeros", "swap"}
    for what, bad in made:
        changed = sum(a != b for a, b in zip(data, bad, strict=False))
        assert {"flip": changed == 1, "cut": data.startswith(bad) and len(bad) < len(data)}.get(
            what.split()[0], len(bad) == len(data) and changed <= 2 * files.MOST_BYTES
        )


def test_silent_damage_is_seen(case, tmp_path):
    """Use a whole file of other values as damage that staging does not see."""
    whole = staged(case.path, None)
    good = whole.read("planned", whole.accepted, files.np.arange(80))
    assert files.silent(case.path, None, good, 80) is None and whole.unpacked() == []
    types, content = files_made.shapes()["lists"]
    other = tmp_path / "other.root"
    files_made.tree(other, None, types, lambda at, n: content(at + 1, n), [40, 40])
    assert "planned reads other values of" in files.silent(other, None, good, 80)
    files_made.tree(other, None, types, content, [40])
    assert files.silent(other, None, good, 80) == "40 entries in place of 80"
    del types["f4"]
    files_made.tree(other, None, types, lambda at, n: {k: v for k, v in content(at, n).items() if k in types}, [80])
    assert files.silent(other, None, good, 80) == "2 branches have vanished: f4"
    assert len(staged(other, None).unpacked()) > 10


def test_damage_of_unpacked_bytes_is_located():
    good, bad = bytes(100), bytes(50) + b"\1" + bytes(49)
    assert files.touched(good, bad, [(50, 1)]) and files.touched(good, bad, [(0, 5), (40, 20)])
    assert not files.touched(good, bad, [(0, 50), (51, 49)]) and not files.touched(good, bad[:60], [(50, 1)])


def test_unreadable_tree_may_be_refused(case, monkeypatch):
    with uproot.open(case.path) as file:
        one = Case(case.path, file.keys(cycle=False)[0])
    monkeypatch.setattr(files, "staged", lambda *_: "none of its branches can be read")
    assert named(one) == ["refused_though_readable"]
    monkeypatch.setattr(uproot.TBranch, "array", lambda *_: 1 / 0)
    assert named(one) == [], "uproot reads nothing of this real file"
    assert named(Case(case.path, one.tree, case.truth)) == ["refused_though_readable"], "its content is known"
