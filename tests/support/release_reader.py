"""A reader of published releases that uses only SQLite and zlib, and no code of storelab."""

import hashlib
import sqlite3
import struct
import tempfile
import zlib
from collections.abc import Callable

Entry = tuple[str, bytes]  # (file, content), (link, target) or (folder, b"")


def _md5(path: bytes) -> tuple[int, int]:
    return struct.unpack("<qq", hashlib.md5(path).digest())


def restore(root: str, get: Callable[[str], bytes], by_the_tool: bool = False) -> dict[bytes, Entry]:
    """Return path -> entry of a published release.

    get: function from `data/ab/cdef…` to bytes; by_the_tool: True for catalogs of the real tool, whose subtree counts
    omit the catalog itself. Raise AssertionError if a catalog is wrong.
    """
    out: dict[bytes, Entry] = {}
    _read(root, b"", get, out, by_the_tool)
    return out


def _object(digest: str, get: Callable[[str], bytes]) -> bytes:
    blob = get(f"data/{digest[:2]}/{digest[2:]}")
    assert hashlib.sha1(blob).hexdigest() == digest[:40]
    return zlib.decompress(blob)


def _read(digest: str, at: bytes, get: Callable[[str], bytes], out: dict[bytes, Entry], by_the_tool: bool) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(_object(digest + "C", get))
        file.flush()
        db = sqlite3.connect(file.name)
        db.text_factory = bytes
        rows = {
            (r[0], r[1]): r[2:]
            for r in db.execute(
                "SELECT md5path_1, md5path_2, parent_1, parent_2, name, flags, hash, size, symlink FROM catalog"
            )
        }
        nested = {path: sha1.decode() for path, sha1 in db.execute("SELECT path, sha1 FROM nested_catalogs")}
        pieces = db.execute("SELECT md5path_1, md5path_2, offset, size, hash FROM chunks ORDER BY offset").fetchall()
        counts = dict(db.execute("SELECT counter, value FROM statistics"))
        db.close()
    top = rows[_md5(at)]
    assert bool(top[3] & 32) == bool(at)
    children: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for key, row in rows.items():
        if key != _md5(at):
            children.setdefault((row[0], row[1]), []).append(key)
    seen, waiting, mounts = 1, [at], set()
    while waiting:
        path = waiting.pop()
        for key in children.get(_md5(path), ()):
            seen += 1
            _, _, name, flags, whole, size, link = rows[key]
            own = path + b"/" + name
            assert _md5(own) == key
            if flags & 1:
                out[own] = ("folder", b"")
                if flags & 2:
                    mounts.add(own)
                waiting.append(own)
            elif flags & 8:
                out[own] = ("link", link)
            else:
                parts = [p for p in pieces if p[:2] == key]
                assert bool(flags & 64) == bool(parts) == (whole is None)
                data = b""
                for _, _, offset, length, part in parts:
                    assert offset == len(data)
                    data += _object(part.hex() + "P", get)
                    assert len(data) == offset + length
                out[own] = ("file", data if parts else _object(whole.hex(), get))
                assert len(out[own][1]) == size
    assert seen == len(rows), "an entry without a folder above it"
    assert mounts == set(nested)
    before = len(out)
    for path, sha1 in sorted(nested.items()):
        _read(sha1, path, get, out, by_the_tool)
    below = list(out.values())[before:]
    assert counts[b"self_nested"] == len(nested)
    assert counts[b"self_regular"] == sum(1 for r in rows.values() if r[3] & 13 == 4)
    own = 0 if by_the_tool else counts[b"self_regular"]
    assert counts[b"subtree_regular"] == own + sum(1 for kind, _ in below if kind == "file")
