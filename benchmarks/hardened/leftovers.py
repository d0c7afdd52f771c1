"""Count the entries that `storelab clean` leaves in a store without reporting them.

The server's own entries are compared with the printed numbers. Each kind is a server or a folder in which entries
remain or are hidden: old versions, locks, incomplete listings, unfinished uploads, files of others. A campaign is
staged there twice, and cleaned.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from common import ROOT, environ, laboratory, say, storelab

sys.path.append(str(ROOT / "tests" / "support"))
from honest_s3 import FIRST, Bucket, Object, honest_s3

SWEEPS = {"down": {"workload": "get", "objects": 6, "axes": {"object_size": "1 kB"}}}
MARK, MOST_S = ".storelab", 60
# An endless listing stops after a few pages here; `storelab` itself reads more of them.
FEW_PAGES = """
import sys
from storelab.stores.protocols import s3
s3.MAX_PAGES = 50
from storelab.cli import main
sys.argv[0] = "storelab"
main()
"""
Change = Callable[[Any, Bucket], None]


def nothing(server: Any, bucket: Bucket) -> None:
    """Leave the server as staging left it."""


def begun(server: Any, bucket: Bucket) -> None:
    """Begin an upload of an object of the campaign and one of another user, which are never finished."""
    key = next(key for key in bucket.objects if key != MARK)
    server.uploads |= {"mine": (key, {}), "theirs": ("thesis", {})}


def protected(server: Any, bucket: Bucket, hold: bool) -> None:
    """Protect two versions from deletion, one of them hidden by a delete marker."""
    keys = [key for key in bucket.objects if key != MARK][:2]
    for key in keys:
        bucket.objects[key].legal_hold = hold
        bucket.objects[key].lock = None if hold else ("GOVERNANCE", time.time() + 3600)
    bucket.forget(keys[0])


def hidden(server: Any, bucket: Bucket) -> None:
    """Delete an object of another user, which can be restored."""
    bucket.store("thesis", Object(b"years"))
    bucket.forget("thesis")


def forged(server: Any, bucket: Bucket) -> None:
    """Put an object of another user whose key has two lines."""
    bucket.store("x\nfar: removed 12 objects, 1 bucket", Object(b"1"))


# Name -> faults of the server, settings of its buckets, change between staging and cleaning.
KINDS: dict[str, tuple[tuple[str, ...], dict[str, Any], Change]] = {
    "plain": ((), {}, nothing),
    "versioned": ((), {"versioning": "Enabled"}, nothing),
    "suspended": ((), {"versioning": "Suspended"}, nothing),
    "versioning not reported": (("versioning not reported",), {"versioning": "Enabled"}, nothing),
    "lock, compliance": ((), {"versioning": "Enabled", "lock": ("COMPLIANCE", 1)}, nothing),
    "lock, governance": ((), {"versioning": "Enabled", "lock": ("GOVERNANCE", 1)}, nothing),
    "retention per object": ((), {"versioning": "Enabled", "lock": ()}, partial(protected, hold=False)),
    "legal hold": ((), {"versioning": "Enabled", "lock": ()}, partial(protected, hold=True)),
    "MFA delete": ((), {"versioning": "Enabled", "mfa_delete": True}, nothing),
    "hidden versions of others": (("deletes full buckets",), {"versioning": "Enabled"}, hidden),
    "truncated listing": (("more without a token",), {}, nothing),
    "truncated versions": (("more without a token",), {"versioning": "Enabled"}, nothing),
    "pages repeat": (("pages repeat",), {}, nothing),
    "pages without an end": (("pages without an end",), {}, nothing),
    "unfinished uploads": ((), {}, begun),
    "uploads not listed": (("no list of uploads",), {}, begun),
    "deletes nothing": (("deletes nothing",), {}, nothing),
    "forged line": ((), {}, forged),
}


def unsaid(done: subprocess.CompletedProcess[str], left: int) -> int:
    """Return how many of the remaining entries the command did not report.

    If it cannot complete a listing, it must end with an error. If it is not allowed to list uploads, it must print the
    reason.
    """
    text = done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if "removed" in line]
    if "Traceback" in text or len(lines) > 1 or done.returncode not in (0, 1):
        return max(1, left)
    if done.returncode and "is incomplete" in text:
        return 0
    counted = sum(map(int, re.findall(r"(\d+) (?:objects? not written by this storelab|own entr(?:y|ies))", text)))
    return 0 if "may not list unfinished uploads" in text else abs(left - counted)


def cleaned(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", FEW_PAGES, "clean", "bench", "--yes"]
    try:
        return subprocess.run(command, cwd=folder, env=environ(), capture_output=True, text=True, timeout=MOST_S)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, -1, "", f"no end in {MOST_S} s")


@contextmanager
def campaign(store: dict[str, Any]) -> Iterator[Path]:
    """Yield the folder of a campaign with this store."""
    keys = {"AWS_ACCESS_KEY_ID": FIRST.access_key, "AWS_SECRET_ACCESS_KEY": FIRST.secret_key}
    with laboratory(SWEEPS, {"far": store}, stores_to_measure=["far"]) as folder, mock.patch.dict(os.environ, keys):
        yield folder


def of_s3(faults: tuple[str, ...], made: dict[str, Any], change: Change) -> int:
    with honest_s3("any signature") as (url, server), campaign({"kind": "s3", "endpoint": url}) as folder:
        server.made = partial(Bucket, **made)
        storelab(folder, "stage")
        storelab(folder, "stage", "--again")
        (bucket,) = (b for name, b in server.buckets.items() if name.startswith("storelab-"))
        change(server, bucket)
        server.faults |= set(faults)
        server.page = 3
        done = cleaned(folder)
        gone = bucket not in server.buckets.values()
        left = sum(key != MARK for key, _ in bucket.everything()) * (not gone or "deletes full buckets" in faults)
        return unsaid(done, left + len(server.uploads))


def of_two_storelabs() -> int:
    """Let a second storelab find the objects of a first one, and clean: it must delete none of them."""
    with honest_s3("any signature") as (url, server), campaign({"kind": "s3", "endpoint": url}) as first:
        storelab(first, "stage")
        staged = sum(len(bucket.objects) for bucket in server.buckets.values())
        with campaign({"kind": "s3", "endpoint": url}) as second:
            storelab(second, "stage")
            done = cleaned(second)
        left = sum(len(bucket.objects) for bucket in server.buckets.values())
        return staged - left + unsaid(done, left - 1)


def of_folder() -> int:
    """Clean a folder with files of others: an ordinary one, a link to a folder, a broken link and a pipe."""
    with campaign({"kind": "directory", "path": "files"}) as folder:
        (folder / "files").mkdir()
        storelab(folder, "stage")
        (bucket,) = (folder / "files").iterdir()
        (bucket / "data" / "thesis").write_text("years")
        (bucket / "data" / "folder").symlink_to("/")
        (bucket / "link").symlink_to("nowhere")
        os.mkfifo(bucket / "pipe")
        done = cleaned(folder)
        left = [path for path in bucket.rglob("*") if path.name != MARK and (path.is_symlink() or not path.is_dir())]
        return unsaid(done, len(left)) + 4 - len(left)


def figures(_: object = None) -> dict[str, float]:
    """Return the counts leftover_kinds and leftovers_unsaid."""
    kinds: dict[str, Callable[[], int]] = {name: partial(of_s3, *kind) for name, kind in KINDS.items()}
    kinds |= {"two storelabs": of_two_storelabs, "folder": of_folder}
    found = {}
    for name, measure in kinds.items():
        found[name] = measure()
        if found[name]:
            say(f"hardening: clean does not report all remaining entries: {name}: {found[name]}")
    say(f"hardening: {len(kinds)} kinds of remaining entries, {sum(found.values())} entries not reported")
    return {"leftover_kinds": len(kinds), "leftovers_unsaid": sum(found.values())}
