"""Read what `mutants.py` keeps in `.storelab/mutants/kills.jsonl`: which tests detect which planted fault.

python benchmarks/mutation/kills.py only KILLS            faults that only one test detects, and this test python
benchmarks/mutation/kills.py rooms KILLS           faults and the share of killed ones by room python
benchmarks/mutation/kills.py compare BEFORE AFTER  killed before, survives now, with old killers
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

Kills = dict[tuple[str, int], dict[str, Any]]


def read(file: Path) -> Kills:
    """Return the newest result of each fault, by module and number of the fault."""
    return {(r["module"], r["number"]): r for r in map(json.loads, file.read_text().splitlines())}


def described(result: dict[str, Any]) -> str:
    """Describe a fault in one line."""
    place = f"{result['module']}:{result['line']} {result['function']}"
    return f"{place} ({result['kind']}): {result['before']} → {result['after']}"


def only(kills: Kills) -> dict[str, list[str]]:
    """Return test function -> faults that only this function detects."""
    out = defaultdict(list)
    for result in kills.values():
        functions = {killer.partition("[")[0] for killer in result["killers"]}
        if len(functions) == 1:
            out[functions.pop()].append(described(result))
    return dict(sorted(out.items()))


def rooms(kills: Kills) -> dict[str, tuple[int, int]]:
    """Return for each room how many of its faults were killed, and how many were tried."""
    out = defaultdict(lambda: (0, 0))
    for result in kills.values():
        for room in (result["room"], "all"):
            killed, every = out[room]
            out[room] = killed + (result["status"] != "survived"), every + 1
    return dict(out)


def lost(before: Kills, after: Kills) -> list[dict[str, Any]]:
    """Return the old results of faults in both samples that were killed before and survive now."""
    both = [key for key in before if key in after]
    return [before[k] for k in both if before[k]["status"] != "survived" and after[k]["status"] == "survived"]


def main(words: list[str]) -> None:
    """Run the command that the command line names, and print its result."""
    what, files = words[0], [read(Path(w)) for w in words[1:]]
    if what == "only":
        for test, faults in only(files[0]).items():
            print(test, *faults, sep="\n    ")
    elif what == "rooms":
        for room, (killed, every) in rooms(files[0]).items():
            print(f"{room:12s} {killed:5d} of {every:5d}  {killed / every:.3f}")
    else:
        before, after = files
        same = before.keys() & after.keys()
        for result in lost(before, after):
            print(described(result), *result["killers"], sep="\n    ")
        for name, kills in (("before", before), ("after", after)):
            killed, every = rooms({k: kills[k] for k in same})["all"]
            print(f"{name}: {killed} of {every} killed, {killed / every:.4f}")


if __name__ == "__main__":
    main(sys.argv[1:])
