"""Proof of a collection: all that is alive is read again, and of the dead nothing is left, then and a while later.

What is alive was walked before the collection began. May import: `proof`, `staged`, `stores`, `datasets`.
"""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from storelab.datasets.release import catalogs, names
from storelab.engines.contract import Check
from storelab.workloads.distribution import proof
from storelab.workloads.distribution.proof import MOST_SHOWN, THREADS
from storelab.workloads.distribution.staged import Staged

LATER_S = 10.0  # until the dead are looked for once more
MOST_ASKED = 5000  # dead objects that are asked for one by one, spread evenly over their names; all are listed


def look(
    staged: Staged,
    keep: int,
    repository: str,
    fetch: catalogs.Fetch,
    listed: Callable[[], Iterable[str]],
    later_s: float | None = None,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(counts for the record, checks as fields of `contract.Check`). listed: keys of all objects of the repository.

    alive, dead: objects; read: those that were read again, reflog and manifest too; lost: of these, missing or damaged;
    lingering, left: dead ones that were listed or answered right afterwards, and a while later; others: objects in the
    repository that nobody put there.
    """
    dead = staged.dead
    own = [f"{repository}/{name}" for name in (names.REFLOG, names.MANIFEST)]
    every = sorted(staged.alive)
    asked = sorted(dead)[:: max(1, -(-len(dead) // MOST_ASKED))]
    seen, strangers = _there(dead, asked, fetch, staged.objects.keys() | {*own}, listed)
    first = time.monotonic()
    problems = [*_wrong_ends(staged, keep, repository, fetch), *proof.verified(fetch, [*every, *own])]
    time.sleep(max(0.0, first + (LATER_S if later_s is None else later_s) - time.monotonic()))
    left, strangers_left = _there(dead, asked, fetch, staged.objects.keys() | {*own}, listed)
    counts = {
        "alive": len(every),
        "dead": len(dead),
        "dead_bytes": sum(staged.objects[key] for key in dead),
        "read": len(every) + len(own),
        "asked": len(asked),
        "lost": len(problems),
        "lingering": len(seen),
        "left": len(left),
        "others": len(strangers | strangers_left),
    }
    told = f"{counts['read']} objects read again, {len(problems)} problems"
    gone = f"{len(dead)} dead objects: {len(seen)} still there right afterwards, {len(left)} a while later"
    gone += f"; {counts['others']} objects that nobody put there" if counts["others"] else ""
    return counts, [
        asdict(Check("all alive", not problems, _with(told, problems))),
        asdict(Check("dead gone", not left and not counts["others"], _with(gone, sorted(left)))),
    ]


def _with(told: str, examples: list[str]) -> str:
    return f"{told}: {'; '.join(examples[:MOST_SHOWN])}" if examples else told


def _there(
    dead: set[str], asked: list[str], fetch: catalogs.Fetch, known: set[str], listed: Callable[[], Iterable[str]]
) -> tuple[set[str], set[str]]:
    """(dead ones that are listed or answer, keys that are listed and not known)."""
    keys = set(listed())

    def answers(key: str) -> bool:
        try:
            fetch(key)
        except (LookupError, FileNotFoundError):
            return False
        return True

    with ThreadPoolExecutor(THREADS) as pool:
        answered = {key for key, there in zip(asked, pool.map(answers, asked), strict=True) if there}
    return (keys & dead) | answered, keys - known


def _wrong_ends(staged: Staged, keep: int, repository: str, fetch: catalogs.Fetch) -> Iterable[str]:
    """What is wrong with manifest and reflog: the last day, and the days that are kept."""
    try:
        fields = names.manifest_fields(fetch(f"{repository}/{names.MANIFEST}"))
        roots = catalogs.reflog_roots(fetch(f"{repository}/{names.REFLOG}"))
    except (LookupError, OSError, ValueError) as error:
        yield f"manifest or reflog: {error}"
        return
    if fields["C"] != staged.roots[-1]:
        yield f"the manifest names the root {fields['C']}, the last day has {staged.roots[-1]}"
    if roots != staged.roots[-keep:]:
        yield f"the reflog names {len(roots)} roots, not just the {keep} that are kept"
