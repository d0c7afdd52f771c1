"""The read planner used by others than storelab: sizes, shared connections, plain HTTP, what uproot does not let it plan."""

import warnings
from types import SimpleNamespace

import fsspec
import numpy as np
import paths
import pytest
import uproot
from range_server import range_server

from storelab.readplan import (
    FsspecTransport,
    HttpTransport,
    ObstoreTransport,
    PlannedSource,
    VectorTransport,
    WrongAnswer,
)
from storelab.readplan.cost import Link

DATA = bytes(np.random.default_rng(3).integers(0, 256, 60_000, dtype=np.uint8))
FILES = paths.DATA / "root"
LINK = Link(1e-4, 1e-5, 1e-5, 1e9, 1e9, 8)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(DATA)
    return path


def test_local_files_and_obstore_tell_the_size(file):
    from obstore.store import LocalStore

    for transport in (
        FsspecTransport(fsspec.filesystem("file"), str(file)),
        ObstoreTransport(LocalStore(file.parent), "f"),
    ):
        assert (transport.size(), transport.requests) == (len(DATA), 1)
        assert PlannedSource("f", transport=transport).num_bytes == len(DATA)


def test_http_tells_the_size_by_one_byte():
    """A presigned URL for GET answers no HEAD."""
    with range_server(DATA) as server:
        transport = HttpTransport(f"http://127.0.0.1:{server.server_port}/o")
        assert (transport.size(), transport.requests, server.asked) == (len(DATA), 1, [1])
        assert transport.fetch([len(DATA) - 5], [len(DATA)]) == [DATA[-5:]], "the connection is free again"
        for mode, status in (("missing", 404), ("busy", 503), ("refused", 416)):
            server.mode = mode
            with pytest.raises(WrongAnswer, match=str(status)):
                transport.size()
        transport.close()


def test_a_size_that_is_not_told_is_an_error():
    fs = SimpleNamespace(size=lambda path: None)
    with pytest.raises(WrongAnswer, match="size of x"):
        FsspecTransport(fs, "x").size()
    one = VectorTransport(SimpleNamespace(size=lambda path: 7, default_max_num_chunks=9, default_max_chunk_size=9), "x")
    assert (one.size(), one.requests) == (7, 1)


def test_a_shared_file_system_goes_on_after_a_transport_is_closed():
    with range_server(DATA) as server:
        url = f"http://127.0.0.1:{server.server_port}/o"
        shared = fsspec.filesystem("http")
        first, second = (FsspecTransport(fs, url) for fs in (shared, fsspec.filesystem("http")))
        assert first.fs is second.fs
        first.fetch([0], [9])
        session = shared._session
        first.close()
        assert not session.closed and second.fetch([5], [9]) == [DATA[5:9]]
        own = FsspecTransport(fsspec.filesystem("http", skip_instance_cache=True), url, owns=True)
        own.fetch([0], [9])
        session = own.fs._session
        own.close()
        assert session.closed


@pytest.mark.parametrize(("scheme", "allowed"), [("http", True), ("https", False)])
def test_plain_http_is_allowed_where_the_url_says_so(scheme, allowed):
    keys = {"region": "us-east-1", "access_key_id": "k", "secret_access_key": "s"}
    one = ObstoreTransport.s3(f"{scheme}://127.0.0.1:9", "bucket", "o", 7, client_options={"timeout": "3s"}, **keys)
    told = {k: str(v).lower() for k, v in one.store.client_options.items()}
    assert (
        told["allow_http"] == str(allowed).lower() and told["timeout"] == "3s" and (one.path, one.parallel) == ("o", 7)
    )


def read(name, tree):
    source = {}

    class Seen(PlannedSource):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            source["it"] = self

    transport = FsspecTransport(fsspec.filesystem("file"), str(FILES / name))
    file = uproot.open({f"file://{FILES / name}": None}, handler=Seen, transport=transport, link=LINK)
    file[tree].arrays()
    return source["it"]


def test_rntuples_under_uproot_say_that_they_are_not_planned():
    with pytest.warns(UserWarning, match="64 ranges of .* one at a time.*RNTuple"):
        source = read("ntuple.root", "Events")
    assert source.unplanned >= PlannedSource.WORTH and source.last_plan is None


def test_ttrees_under_uproot_are_planned_and_say_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        source = read("nanoaod.root", "Events")
    assert source.unplanned < 20 and len(source.last_plan) < source.num_requested_chunks


def test_an_object_too_small_to_measure_is_planned_by_a_guess():
    transport = FsspecTransport(fsspec.filesystem("memory"), "/small")
    fsspec.filesystem("memory").pipe("/small", DATA[:3000])
    source = PlannedSource("small", transport=transport)
    source.requests_for(np.array([[i * 10, i * 10 + 5] for i in range(100)]))
    assert source.link is None
