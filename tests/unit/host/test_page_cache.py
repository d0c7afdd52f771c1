"""The page cache: which files are counted, and on which file systems."""

from pathlib import Path

from storelab.host import page_cache
from storelab.host.scratch import filesystem


def test_only_files_on_disks_are_counted(tmp_path):
    assert page_cache.counted(Path("/dev/shm")) is not True
    assert page_cache.counted(Path("/proc")) is None
    if filesystem(tmp_path) in ("ext4", "xfs", "btrfs"):
        assert page_cache.counted(tmp_path) is True


def test_checks_are_spread_evenly_over_all_bytes(tmp_path, monkeypatch):
    for i in range(100):
        (tmp_path / f"{i:03d}").write_bytes(bytes(1000))
    looked = []
    cache = page_cache.PageCache([str(tmp_path)])
    monkeypatch.setattr(cache, "_look_at", lambda path, offsets: looked.extend((path.name, o) for o in offsets))
    cache.look(sorted(tmp_path.iterdir()))
    places = [1000 * int(name) + offset for name, offset in looked]
    assert places == [i * 100_000 // page_cache.PLACES for i in range(page_cache.PLACES)]


def test_holes_of_sparse_files_are_skipped(tmp_path):
    """Their bytes are available at once, cached or not."""
    with (tmp_path / "sparse").open("wb") as f:
        f.truncate(100 * 2**20)
        f.seek(50 * 2**20)
        f.write(bytes(4096))
    cache = page_cache.PageCache([str(tmp_path)])
    cache.look([tmp_path / "sparse"])
    assert cache.seen <= 2, "one extent"
