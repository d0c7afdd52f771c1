"""Write baskets of a TTree byte by byte, in ROOT's format."""

import lzma
import struct
import zlib

import cramjam
import numpy as np
import xxhash

KEY = 60  # bytes of the key of a basket: 18 that all keys have, the names, 19 that only baskets have


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
    """Return the bytes of a basket. offsets: where entries begin in the values, without the end.

    ROOT writes the offsets after the values, relative to the key. wrong: wrong values to write instead.
    """
    plain = values
    if offsets is not None:
        found = [len(offsets) + 1, *(o + KEY for o in offsets), 0]
        plain += struct.pack(f">{len(found)}i", *found)
    body = blocks(plain, method, longest) if method else plain
    body = body if len(body) < len(plain) else plain  # stored unpacked if packing does not make it shorter
    head = struct.pack(">iHiIHH", KEY + len(body) + wrong.get("more", 0), 4, len(plain), 0, wrong.get("key", KEY), 1)
    end = (
        struct.pack(">Hiiii", 3, 32000, 1000, wrong.get("entries", entries), KEY + wrong.get("last", len(values)))
        + b"\0"
    )
    return np.frombuffer(head + bytes(KEY - len(head) - len(end)) + end + body, np.uint8)
