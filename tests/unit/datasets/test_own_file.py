"""ROOT files of the user's own: what can be read is found, what cannot is named, and a wrong file gives one line."""

import http.server
import struct
import threading
from dataclasses import replace

import awkward as ak
import numpy as np
import ports
import pyarrow as pa
import pytest
import uproot
from memory_transport import Memory
from paths import SHARED
from root_truth import LINK, by_the_decoder, by_uproot, hold_against_uproot

from storelab.core import plan, records
from storelab.core.config import Config
from storelab.core.errors import UserError
from storelab.datasets import own_file
from storelab.datasets.root import baskets
from storelab.datasets.root.decode import Broken
from storelab.datasets.root.header import Header
from storelab.datasets.root.pages import Pages
from storelab.datasets.root.reader import SelectionReader, Spent
from storelab.engines.common.selections import WrongData
from storelab.engines.root.client import RootClient
from storelab.measure import check_axes, plan_file
from storelab.workloads import WORKLOADS
from storelab.workloads.staging import needs

REAL = SHARED / "data" / "root"


@pytest.fixture
def mine(tmp_path):
    """A file with two trees; `events` has numbers, lists and strings in two baskets each."""
    with uproot.recreate(tmp_path / "mine.root") as file:
        tree = file.mktree("events", {"x": "f8", "n": "i4", "hits": "var * float32", "name": "string"})
        for begin in (0, 50):
            hits = ak.Array([[float(i)] * (i % 4) for i in range(50)])
            names = ak.Array([f"event {begin + i}" for i in range(50)])
            tree.extend(
                {
                    "x": np.arange(50.0) + begin,
                    "n": np.arange(50, dtype="i4"),
                    "hits": ak.values_astype(hits, "f4"),
                    "name": names,
                }
            )
        file.mktree("other", {"y": "f4"}).extend({"y": np.arange(5, dtype="f4")})
    return tmp_path / "mine.root"


def test_a_tree_is_tabled(mine):
    facts, table = own_file.look(mine, "mine", "events")
    assert (facts["entries"], facts["tree"], facts["bytes"], facts["unreadable"]) == (
        100,
        "events",
        mine.stat().st_size,
        {},
    )
    assert set(table["branch"].unique().to_pylist()) >= {"x", "n", "hits", "name"} and len(facts["sha256"]) == 64
    rows, needed, _ = baskets.ranges(table, ["x", "hits"], np.array([3, 60]))
    with uproot.open(mine) as file:
        held = sum(file["events"][name].basket_compressed_bytes(i) for name in ("x", "hits") for i in (0, 1))
    assert len(rows) == 4 and needed == held


def test_what_is_left_out_is_not_chosen(mine):
    _, table = own_file.look(mine, "mine", "events")
    assert "hits" in baskets.select_branches(table, 100) and "hits" not in baskets.select_branches(
        table, 100, {"hits": "no reason"}
    )


@pytest.mark.parametrize(
    ("tree", "line"),
    [
        (
            None,
            "files.mine.tree: mine.root holds 2 TTrees and RNTuples, and none is named (it has: events, other); name one of them",
        ),
        (
            "nothing",
            "files.mine.tree: mine.root holds no TTree or RNTuple 'nothing' (it has: events, other); name one of them",
        ),
    ],
)
def test_which_tree(mine, tree, line):
    with pytest.raises(UserError) as caught:
        own_file.look(mine, "mine", tree)
    assert str(caught.value) == line


def test_no_root_file_and_a_damaged_one(mine, tmp_path):
    (tmp_path / "text.root").write_text("this is no ROOT file, but it is long enough to be looked at " * 20)
    with pytest.raises(UserError, match=r"files.mine.path: text.root is no ROOT file"):
        own_file.look(tmp_path / "text.root", "mine", None)
    (tmp_path / "cut.root").write_bytes(mine.read_bytes()[: mine.stat().st_size // 2])
    with pytest.raises(
        UserError,
        match=rf"files.mine.path: cut.root is cut off \({mine.stat().st_size // 2} of {mine.stat().st_size} bytes\); copy it again",
    ):
        own_file.look(tmp_path / "cut.root", "mine", "events")
    (tmp_path / "header.root").write_bytes(mine.read_bytes()[:40])
    with pytest.raises(UserError, match=r"files.mine.path: header.root is cut off \(40 bytes, less than the head"):
        own_file.look(tmp_path / "header.root", "mine", "events")
    (tmp_path / "nothing.root").write_bytes(b"")
    with pytest.raises(UserError, match=r"files.mine.path: nothing.root is empty \(0 bytes\)"):
        own_file.look(tmp_path / "nothing.root", "mine", "events")
    (tmp_path / "nothing.root").unlink()
    with pytest.raises(UserError, match="no such file; give the path"):
        own_file.fetch(str(tmp_path / "nothing.root"), tmp_path, "files.mine.path")
    with pytest.raises(UserError, match=r"files.mine.path: http://127.0.0.1:9/x.root cannot be read"):
        own_file.fetch("http://127.0.0.1:9/x.root", tmp_path / "new", "files.mine.path")
    assert not list((tmp_path / "new").iterdir())


def test_a_corrupt_basket_and_a_corrupt_header(mine, tmp_path):
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


def test_a_url_is_downloaded_once_and_whole(mine, tmp_path):
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
            n = len(asked)
            assert own_file.fetch(url, tmp_path / "kept", "files.mine.path") == path and len(asked) == n
            with pytest.raises(UserError, match=r"nothing.root cannot be read \(FileNotFoundError"):
                own_file.fetch(url.replace("mine.root", "nothing.root"), tmp_path / "kept", "files.mine.path")
        finally:
            server.shutdown()
    assert list((tmp_path / "kept").iterdir()) == [path]


def test_lists_without_offsets_are_left_out_and_say_why(tmp_path):
    """As ROOT writes them with kGenerateOffsetMap: uproot would fetch the counter's baskets, which no plan holds."""
    path = tmp_path / "map.root"
    with uproot.recreate(path, compression=None) as file:
        tree = file.mktree("events", {"x": "f8", "hits": "var * float32"})
        tree.extend(
            {"x": np.arange(50.0), "hits": ak.values_astype(ak.Array([[float(i)] * (i % 4) for i in range(50)]), "f4")}
        )
    with uproot.open(path) as file:
        branch = file["events"]["hits"]
        expected, at, key = (
            branch.array().tolist(),
            int(branch.member("fBasketSeek")[0]),
            branch.basket(0).member("fKeylen"),
        )
        values, size = branch.basket(0).border, int(branch.member("fBasketBytes")[0])
    data = bytearray(path.read_bytes())
    struct.pack_into(">i", data, at, key + values)  # fNbytes and fObjlen without the offsets
    struct.pack_into(">i", data, at + 6, values)
    assert data.count(struct.pack(">2i", size, 0)) == 2  # of the basket and of all, in the tree's header
    data = data.replace(struct.pack(">2i", size, 0), struct.pack(">2i", key + values, 0))
    path.write_bytes(data)
    with uproot.open(path) as file:
        assert (
            file["events"]["hits"].basket(0).byte_offsets is None
            and file["events"]["hits"].array().tolist() == expected
        )
    facts, _ = own_file.look(path, "mine", None)
    assert (
        list(facts["unreadable"]) == ["hits"] and "do not tell where their entries begin" in facts["unreadable"]["hits"]
    )
    assert hold_against_uproot(path, "events", np.arange(50)) == 2, "x and the counter"


@pytest.mark.parametrize("entries", [range(100), [3, 49, 50, 99], [0]])
def test_every_branch_is_what_uproot_reads(mine, entries):
    assert hold_against_uproot(mine, "events", np.array(entries)) == 5  # x, n, hits and its counter, name


@pytest.fixture
def ntuple(tmp_path):
    """A file with an RNTuple of three clusters of 40, 40 and 20 entries."""
    path = tmp_path / "ntuple.root"
    with uproot.recreate(path) as file:
        made = None
        for begin, n in ((0, 40), (40, 40), (80, 20)):
            hits = ak.Array([[float(i)] * (i % 4) for i in range(n)])
            data = {
                "x": np.arange(n) + float(begin),
                "n": np.arange(n, dtype="i4"),
                "hits": hits,
                "name": [f"event {begin + i}" for i in range(n)],
            }
            if made is None:
                made = file.mkrntuple("events", {k: ak.Array(v) for k, v in data.items()})
            else:
                made.extend({k: ak.Array(v) for k, v in data.items()})
    return path


@pytest.mark.parametrize("entries", [range(100), [3, 39, 40, 99], [79], [80, 99], [0]])
def test_an_rntuple_is_what_uproot_reads(ntuple, entries):
    facts, table = own_file.look(ntuple, "mine", None)
    assert (facts["tree"], facts["format"], facts["entries"], facts["branches"], facts["unreadable"]) == (
        "events",
        "RNTuple",
        100,
        4,
        {},
    )
    assert hold_against_uproot(ntuple, "events", np.array(entries)) == 4
    by_cluster = by_the_decoder(ntuple, "events", ["x", "hits"], np.array(entries), batch=1)
    assert ak.array_equal(by_cluster["hits"], uproot.open(ntuple)["events"]["hits"].array()[np.array(entries)])
    rows, needed, ranges = baskets.ranges(table, ["x"], np.array(entries))
    assert len(rows) == len({(e >= 40) + (e >= 80) for e in entries}) and needed == sum(s for _, s in ranges)


def test_pages_that_fields_share_are_needed_once(ntuple):
    pages = Pages.of(uproot.open(ntuple)["events"])
    twice = baskets.Baskets(
        ["a", "b"],
        np.repeat([0, 1], len(pages.layout)),
        *(np.tile(getattr(pages.layout, k), 2) for k in ("basket", "entry_start", "entry_stop", "offset", "size")),
    )
    rows, needed, _ = baskets.ranges(twice, ["a", "b"], np.arange(100))
    assert needed == pages.layout.size.sum() == baskets.ranges(twice, ["b"], np.arange(100))[1] and len(rows) == len(
        pages.layout
    )


def test_a_page_that_is_not_there_is_no_array(ntuple):
    pages = Pages.of(uproot.open(ntuple)["events"])
    with pytest.raises(Broken, match="is not among those of the selection"):
        list(pages.arrays(["x"], {}, np.array([5])))
    assert len(pages.tuple["x"].array()) == 100, "the tuple is as it was"


def checked(tmp_path, **file):
    """What `storelab check` says of a campaign that reads it, beside stores and programs."""
    base = {"campaign": "x", "name": "x", "results": str(tmp_path / "results"), "calibrate": False, "repetitions": 1}
    base |= {"stores": {"a": {"kind": "seaweedfs"}}, "use_stores": ["a"], "files": {"mine": file}}
    config = Config.model_validate(base | {"sweeps": {"v": {"workload": "read_volume", "axes": {"scale": "mine"}}}})
    points = plan.make(config, WORKLOADS)
    check_axes.files(points)
    return config, points


def test_check_and_the_file(mine, tmp_path):
    _, points = checked(tmp_path, path=str(mine), tree="events")
    assert needs.summarise(points, "a").staged_bytes == mine.stat().st_size
    checked(tmp_path, path="https://example.org/never-asked.root")
    for file, line in (
        (
            {"path": str(tmp_path / "nothing.root")},
            "nothing.root: no such file; give the path of a ROOT file, or a URL",
        ),
        ({"path": str(mine)}, "files.mine.tree: mine.root holds 2 TTrees and RNTuples, and none is named"),
        (
            {"path": str(mine), "tree": "evnts"},
            "files.mine.tree: mine.root holds no TTree or RNTuple 'evnts' (it has: events, other)",
        ),
        ({"path": __file__}, "files.mine.path: test_own_file.py is no ROOT file: it does not begin with 'root'"),
    ):
        with pytest.raises(UserError) as caught:
            checked(tmp_path, **file)
        assert line in str(caught.value) and "\n" not in str(caught.value)


def test_the_engine_root_reads_no_rntuple(mine, ntuple, tmp_path):
    """It was accepted, and each point failed."""
    _, points = checked(tmp_path, path=str(mine), tree="events")
    by_root = [replace(p, axes=p.axes | {"engine": "root"}) for p in points]
    check_axes.files(by_root)
    _, points = checked(tmp_path, path=str(ntuple))
    by_root = [replace(p, axes=p.axes | {"engine": "root"}) for p in points]
    with pytest.raises(
        UserError, match=r"sweeps.v.axes.engine: root reads TTrees, and mine is an RNTuple; sweep planned"
    ):
        check_axes.files(by_root)
    client = RootClient.__new__(RootClient)
    with pytest.raises(UserError, match=r"axes.engine: root reads TTrees, and mine is an RNTuple"):
        client.connect({"format": "RNTuple", "scale": "mine"})


def test_another_file_under_the_same_name_is_not_mixed_in(mine, ntuple, tmp_path):
    config, points = checked(tmp_path, path=str(mine), tree="events")
    manifest = {"dataset": points[0].dataset, "root": {"bytes": mine.stat().st_size}}
    assert own_file.unchanged(points[0].dataset, manifest)
    assert not own_file.unchanged(points[0].dataset | {"tree": "other"}, manifest), "it is staged anew"
    records.write_json(config.raw / "plan.json", plan_file.current(config, points, WORKLOADS))
    records.write_json(config.raw / points[0].key / "run.json", {})
    plan_file.refuse_differences(config, points)
    with pytest.raises(UserError, match=r"measured with other settings: files\.mine: tree was events, is other"):
        plan_file.refuse_differences(*checked(tmp_path, path=str(mine), tree="other"))
    mine.write_bytes(ntuple.read_bytes())
    with pytest.raises(
        UserError,
        match=r"files.mine.path: mine.root has \d+ B, and had \d+ B when it was staged; give the changed file",
    ):
        own_file.unchanged(points[0].dataset, manifest)


@pytest.mark.heavy
@pytest.mark.skipif(not REAL.is_dir(), reason="the real files are not there (../shared/data/root)")
@pytest.mark.parametrize(
    ("name", "tree", "entries", "unreadable"),
    [("uproot-issue-123b.root", "CollectionTree", 100, True), ("uproot-HZZ-zstd.root", "events", 2421, False)],
)
def test_real_files(name, tree, entries, unreadable):
    facts, table = own_file.look(REAL / name, "mine", tree)
    assert facts["entries"] == entries and bool(facts["unreadable"]) == unreadable
    chosen = baskets.select_branches(table, 100, facts["unreadable"])
    assert len(chosen) > 40 and not set(chosen) & set(facts["unreadable"])


@pytest.mark.heavy
@pytest.mark.skipif(not REAL.is_dir(), reason="the real files are not there (../shared/data/root)")
@pytest.mark.parametrize(
    ("name", "tree", "entries", "branches"),
    [
        ("nanoAOD_2015_CMS_Open_Data_ttbar.root", "Events", range(200), 947),
        ("nanoAOD_2015_CMS_Open_Data_ttbar.root", "Events", [5, 77, 199], 947),
        pytest.param("uproot-issue-123b.root", "CollectionTree", [0, 50, 99], 1068, marks=pytest.mark.heavy),
        pytest.param("uproot-issue-123b.root", "MetaData;1", [0], 545, marks=pytest.mark.heavy),
        ("uproot-small-evnt-tree-fullsplit.root", "tree", range(100), 41),
        pytest.param("uproot-physlite-rntuple_v1-0-0-0.root", "EventData", [0, 50, 99], 806, marks=pytest.mark.heavy),
        ("Run2012BC_DoubleMuParked_Muons_1000evts_rntuple_v1-0-0-0.root", "Events", range(1000), 7),
    ],
)
def test_every_branch_of_real_files(name, tree, entries, branches):
    assert hold_against_uproot(REAL / name, tree, np.array(entries)) == branches


@pytest.mark.heavy
@pytest.mark.skipif(not REAL.is_dir(), reason="the real files are not there (../shared/data/root)")
def test_baskets_in_the_header_need_no_bytes_and_are_held_against_the_side_car(tmp_path):
    path = REAL / "nanoAOD_2015_CMS_Open_Data_ttbar.root"
    _, table = own_file.look(path, "mine", "Events")
    with uproot.open(path) as file:
        head = Header.of(file["Events"], {})
    layout, spent, memory = head.layout, Spent(), Memory(path.read_bytes())
    names = [n for n in layout.names if (layout.offset[layout.branch == layout.names.index(n)] < 0).all()]
    for _ in SelectionReader(head, memory, LINK).read(names[:50], np.arange(200), spent):
        pass
    assert (memory.requests, spent.needed_bytes, spent.requests, spent.baskets, spent.decoded) == (
        0,
        0,
        0,
        50,
        50 * 200,
    )
    crc = table["crc32"].to_numpy()
    assert len(layout.inside) == 947 and all(layout.inside_crc(row) == crc[row] for row in layout.inside)
    head.save(tmp_path / "h.parquet")
    assert Header.load(tmp_path / "h.parquet", {}) is None, "what is kept beside the file would lack their content"
    other = table.set_column(table.schema.get_field_index("crc32"), table.schema.field("crc32"), pa.array(crc ^ 1))
    with pytest.raises(WrongData, match=r"a basket in the header of .* is not the one that was staged"):
        by_uproot(path, "Events", other, names[:50], np.arange(200))
