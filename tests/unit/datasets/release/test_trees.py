"""Trees of days: the view of a union file system must equal the list in the generator's catalogs."""

import os
import shutil
import stat
from pathlib import Path

import pytest
from release_reader import restore

from storelab.core.campaign.release import Release as Settings
from storelab.datasets.release.build import Release
from storelab.datasets.release.trees import GONE, REPLACED, Trees

SMALL = {"factor": 0.0001, "bytes_a_day": "600 MB", "bytes_deviation": "200 MB", "tree_files": 300_000, "nights": 3}
MARKER = ".cvmfscatalog"
FACTS = ("new_files", "raw_bytes", "files", "removed_files")


def listing(folder: Path) -> dict[str, tuple[str, bytes]]:
    """Return (kind, content or target) by path of all that is in a folder, without marks of what goes."""
    out = {}
    for path in sorted(folder.rglob("*")):
        where = str(path.relative_to(folder))
        if path.is_symlink():
            out[where] = ("link", os.fsencode(path.readlink()))
        elif path.is_dir():
            out[where] = ("folder", b"")
        elif not path.name.startswith(GONE):
            out[where] = ("file", path.read_bytes())
    return out


def applied(before: dict, changed: Path) -> dict:
    """Return what a union file system would show: `before` with the changes of a day, by the rules of aufs."""
    out = dict(before)
    for path in sorted(changed.rglob(f"{GONE}*")):
        where = str(path.parent.relative_to(changed))
        under = "" if where == "." else f"{where}/"
        gone = under if path.name == REPLACED else f"{under}{path.name.removeprefix(GONE)}/"
        assert any(f"{p}/".startswith(gone) for p in out), f"{path.name} marks what is not there"
        out = {p: e for p, e in out.items() if not f"{p}/".startswith(gone)}
    return out | listing(changed)


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """Return (facts, entries of the repository) of five days, as the catalogs of the generator list them."""
    folder, bucket, out = tmp_path_factory.mktemp("release"), {}, []
    release = Release(Settings.model_validate(SMALL | {"days": 5}), 1)
    for n in range(1, 6):
        day = release.day(n, folder)
        bucket |= {item.key.partition("/")[2]: day.path(item).read_bytes() for item in day.objects()}
        shown = restore(day.facts["root_catalog"], bucket.__getitem__)
        out.append((day.facts, {os.fsdecode(path)[1:]: entry for path, entry in shown.items()}))
    return out


@pytest.fixture
def trees(tmp_path):
    return Trees(Settings.model_validate(SMALL), tmp_path)


def test_trees_of_five_days_are_those_of_the_generator(generated, tmp_path):
    """Content, links, folders of all kept nights, what goes, and the facts of each day are the same."""
    trees, shown = Trees(Settings.model_validate(SMALL | {"days": 5}), tmp_path), {}
    for n, (facts, wanted) in enumerate(generated, 1):
        found = trees.add(n)
        assert {name: found[name] for name in FACTS} == {name: facts[name] for name in FACTS}
        assert [p.name for p in trees.changed.iterdir()] == [facts["night"]], "only changed entries"
        shown = applied(shown, trees.changed)
        markers = {p for p in shown if p.endswith(f"/{MARKER}")}
        nested = {p for p, (kind, _) in wanted.items() if kind == "folder" and p.count("/") <= 1}
        assert {p.rpartition("/")[0] for p in markers} == nested
        assert {p: e for p, e in shown.items() if p not in markers} == wanted
        replaced = (trees.changed / facts["night"] / REPLACED).exists()
        assert replaced is (n > SMALL["nights"]), "the fourth night replaces the first"
        trees.published()
        assert not list(trees.changed.iterdir())
    assert generated[-1][0]["removed_files"] > 0


def test_modes_and_times_are_those_of_the_release(trees):
    trees.add(1)
    trees.add(2)
    times = {int(p.lstat().st_mtime) for p in trees.changed.rglob("*") if not p.name.startswith(GONE)}
    assert times == {1_428_883_200 + 86_400, 1_428_883_200 + 2 * 86_400}
    modes = {p.suffix: stat.S_IMODE(p.stat().st_mode) for p in trees.changed.rglob("*") if p.is_file()}
    assert modes[".py"] == 0o755 and modes[".h"] == 0o644


def test_published_trees_are_kept_without_content(trees):
    trees.add(1)
    before = {p: (k, len(c)) for p, (k, c) in listing(trees.changed).items()}
    trees.published()
    assert {p: (k, len(c)) for p, (k, c) in listing(trees.there).items()} == before
    files = [p for p in trees.there.rglob("*") if p.is_file() and not p.is_symlink()]
    assert sum(p.stat().st_size for p in files) > 20_000 and sum(p.stat().st_blocks for p in files) == 0


def test_failed_days_are_published_with_the_next(tmp_path):
    trees = Trees(Settings.model_validate(SMALL | {"nights": 2}), tmp_path)
    trees.add(1)
    trees.published()
    trees.add(2)
    for n, night, replaces in ((3, "night-01", True), (4, "night-02", False)):  # night 2 was never published
        trees.add(n)
        assert sorted(p.name for p in trees.changed.iterdir()) == ["night-01", "night-02"]
        assert (trees.changed / night / REPLACED).exists() is replaces


def test_versions_of_a_real_tree_come_and_go(tmp_path):
    root = tmp_path / "toolkit"
    for number in ("1", "2", "3"):
        (root / number / "lib").mkdir(parents=True)
        (root / number / "lib" / "same.so").write_bytes(b"same" * 300)
        (root / number / "own.txt").write_text(f"version {number}")
        (root / number / ".wh.own.txt").write_text("odd")
        (root / number / "latest").symlink_to("own.txt")
    (root / "3" / "lib").chmod(0o500)
    settings = Settings.model_validate({"nights": 2, "tree": {"path": str(root), "versions": ["1", "2", "3"]}})
    trees, found = Trees(settings, tmp_path / "days"), []
    for n in (1, 2):
        found.append(trees.add(n))
        trees.published()
    assert [(t["new_files"], t["files"], t["skipped"]) for t in found] == [(2, 2, 1), (1, 2, 1)]
    assert [t["raw_bytes"] for t in found] == [1200 + len("version 1"), len("version 2")]
    trees.add(3)
    assert sorted(p.name for p in trees.changed.iterdir()) == [".wh.1", "3"]
    shown = listing(trees.changed / "3")
    assert shown["own.txt"] == ("file", b"version 3") and shown["latest"] == ("link", b"own.txt")
    assert not list((trees.changed / "3").glob(".wh.*"))
    trees.published()
    assert sorted(p.name for p in trees.there.iterdir()) == ["2", "3"]
    shutil.rmtree(trees.folder)
