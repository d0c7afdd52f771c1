"""Compare the read planner with brute force on seeded small selections and links.

Brute force tries every way to merge ranges and to split each request. Plain Python computes the cost, following the
description of the model. Results are counts and ratios, not times: they are the same on every machine.
"""

import itertools
import math
import random
from collections.abc import Iterator

import numpy as np
from common import options, report, run, sized

from readplan import Link, plan
from readplan.choose import PIECES

MOST = 9  # maximum number of ranges of a case
MORE = 12  # number of ranges of larger cases, for which the planner does not try every way to merge
SMALL, MIDDLE, LARGE = (100, 60_000), (60_000, 1_500_000), (1_500_000, 40_000_000)  # bytes of a range
LARGE_ONES = 3  # maximum number of large ranges; more would have too many ways to split
WISHES = (
    {},
    {},
    {"thrift": 3.0},
    {"thrift": 15.0},
    {"thrift": math.inf},
    {"max_amplification": 1.0},
    {"max_amplification": 1.0002},
    {"max_amplification": 1.5},
    {"max_amplification": 3.0, "thrift": 3.0},
)
Run = tuple[int, int]  # first byte, one past the last


def spread(random_: random.Random, low: float, high: float) -> float:
    """Draw a number evenly on a logarithmic scale."""
    return math.exp(random_.uniform(math.log(low), math.log(high)))


def some_link(random_: random.Random) -> Link:
    """Draw a link, from a local disk to another continent. Half have a curve of a server, a quarter an unusual one."""
    stream = spread(random_, 1e6, 3e9)
    bandwidth, parallel = stream * spread(random_, 1, 64), random_.choice([1, 4, 16, 64])
    curve, took = [], 0.0
    if random_.random() < 0.5:
        odd = random_.choice([0.1, 1.5])
        for size in (2**15, 2**17, 2**19, 2**21):
            took = max(took, size / bandwidth * math.exp(random_.gauss(0, odd)))
            curve.append((size, took))
    several = (
        {"ranges": 500, "part_bytes": 120, "part_s": spread(random_, 1e-8, 1e-5)} if random_.random() < 0.2 else {}
    )
    return Link(
        spread(random_, 1e-5, 0.2),
        spread(random_, 1e-6, 1e-3),
        spread(random_, 1e-6, 1e-2),
        bandwidth,
        stream,
        parallel,
        tuple(curve),
        random_.choice([0, 300, 700]),
        **several,
    )


def some_ranges(random_: random.Random, n: int, most_large: int) -> list[tuple[int, int]]:
    """Draw (offset, size) of n ranges in any order; some touch or overlap."""
    out, at, large = [], random_.randrange(1000), 0
    for _ in range(n):
        kind = random_.choice([SMALL, SMALL, MIDDLE, LARGE])
        if kind is LARGE and (large := large + 1) > most_large:
            kind = SMALL
        size = round(spread(random_, *kind))
        gap = random_.choice([0, -random_.randrange(size), *(round(spread(random_, 10, 3e7)) for _ in range(6))])
        at = max(0, at + gap)
        out.append((at, size))
        at += size
    random_.shuffle(out)
    return out


def runs_of(ranges: list[tuple[int, int]]) -> list[Run]:
    """Merge ranges that touch or overlap."""
    out: list[Run] = []
    for start, stop in sorted((offset, offset + size) for offset, size in ranges):
        if out and start <= out[-1][1]:
            out[-1] = out[-1][0], max(out[-1][1], stop)
        else:
            out.append((start, stop))
    return out


class Model:
    """The cost model that `readplan.cost` describes: (time, wire bytes, cost) of requests with these lengths."""

    def __init__(self, link: Link, thrift: float):
        self.link, self.thrift = link, thrift
        self.known = [(0, 0.0), *link.curve]

    def busy(self, length: int) -> float:
        link = self.link
        if not link.curve or link.ranges > 1:
            return length / link.bandwidth
        for (a, s), (b, t) in itertools.pairwise(self.known):
            if length <= b:
                return s + (t - s) * (length - a) / (b - a)
        return self.known[-1][1] + (length - self.known[-1][0]) / link.bandwidth

    def of(self, pieces: int, asked: int, busy: float, longest: int) -> tuple[float, int, float]:
        link = self.link
        together = max(1, min(link.ranges, -(-pieces // link.parallel)))
        requests = -(-pieces // together)
        wire = asked + requests * link.header_bytes + (pieces * link.part_bytes if link.ranges > 1 else 0)
        first = min(requests, link.parallel)
        seconds = link.rtt_s + (first - 1) * link.first_s + (requests - first) * link.request_s
        if link.ranges > 1:
            seconds += pieces * link.part_s
        moving = busy + (wire - asked) / link.bandwidth
        seconds += max(moving, wire / (first * link.stream), longest / link.stream)
        if math.isinf(self.thrift):
            return seconds, wire, wire
        occupied = max(0.0, link.request_s - link.rtt_s / link.parallel)
        return seconds, wire, seconds + self.thrift * (wire / link.bandwidth + requests * occupied)

    def lengths(self, lengths: list[int]) -> tuple[float, int, float]:
        return self.of(len(lengths), sum(lengths), sum(map(self.busy, lengths)), max(lengths))


def every(runs: list[Run], model: Model) -> Iterator[tuple[float, int, float]]:
    """Yield (time, wire bytes, cost) of every way to merge neighbours and to split each request into equal parts."""
    parts: dict[int, list[tuple[int, float, int]]] = {}  # length -> (pieces, busy of all, length of one)
    for merged in itertools.product((False, True), repeat=len(runs) - 1):
        lengths, begin = [], runs[0][0]
        for i, together in enumerate((*merged, False)):
            if not together:
                lengths.append(runs[i][1] - begin)
                begin = runs[i + 1][0] if i + 1 < len(runs) else 0
        for length in lengths:
            if length not in parts:
                counts = sorted({-(-length // piece) for piece in (length, *PIECES)})
                parts[length] = [(n, n * model.busy(-(-length // n)), -(-length // n)) for n in counts]
        asked = sum(lengths)
        for ways in itertools.product(*(parts[length] for length in lengths)):
            yield model.of(sum(w[0] for w in ways), asked, sum(w[1] for w in ways), max(w[2] for w in ways))


def best_of(runs: list[Run], model: Model, bound: float | None) -> tuple[float, bool]:
    """Return (smallest cost, True), or (smallest number of wire bytes, False) if no plan keeps the bound."""
    needed = sum(stop - start for start, stop in runs)
    within, fewest = math.inf, math.inf
    for _, wire, cost in every(runs, model):
        fewest = min(fewest, wire)
        if bound is None or wire <= bound * needed:
            within = min(within, cost)
    return (within, True) if math.isfinite(within) else (fewest, False)


def compare(seed: int, more: bool = False) -> dict[str, float]:
    """Return the results of one case: cost over the best, and whether bound, ranges or predicted costs are wrong.

    more: use `MORE` ranges, at most one of them large.
    """
    random_ = random.Random(f"planner {seed} {more}")
    n, large = (MORE, 1) if more else (random_.randint(1, MOST), LARGE_ONES)
    link, ranges, wish = some_link(random_), some_ranges(random_, n, large), random_.choice(WISHES)
    runs, model, bound = runs_of(ranges), Model(link, wish.get("thrift", 0.0)), wish.get("max_amplification")
    best, kept = best_of(runs, model, bound)
    found = plan(*np.array(ranges).T, link, **wish)
    asked = list(zip(found.start.tolist(), found.stop.tolist(), strict=True))
    seconds, wire, cost = model.lengths([stop - start for start, stop in asked])
    needed = sum(stop - start for start, stop in runs)
    covered = runs_of([(start, stop - start) for start, stop in asked])
    return {
        "over": (cost if kept else wire) / best,
        "bound_broken": bool(bound is not None and kept and wire > bound * needed),
        "beyond_file": any(a < runs[0][0] or b > runs[-1][1] for a, b in asked),
        "missed": not all(any(a <= start and stop <= b for a, b in covered) for start, stop in runs),
        "seconds_wrong": not math.isclose(found.seconds, seconds, rel_tol=1e-9) or found.wire_bytes != wire,
    }


def main() -> None:
    args = options(__doc__)
    cases, beyond = sized(args, 2000, 300, 20), sized(args, 200, 20, 1)
    found = [compare(seed) for seed in range(cases)]
    more = [compare(seed, more=True) for seed in range(beyond)]
    over = sorted(f["over"] for f in found)
    values = {
        "worst_over_best": [over[-1]],
        "median_over_best": [over[cases // 2]],
        "worst_over_best_of_12": [max(f["over"] for f in more)],
    }
    counted = ("bound_broken", "beyond_file", "missed", "seconds_wrong")
    report("planner", cases, values | {name: [sum(f[name] for f in found + more)] for name in counted}, args)


if __name__ == "__main__":
    run(main)
