"""The folder on tmpfs that all campaigns of a user share on a machine."""

import fcntl
import shutil

import pytest

from storelab.core import folders
from storelab.host import scratch


def test_folder_stays_while_a_campaign_uses_it(tmp_path):
    folder = scratch.folder(tmp_path)
    (folder / "body").touch()
    with scratch.using(tmp_path):
        with scratch.using(tmp_path):
            assert not scratch.clear(tmp_path)
        assert not scratch.clear(tmp_path) and (folder / "body").exists()
    assert scratch.clear(tmp_path) and not folder.exists()
    with scratch.using(tmp_path) as used:
        assert used == folder and folder.exists() and not scratch.clear(tmp_path)


def test_campaigns_that_use_the_folder_are_named(tmp_path):
    folder = scratch.folder(tmp_path)
    (folder / f"{scratch.USER}{2**30}").write_text("of a killed process")
    assert scratch.campaigns(tmp_path) == []
    with scratch.using(tmp_path, tmp_path / "results/demo"):
        assert scratch.campaigns(tmp_path) == [str(tmp_path / "results/demo")]
    assert scratch.campaigns(tmp_path) == []
    assert scratch.clear(tmp_path) and not folder.exists()


def test_folder_is_locked_until_all_of_it_is_removed(tmp_path, monkeypatch):
    """A process that begins to use the folder meanwhile must not write into what is removed."""
    folder, removed = scratch.folder(tmp_path), []
    for name in ("bodies", "headers"):
        (folder / name).mkdir()
    (folder / "file").touch()
    (folder / "link").symlink_to(tmp_path)

    def rmtree(path, **how):
        with (folder / ".used").open() as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        real(path, **how)
        removed.append(path.name)

    real = shutil.rmtree
    monkeypatch.setattr(scratch.shutil, "rmtree", rmtree)
    assert scratch.clear(tmp_path) and not folder.exists() and sorted(removed) == ["bodies", "headers"]


def test_folder_that_is_removed_meanwhile_is_made_again(tmp_path, monkeypatch):
    real = folders.lock_file

    def lock_file(path):
        monkeypatch.undo()
        path.parent.rmdir()
        return real(path)

    monkeypatch.setattr(scratch.folders, "lock_file", lock_file)
    with scratch.using(tmp_path) as folder:
        assert (folder / ".used").exists()
    assert scratch.clear(tmp_path)
    monkeypatch.setattr(scratch.folders, "lock_file", lock_file)
    assert scratch.clear(tmp_path) and not folder.exists()
