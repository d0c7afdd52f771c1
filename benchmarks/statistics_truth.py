"""Test the statistics on synthetic runs with known medians, ratios, curves and windows.

Each figure is a fraction of draws. Its low and high are the extremes over the cases (distributions, numbers of runs,
laws), because a mean can hide a bad case. The benchmark needs no store and takes about 15 minutes. Knees, families,
days, changes and wholes are drawn 400 times, loops 1000 times, all others 2000 times; `--quick` draws less often.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product

import duckdb
import numpy as np
import pandas as pd
from common import options, report, run, say, sized
from scipy.optimize import brentq
from scipy.signal import lfilter
from scipy.stats import gamma, norm

from storelab.analysis.history import series as history
from storelab.analysis.records import windows
from storelab.analysis.statistics import knees as curves
from storelab.analysis.statistics import medians, steadiness
from storelab.analysis.statistics import ratios as comparing

DRAWS = 2000
SPREAD = 0.03  # relative scatter from run to run
POINTS, CHANGED = 50, 10  # points of a campaign, and how many of them are different at the other store
RUNS = (6, 8, 10)  # minimum for an interval of the median; minimum to detect 5 %; more
POWER_RUNS = 8  # as stated in docs/statistics.md
Draw = Callable[[np.random.Generator, int], np.ndarray]


def _skewed(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw rates that are seldom much faster and sometimes much slower.

    They are an inverted gamma variable with mean 1 and standard deviation SPREAD.
    """
    return 1 + SPREAD / np.sqrt(2) * (2 - rng.gamma(2, size=n))


def _bimodal(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw runs of two kinds, 10 % apart, slightly more of the fast ones: the median is at the edge of the gap."""
    return rng.choice([1.0, 1.1], size=n, p=[0.45, 0.55]) * rng.normal(1, 0.01, n)


def _bimodal_median() -> float:
    """Return the median of the mixture, by bisection of its distribution function."""
    return float(brentq(lambda v: 0.45 * norm.cdf(v, 1, 0.01) + 0.55 * norm.cdf(v, 1.1, 0.011) - 0.5, 1, 1.2))


SOURCES: dict[str, tuple[Draw, float]] = {  # run-to-run scatter around a true median
    "normal": (lambda rng, n: rng.normal(1, SPREAD, n), 1.0),
    "lognormal": (lambda rng, n: rng.lognormal(0, 0.3, n), 1.0),
    "skewed": (_skewed, 1 + SPREAD / np.sqrt(2) * (2 - gamma(2).median())),
    "bimodal": (_bimodal, _bimodal_median()),
}
USUAL = ("normal", "lognormal", "skewed")
NARROW = ("normal", "skewed")  # sources with a spread of 3 %


def share(found: Iterable[bool]) -> float:
    return float(np.mean(list(found)))


def coverage(rng: np.random.Generator, draws: int, source: str, n: int) -> float:
    """Return how often the interval of the median contains the true median."""
    draw, truth = SOURCES[source]
    summaries = (medians.summarise(draw(rng, n)) for _ in range(draws))
    return share(s.low <= truth <= s.high for s in summaries)


def ratios(rng: np.random.Generator, draws: int, source: str, n: int, factor: float = 1.0) -> list[comparing.Ratio]:
    """Return ratios of n runs to n runs; those of B are `factor` times as fast."""
    draw, _ = SOURCES[source]
    return [comparing.ratio(draw(rng, n), factor * draw(rng, n)) for _ in range(draws)]


def undecided(rng: np.random.Generator, draws: int, source: str, n: int) -> float:
    return share(r.verdict == comparing.UNDECIDED for r in ratios(rng, draws, source, n))


def power(rng: np.random.Generator, draws: int, source: str, n: int, factor: float = 1.05) -> float:
    return share(r.verdict == comparing.FASTER for r in ratios(rng, draws, source, n, factor))


def whole(rng: np.random.Generator, draws: int, n: int, block: float, points: int = 10) -> float:
    """Return how often the interval of the whole contains the geometric mean.

    block: scatter that all runs of a repetition share.
    """
    hits = []
    for _ in range(draws):
        effects = np.log(1.02) + rng.normal(0, 0.1, points)
        sides = [rng.normal(0, SPREAD, (points, n)) + block * rng.normal(size=n) for _ in range(2)]
        a, b = ([dict(enumerate(row)) for row in np.exp(side)] for side in (sides[0], sides[1] + effects[:, None]))
        r = comparing.overall_ratio(a, b)
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
    """Return how often the interval contains the knee, and how often the shape of the curve is identified.

    Without an upper bound, the knee must be above the lower one.
    """
    held, named = [], []
    wanted = curves.KNEE if knee < 16 else curves.RISING
    for _ in range(draws):
        shape, found = curves.knee(*curve(rng, law, knee, n, spread))
        low, high = np.nan_to_num([found.low, found.high], nan=0.0, posinf=np.inf)
        held.append(low <= min(knee, 32) <= (high if shape == curves.KNEE else np.inf))
        named.append(shape == wanted)
    return share(held), share(named)


FALLS: dict[str, Callable[[np.ndarray], np.ndarray]] = {  # decline beyond the peak: x / x of the peak -> factor
    "root": lambda r: r**-0.5,
    "inverse": lambda r: 1 / r,
    "logarithm": lambda r: 1 - 0.25 * np.log2(r),
}


def peaks(rng: np.random.Generator, draws: int, law: str, fall: str, n: int, spread: float) -> tuple[float, float]:
    """Return how often a curve with a peak at 8 is called a peak, and how often the interval then contains 8.

    The curve rises by a law up to 8, and falls beyond.
    """
    x = np.repeat([1.0, 2, 4, 8, 16, 32], n)
    truth = LAWS[law](np.minimum(x, 8)) * FALLS[fall](np.maximum(x, 8) / 8)
    found = [curves.knee(x, truth * np.exp(rng.normal(0, spread, len(x)))) for _ in range(draws)]
    peaked = [i for shape, i in found if shape == curves.PEAK]
    return len(peaked) / draws, share(i.low <= 8 <= i.high for i in peaked) if peaked else 0.0


def family(rng: np.random.Generator, draws: int, n: int, factor: float = 1.0) -> list[list[bool]]:
    """Return for each campaign which of its 50 points are called different after the correction.

    10 of the points are `factor` times as fast.
    """
    out = []
    for _ in range(draws):
        sides = rng.normal(0, SPREAD, (2, POINTS, n))
        sides[1, :CHANGED] += np.log(factor)
        found = [comparing.ratio(a, b) for a, b in zip(*np.exp(sides), strict=True)]
        q = comparing.corrected([r.p for r in found])
        decided = [comparing.verdict_corrected(r.verdict, p) for r, p in zip(found, q, strict=True)]
        out.append([verdict != comparing.UNDECIDED for verdict in decided])
    return out


def between_days(rng: np.random.Generator, draws: int, days: int, day: float, factor: float) -> float:
    """Return how often the whole of a campaign is called different from that of another day.

    `days` campaigns are used to estimate the effect of a day, which shifts all runs of a campaign by a scatter of
    `day`.
    """
    decided = []
    for _ in range(draws):
        shifts, n = rng.normal(0, day, days + 2), 6
        logs = shifts + rng.normal(0, SPREAD / np.sqrt(n * POINTS), days + 2)
        runs = np.exp(shifts[:2, None, None] + rng.normal(0, SPREAD, (2, POINTS, n)))
        a, b = ([dict(enumerate(point)) for point in side] for side in (runs[0], factor * runs[1]))
        found = comparing.with_days(comparing.overall_ratio(a, b), *comparing.day_variance(logs[None, 2:]))
        decided.append(found.verdict != comparing.UNDECIDED)
    return share(decided)


def noise(rng: np.random.Generator, draws: int, slices: int, scatter: float, phi: float) -> np.ndarray:
    """Draw first-order autoregressive noise with this standard deviation, shape (draws, slices)."""
    steps = rng.normal(size=(draws, slices + 60)) * np.sqrt(1 - phi**2)
    return scatter * lfilter([1], [1, -phi], steps, axis=1)[:, 60:]


def unsteady(rng: np.random.Generator, draws: int, shape: np.ndarray, scatter: float, phi: float) -> float:
    """Return how often a window of this shape (slices,) is called unsteady, by any of the labels."""
    series = np.round(1000 * shape * (1 + noise(rng, draws, len(shape), scatter, phi)))
    return share(steadiness.label(s.clip(0)) in steadiness.UNSTEADY for s in series)


def shapes(slices: int) -> dict[str, np.ndarray]:
    """Return windows that are not steady."""
    t = (np.arange(slices) + 0.5) / slices
    swings = {f"swing of {p}": 1 + 0.5 * np.sin(2 * np.pi * p * t) for p in (2, 3, 4, 5) if slices >= 4 * p}
    return {
        "half at 70 %": np.where(t < 0.5, 1.0, 0.7),
        "a fifth at 0": np.where((t > 0.4) & (t < 0.6), 0.0, 1.0),
    } | swings


ENTRIES: dict[str, Draw] = {  # scatter of the entries of a history
    "normal": lambda rng, n: rng.normal(0, 1, n),
    "skewed": lambda rng, n: -rng.exponential(size=n),
    "slow days": lambda rng, n: rng.normal(0, 1, n) - 5 * (rng.random(n) < 0.1),
}
LENGTHS = (8, 12, 24, 48)
STEPS = (  # number of entries, places of changes, size of the changes in scatters
    (12, (6,), 5.0),
    (24, (12,), 3.0),
    (24, (21,), 5.0),
    (24, (8, 16), 5.0),
    (48, (24,), 3.0),
    (48, (12, 24, 36), 5.0),
)


def alike(rng: np.random.Generator, n: int, phi: float = 0.3) -> np.ndarray:
    """Draw entries whose neighbours correlate."""
    return noise(rng, 1, n, 1.0, phi)[0]


def changed(rng: np.random.Generator, draws: int, draw: Draw, n: int) -> float:
    """Return how often a change is found in a history without one."""
    return share(history.find_changes(draw(rng, n)).p < 0.05 for _ in range(draws))


def levels(rng: np.random.Generator, draws: int, n: int, at: tuple[int, ...], step: float) -> tuple[float, float]:
    """Return how often changes are found in a history with changes, and how often the result is then right.

    The level falls by `step` scatters at the first place, and rises and falls in turn at the next ones. A result is
    right if it has the right number of changes, each within one entry of its place.
    """
    truth = np.zeros(n)
    for i, place in enumerate(at):
        truth[place:] += step if i % 2 else -step
    found = [history.find_changes(truth + rng.normal(size=n)) for _ in range(draws)]
    real = [f for f in found if f.p < 0.05]
    right = [len(f.places) == len(at) and all(abs(a - b) <= 1 for a, b in zip(f.places, at, strict=True)) for f in real]
    return len(real) / draws, share(right) if right else 0.0


def newest_detected(rng: np.random.Generator, draws: int, draw: Draw, n: int, shift: float = 0.0) -> float:
    """Return how often the newest entry, `shift` scatters slower, is found different from earlier ones.

    The history has no other change, but changes are searched for as usual.
    """
    decided = []
    for _ in range(draws):
        values = draw(rng, n)
        values[-1] -= shift
        found = history.find_changes(values)
        steps = history.significant_steps(values, found.places, found.p)
        decided.append(history.judge_newest(values, [s.at for s in steps]).p < 0.05)
    return share(decided)


TIMES: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {  # of an operation, with mean 1
    "constant": lambda rng, shape: np.ones(shape),
    "gamma": lambda rng, shape: rng.gamma(4, 1 / 4, shape),
    "lognormal": lambda rng, shape: rng.lognormal(-0.125, 0.5, shape),
    "exponential": lambda rng, shape: rng.exponential(1, shape),
}
WARM_UP = 0.2  # in windows


@dataclass(frozen=True)
class Loop:
    """A closed loop.

    law, mean: of the time of an operation, in windows; ramp: time in windows within which the workers start; slower:
    factor by which the first worker is slower.
    """

    law: str
    mean: float
    workers: int
    ramp: float = 0.0
    slower: float = 1.0

    @property
    def means(self) -> np.ndarray:
        return self.mean * np.where(np.arange(self.workers) == 0, self.slower, 1.0)

    @property
    def truth(self) -> float:
        return float((1 / self.means).sum())

    def operations(self, rng: np.random.Generator, draws: int) -> pd.DataFrame:
        """Return the operations of all draws (column key) that start before the window ends; all of them end."""
        most = int(2 * (1 + WARM_UP + self.ramp) / self.mean) + 40
        took = TIMES[self.law](rng, (draws, self.workers, most)) * self.means[:, None]
        begun = self.ramp * rng.random((draws, self.workers))
        ends = begun[..., None] + took.cumsum(axis=2)
        first = begun.max(axis=1) + WARM_UP
        key, lane, _ = np.indices(took.shape)
        columns = {"key": key, "lane": lane, "start_ns": ends - took, "end_ns": ends}
        columns |= {
            "overlap_begin_ns": first[:, None, None] + 0 * took,
            "first_end_ns": first[:, None, None] + 1 + 0 * took,
        }
        table = pd.DataFrame({name: values.ravel() for name, values in columns.items()})
        table = table[table["start_ns"] < table["first_end_ns"]]
        times = [name for name in columns if name.endswith("_ns")]
        table[times] = (table[times] * 1e9).round().astype("int64")
        return table.assign(client=0, cut_off=False, unstarted=False)


def estimates(rng: np.random.Generator, draws: int, loop: Loop) -> pd.DataFrame:
    """Return the results of each draw, divided by the true rate.

    Columns: `rate`; `counted`, from the completions in the window; and the mean number of operations that the rate
    uses.
    """
    con = duckdb.connect()
    con.register("drawn", loop.operations(rng, draws))
    found = windows.closed_loop(con, "SELECT * FROM drawn", {"rate": "1"})
    inside = "count(*) FILTER (end_ns > overlap_begin_ns AND end_ns <= first_end_ns)"
    counted = con.execute(f"SELECT key, {inside} AS counted FROM drawn GROUP BY key").df().set_index("key")
    return found.join(counted / loop.truth).assign(rate=found["rate"] / loop.truth)


def open_loop(rng: np.random.Generator, draws: int, latency: float, rate: float) -> float:
    """Return the bias of counting starts in the window if operations are due at random times."""
    due = rng.uniform(0, 1 + WARM_UP, (draws, 2 * int(rate * (1 + WARM_UP)) + 40))
    due[np.arange(due.shape[1]) >= rng.poisson(rate * (1 + WARM_UP), draws)[:, None]] = -1
    started = due + np.where(due >= 0, latency * rng.uniform(0, 0.01, due.shape), 0)
    return float(((started > WARM_UP) & (started <= 1 + WARM_UP)).sum(axis=1).mean() / rate - 1)


LOOPS = [
    Loop(law, mean, workers, ramp)
    for law, (mean, workers), ramp in product(
        TIMES, ((0.01, 2), (0.05, 1), (0.05, 4), (0.2, 4), (0.4, 4), (0.7, 8), (1.3, 12), (2, 12), (5, 12)), (0.0, 0.3)
    )
]
FEW_LOOPS = [Loop(law, mean, workers) for law in TIMES for mean, workers in ((0.2, 1), (0.7, 4), (1.3, 4), (5, 4))]
STRAGGLERS = [
    Loop(law, mean, workers, slower=slower)
    for law, (mean, workers, slower) in product(TIMES, ((0.05, 4, 20), (0.1, 4, 10), (0.3, 4, 3), (1, 8, 3)))
]


def of_loops(rng: np.random.Generator, draws: int, loops: Iterable[Loop]) -> dict[str, list[float]]:
    """Return bias and coverage of each loop, for the estimate and for counting completions.

    Coverage: how often the interval of the median of six runs contains the true rate.
    """
    out: dict[str, list[float]] = {}
    for loop in loops:
        found = estimates(rng, 6 * draws, loop)
        for name in ("rate", "counted"):
            runs = found[name].to_numpy().reshape(draws, 6)
            summaries = [medians.summarise(six) for six in runs]
            out.setdefault(f"{name}_bias", []).append(float(runs.mean() - 1))
            out.setdefault(f"{name}_coverage", []).append(
                share(s.low <= 1 + 1e-6 and s.high >= 1 - 1e-6 for s in summaries)
            )
    return out


def main() -> None:
    args = options(__doc__)
    rng = np.random.default_rng(20150413)
    draws, few = sized(args, DRAWS, 1000, 20), sized(args, 400, 100, 5)
    values = {"coverage": [coverage(rng, draws, s, n) for s, n in product(USUAL, RUNS)]}
    values["coverage_bimodal"] = [coverage(rng, draws, "bimodal", n) for n in RUNS]
    say("coverage of the median: done")
    values["aa_undecided"] = [undecided(rng, draws, s, n) for s, n in product(SOURCES, RUNS)]
    values["power_5pct"] = [power(rng, draws, s, POWER_RUNS) for s in NARROW]
    values["power_5pct_6_runs"] = [power(rng, draws, s, 6) for s in NARROW]
    say("ratios: done")
    values["coverage_whole"] = [whole(rng, few, n, block) for n, block in product((3, 6), (0.0, 0.02))]
    say("the whole: done")
    found = [knees(rng, few, law, knee, n, s) for law, knee, n, s in product(LAWS, (3, 8, 100), (3, 6), (0.03, 0.1))]
    values["coverage_knee"], values["shape_named"] = ([f[i] for f in found] for i in (0, 1))
    fallen = [peaks(rng, few, law, fall, n, s) for law, fall, n, s in product(LAWS, FALLS, (3, 6), (0.03, 0.1))]
    values["peak_named"], values["coverage_peak"] = ([f[i] for f in fallen] for i in (0, 1))
    say("knees and peaks: done")
    values["family_wise_quiet"] = [share(not any(c) for c in family(rng, few, n)) for n in (6, 8)]
    slower = [family(rng, few, n, 0.9) for n in (6, 8)]
    values["family_power_10pct"] = [share(hit for c in campaigns for hit in c[:CHANGED]) for campaigns in slower]
    say(f"campaigns of {POINTS} points: done")
    cases = list(product((3, 6), (0.01, 0.02)))
    values["day_effect_false"] = [between_days(rng, few, days, day, 1.0) for days, day in cases]
    values["day_effect_seen"] = [between_days(rng, few, days, 0.01, 0.9) for days in (3, 6)]
    say("days: done")
    windows = list(product(steadiness.THRESHOLDS, (0.03, 0.05, 0.1)))
    values["steady_false_ar06"] = [unsteady(rng, draws, np.ones(n), scatter, 0.6) for n, scatter in windows]
    for name, counts in (("unsteady_seen", (steadiness.MAX_SLICES,)), ("unsteady_seen_few_slices", (10, 20))):
        values[name] = [
            unsteady(rng, few, shape, scatter, phi)
            for n, scatter, phi in product(counts, (0.03, 0.05, 0.1), (0.0, 0.6))
            for shape in shapes(n).values()
        ]
    say("steadiness: done")
    values["change_false"] = [changed(rng, few, draw, n) for draw, n in product(ENTRIES.values(), LENGTHS)]
    values["change_false_ar03"] = [changed(rng, few, alike, n) for n in LENGTHS]
    stepped = [levels(rng, few, n, at, step) for n, at, step in STEPS]
    values["change_seen"], values["change_placed"] = ([s[i] for s in stepped] for i in (0, 1))
    values["newest_false"] = [newest_detected(rng, few, draw, n) for draw, n in product(ENTRIES.values(), LENGTHS)]
    values["newest_seen"] = [newest_detected(rng, few, ENTRIES["normal"], n, 5.0) for n in LENGTHS]
    for name, loops in (("", LOOPS), ("_few", FEW_LOOPS), ("_straggler", STRAGGLERS)):
        for figure, found in of_loops(rng, min(draws, 1000), loops).items():
            what, _, which = figure.partition("_")
            values[f"{'rate' if what == 'rate' else 'completions'}_{which}{name}"] = found
    values["rate_bias_open_loop"] = [open_loop(rng, draws, latency, 40) for latency in (0.01, 1, 5)]
    say("rates: done")
    report("statistics_truth", draws, values, args)


if __name__ == "__main__":
    run(main)
