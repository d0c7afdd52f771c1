"""Find the objects in a store that storelab wrote, according to its notes and never only by their place.

Before an attempt writes, the possible keys and sizes of its objects are recorded. Before a data set is uploaded, its
objects are recorded. No requests are added to those that are measured. The notes are stored both in the campaign's
folder and in the folder `state`, so that one copy is enough. Only objects that match a note are ever deleted. Manifests
and records do not count as notes, because another storelab possibly wrote the objects that they name.
"""

import getpass
import hashlib
import json
import os
import re
import socket
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storelab.core.errors import shown
from storelab.core.model import Point
from storelab.datasets import payload
from storelab.stores.base import Store
from storelab.stores.protocols.endpoint import Bucket
from storelab.workloads.base import Made

if TYPE_CHECKING:  # a client process must start fast
    from storelab.core.config import Config

MARKER = ".storelab"  # object that marks a bucket or a prefix as made by storelab
# keys of each kind of line in a note
_KEYS = ({"attempt", "clients", "made"}, {"dataset", "bodies", "buckets"}, {"writer"})
STAGED, STAGED_BYTES = ".staged", 64  # name and size in bytes of the proof next to a data set: a SHA-256
_TEMPORARY = re.compile(r"\.[0-9a-f]{12}\.storelab-tmp\Z")  # suffix of an interrupted upload to a folder


def root_copies(dataset: Mapping[str, Any]) -> int:
    """Return the number of copies of the file of a data set of kind `root` in a store."""
    return dataset["buckets"] * dataset.get("files", 1)


def columns(dataset: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the columns of the manifest: key (relative to the bucket's prefix), bucket index, body index.

    They are empty for folders of many keys, because the names of the keys are derived from their numbers.
    """
    if dataset["kind"] == "keys":
        return {"key": [], "bucket": [], "body": []}
    if dataset["kind"] == "payload":
        return payload.objects(dataset)
    copies, each = root_copies(dataset), dataset.get("files", 1)
    names = ["events.root"] if each == 1 else [f"events-{i:04d}.root" for i in range(each)]
    return {
        "key": [f"data/{dataset['name']}/{name}" for _ in range(dataset["buckets"]) for name in names],
        "bucket": [i // each for i in range(copies)],
        "body": [0] * copies,
    }


class Written:
    """The objects of one campaign that storelab wrote into a store.

    It is callable: `ours(bucket's name, complete key, bytes or None)`. Without a size, only the name is compared,
    because unfinished uploads have no size. An interrupted upload leaves nothing in S3, but other stores can keep a
    shorter file.
    """

    def __init__(self, store: Store, lines: Iterable[Mapping[str, Any]] = ()):
        self.atomic = store.protocol == "s3"
        self.attempts: dict[str, tuple[int, list[Made]]] = {}
        self.objects: dict[tuple[str, str], set[int]] = {}
        self.folders: dict[tuple[str, str], Mapping[str, Any]] = {}  # folders of many keys, by bucket and complete name
        for line in lines:
            with suppress(ValueError, KeyError, TypeError, IndexError, AttributeError, re.error):  # a damaged note
                if "attempt" in line:
                    self.attempt(str(line["attempt"]), line["clients"] + 0, [_checked(*m) for m in line["made"]])
                elif "dataset" in line:
                    self.dataset(line["dataset"], columns(line["dataset"]), line["bodies"], line["buckets"])

    def attempt(self, name: str, clients: int, made: list[Made]) -> None:
        self.attempts[name] = clients, made

    def dataset(
        self, dataset: Mapping[str, Any], found: Mapping[str, list[Any]], bodies: list[int], places: list[list[str]]
    ) -> None:
        """Add a data set.

        found: the result of `columns`; bodies: bytes of each content; places: name and prefix of each bucket.
        """
        for key, b, body in zip(found["key"], found["bucket"], found["body"], strict=True):
            self.objects.setdefault((places[b][0], places[b][1] + key), set()).add(bodies[body])
        if dataset["kind"] == "keys":
            self.folders |= {(name, prefix + payload.keys_folder(dataset)): dataset for name, prefix in places}
        proof = f"{places[0][1]}data/{dataset['name']}/{STAGED}"
        self.objects[places[0][0], proof] = {STAGED_BYTES}

    def __call__(self, bucket: str, key: str, size: int | None) -> bool:
        whole = _TEMPORARY.sub("", key) if not self.atomic else key
        cut = not self.atomic
        known = self.objects.get((bucket, whole), set()) | self._of_folder(bucket, whole)
        fits = bool(known) if size is None else size in known or (cut and size <= max(known, default=-1))
        return fits or any(self._made(name, bucket, whole, size, cut) for name in self._named(bucket, whole))

    def _of_folder(self, bucket: str, key: str) -> set[int]:
        """Return the size of a key in a folder of many keys, or an empty set for any other key."""
        for (name, folder), dataset in self.folders.items():
            if name == bucket and key.startswith(folder):
                n = payload.key_number(dataset["keys"], dataset["depth"], key[len(folder) :])
                return set() if n is None else {dataset["object_size"]}
        return set()

    def _named(self, bucket: str, key: str) -> Iterator[str]:
        """Return the attempts whose name is in the key, and all attempts that made buckets."""
        parts = set(key.split("/"))
        named = self.attempts.keys() & parts
        return (name for name, (_, made) in self.attempts.items() if name in named or any(m.bucket for m in made))

    def _made(self, attempt: str, bucket: str, key: str, size: int | None, cut: bool) -> bool:
        clients, made = self.attempts[attempt]
        for form in made:
            # Below the prefix in an assigned bucket: `<prefix>/<campaign>/b0000/`, or nothing.
            fit = re.fullmatch(rf"(?:[a-z0-9-]+/[^/]+/b\d{{4,}}/)?(?:{form.key})", key)
            if fit is None or (form.bucket and not re.fullmatch(form.bucket, bucket)):
                continue
            if int(fit.groupdict().get("client") or 0) >= clients:
                continue
            if size is None or (0 if cut else form.least) <= size <= form.most:
                return True
        return False


def _checked(key: str, least: int, most: int, bucket: str = "") -> Made:
    """Return the objects of an attempt from a line of a note.

    Raises ValueError, TypeError or re.error if it is damaged.
    """
    re.compile(key), re.compile(bucket)
    return Made(key, least + 0, most + 0, bucket)


def written_by(store: Store, point: Point, attempt: str, made: list[Made]) -> Written:
    """Return the objects that one attempt wrote."""
    out = Written(store)
    out.attempt(attempt, point.axes.get("clients", 1), made)
    return out


def _notes(config: "Config", store: str) -> list[Path]:
    name = f"written-{store}.jsonl"
    return [config.campaign_dir / "work" / name, Path(config.state) / f"{store}.{config.name}.written.jsonl"]


def _note(config: "Config", store: str, line: Mapping[str, Any]) -> None:
    """Append a line to the notes, before anything is written into the store."""
    text = json.dumps({**line, "sum": _sum(line)})
    for path in _notes(config, store):
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a") as f:
            f.write("\n" * _half(path) + text + "\n")
            f.flush()
            os.fsync(f.fileno())


def _sum(line: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(line).encode()).hexdigest()[:16]


def _half(path: Path) -> bool:
    """Return True if the last line is incomplete because the process was killed."""
    with open(path, "rb") as f:
        size = f.seek(0, os.SEEK_END)
        f.seek(max(0, size - 1))
        return f.read() not in (b"", b"\n")


def note_attempt(config: "Config", store: Store, attempt: str, point: Point, made: list[Made]) -> None:
    """Record an attempt that is about to write."""
    _note(config, store.name, _objects_of_attempt(attempt, point.axes.get("clients", 1), made))


def _objects_of_attempt(attempt: str, clients: int, made: list[Made]) -> dict[str, Any]:
    return {"attempt": attempt, "clients": clients, "made": [list(m) for m in made]}


def note_made(config: "Config", store: Store, name: str, made: list[Made]) -> None:
    """Record objects, with `name` in their keys, that are about to be made outside of attempts.

    They are recorded once.
    """
    line = _objects_of_attempt(name, 1, made)
    if any(line not in list(_lines(path)) for path in _notes(config, store.name)):
        _note(config, store.name, line)


def note_dataset(
    config: "Config", store: Store, dataset: dict[str, Any], bodies: list[int], places: list[Bucket]
) -> None:
    """Record a data set that is about to be uploaded. bodies: the bytes of each distinct body."""
    where = [[b.name, b.prefix] for b in places]
    line = {"dataset": dataset, "bodies": bodies, "buckets": where}
    if any(line not in list(_lines(path)) for path in _notes(config, store.name)):
        _note(config, store.name, line)


def noted(config: "Config", store: Store) -> Written:
    """Return the objects in the notes of the campaign."""
    return Written(store, (line for path in _notes(config, store.name) for line in _lines(path)))


def writer(config: "Config", store: Store) -> dict[str, str]:
    """Return the identity of this storelab for its marks: user, host, results folder, and an id from the notes."""
    ids = _ids(config, store)
    if not ids:
        _note(config, store.name, {"writer": uuid.uuid4().hex})
        ids = _ids(config, store)
    return _names(config) | {"id": ids[0]}


def foreign(config: "Config", store: Store, mark: Mapping[str, Any]) -> str:
    """Return the writer of a mark, or '' if it is this storelab or an older version whose marks have no writer.

    The id in the notes is compared first, because results can be moved, and a cluster has several hosts.
    """
    named = mark.get("writer")
    if not isinstance(named, dict) or named.get("id") in _ids(config, store):
        return ""
    who = {key: str(named.get(key, "unknown")) for key in ("user", "host", "results")}
    if who == _names(config):
        return ""
    return shown(f"{who['user']}@{who['host']}, results folder {who['results']}", 200)


def _names(config: "Config") -> dict[str, str]:
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # there is no entry in the table of users
        user = str(os.getuid())
    return {"user": user, "host": socket.gethostname(), "results": str(Path(config.results).absolute())}


def _ids(config: "Config", store: Store) -> list[str]:
    lines = (line for path in _notes(config, store.name) for line in _lines(path))
    return [line["writer"] for line in lines if "writer" in line]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the undamaged lines of a note without their checksums. Older lines have no checksums.

    An incomplete line, caused by a kill, was written before any of its objects. A damaged line is ignored: its objects
    stay in the store, and a message is printed.
    """
    if not path.exists():
        return
    texts = path.read_text(errors="replace").splitlines(keepends=True)
    for number, text in enumerate(texts, 1):
        try:
            line = json.loads(text)
            if isinstance(line, dict) and line.pop("sum", None) in (None, _sum(line)) and set(line) in _KEYS:
                yield line
                continue
        except (ValueError, RecursionError):
            if number == len(texts) or not text.endswith("}\n"):
                continue  # an incomplete line
        message = (
            f"storelab: {path}, line {number}: the line was altered; the objects that it describes are not deleted"
        )
        print(message, file=sys.stderr, flush=True)
