"""ROOT files of the user: their baskets are tabled, unreadable branches are named, and a wrong file is one error."""

import http.server
import re
import struct
import threading
from dataclasses import replace

import numpy as np
import ports
import pyarrow as pa
import pytest
import small_root
import uproot
from memory_transport import Memory
from paths import DATA, SHARED
from root_truth import LINK, by_uproot, hold_against_uproot

from storelab.core import plan, records
from storelab.core.errors import UserError
from storelab.datasets import own_file
from storelab.datasets.root import baskets
from storelab.datasets.root.reader import Header, SelectionReader, Spent
from storelab.engines.common.selections import WrongData
from storelab.engines.root import RootClient
from storelab.measure import check, plan_file
from storelab.stores.config import Config
from storelab.workloads import WORKLOADS
from storelab.workloads.staging import stage

REAL = SHARED / "data" / "root"


@pytest.fixture
def mine(tmp_path):
    """Return a file with two trees; `events` has numbers, lists and strings in two baskets each."""
    return small_root.tree(tmp_path / "mine.root", baskets=2, entries=50, other=True)


@pytest.fixture
def ntuple(tmp_path):
    return small_root.ntuple(tmp_path / "ntuple.root")


def test_tree_is_tabled(mine):
    facts, table = own_file.look(mine, "mine", "events")
    known = [facts[k] for k in ("entries", "tree", "bytes", "unreadable")]
    assert known == [100, "events", mine.stat().st_size, {}] and len(facts["sha256"]) == 64
    assert set(table["branch"].unique().to_pylist()) >= {"x", "n", "hits", "word"}
    rows, needed, _ = baskets.ranges(table, ["x", "hits"], np.array([3, 60]))
    with uproot.open(mine) as file:
        held = sum(file["events"][name].basket_compressed_bytes(i) for name in ("x", "hits") for i in (0, 1))
    assert len(rows) == 4 and needed == held
    assert "hits" in baskets.select_branches(table, 100)
    assert "hits" not in baskets.select_branches(table, 100, {"hits": "no reason"})


def test_tree_must_be_named_and_present(mine):
    for tree, reason in (
        (None, "has 2 TTrees and RNTuples, but none is named (it has: events, other)"),
        ("nothing", "has no TTree or RNTuple 'nothing' (it has: events, other)"),
    ):
        with pytest.raises(UserError, match=re.escape(f"files.mine.tree: mine.root {reason}")):
            own_file.look(mine, "mine", tree)


def test_unreadable_files_are_user_errors(mine, tmp_path):
    good, half = mine.read_bytes(), mine.stat().st_size // 2
    for name, data, reason in (
        ("text", b"this is not a ROOT file, but it is long enough to be looked at " * 20, "not a ROOT file"),
        ("cut", good[:half], rf"is truncated \({half} of {len(good)} bytes\)"),
        ("header", good[:40], r"is truncated \(40 bytes"),
        ("nothing", b"", r"is empty \(0 bytes\)"),
    ):
        (tmp_path / f"{name}.root").write_bytes(data)
        with pytest.raises(UserError, match=f"files.mine.path: {name}.root .*{reason}"):
            own_file.look(tmp_path / f"{name}.root", "mine", "events")
    with pytest.raises(UserError, match="no such file"):
        own_file.fetch(str(tmp_path / "missing.root"), tmp_path, "files.mine.path")
    with pytest.raises(UserError, match=r"files.mine.path: http://127.0.0.1:9/x.root cannot be read"):
        own_file.fetch("http://127.0.0.1:9/x.root", tmp_path / "new", "files.mine.path")
    assert not list((tmp_path / "new").iterdir())


def test_corrupt_basket_and_header_are_found(mine, tmp_path):
    _, table = own_file.look(mine, "mine", "events")
    good = mine.read_bytes()
    row = next(r for r in table.to_pylist() if r["branch"] == "x" and r["basket"] == 1)
    bad = bytearray(good)
    bad[row["offset"] : row["offset"] + row["size"]] = bytes(row["size"])
    (tmp_path / "bad.root").write_bytes(bad)
    facts, table = own_file.look(tmp_path / "bad.root", "mine", "events")
    assert list(facts["unreadable"]) == ["x"] and str(tmp_path) not in facts["unreadable"]["x"]
    assert "x" not in baskets.select_branches(table, 100, facts["unreadable"])
    with uproot.open(mine) as file:
        at = file.key("events")
    bad = bytearray(good)
    bad[at.data_cursor.index : at.data_cursor.index + 300] = bytes(300)
    (tmp_path / "bad.root").write_bytes(bad)
    with pytest.raises(UserError, match=r"files.mine.path: bad.root is damaged"):
        own_file.look(tmp_path / "bad.root", "mine", "events")


def test_url_is_downloaded_once(mine, tmp_path):
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(mine.parent))

        def log_message(self, *_):
            asked.append(self.command)

    with http.server.ThreadingHTTPServer(("127.0.0.1", ports.block()), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            url = f"http://127.0.0.1:{server.server_port}/mine.root"
            path = own_file.fetch(url, tmp_path / "kept", "files.mine.path")
            assert path.read_bytes() == mine.read_bytes() and asked
            other = own_file.fetch(f"{url}?download=1", tmp_path / "other", "files.mine.path")  # as Zenodo writes them
            assert other.read_bytes() == mine.read_bytes()
            n = len(asked)
            assert own_file.fetch(url, tmp_path / "kept", "files.mine.path") == path and len(asked) == n
            with pytest.raises(UserError, match=r"nothing.root cannot be read \(FileNotFoundError"):
                own_file.fetch(url.replace("mine.root", "nothing.root"), tmp_path / "kept", "files.mine.path")
            with pytest.raises(UserError, match=r"files.mine.path: .* is larger than `limits.stored_bytes` \(99 B\)"):
                own_file.fetch(f"{url}?download=1", tmp_path / "kept", "files.mine.path", 99)
        finally:
            server.shutdown()
    assert list((tmp_path / "kept").iterdir()) == [path]


def test_lists_without_offsets_are_left_out(tmp_path):
    """ROOT writes them with kGenerateOffsetMap; uproot would fetch the counter's baskets, which are in no plan."""
    path = small_root.tree(tmp_path / "map.root", baskets=1, entries=50)
    expected = uproot.open(path)["events"]["hits"].array().tolist()
    at, size, key, values = small_root.place(path, "hits", 0)
    small_root.changed(path, at, ">i", key + values)  # fNbytes and fObjlen without the offsets
    small_root.changed(path, at + 6, ">i", values)
    data = path.read_bytes()
    assert data.count(struct.pack(">2i", size, 0)) == 2  # of the basket and of all, in the tree's header
    path.write_bytes(data.replace(struct.pack(">2i", size, 0), struct.pack(">2i", key + values, 0)))
    with uproot.open(path) as file:
        hits = file["events"]["hits"]
        assert hits.basket(0).byte_offsets is None and hits.array().tolist() == expected
    ((name, reason),) = own_file.look(path, "mine", None)[0]["unreadable"].items()
    assert name == "hits" and "no offsets of their entries" in reason
    assert hold_against_uproot(path, "events", np.arange(50)) == 4, "x, n, word and the counter"


def checked(tmp_path, **file):
    """Check the files of a campaign that reads this one, as `storelab check` does."""
    base = {"campaign": "x", "name": "x", "results": str(tmp_path / "results"), "calibrate": False, "repetitions": 1}
    base |= {"stores": {"a": {"kind": "seaweedfs"}}, "stores_to_measure": ["a"], "files": {"mine": file}}
    config = Config.model_validate(base | {"sweeps": {"v": {"workload": "read_volume", "axes": {"file_size": "mine"}}}})
    points = plan.make(config, WORKLOADS)
    check.root_files(points)
    return config, points


def test_check_reads_local_files(mine, tmp_path):
    _, points = checked(tmp_path, path=str(mine), tree="events")
    assert stage.summarise(points, "a").staged_bytes == mine.stat().st_size
    checked(tmp_path, path="https://example.org/never-asked.root")
    for file, reason in (
        ({"path": str(tmp_path / "nothing.root")}, "nothing.root: no such file"),
        ({"path": str(mine)}, "files.mine.tree: mine.root has 2 TTrees and RNTuples"),
        ({"path": str(mine), "tree": "evnts"}, "files.mine.tree: mine.root has no TTree or RNTuple 'evnts'"),
        ({"path": __file__}, "files.mine.path: test_own_file.py "),
    ):
        with pytest.raises(UserError) as caught:
            checked(tmp_path, **file)
        assert reason in str(caught.value) and "\n" not in str(caught.value)


def test_engine_root_refuses_rntuple(mine, ntuple, tmp_path):
    _, points = checked(tmp_path, path=str(mine), tree="events")
    by_root = [replace(p, axes=p.axes | {"engine": "root"}) for p in points]
    check.root_files(by_root)
    _, points = checked(tmp_path, path=str(ntuple))
    by_root = [replace(p, axes=p.axes | {"engine": "root"}) for p in points]
    reason = r"reads (only )?TTrees, but mine is an RNTuple; (sweep|use the engine) `?planned"
    with pytest.raises(UserError, match=rf"sweeps.v.axes.engine: the engine `root` {reason}"):
        check.root_files(by_root)
    client = RootClient.__new__(RootClient)
    with pytest.raises(UserError, match=reason):
        client.connect({"format": "RNTuple", "scale": "mine"})


def test_changed_file_is_refused(mine, ntuple, tmp_path):
    config, points = checked(tmp_path, path=str(mine), tree="events")
    manifest = {"dataset": points[0].dataset, "root": {"bytes": mine.stat().st_size}}
    assert own_file.unchanged(points[0].dataset, manifest)
    assert not own_file.unchanged(points[0].dataset | {"tree": "other"}, manifest), "it is staged again"
    records.write_json(config.raw / "plan.json", plan_file.current(config, points, WORKLOADS).to_json())
    records.write_json(config.raw / points[0].key / "run.json", {})
    plan_file.refuse_differences(config, points)
    with pytest.raises(UserError, match=r"measured with other settings: files\.mine: tree was events, is other"):
        plan_file.refuse_differences(*checked(tmp_path, path=str(mine), tree="other"))
    mine.write_bytes(ntuple.read_bytes())
    reason = r"files.mine.path: mine.root has \d+ B, but had \d+ B when it was staged; give the changed file"
    with pytest.raises(UserError, match=reason):
        own_file.unchanged(points[0].dataset, manifest)


@pytest.mark.heavy
@pytest.mark.skipif(not REAL.is_dir(), reason="data: the real files are missing (../shared/data/root)")
def test_real_files_are_tabled():
    for name, tree, entries, unreadable in (
        ("uproot-issue-123b.root", "CollectionTree", 100, True),
        ("uproot-HZZ-zstd.root", "events", 2421, False),
    ):
        facts, table = own_file.look(REAL / name, "mine", tree)
        assert facts["entries"] == entries and bool(facts["unreadable"]) == unreadable
        chosen = baskets.select_branches(table, 100, facts["unreadable"])
        assert len(chosen) > 40 and not set(chosen) & set(facts["unreadable"])


@pytest.mark.heavy
@pytest.mark.skipif(not REAL.is_dir(), reason="data: the real files are missing (../shared/data/root)")
def test_embedded_baskets_need_no_bytes(tmp_path):
    path = REAL / "nanoAOD_2015_CMS_Open_Data_ttbar.root"
    _, table = own_file.look(path, "mine", "Events")
    with uproot.open(path) as file:
        head = Header.of(file["Events"], {})
    layout, spent, memory = head.layout, Spent(), Memory(path.read_bytes())
    names = [n for n in layout.names if (layout.offset[layout.branch == layout.names.index(n)] < 0).all()]
    for _ in SelectionReader(head, memory, LINK).read(names[:50], np.arange(200), spent):
        pass
    assert (memory.requests, spent.needed_bytes, spent.requests) == (0, 0, 0)
    assert (spent.baskets, spent.decoded) == (50, 50 * 200)
    crc = table["crc32"].to_numpy()
    assert len(layout.inside) == 947 and all(layout.inside_crc(row) == crc[row] for row in layout.inside)
    head.save(tmp_path / "h.parquet")
    assert Header.load(tmp_path / "h.parquet", {}) is None, "the kept header would lack their content"
    other = table.set_column(table.schema.get_field_index("crc32"), table.schema.field("crc32"), pa.array(crc ^ 1))
    with pytest.raises(WrongData, match=r"a basket in the header of .* differs from the staged file"):
        by_uproot(path, "Events", other, names[:50], np.arange(200))


def test_old_formats_have_their_own_reason(tmp_path):
    """RNTuples before 1.0 and the codec of ROOT 3 were "damaged: copy it again"."""
    path = small_root.ntuple(tmp_path / "n.root")
    for of, old in (("ROOT::RNTuple", False), ("ROOT::Experimental::RNTuple", True)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(uproot.ReadOnlyDirectory, "classname_of", lambda self, key, of=of: of)
            if old:
                with pytest.raises(
                    UserError, match=r"is an RNTuple of a format before 1.0 .*; write it again by ROOT 6.34"
                ):
                    own_file.look(path, "mine", None)
            else:
                assert own_file.look(path, "mine", None)[0]["entries"] == 100
    small, packed = small_root.tree(tmp_path / "f.root", compression=uproot.ZLIB(1)), DATA / "root" / "nanoaod.root"
    for data, reason in (
        (
            small.read_bytes().replace(b"ZL\x08", b"CS\x08"),
            r"packed by b'CS', of ROOT 3 and before; the known methods are",
        ),
        (
            packed.read_bytes().replace(b"ZS\x01", b"CS\x08"),
            r"packed by the codec CS of ROOT 3 and before.*; pack it by",
        ),
    ):
        small.write_bytes(data)
        with pytest.raises(UserError, match=reason):
            own_file.look(small, "mine", None)
