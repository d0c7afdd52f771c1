"""SeaweedFS as an example of managed stores: folder, use from another host, volumes. It is not started."""

import json
import os

from memory_access import MemoryAccess
from refusals import check_refused, refusal

from storelab.stores import make
from storelab.stores.managed import daemons
from storelab.stores.protocols.access import NoSuchBucket
from storelab.stores.seaweedfs import Settings, volumes_of


def store(folder, **settings):
    return make("sw", Settings(kind="seaweedfs", **settings), folder)


def test_folder_of_other_data_is_refused(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    sw = store(tmp_path / "state", directory=str(tmp_path / "precious"))
    assert refusal(sw.up).startswith("stores.sw.directory: ")
    assert [p.name for p in (tmp_path / "precious").iterdir()] == ["file"]


def test_store_that_was_never_up_can_go_down(tmp_path):
    sw = store(tmp_path)
    assert sw.down() == [] and sw.status().state == "down" and list(tmp_path.iterdir()) == []
    assert "`storelab up`" in refusal(sw.credentials)


def test_daemons_of_another_host_are_used_and_never_signalled(tmp_path, monkeypatch):
    """Their folder is shared, and their pids mean nothing on this host: this one is the pid of the test."""
    sw = store(tmp_path)
    sw.folder.mkdir()
    sw.make_keys(1)
    sw.keyring.use(1)
    record = {"pid": os.getpid(), "created": 0, "argv": [], "grace": 1, "host": "127.0.0.1", "ports": [1]}
    there = {"machine": "node7", "boot_id": "another"}
    records = dict.fromkeys(("master", "volume-1", "filer", "s3-1"), record | there)
    sw.daemons.file.write_text(json.dumps({"schema": 1, "daemons": records}))
    before, warmed = sw.daemons.file.read_bytes(), []
    monkeypatch.setattr(sw, "warm_up_one", lambda endpoint: warmed.append(endpoint.url))
    sw.up()
    assert warmed == [sw.endpoint("s3-1").url]
    sw.suspend()
    assert sw.down() == [] and sw.actors() == {}
    assert sw.status().state == "up" and "node7" in sw.status().detail
    assert len(sw.endpoints()) == 1 and sw.deployment()["front_ends"] == 1
    check_refused("stores.sw: front-ends: 2 requested", "`storelab up` on node7", sw.up, 2)
    assert sw.daemons.file.read_bytes() == before

    def silent(endpoint):
        raise OSError("refused")

    monkeypatch.setattr(sw, "warm_up_one", silent)
    assert "s3-1 on node7" in refusal(sw.up) and "daemons.json" in refusal(sw.up)
    monkeypatch.setattr(daemons, "this_host", lambda: there | {"boot_id": "later"})
    assert not sw.daemons.elsewhere(), "the same host after a reboot"


class Way(MemoryAccess):
    """Access to a front-end that may lose or refuse objects."""

    loses = refuses = False

    def write(self, bucket, key, data):
        if self.refuses:
            raise NoSuchBucket(bucket)
        super().write(bucket, key, b"" if self.loses else data)


def test_front_end_is_warm_when_it_reads_back(tmp_path, monkeypatch):
    sw, way = store(tmp_path), Way()
    sw.folder.mkdir()
    sw.make_keys(1)
    monkeypatch.setattr("storelab.stores.protocols.open_access", lambda *given: way)
    for _ in range(2):  # the bucket is there the second time
        sw.warm_up_one(sw.endpoint("s3-1"))
    (keys,) = way.files.values()
    assert list(keys.values()) == [b"warm"]
    way.loses = True
    assert "differ from what was written" in refusal(sw.warm_up_one, sw.endpoint("s3-1"))
    way.refuses = True
    assert "NoSuchBucket" in refusal(sw.warm_up_one, sw.endpoint("s3-1"))


def test_volumes_of_a_master_are_parsed():
    assert volumes_of("1-3 7 9-10") == [1, 2, 3, 7, 9, 10] and volumes_of("") == [] and volumes_of("1-3 ...") == []
