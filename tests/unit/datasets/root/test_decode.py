"""Decoded baskets: written here byte by byte as ROOT does, and compared with uproot where a file has them."""

import itertools
import struct
import zlib
from types import SimpleNamespace

import awkward as ak
import numpy as np
import pytest
import uproot
from basket_bytes import PACKED, basket, blocks, three
from cramjam import DecompressionError
from hypothesis import given, settings
from hypothesis import strategies as st
from make_root_files import FILES, FOLDER
from paths import SHARED
from root_truth import by_the_decoder, by_uproot, compare

from storelab.datasets import own_file
from storelab.datasets.root import baskets, decode, generated

PROPERTY = settings(max_examples=30, deadline=None, database=None, derandomize=True)
REAL = SHARED / "data" / "root"
METHODS = st.sampled_from([None, *PACKED])
NUMBERS = st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=60)
LISTS = st.lists(st.lists(st.integers(0, 65535), max_size=5), min_size=1, max_size=20)
PLAIN = struct.pack(">4i", 1, 2, 3, 4)


@PROPERTY
@given(NUMBERS, METHODS, st.integers(9, 300), st.data())
def test_numbers_are_decoded(numbers, method, longest, data):
    n = len(numbers)
    content = decode.unpack(basket(struct.pack(f">{n}i", *numbers), entries=n, method=method, longest=longest))
    assert content.offsets is None and content.entries == n
    wanted = sorted(data.draw(st.sets(st.integers(0, n - 1))))
    found = decode.take(decode.Flat(np.dtype(">i4")), [content] * 2, [np.array(wanted, int), np.arange(n)])
    assert found.tolist() == [numbers[i] for i in wanted] + numbers and found.dtype == np.dtype("=i4")


@PROPERTY
@given(LISTS, METHODS, st.sampled_from([0, 3, 10]), st.data())
def test_lists_are_decoded(lists, method, header, data):
    parts = [bytes(header) + struct.pack(f">{len(v)}H", *v) for v in lists]
    starts = np.cumsum([0, *map(len, parts)])[:-1].tolist()
    content = decode.unpack(basket(b"".join(parts), starts, len(lists), method))
    assert content.entries == len(lists) and content.offsets.tolist() == [*starts, sum(map(len, parts))]
    wanted = [sorted(data.draw(st.sets(st.integers(0, len(lists) - 1)))) for _ in range(2)]
    form = decode.Lists(np.dtype(">u2"), header)
    offsets, values = decode.take(form, [content] * 2, [np.array(w, int) for w in wanted])
    assert [values[a:b].tolist() for a, b in itertools.pairwise(offsets)] == [lists[i] for w in wanted for i in w]


def test_arrays_of_fixed_shape_are_decoded():
    content = decode.unpack(basket(struct.pack(">12h", *range(12)), entries=2))
    form = decode.Flat(np.dtype((">i2", (2, 3))))
    assert decode.take(form, [content], [np.array([1])]).tolist() == [[[6, 7, 8], [9, 10, 11]]]
    assert decode.take(form, [], []).shape == (0, 2, 3)
    offsets, values = decode.take(decode.Lists(np.dtype(">f4")), [], [])
    assert offsets.tolist() == [0] and len(values) == 0


def test_broken_keys_are_refused():
    for data, reason in (
        (np.zeros(17, np.uint8), "17 bytes"),
        (basket(PLAIN, entries=4, more=1), "76 bytes declares 77 bytes and a key of 60"),
        (basket(PLAIN, entries=4, more=-1), "declares 75 bytes"),
        (basket(PLAIN, entries=4, key=36), "a key of 36"),
        (basket(PLAIN, entries=4, key=76), "a key of 76"),
        (basket(PLAIN, entries=4, last=17), "values end at 17"),
        (basket(PLAIN, entries=4, last=-1), "values end at -1"),
        (basket(PLAIN, entries=-1), "declares that its values end at 16"),
        (basket(PLAIN, [0], entries=2), "a basket of 2 entries has 2 offsets"),
        (basket(PLAIN, entries=4, method=b"ZL")[:-1], "76 bytes"),
    ):
        with pytest.raises(decode.Broken, match=reason):
            decode.unpack(data)


def test_broken_blocks_are_refused():
    good, lz4 = blocks(PLAIN, b"ZL", 99), blocks(PLAIN, b"L4", 99)
    packed = zlib.compress(PLAIN)
    for data, size, reason in (
        (good, 17, "1 of 17 bytes are missing"),
        (good, 15, "does not fit"),
        (good[:-1], 16, "does not fit"),
        (b"??" + good[2:], 16, r"packed by b'\?\?'; the known methods are ZS, L4, ZL, XZ"),
        (b"CS" + good[2:], 16, "packed by b'CS', of ROOT 3 and before; the known methods"),
        (lz4[:9] + b"x" + lz4[10:], 16, "checksum"),
        (b"ZL\x01" + three(len(packed)) + three(15) + packed, 15, "unpacks to 16 bytes instead of 15"),
    ):
        with pytest.raises(decode.Broken, match=reason):
            decode.decompress(memoryview(data), size)
    zstd = bytearray(blocks(bytes(500), b"ZS", 999))
    zstd[9:12] = b"\x01\x00\x00"
    with pytest.raises(DecompressionError):
        decode.decompress(memoryview(bytes(zstd)), 500)


def test_long_blocks_are_decoded():
    plain = np.random.default_rng(1).integers(0, 256, 200_000, dtype=np.uint8).tobytes()
    assert decode.decompress(memoryview(blocks(plain, b"ZL", 70_000)), len(plain)).tobytes() == plain


def test_values_must_fit_their_form():
    content = decode.unpack(basket(PLAIN, entries=3))
    with pytest.raises(decode.Broken, match="16 bytes are not 3 values of 4 bytes"):
        decode.take(decode.Flat(np.dtype(">i4")), [content], [np.array([0])])
    with pytest.raises(decode.Broken, match="without the offsets of its entries"):
        decode.take(decode.Lists(np.dtype(">i4")), [content], [np.array([0])])


def test_embedded_baskets_have_offsets():
    plain = np.frombuffer(PLAIN, np.uint8)
    found = decode.embedded(SimpleNamespace(data=plain, byte_offsets=np.array([0, 8, 16]), num_entries=2))
    assert found.offsets.dtype == np.dtype("i4") and found.entries == 2
    assert decode.embedded(SimpleNamespace(data=plain, byte_offsets=None, num_entries=4)).offsets is None


def test_other_forms_are_left_to_uproot():
    from uproot import AsDtype, AsJagged, AsStrings

    assert decode.form_of(AsStrings()) is None
    assert decode.form_of(AsDtype(">f4", "f8")) is None, "converted on the way"
    assert decode.form_of(AsDtype([("a", ">i4")])) is None
    assert decode.form_of(AsDtype(np.dtype((">f4", (2, 3))))) == decode.Flat(np.dtype((">f4", (2, 3))))
    assert decode.form_of(AsJagged(AsDtype(">i2"), 10)) == decode.Lists(np.dtype(">i2"), 10)


# Packed numbers, against the formulas by which ROOT filled them


def test_rules_of_ranges_are_those_of_root():
    """The rules of `GetRange` in ROOT's TStreamerElement.cxx."""
    plain, half, pi = decode.Packed("f8"), decode.Packed("f4", bits=12), np.pi
    for native, title, expected in (
        ("f8", "", plain),
        ("f4", "a comment", half),
        ("f8", "[0,100,16]", decode.Packed("f8", 655.36)),
        ("f4", "[ -1 , 1 , 10 ] a comment", decode.Packed("f4", 512.0, -1.0)),
        ("f8", "[3][0,100,16]", decode.Packed("f8", 655.36)),
        ("f8", "[n]", plain),
        ("f8", "[2][3][0,100,16]", plain),  # only one dimension may come first
        ("f8", "[0,100]", decode.Packed("f8", (2**32 - 1) / 100)),
        ("f8", "[0,100,40]", decode.Packed("f8", (2**32 - 1) / 100)),
        ("f8", "[0,100,1]", decode.Packed("f8", (2**32 - 1) / 100)),
        ("f8", "[0,0,12]", decode.Packed("f8", bits=12)),
        ("f4", "[0,0,14]", decode.Packed("f4", bits=14)),
        ("f4", "[0,0,15]", half),
        ("f4", "[0,0,16]", half),
        ("f8", "[0,0,16]", plain),
        ("f8", "[0,0]", plain),
        ("f8", "[-pi,pi,8]", decode.Packed("f8", 256 / (pi - -pi), -pi)),
        ("f8", "[0,2*pi,8]", decode.Packed("f8", 256 / (2 * pi))),
        ("f8", "[0,TwoPi,8]", decode.Packed("f8", 256 / (2 * pi))),
        ("f8", "[-pi/2,pi/4,8]", decode.Packed("f8", 256 / (pi / 4 + pi / 2), -pi / 2)),
        ("f8", "[1e2,2.5e2,4]", decode.Packed("f8", 16 / 150, 100.0)),
    ):
        assert decode.packing(native, title) == expected, title


def test_ranges_in_titles_of_older_root():
    """Before ROOT 6.3x the title of a leaf is only its type; the dimensions are in the title of the branch."""
    wide = decode.Packed("f8", 2**10 / 12.71, -2.71)
    for kind, title, names, length, counter, expected in (
        ("TLeafD32", "d[-2.71,10,10]", "x", 1, None, decode.Flat(np.dtype(">u4"), wide)),
        ("TLeafD32", "d[-2.71,10,10]", "x[2][3]", 6, None, decode.Flat(np.dtype((">u4", (2, 3))), wide)),
        ("TLeafD32", "d[-2.71,10,10]", "x[n][2]", 2, "n", decode.Lists(np.dtype((">u4", (2,))), packed=wide)),
        ("TLeafF16", "f[0,0,14]", "x[n]", 1, "n", decode.Lists(np.dtype("V3"), packed=decode.Packed("f4", bits=14))),
        ("TLeafF16", "f[2]", "f[2]", 2, None, decode.Flat(np.dtype(("V3", (2,))), decode.Packed("f4", bits=12))),
    ):
        members = {"fTitle": title, "fLen": length, "fLeafCount": counter}
        leaf = SimpleNamespace(classname=kind, member=lambda name, members=members, **_: members[name])
        branch = SimpleNamespace(branches=[], title=f"{names}/{title}", member=lambda _, leaf=leaf: [leaf])
        assert decode.packed_form(branch) == expected, (title, names)


def packed_truth(form: str, e: int) -> np.ndarray:
    """Return entry e by the formula of tests/data/root/README.md; form: l of lists, dimensions, + for `e + k`."""
    shape = tuple(int(d) for d in form if d.isdigit())
    shape = (1 + e % 3, *shape) if "l" in form else shape
    if "+" in form:
        return e + np.arange(shape[0])
    return np.full(shape, e if "e" in form else e % 100)


def test_packed_numbers_are_those_of_root():
    """Numbers, arrays and lists of Float16_t and Double32_t; uproot 5.7.7 reads half of these wrongly."""
    entries, wide, narrow = np.arange(120), 100 / 2**16, 100 / 2**10
    for name, step, forms in (
        ("packed-doubles", wide, {"sc": "", "a1": "3", "a2": "23", "l1": "l", "l2": "l2", "sn": "", "an": "3"}),
        ("packed-doubles", narrow, {"f1": "3", "g1": "l"}),
        ("packed-plain", 0, {"f0": "e", "fb": "e", "d0": "e", "f3": "3+", "d3": "3+", "fn": "l+", "dn": "l+"}),
        ("packed-jagged", wide, {"f16": "l23", "d32": "l2", "d32p": "l2", "fixd": "23", "plain": "l23e"}),
    ):
        path, names = FOLDER / f"{name}.root", list(forms)
        facts, table = own_file.look(path, "mine", "events")
        assert not set(names) & set(facts["unreadable"])
        ours = by_the_decoder(path, "events", names, entries)
        theirs = by_uproot(path, "events", table, names, entries)
        for (branch, form), e in itertools.product(forms.items(), entries.tolist()):
            found, expected = np.asarray(ak.to_list(ours[branch][e])), packed_truth(form, e)
            assert found.shape == expected.shape and np.abs(found - expected).max() <= step / 2 + 1e-5, (branch, e)
            assert ak.to_list(theirs[branch][e]) == found.tolist(), (branch, e)
    kinds = by_the_decoder(FOLDER / "packed-doubles.root", "events", ["sc", "f1"], entries)
    assert ak.to_numpy(kinds["sc"]).dtype == "f8" and ak.to_numpy(kinds["f1"]).dtype == "f4"


def test_packed_members_are_those_of_root():
    """Split members of a class have their range in the class description; lists of arrays were memory not filled."""
    path, e = FOLDER / "packed-members.root", np.arange(120)
    facts, _ = own_file.look(path, "mine", "events")
    assert list(facts["unreadable"]) == ["whole"] and "Packed0.fX, which is packed" in facts["unreadable"]["whole"]
    five, pair = e[:, None] + np.arange(5), np.stack([e % 100] * 2, axis=1)
    forms = {"fX": e % 100, "fP": e, "fH": e, "fG": e, "fA[5]": five, "fR[2]": pair}
    found = by_the_decoder(path, "events", [f"{at}.{f}" for at in ("split./split", "Tracks/Tracks") for f in forms], e)
    counts = e % 4
    for name, values in forms.items():
        for at, expected in (("split./split", values), ("Tracks/Tracks", np.repeat(values, counts, axis=0))):
            array = found[f"{at}.{name}"]
            if at == "Tracks/Tracks":
                assert ak.num(array).tolist() == counts.tolist()
                array = ak.flatten(array)
            assert np.abs(ak.to_numpy(array) - expected).max() <= 100 / 2**17 + 1e-9, (at, name)


def test_mantissa_has_a_sign_behind_its_bits():
    """1.5, -1.5 and 0 of 12 bits, by hand: exponent 127, half of the mantissa, the sign in bit 13."""
    raw = np.frombuffer(b"\x7f\x08\x00" + b"\x7f\x28\x00" + bytes(3), "V3")
    assert decode.Packed("f4", bits=12).values(raw).tolist() == [1.5, -1.5, 0.0]
    assert decode.Packed("f8", bits=12).values(raw.reshape(3, 1)).shape == (3, 1)


# Against uproot


def test_basket_of_uproot_is_decoded(tmp_path):
    with uproot.recreate(tmp_path / "b.root", compression=uproot.ZSTD(1)) as file:
        file.mktree("t", {"x": "f8"}).extend({"x": np.arange(500.0) // 7})
    with uproot.open(tmp_path / "b.root") as file:
        layout = baskets.Baskets.from_tree(file["t"])
    data = np.fromfile(tmp_path / "b.root", np.uint8)[layout.offset[0] :][: layout.size[0]]
    assert decode.unpack(data).entries == 500 and decode.place_of(data) == layout.offset[0]
    with pytest.raises(decode.Broken, match="are not 500 values"):
        decode.take(decode.Flat(np.dtype(">f4")), [decode.unpack(data)], [np.arange(3)])


def test_generated_files_are_decoded(tmp_path, tiny_scale):
    for codec in generated.CODECS:
        path = tmp_path / f"{codec}.root"
        generated.generate(path, tiny_scale, 3, codec)
        for entries in (np.arange(103), np.array([0, 7, 34, 35, 102])):
            assert compare(path, generated.TREE, entries) > 60, codec


def test_plain_branches_of_experiments_are_decoded():
    for name in ("nanoaod.root", "lists.root"):
        assert compare(FOLDER / name, FILES[name][0], np.array([0, 7, 50, 101, 199])) >= 6, name


@pytest.mark.heavy
@pytest.mark.skipif(not REAL.is_dir(), reason="data: the real files are missing (../shared/data/root)")
def test_real_files_are_decoded():
    files = (("uproot-HZZ-zstd.root", "events", 40), ("uproot-issue-123b.root", "CollectionTree", 600))
    for name, tree, branches in files:
        assert compare(REAL / name, tree, np.array([0, 3, 17, 42, 99])) >= branches, name


def test_bytes_behind_the_offsets_are_ignored():
    """ROOT's offsets have four bytes each; one to three bytes behind them belong to none."""
    values, key = b"abcdefg", 60
    for tail in range(4):
        body = values + struct.pack(">4i", 3, key, key + 3, 0) + b"\0" * tail
        head = struct.pack(">iHiIHH", key + len(body), 4, len(body), 0, key, 1)
        end = struct.pack(">Hiiii", 3, 32000, 1000, 2, key + len(values)) + b"\0"
        content = decode.unpack(np.frombuffer(head + bytes(key - len(head) - len(end)) + end + body, np.uint8))
        assert content.offsets.tolist() == [0, 3, 7] and content.values.tobytes() == values and content.entries == 2
