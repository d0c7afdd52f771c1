"""Measure a software distribution. Each subject is a separate module.

The subjects are how fast days of a release are made, published and replicated, and how fast the database of 18 million
objects finds new ones.
"""

import publish_days
import publish_prepare
from common import options, report, run, sized


def main() -> None:
    args = options(__doc__)
    values: dict[str, list[float]] = {}
    values |= publish_prepare.prepared(sized(args, 5, 2, 1), sized(args, 10_000, 4000, 200))
    books = (publish_prepare.ALL, 110), (publish_prepare.ALL, 11), (10_000, 2)
    values |= publish_prepare.difference(sized(args, 5, 2, 1), *sized(args, *books), sized(args, 164_000, 164_000, 100))
    values |= publish_days.published(*sized(args, (5, 0.01), (3, 0.01), (1, 0.0005)))
    values |= publish_days.replicated(*sized(args, (2, 110, 0.001), (1, 110, 0.001), (1, 3, 0.0003)))
    report("publish", sized(args, 5, 2, 1), values, args, servers=["seaweedfs"])


if __name__ == "__main__":
    run(main)
