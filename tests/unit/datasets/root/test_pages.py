"""Pages of RNTuples: shared ones, missing ones, and their checksums, which every reader compares."""

import shutil
from pathlib import Path

import awkward as ak
import numpy as np
import pytest
import small_root
import uproot
import xxhash
from paths import DATA

from storelab.datasets import own_file
from storelab.datasets.root import baskets, decode
from storelab.datasets.root.pages import PageReader, Pages, PageSteps
from storelab.datasets.root.trial import LINK, LocalRanges

FILES = DATA / "root" / "ntuple.root"


@pytest.fixture
def file(tmp_path):
    """Return an RNTuple by ROOT. Some of its pages are so small that they are not compressed: any byte decodes."""
    return Path(shutil.copy(FILES, tmp_path / "n.root"))


def opened(path):
    file = uproot.open(path, object_cache=None, array_cache=None)
    (name,) = [key for key, kind in file.classnames(cycle=False).items() if kind.endswith("RNTuple")]
    return file[name]


def flipped(path, at, bit=0):
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1 << bit
    path.write_bytes(raw)


def read(path):
    """Read all fields by the planned reader, then by steps."""
    ntuple = opened(path)
    pages, n = Pages.of(ntuple), int(ntuple.num_entries)
    names = [name for name in pages.layout.names if name not in pages.unreadable]
    reader = PageReader(pages, n, LocalRanges(path), LINK)
    found = sum(len(array) for _, array in reader.read(names, np.arange(n)))
    steps, file = PageSteps(pages, names), LocalRanges(path)
    rows, new = steps.rows(0, n)
    offset, size = pages.layout.offset[new], pages.layout.size[new]
    steps.unpack(new, [np.frombuffer(d, "u1") for d in file.fetch(offset.tolist(), (offset + size).tolist())])
    assert steps.arrays(rows, 0, n) == found == n * len(names)


def test_each_page_ends_with_checksum(file):
    """Compute it here from the file: 8 bytes behind the page, little-endian, of the bytes as stored."""
    layout, raw = Pages.of(opened(file)).layout, file.read_bytes()
    assert len(layout) > 1
    for at, size in zip(layout.offset.tolist(), layout.size.tolist(), strict=True):
        page, checksum = raw[at : at + size - 8], raw[at + size - 8 : at + size]
        assert int.from_bytes(checksum, "little") == xxhash.xxh3_64_intdigest(page)
    read(file)


@pytest.mark.heavy
def test_any_changed_byte_is_reported(file):
    layout, good = Pages.of(opened(file)).layout, file.read_bytes()
    rng, tried = np.random.default_rng(5), 0
    for at, size in zip(layout.offset.tolist(), layout.size.tolist(), strict=True):
        for place in {0, size - 9, size - 8, size - 1, int(rng.integers(size))}:
            file.write_bytes(good)
            flipped(file, at + place, int(rng.integers(8)))
            with pytest.raises(decode.Broken, match=f"page at {at} .*sum"):
                read(file)
            tried += 1
    assert tried > 10


def test_staging_reports_damaged_pages(file):
    """Damage before staging is in no CRC-32 of storelab."""
    layout = Pages.of(opened(file)).layout
    flipped(file, int(layout.offset[0]) + 1)
    hurt = {layout.names[layout.branch[i]] for i in np.flatnonzero(layout.offset == layout.offset[0])}
    facts, _ = own_file.look(file, "mine", None)
    assert hurt <= set(facts["unreadable"]) and all("sum" in facts["unreadable"][name] for name in hurt)


@pytest.mark.parametrize("by", ["ROOT", "uproot"])
def test_damaged_list_of_pages_is_reported(file, by, tmp_path):
    """It is not packed, so uproot reads any place from it."""
    if by == "uproot":
        file = tmp_path / "u.root"
        with uproot.recreate(file, compression=None) as out:
            out.mkrntuple("t", {"x": np.arange(500, dtype="f4")})
    (record,) = opened(file).footer.cluster_group_records
    place = record.page_list_link.locator
    good = file.read_bytes()
    for at in range(int(place.offset), int(place.offset + place.num_bytes), 7):
        file.write_bytes(good)
        flipped(file, at, 2)
        with pytest.raises(Exception) as error:
            Pages.of(opened(file))
        assert by == "ROOT" or (isinstance(error.value, decode.Broken) and "list of pages" in str(error.value))


def test_pages_without_checksums_are_read(tmp_path):
    """uproot writes none, and ROOT has an option for it: damage of uncompressed pages is invisible then."""
    path = tmp_path / "u.root"
    with uproot.recreate(path, compression=None) as out:
        out.mkrntuple("t", {"x": np.arange(500, dtype="f4"), "n": np.arange(500, dtype="i8")})
    pages = Pages.of(opened(path))
    assert not pages.summed.any() and (pages.layout.size == pages.unpacked).all()
    read(path)
    flipped(path, int(pages.layout.offset[0]))
    read(path)


# Pages of fields


@pytest.fixture
def pages(tmp_path):
    return Pages.of(uproot.open(small_root.ntuple(tmp_path / "n.root"))["events"])


def test_shared_pages_are_needed_once(pages):
    layout, n = pages.layout, len(pages.layout)
    columns = (np.tile(getattr(layout, k), 2) for k in ("basket", "entry_start", "entry_stop", "offset", "size"))
    twice = baskets.Baskets(["a", "b"], np.repeat([0, 1], n), *columns)
    rows, needed, _ = baskets.ranges(twice, ["a", "b"], np.arange(100))
    assert needed == layout.size.sum() == baskets.ranges(twice, ["b"], np.arange(100))[1] and len(rows) == n


def test_missing_page_gives_no_array(pages):
    with pytest.raises(decode.Broken, match="is not among those of the selection"):
        list(pages.arrays(["x"], {}, np.array([5])))
    assert len(pages.tuple["x"].array()) == 100, "the tuple is unchanged"


def test_page_that_does_not_unpack_is_reported(file):
    facts, table = own_file.look(file, "mine", None)
    assert facts["unreadable"] == {}
    row = next(r for r in table.to_pylist() if r["branch"] == "i32" and r["entry_start"] == 50)
    small_root.changed(file, row["offset"], "9B", *[0] * 9)
    assert list(own_file.look(file, "mine", None)[0]["unreadable"]) == ["i32"]


def test_fields_below_each_other_are_those_of_uproot(tmp_path):
    """Also below anonymous fields: collections of collections, records, options and sums."""
    deep = ak.Array([{"x": [[{"a": 1, "b": [2.5]}], []], "y": (1, 2.5), "z": None}, {"x": [], "y": (2, 3.5), "z": [3]}])
    with uproot.recreate(tmp_path / "deep.root") as made:
        made.mkrntuple("n", {name: deep[name] for name in deep.fields})
    for path in (tmp_path / "deep.root", FILES):
        truth, found = opened(path), Pages.of(opened(path)).tuple
        below = [[[f.field_id for f in field.fields] for field in ntuple.all_fields] for ntuple in (truth, found)]
        assert below[0] == below[1]
        assert any(below[0])
