"""Baskets written here byte by byte, as ROOT lays them out, and decoded: the truth is what was written."""

import itertools
import lzma
import struct
import time
import zlib
from types import SimpleNamespace

import cramjam
import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_transport import Memory

from storelab.datasets.root import baskets, decode
from storelab.datasets.root.header import Header
from storelab.datasets.root.reader import SelectionReader, Spent
from storelab.readplan import Link

PROPERTY = settings(max_examples=30, deadline=None, database=None, derandomize=True)
KEY = 60  # bytes of a basket's key: 18 of the common head, names, 19 of the basket's own


def three(n):
    return bytes((n & 255, n >> 8 & 255, n >> 16))


def lz4(plain):
    packed = bytes(cramjam.lz4.compress_block(plain, store_size=False))
    return struct.pack(">Q", xxhash.xxh64_intdigest(packed)) + packed


PACKED = {b"ZL": zlib.compress, b"XZ": lzma.compress, b"ZS": lambda p: bytes(cramjam.zstd.compress(p)), b"L4": lz4}


def blocks(plain, method, longest):
    out = b""
    for at in range(0, len(plain), longest):
        part = plain[at : at + longest]
        packed = PACKED[method](part)
        out += method + b"\x01" + three(len(packed)) + three(len(part)) + packed
    return out


def basket(values, offsets=None, entries=0, method=None, longest=100, **wrong):
    """offsets: where entries begin in the values, without the end. ROOT writes them behind the values, counted from the key on."""
    plain = values
    if offsets is not None:
        told = [len(offsets) + 1, *(o + KEY for o in offsets), 0]
        plain += struct.pack(f">{len(told)}i", *told)
    body = blocks(plain, method, longest) if method else plain
    body = body if len(body) < len(plain) else plain  # what does not become shorter is not packed
    head = struct.pack(">iHiIHH", KEY + len(body) + wrong.get("more", 0), 4, len(plain), 0, wrong.get("key", KEY), 1)
    end = (
        struct.pack(">Hiiii", 3, 32000, 1000, wrong.get("entries", entries), KEY + wrong.get("last", len(values)))
        + b"\0"
    )
    return np.frombuffer(head + bytes(KEY - len(head) - len(end)) + end + body, np.uint8)


@PROPERTY
@given(
    st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=60),
    st.sampled_from([None, *PACKED]),
    st.integers(9, 300),
    st.data(),
)
def test_numbers(numbers, method, longest, data):
    content = decode.unpack(
        basket(struct.pack(f">{len(numbers)}i", *numbers), entries=len(numbers), method=method, longest=longest)
    )
    assert content.offsets is None and content.entries == len(numbers)
    wanted = sorted(data.draw(st.sets(st.integers(0, len(numbers) - 1))))
    found = decode.take(
        decode.Flat(np.dtype(">i4")), [content, content], [np.array(wanted, int), np.arange(len(numbers))]
    )
    assert found.tolist() == [numbers[i] for i in wanted] + numbers and found.dtype == np.dtype("=i4")


@PROPERTY
@given(
    st.lists(st.lists(st.integers(0, 65535), max_size=5), min_size=1, max_size=20),
    st.sampled_from([None, *PACKED]),
    st.sampled_from([0, 3, 10]),
    st.data(),
)
def test_lists(lists, method, header, data):
    parts = [bytes(header) + struct.pack(f">{len(v)}H", *v) for v in lists]
    starts = np.cumsum([0, *map(len, parts)])[:-1].tolist()
    content = decode.unpack(basket(b"".join(parts), starts, len(lists), method))
    assert content.entries == len(lists) and content.offsets.tolist() == [*starts, sum(map(len, parts))]
    wanted = [sorted(data.draw(st.sets(st.integers(0, len(lists) - 1)))) for _ in range(2)]
    offsets, values = decode.take(
        decode.Lists(np.dtype(">u2"), header), [content] * 2, [np.array(w, int) for w in wanted]
    )
    assert [values[a:b].tolist() for a, b in itertools.pairwise(offsets)] == [lists[i] for w in wanted for i in w]


def test_arrays_of_fixed_shape_and_nothing():
    content = decode.unpack(basket(struct.pack(">12h", *range(12)), entries=2))
    form = decode.Flat(np.dtype((">i2", (2, 3))))
    assert decode.take(form, [content], [np.array([1])]).tolist() == [[[6, 7, 8], [9, 10, 11]]]
    assert decode.take(form, [], []).shape == (0, 2, 3)
    offsets, values = decode.take(decode.Lists(np.dtype(">f4")), [], [])
    assert offsets.tolist() == [0] and len(values) == 0


PLAIN = struct.pack(">4i", 1, 2, 3, 4)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (np.zeros(17, np.uint8), "17 bytes are no basket"),
        (basket(PLAIN, entries=4, more=1), "76 bytes says that it has 77, 60 of them its key"),
        (basket(PLAIN, entries=4, more=-1), "says that it has 75"),
        (basket(PLAIN, entries=4, key=36), "36 of them its key"),
        (basket(PLAIN, entries=4, key=76), "76 of them its key"),
        (basket(PLAIN, entries=4, last=17), "values end at 17"),
        (basket(PLAIN, entries=4, last=-1), "values end at -1"),
        (basket(PLAIN, entries=-1), "says that its values end at 16"),
        (basket(PLAIN, [0], entries=2), "a basket of 2 entries tells where 2 begin"),
        (basket(PLAIN, entries=4, method=b"ZL")[:-1], "says that it has"),
    ],
)
def test_what_is_no_basket(data, said):
    with pytest.raises(decode.Broken, match=said):
        decode.unpack(data)


@pytest.mark.parametrize(
    ("packed", "size", "said"),
    [
        (blocks(PLAIN, b"ZL", 99), 17, "1 of 17 bytes are missing"),
        (blocks(PLAIN, b"ZL", 99), 15, "does not fit"),
        (blocks(PLAIN, b"ZL", 99)[:-1], 16, "does not fit"),
        (b"??" + blocks(PLAIN, b"ZL", 99)[2:], 16, "packed by b'\\?\\?': known are ZS, L4, ZL, XZ"),
        (blocks(PLAIN, b"L4", 99)[:9] + b"x" + blocks(PLAIN, b"L4", 99)[10:], 16, "checksum"),
        (
            b"ZL\x01" + three(len(zlib.compress(PLAIN))) + three(15) + zlib.compress(PLAIN),
            15,
            "gives 16 bytes and not 15",
        ),
    ],
)
def test_broken_blocks(packed, size, said):
    with pytest.raises(decode.Broken, match=said):
        decode.decompress(memoryview(packed), size)


def test_long_blocks_tell_their_length_in_three_bytes():
    plain = np.random.default_rng(1).integers(0, 256, 200_000, dtype=np.uint8).tobytes()
    assert decode.decompress(memoryview(blocks(plain, b"ZL", 70_000)), len(plain)).tobytes() == plain


def test_values_that_do_not_fit_their_form():
    content = decode.unpack(basket(PLAIN, entries=3))
    with pytest.raises(decode.Broken, match="16 bytes are not 3 values of 4 bytes"):
        decode.take(decode.Flat(np.dtype(">i4")), [content], [np.array([0])])
    with pytest.raises(decode.Broken, match="does not tell where its entries begin"):
        decode.take(decode.Lists(np.dtype(">i4")), [content], [np.array([0])])


def test_baskets_of_the_header():
    plain = np.frombuffer(PLAIN, np.uint8)
    found = decode.embedded(SimpleNamespace(data=plain, byte_offsets=np.array([0, 8, 16]), num_entries=2))
    assert found.offsets.dtype == np.dtype("i4") and found.entries == 2
    assert decode.embedded(SimpleNamespace(data=plain, byte_offsets=None, num_entries=4)).offsets is None


def test_what_a_selection_costs():
    """Two branches of two baskets each; batches of 150 bytes make two transfers; every byte lies in one object."""
    parts, offsets, data = [], [], b"head"
    for first in (0, 100):
        for begin, stop in ((0, 3), (3, 7)):
            parts.append(
                basket(struct.pack(f">{stop - begin}i", *range(first + begin, first + stop)), entries=stop - begin)
            )
            offsets.append(len(data))
            data += parts[-1].tobytes() + b"gap."
    columns = [
        np.array(c, "i8") for c in ([0, 0, 1, 1], [0, 1] * 2, [0, 3] * 2, [3, 7] * 2, offsets, [len(p) for p in parts])
    ]
    header = Header("t", 7, baskets.Baskets(["x", "y"], *columns), [decode.Flat(np.dtype(">i4"))] * 2, {})
    memory, inspected = Memory(data), []
    reader = SelectionReader(header, memory, Link(0.1, 0.1, 0.1, 1e9, 1e9, 8))
    reader.batch, reader.inspect = 150, lambda rows, got: inspected.append((rows.tolist(), [g.tobytes() for g in got]))
    spent = Spent()
    found = {}
    begun = time.perf_counter()
    for name, array in reader.read(["x", "y"], np.array([1, 2, 5]), spent):
        found.setdefault(name, []).extend(array.tolist())
    took = time.perf_counter() - begun
    assert found == {"x": [1, 2, 5], "y": [101, 102, 105]}
    needed = sum(len(p) for p in parts)
    assert (spent.baskets, spent.needed_bytes, spent.decoded) == (4, needed, 6) and spent.transfers == len(
        spent.gaps
    ) == len(inspected)
    assert spent.requests == memory.requests == len(memory.log) and spent.asked_bytes == sum(
        b - a for a, b in memory.log
    )
    assert set(spent.gaps) <= {0, 4} and spent.asked_bytes == needed + 4 * sum(len(rows) - 1 for rows, _ in inspected)
    assert [row for rows, _ in inspected for row in rows] == [0, 1, 2, 3]
    assert [b for _, got in inspected for b in got] == [p.tobytes() for p in parts]
    phases = (spent.plan_s, spent.transfer_s, spent.decompress_s, spent.deserialise_s, spent.inspect_s)
    assert min(phases) > 0 and sum(phases) <= took, "of the whole time, none twice"
