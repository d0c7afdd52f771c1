"""Measure points with several roles. Each subject is a separate module.

The subjects are the cost of roles, faults, mixes and ledgers, and whether their records are right. lossy.py tests the
reading of ledgers.
"""

import roles_events
import roles_ledger
import roles_mix
from common import options, report, run, sized


def main() -> None:
    args = options(__doc__)
    values: dict[str, list[float]] = {}
    values |= roles_mix.planned(sized(args, 10, 5, 2), sized(args, 30.0, 10.0, 1.0))
    values |= roles_ledger.cost(sized(args, 30, 10, 1), sized(args, 2.0, 1.0, 0.3))
    values |= roles_events.placed(sized(args, 10, 3, 1), sized(args, 10.0, 5.0, 2.0))
    report("roles", sized(args, 10, 5, 2), values, args, servers=["nullserver", "seaweedfs"])


if __name__ == "__main__":
    run(main)
