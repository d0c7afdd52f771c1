"""A software distribution: how fast days of a release are made, and the books of 18 million objects asked. A part for each subject."""

import publish_prepare
from common import options, report, run, sized


def main() -> None:
    args = options(__doc__)
    values: dict[str, list[float]] = {}
    values |= publish_prepare.prepared(sized(args, 5, 2, 1), sized(args, 10_000, 4000, 200))
    books = (publish_prepare.ALL, 110), (publish_prepare.ALL, 11), (10_000, 2)
    values |= publish_prepare.difference(sized(args, 5, 2, 1), *sized(args, *books), sized(args, 164_000, 164_000, 100))
    report("publish", sized(args, 5, 2, 1), values, args)


if __name__ == "__main__":
    run(main)
