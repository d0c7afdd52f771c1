"""Count what storelab misses after kills, flipped bytes, damaged files, mistaken inputs, server quirks and variables.

Seeds are different from those of the tests. A part is a module of `hardened/` or of this folder. Its function returns
figures, name -> count; PARTS lists all functions.
"""

import argparse
from collections.abc import Callable

import console_blocks
import mistaken
from common import options, report, run, sized
from hardened import damages, flips, kills, leftovers, quirks, variables

Part = Callable[[argparse.Namespace], dict[str, float]]
PARTS: tuple[Part, ...] = (
    lambda args: kills.figures(sized(args, 300, 30, 2)),
    lambda args: flips.figures(sized(args, 300, 30, 3)),
    leftovers.figures,
    lambda args: damages.figures(sized(args, 500, 50, 4)),
    lambda args: console_blocks.figures(*sized(args, (False, None), (True, None), (True, 1))),
    lambda args: mistaken.tried(sized(args, 2000, 200, 21), seed=20150413),
    quirks.figures,
    variables.figures,
)


def main() -> None:
    args = options(__doc__)
    found: dict[str, float] = {}
    for part in PARTS:
        found |= part(args)
    report("hardening", 1, {name: [float(count)] for name, count in found.items()}, args)


if __name__ == "__main__":
    run(main)
