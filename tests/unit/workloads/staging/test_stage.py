"""A data set is staged once into a folder, again if it is missing or on request, and never only partly."""

import socket

import ports
import pytest
import small_plan

from storelab.core import records
from storelab.core.errors import MeasurementFailed
from storelab.host import patience
from storelab.stores import all_stores
from storelab.stores.protocols.files import FilesAccess
from storelab.workloads.staging import stage

DATASET = {"name": "small", "kind": "payload", "objects": 6, "object_size": 100, "buckets": 2, "seed": 1}


@pytest.fixture
def site(tmp_path):
    """Return the configuration, the store, and a folder."""
    for name in ("files", "scratch"):
        (tmp_path / name).mkdir()
    folders = {name: str(tmp_path / name) for name in ("results", "state", "scratch")}
    config = small_plan.configured(stores={"a": {"kind": "directory", "path": str(tmp_path / "files")}}, **folders)
    return config, all_stores(config)["a"]


def contents(store):
    """Return the bytes of the staged objects by their place."""
    return {p: p.read_bytes() for p in sorted(store.path.rglob("data/small/*")) if p.name.isdigit()}


def test_data_set_is_staged_again_only_where_it_is_gone(site, monkeypatch):
    config, store = site
    written = []
    write = FilesAccess.write
    monkeypatch.setattr(FilesAccess, "write", lambda self, *given: (written.append(given[1]), write(self, *given)))
    path = stage.ensure(config, store, DATASET)
    good, sizes = contents(store), {body["size"] for body in records.read_json(path)["bodies"]}
    assert len(good) == 6 and {len(body) for body in good.values()} == sizes == {100}
    first = next(iter(good))

    def ensured(**more):
        """Return the number of objects that were written; the mark is not one."""
        written.clear()
        assert stage.ensure(config, store, DATASET, **more) == path
        assert contents(store) == good
        return len([key for key in written if key.rpartition("/")[2].isdigit()])

    before = path.stat().st_mtime_ns
    assert ensured() == 0 and path.stat().st_mtime_ns == before
    first.write_bytes(b"damaged")
    assert ensured(again=True) == 6
    for mark in store.path.rglob(".staged"):  # what storelab removes first
        mark.unlink()
    first.unlink()
    assert ensured() == 6
    path.unlink()
    assert ensured() == 0, "the store proves what it has"


def test_incomplete_data_set_is_no_data_set(site, monkeypatch):
    """A store that loses or cuts an object is noticed, and no mark claims later that the data set is complete."""
    config, store = site
    write = FilesAccess.write
    for lost in (lambda *_: None, lambda self, bucket, key, data: write(self, bucket, key, data[:-1])):

        def faulty(self, bucket, key, data, lost=lost):
            (lost if key.endswith("0000003") else write)(self, bucket, key, data)

        with monkeypatch.context() as patch:
            patch.setattr(FilesAccess, "write", faulty)
            with pytest.raises(MeasurementFailed, match="0000003 instead of 100 B"):
                stage.ensure(config, store, DATASET)
        assert not list(store.path.rglob(".staged")) and not stage.manifest_path(config, "a", DATASET).exists()
    stage.ensure(config, store, DATASET)
    assert len(contents(store)) == 6


def test_stalled_download_ends(site, monkeypatch, tmp_path):
    config, _ = site
    monkeypatch.setattr(patience, "STALLED_S", 0.3)
    server = socket.create_server(("127.0.0.1", ports.block()))
    file = {"scale": "mine", "file": f"http://127.0.0.1:{server.getsockname()[1]}/x.root"}
    with server, pytest.raises(MeasurementFailed, match=r"files.mine.path: downloading http.*: no progress for 0 s"):
        stage._fetched(config, file, tmp_path / "scratch")
    assert list((tmp_path / "scratch").iterdir()) == []
