"""Selections by the engine `planned`, from a small ROOT file in a store in memory."""

import re

import pytest
import staged_root
from honest_s3 import FIRST, Object, honest_s3

from storelab.datasets.root import baskets, generated
from storelab.engines import planned as client_module

TINY = generated.Scale(entries=103, branches=60, clusters=3, bytes_per_entry=700.0, named=True)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return the folder of a small file and its side-car, and its facts."""
    folder = tmp_path_factory.mktemp("root")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(generated.SCALES, "tiny", TINY)
        return folder, generated.generate_with_side_car(folder / "s.root", folder / staged_root.SIDE_CAR, "tiny", 3)


@pytest.fixture
def prepared(made, monkeypatch):
    """Return a function of a key and axes that returns a prepared client and its store.

    Keys: `good`, and `bad` with one changed byte in a basket.
    """
    folder, facts = made
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", FIRST.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", FIRST.secret_key)
    good = (folder / "s.root").read_bytes()
    bad, row = bytearray(good), baskets.read(folder / staged_root.SIDE_CAR).slice(40, 1).to_pylist()[0]
    bad[row["offset"] + row["size"] - 3] ^= 1
    with honest_s3("any signature") as (url, store), staged_root.prepared("b", folder, facts) as one:
        for key, data in (("good", good), ("bad", bytes(bad))):
            store.buckets["b"].objects[staged_root.PREFIX + key] = Object(data, {}, f'"{key}"')
        usual = {"engine": "planned", "volume_fraction": 100.0}
        yield lambda key, **axes: (one(url, "read_entries", usual | axes, key), store)


def test_selections_are_read_and_timed(prepared):
    """Every branch and entry is read; bytes and requests of the rows equal those that the store received."""
    for axes, opening in (({}, True), ({"header": "cached", "thrift": 2.0}, False)):
        client, store = prepared("good", **axes)
        store.received.clear()
        result = staged_root.read(client, 3)
        reads, settings = result.reads, result.engine["settings"]
        assert not staged_root.failed(result) and not result.engine["errors"]
        assert reads["entries"] == [TINY.entries] * 3 and reads["baskets"] == [3 * len(client.branches)] * 3
        ranges = [tuple(map(int, re.findall(r"\d+", asked))) for method, _, asked in store.received if method == "GET"]
        assert sum(last + 1 - first for first, last in ranges) == sum(reads["asked_bytes"])
        assert len(store.received) == sum(reads["requests"])
        assert bool(result.engine["opening"]["asked_bytes"]) == opening
        for phase in ("plan_ns", "transfer_ns", "decompress_ns", "deserialise_ns"):
            assert min(reads[phase]) > 1000, phase
        assert (settings["header"], settings["thrift"]) == (axes.get("header", "read"), axes.get("thrift", 0.0))


def test_changed_basket_is_an_error(prepared):
    client, _ = prepared("bad")
    result = staged_root.read(client, 2)
    assert result.ops["error"] == ["ChecksumMismatch"] * 2 and sum(result.ops["bytes"]) == 0
    assert not result.reads["client"]


def test_file_too_small_to_measure_with_is_read(prepared, monkeypatch):
    """`check` and staging accept it; its reads are few requests, on any link."""
    monkeypatch.setattr(client_module, "MIN_SIZE", 2**40)
    client, _ = prepared("good")
    result = staged_root.read(client, 1)
    assert not staged_root.failed(result) and result.reads["entries"] == [TINY.entries]
    assert result.engine["link"]["doubtful"] == ("all",), "no later point uses it"
