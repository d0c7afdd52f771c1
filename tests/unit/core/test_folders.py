"""storelab never writes into files that another user prepared in a folder that all users can write."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from storelab.core import folders
from storelab.core.errors import UserError
from storelab.datasets import payload
from storelab.host import scratch
from storelab.measure.attempts import measuring_lock

OTHER = 54321


@pytest.fixture
def open_to_all(tmp_path):
    """Return a folder like /dev/shm."""
    path = tmp_path / "shm"
    path.mkdir()
    path.chmod(0o1777)
    return path


def as_other(monkeypatch):
    """Make existing files belong to another user."""
    monkeypatch.setattr(folders, "os", SimpleNamespace(**vars(os) | {"getuid": lambda: OTHER}))


def test_prepared_links_and_folders_are_refused(open_to_all, tmp_path):
    """Return the scratch folder, the folder of the bodies, and the files that are locked in both."""
    (tmp_path / "theirs").mkdir()
    precious = tmp_path / "precious"
    precious.write_text("text")
    own = open_to_all / f"storelab-{os.getuid()}"

    def use():
        with scratch.using(open_to_all) as folder:
            payload.body_files(folder, 1, 10)

    use()
    for name in ("", ".used", "bodies", "bodies/.lock"):
        folder = scratch.folder(open_to_all)
        place = folder / name if name else own
        saved = [*folder.rglob("*")]
        for path in sorted(saved, reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        if not name:
            own.rmdir()
        place.parent.mkdir(exist_ok=True)
        place.symlink_to(tmp_path / "theirs" if name in ("", "bodies") else precious)
        with pytest.raises(UserError, match=r"is a link"):
            use()
        place.unlink()
        place.parent.rmdir() if name == "bodies/.lock" else None
        assert precious.read_text() == "text" and not any((tmp_path / "theirs").iterdir()), name


def test_folder_of_another_user_or_open_to_others_is_refused(open_to_all, monkeypatch):
    own = open_to_all / "storelab"
    assert folders.private(own, "scratch") == own and own.stat().st_mode & 0o777 == 0o700
    own.chmod(0o770)
    with pytest.raises(UserError, match=r"scratch: other users can write in .*; run `chmod 700"):
        folders.private(own, "scratch")
    own.chmod(0o700)
    if os.getuid():  # root is trusted
        as_other(monkeypatch)
    else:
        os.chown(own, OTHER, OTHER)
    with pytest.raises(UserError, match=r"scratch: .* belongs to another user"):
        folders.private(own, "scratch")


@pytest.mark.skipif(os.getuid() != 0, reason="makes folders of another user")
def test_state_results_and_work_of_another_user_are_refused(open_to_all):
    """Check a folder that all users can write to; in other folders users may share files."""
    config = SimpleNamespace(state=open_to_all / "state", campaign_dir=open_to_all / "results" / "c")
    config.raw = config.campaign_dir / "raw"
    config.raw.mkdir(parents=True)
    (config.campaign_dir / "work").mkdir()
    folders.require_trusted(config)
    target = open_to_all.parent / "elsewhere"
    target.mkdir()
    (open_to_all / "state").symlink_to(target)
    for path, place in ((open_to_all / "state", "state"), (open_to_all / "results", "results")):
        os.chown(path, OTHER, OTHER, follow_symlinks=False)
        with pytest.raises(UserError, match=f"{place}: .* belongs to another user"):
            folders.require_trusted(config)
        if place == "state":
            with pytest.raises(UserError, match=r"state: .* belongs to another user"), measuring_lock(config.state):
                pass
            assert not any(target.iterdir())
        open_to_all.chmod(0o755)
        folders.require_trusted(config)
        open_to_all.chmod(0o1777)
        os.chown(path, 0, 0, follow_symlinks=False)


def test_work_on_another_disk_is_refused(tmp_path):
    """It is checked before the measurement, because records are renamed from work to raw."""
    if not os.access("/dev/shm", os.W_OK) or Path("/dev/shm").stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no other disk")
    config = SimpleNamespace(state=tmp_path / "state", campaign_dir=tmp_path / "c", raw=tmp_path / "c" / "raw")
    config.campaign_dir.mkdir()
    (config.campaign_dir / "work").symlink_to("/dev/shm")
    with pytest.raises(UserError, match=r"results: .*work and .* are on different disks"):
        folders.require_trusted(config)
