"""Keys of the objects in a repository, and the text of its manifest.

Both have the format of CvmFS: https://github.com/cvmfs/cvmfs (2.12.0), `manifest.cc`, `upload_s3.cc`. May import:
nothing of storelab.
"""

import hashlib
import re
from collections.abc import Mapping

REFLOG, MANIFEST = ".cvmfsreflog", ".cvmfspublished"
WHOLE, CHUNK, CATALOG = "", "P", "C"
KINDS = {WHOLE: "data", CHUNK: "chunk", CATALOG: "catalog"}
# letter in the manifest -> suffix of the object: certificate, history, metainfo
SUFFIXES = {"X": "X", "H": "H", "M": "M"}
_KEY = re.compile(r"(?:[^/]+/)?data/([0-9a-f]{2})/([0-9a-f]{38})([A-Z]?)")
_LETTERS = "CBRDSGANXHTMY"  # of a manifest, in the order in which CvmFS writes them


def place(name: str) -> str:
    """Return the path of an object relative to its repository. name: 40 hexadecimal digits and the suffix."""
    return f"data/{name[:2]}/{name[2:]}"


def key(repository: str, digest: str, suffix: str = "") -> str:
    """Return the key of an object in the store from the digest of its content."""
    return f"{repository}/{place(digest + suffix)}"


def parts(key: str) -> tuple[str, str] | None:
    """Return (40 hexadecimal digits, suffix) of a key with a digest; None for other keys."""
    found = _KEY.fullmatch(key)
    return (found[1] + found[2], found[3]) if found else None


def content_type(key: str) -> str:
    """Return the Content-Type header that CvmFS sends with the PUT of this key."""
    return "application/x-cvmfs" if key.rpartition("/")[2].startswith(".cvmfs") else "application/octet-stream"


def cache_control(key: str) -> str:
    """Return the Cache-Control header that CvmFS sends with the PUT of this key."""
    return "max-age=61" if key.rpartition("/")[2].startswith(".cvmfs") else "max-age=259200"


def manifest_text(fields: dict[str, str]) -> bytes:
    """Return the text of a manifest: one line for each field, and their SHA-1. It has no signature (field X)."""
    if unknown := set(fields) - set(_LETTERS):
        raise ValueError(f"a manifest has no field {min(unknown)!r}")
    text = "".join(f"{letter}{fields[letter]}\n" for letter in _LETTERS if letter in fields).encode()
    return text + b"--\n" + hashlib.sha1(text).hexdigest().encode() + b"\n"


def further_objects(repository: str, fields: Mapping[str, str]) -> list[str]:
    """Return the keys of the objects that a manifest names in addition to its root catalog."""
    return [key(repository, fields[letter], suffix) for letter, suffix in SUFFIXES.items() if letter in fields]


def manifest_fields(blob: bytes) -> dict[str, str]:
    """Return the fields of a manifest: letter -> value. Raise ValueError if it is damaged or incomplete."""
    text, mark, rest = blob.partition(b"--\n")
    if not mark or rest.split(b"\n")[0] != hashlib.sha1(text).hexdigest().encode():
        raise ValueError("the manifest is damaged: its SHA-1 is wrong")
    fields = {line[:1]: line[1:] for line in text.decode("utf-8", "replace").splitlines()}
    if not {"C", "S", "N"} <= set(fields):
        raise ValueError("the manifest names no root catalog, revision and repository")
    return fields
