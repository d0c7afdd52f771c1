"""Statistics against the truth, on synthetic runs with known medians, ratios, knees and drifts: do they hold what they say?

Each figure is a fraction of draws; its low and high are those over the cases (distributions, numbers of runs, laws), so that no case
hides behind another. It needs no store and takes about two minutes; `--quick` draws knees and wholes less often.
"""

from collections.abc import Callable, Iterable
from itertools import product

import numpy as np
from common import options, report, run, say, sized
from scipy.stats import gamma

from storelab.analysis.records import windows
from storelab.analysis.statistics import medians
from storelab.analysis.statistics import ratios as comparing
from storelab.analysis.tables import scaling

DRAWS = 2000
SPREAD = 0.03  # run-to-run
RUNS = (6, 8, 10)  # the least with an interval of the median; the least that sees 5 %; more
POWER_RUNS = 8  # as docs/statistics.md says
Draw = Callable[[np.random.Generator, int], np.ndarray]


def _skewed(rng: np.random.Generator, n: int) -> np.ndarray:
    """Seldom much faster, at times much slower: a gamma variable upside down, of mean 1 and standard deviation SPREAD."""
    return 1 + SPREAD / np.sqrt(2) * (2 - rng.gamma(2, size=n))


SOURCES: dict[str, tuple[Draw, float]] = {  # run-to-run scatter around a true median
    "normal": (lambda rng, n: rng.normal(1, SPREAD, n), 1.0),
    "lognormal": (lambda rng, n: rng.lognormal(0, 0.3, n), 1.0),
    "skewed": (_skewed, 1 + SPREAD / np.sqrt(2) * (2 - gamma(2).median())),
}
NARROW = ("normal", "skewed")  # those of a spread of 3 %


def share(found: Iterable[bool]) -> float:
    return float(np.mean(list(found)))


def coverage(rng: np.random.Generator, draws: int, source: str, n: int) -> float:
    """How often the interval of the median holds the true one."""
    draw, truth = SOURCES[source]
    summaries = (medians.summarise(draw(rng, n)) for _ in range(draws))
    return share(s.low <= truth <= s.high for s in summaries)


def ratios(rng: np.random.Generator, draws: int, source: str, n: int, factor: float = 1.0) -> list[comparing.Ratio]:
    """n against n runs, B `factor` times as fast."""
    draw, _ = SOURCES[source]
    return [comparing.ratio(draw(rng, n), factor * draw(rng, n)) for _ in range(draws)]


def cannot_tell(rng: np.random.Generator, draws: int, source: str, n: int) -> float:
    return share(r.verdict == comparing.CANNOT_TELL for r in ratios(rng, draws, source, n))


def power(rng: np.random.Generator, draws: int, source: str, n: int, factor: float = 1.05) -> float:
    return share(r.verdict == comparing.FASTER for r in ratios(rng, draws, source, n, factor))


def whole(rng: np.random.Generator, draws: int, n: int, block: float, points: int = 10) -> float:
    """How often the interval of the whole holds the geometric mean; `block`: scatter that the runs of a repetition share."""
    hits = []
    for _ in range(draws):
        effects = np.log(1.02) + rng.normal(0, 0.1, points)
        sides = [rng.normal(0, SPREAD, (points, n)) + block * rng.normal(size=n) for _ in range(2)]
        a, b = ([dict(enumerate(row)) for row in np.exp(side)] for side in (sides[0], sides[1] + effects[:, None]))
        r = comparing.whole(a, b)
        hits.append(r.low <= np.exp(effects.mean()) <= r.high)
    return share(hits)


LAWS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "proportional": lambda x: x,
    "power": lambda x: x**0.8,
    "line": lambda x: 1 + 0.7 * x,
}


def curve(rng: np.random.Generator, law: str, knee: float, n: int, spread: float) -> tuple[np.ndarray, np.ndarray]:
    x = np.repeat([1.0, 2, 4, 8, 16, 32], n)
    return x, LAWS[law](np.minimum(x, knee)) * np.exp(rng.normal(0, spread, len(x)))


def knees(rng: np.random.Generator, draws: int, law: str, knee: float, n: int, spread: float) -> tuple[float, float]:
    """How often the interval holds the knee (where no upper bound is given, whether it lies beyond the lower one), and how often
    the curve is called by its name."""
    held, named = [], []
    wanted = scaling.KNEE if knee < 16 else scaling.RISING
    for _ in range(draws):
        shape, found = scaling.knee(*curve(rng, law, knee, n, spread))
        low, high = np.nan_to_num([found.low, found.high], nan=0.0, posinf=np.inf)
        held.append(low <= min(knee, 32) <= (high if shape == scaling.KNEE else np.inf))
        named.append(shape == wanted)
    return share(held), share(named)


def drifting(rng: np.random.Generator, draws: int, drift: float, scatter: float) -> float:
    """How often a window of 10 slices that scatter is called drifting; drift: change from its begin to its end over the mean."""
    middle = (np.arange(windows.SLICES) + 0.5) / windows.SLICES - 0.5
    series = 200 * (1 + drift * middle) * rng.normal(1, scatter, (draws, windows.SLICES))
    return share(windows.steadiness(np.round(s.clip(0)), 5.0) == "drifting" for s in series)


def main() -> None:
    args = options(__doc__)
    rng = np.random.default_rng(20150413)
    many, few = sized(args, DRAWS, DRAWS, 20), sized(args, DRAWS, 400, 5)
    values: dict[str, list[float]] = {"coverage": [coverage(rng, many, s, n) for s, n in product(SOURCES, RUNS)]}
    say("coverage of the median: done")
    values["aa_cannot_tell"] = [cannot_tell(rng, many, s, n) for s, n in product(SOURCES, RUNS)]
    values["power_5pct"] = [power(rng, many, s, POWER_RUNS) for s in NARROW]
    values["power_5pct_6_runs"] = [power(rng, many, s, 6) for s in NARROW]
    say("ratios: done")
    values["coverage_whole"] = [whole(rng, few, n, block) for n, block in product((3, 6), (0.0, 0.02))]
    say("the whole: done")
    found = [knees(rng, few, law, knee, n, s) for law, knee, n, s in product(LAWS, (3, 8, 100), (3, 6), (0.03, 0.1))]
    values["coverage_knee"], values["shape_named"] = ([f[i] for f in found] for i in (0, 1))
    say("knees: done")
    values["drift_false"] = [drifting(rng, many, 0.0, scatter) for scatter in (0.03, 0.05, 0.1)]
    values["drift_seen"] = [drifting(rng, many, 0.3, scatter) for scatter in (0.03, 0.05, 0.1)]
    report("statistics_truth", many, values, args)


if __name__ == "__main__":
    run(main)
