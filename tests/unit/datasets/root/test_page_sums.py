"""Pages of RNTuples carry sums: a changed byte is told by every reader that unpacks pages, before anything is decoded."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import uproot
import xxhash
from paths import DATA

from storelab.datasets import own_file
from storelab.datasets.root import decode
from storelab.datasets.root.pages import PageReader, Pages
from storelab.datasets.root.steps import PageSteps
from storelab.datasets.root.trial import LINK, LocalRanges

FILES = DATA / "root" / "ntuple.root"


@pytest.fixture
def file(tmp_path):
    """An RNTuple of ROOT's; some of its pages are so small that they are not compressed: any byte of these decodes."""
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
    """All fields by the planned reader, then by steps."""
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


def test_each_page_ends_with_its_sum(file):
    """Computed here from the file: 8 bytes behind the page, little-endian, of what is stored."""
    layout, raw = Pages.of(opened(file)).layout, file.read_bytes()
    assert len(layout) > 1
    for at, size in zip(layout.offset.tolist(), layout.size.tolist(), strict=True):
        page, told = raw[at : at + size - 8], raw[at + size - 8 : at + size]
        assert int.from_bytes(told, "little") == xxhash.xxh3_64_intdigest(page)
    read(file)


@pytest.mark.heavy
def test_any_changed_byte_of_any_page_is_told(file):
    layout, good = Pages.of(opened(file)).layout, file.read_bytes()
    rng, told = np.random.default_rng(5), []
    for at, size in zip(layout.offset.tolist(), layout.size.tolist(), strict=True):
        for place in {0, size - 9, size - 8, size - 1, int(rng.integers(size))}:
            file.write_bytes(good)
            flipped(file, at + place, int(rng.integers(8)))
            with pytest.raises(decode.Broken, match=f"page at {at} .*sum"):
                read(file)
            told.append(place)
    assert len(told) > 10


def test_staging_tells_it(file):
    """Damage from before the file was staged: no CRC-32 of storelab's own knows of it."""
    layout = Pages.of(opened(file)).layout
    flipped(file, int(layout.offset[0]) + 1)
    hurt = {layout.names[layout.branch[i]] for i in np.flatnonzero(layout.offset == layout.offset[0])}
    facts, _ = own_file.look(file, "mine", None)
    assert hurt <= set(facts["unreadable"]) and all("sum" in facts["unreadable"][name] for name in hurt)


@pytest.mark.parametrize("by", ["ROOT", "uproot"])
def test_a_damaged_list_of_pages_is_told(file, by, tmp_path):
    """Not packed: uproot reads any place from it."""
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
        with pytest.raises(Exception) as told:
            Pages.of(opened(file))
        assert by == "ROOT" or (isinstance(told.value, decode.Broken) and "list of pages" in str(told.value))


def test_uproot_alone_does_not_see_it(file):
    """Else the sums need not be looked at here."""
    pages = Pages.of(opened(file))
    plain = [i for i in range(len(pages.layout)) if pages.unpacked[i] == pages.layout.size[i] - 8]
    assert plain
    flipped(file, int(pages.layout.offset[plain[0]]))
    name = pages.layout.names[pages.layout.branch[plain[0]]]
    assert len(opened(file)[name].array()) == 200


def test_pages_without_sums_are_as_they_are(tmp_path):
    """uproot writes none, and ROOT can be told to: nothing shows the damage of what is not compressed."""
    path = tmp_path / "u.root"
    with uproot.recreate(path, compression=None) as out:
        out.mkrntuple("t", {"x": np.arange(500, dtype="f4"), "n": np.arange(500, dtype="i8")})
    pages = Pages.of(opened(path))
    assert not pages.summed.any() and (pages.layout.size == pages.unpacked).all()
    read(path)
    flipped(path, int(pages.layout.offset[0]))
    read(path)
