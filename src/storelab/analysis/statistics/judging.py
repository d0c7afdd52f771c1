"""Rules that judge a claim.

Each rule returns a number with its interval, and the p value of the test against the claim's bound. The unit is one
run. A rule does not decide whether a claim holds. `verdict` decides, from a p value that is corrected for the number of
claims. Rules without a p value (`count`, `shape`, `answers`) return their observation in `holds`.
"""

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import bdtr, betaincinv, stdtr

from storelab.analysis.statistics import knees, medians, ratios
from storelab.analysis.statistics.medians import CONFIDENCE, student

CONFIRMED, REFUTED, UNDECIDED, NOT_MEASURED = "confirmed", "refuted", "undecided", "not measured here"
VERDICTS = (CONFIRMED, REFUTED, UNDECIDED, NOT_MEASURED)
# Phrases for `Found.lacks`: the data that would decide a claim.
MORE_RUNS = "six runs or more of each point"
NARROWER = "more runs, or runs that scatter less"
LONGER = "windows in which operations end"
MORE_TRIES = "more tries"
ANSWERS = "a yes or a no of the systems"
NAN = math.nan
COUNTS_AS = {"yes": "yes", "no": "no", "differs": "no"}  # answers of a probe


@dataclass(frozen=True)
class Found:
    """The result of a rule: `value` between `low` and `high` (NaN: not known).

    p: two-sided p value of the test of `value` against the bound (NaN: no test). holds: the observation of a rule
    without a test (None: undecided). reason: why the claim is undecided, or the observation in words. lacks: the data
    that would decide an undecided claim.
    """

    value: float = NAN
    low: float = NAN
    high: float = NAN
    p: float = NAN
    holds: bool | None = None
    reason: str = ""
    lacks: str = ""


@dataclass(frozen=True)
class Bound:
    """The bound of a claim: a lower bound, or an upper bound if `most` is set."""

    at: float
    most: bool = False

    def met(self, value: float) -> bool:
        return value <= self.at if self.most else value >= self.at


def verdict(found: Found, bound: Bound, p: float) -> str:
    """Return the verdict on a claim.

    If the rule has a test, p decides: below 5 %, the claim is CONFIRMED or REFUTED, depending on the side of the
    bound on which the value lies; otherwise it is UNDECIDED. If the rule has no test, the verdict follows from the
    observed value. p: the p value of the rule, possibly corrected for the number of claims.
    """
    if math.isfinite(p):
        significant = p < 1 - CONFIDENCE and math.isfinite(found.value)
        return (CONFIRMED if bound.met(found.value) else REFUTED) if significant else UNDECIDED
    return {True: CONFIRMED, False: REFUTED, None: UNDECIDED}[found.holds]


def slope(x: Sequence[float], y: Sequence[float], bound: Bound) -> Found:
    """Estimate the exponent e of y ~ x^e (1: proportional, 0: no gain), and test it against the bound.

    The exponent is the slope of log y on log x by least squares, with Student's interval and the t test of n - 2
    degrees of freedom. x, y: shapes (n,), > 0, with more runs than distinct values of x. The interval is wide if the
    curve does not follow a power law.
    """
    xs, ys = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    values = len(np.unique(xs))
    if min(xs.min(), ys.min()) <= 0:
        return Found(reason="a run with a value of 0 has no exponent", lacks=LONGER)
    lx, ly = np.log(xs), np.log(ys)
    around = ((lx - lx.mean()) ** 2).sum()
    value = float(((lx - lx.mean()) * ly).sum() / around)
    df = len(ys) - 2
    if len(ys) <= values or df < 2:
        few = f"{len(ys)} runs at {values} values are too few to estimate their scatter"
        return Found(value, reason=few, lacks=MORE_RUNS)
    rest = ly - ly.mean() - value * (lx - lx.mean())
    error = math.sqrt(float((rest**2).sum()) / df / around)
    reach = student(df) * error
    t = abs(value - bound.at) / error if error > 0 else math.inf
    return Found(value, value - reach, value + reach, p=2 * float(stdtr(df, -t)))


def ratio(a: Iterable[float], b: Iterable[float], bound: Bound, chosen: int = 1) -> Found:
    """Estimate the ratio b / a of two groups of runs, and test it against the bound.

    The ratio is the Hodges-Lehmann estimate with the exact interval of Moses. The Mann-Whitney test compares b with a
    times the bound (`statistics/ratios.py`). Each group needs at least 4 runs. chosen: the number of pairs from which a
    and b were chosen as the lowest and the highest group. p is corrected for this number (Bonferroni).
    """
    x, y = medians.known(a), medians.known(b)
    estimate = ratios.ratio(x, y)
    p = ratios.ratio(x * bound.at, y).p
    p = float(np.minimum(1.0, p * chosen))  # NaN (no test) stays NaN, and later corrections ignore it
    lacks = "" if not estimate.reason else MORE_RUNS if math.isfinite(estimate.ratio) else LONGER
    return Found(estimate.ratio, estimate.low, estimate.high, p, reason=estimate.reason, lacks=lacks)


def level(values: Iterable[float], bound: Bound) -> Found:
    """Return the median of the runs with its 95 % interval, and the p value of the sign test against the bound.

    At least 6 runs are needed (`statistics/medians.py`). A run exactly at the bound counts in favour of the claim.
    """
    x = medians.known(values)
    summary = medians.summarise(x)
    if summary.n < medians.MIN_RUNS:
        few = "1 run is" if summary.n == 1 else f"{summary.n} runs are"
        reason = f"{few} too few for a 95 % interval; {medians.MIN_RUNS} are enough"
        return Found(summary.median, reason=reason, lacks=MORE_RUNS)
    met = int(sum(bound.met(v) for v in x))
    p = 2 * float(bdtr(min(met, summary.n - met), summary.n, 0.5))
    return Found(summary.median, summary.low, summary.high, min(1.0, p))


def count(happened: int, tried: int, bound: Bound, enough: int) -> Found:
    """Return the number of events in `tried` tries, with the 95 % interval of Clopper and Pearson, in tries.

    One event is enough to decide the bounds `at_most` 0 and `at_least` 1. If there was no event, the claim is decided
    only if there were at least `enough` tries.
    """
    low = float(betaincinv(happened, tried - happened + 1, 0.025)) if happened else 0.0
    high = float(betaincinv(happened + 1, tried - happened, 0.975)) if happened < tried else 1.0
    seen = (happened > bound.at) if bound.most else (happened >= bound.at)  # more tries cannot change this
    holds = (not seen if bound.most else seen) if seen or tried >= enough else None
    reason = (
        "" if holds is not None else f"{tried} {'try is' if tried == 1 else 'tries are'} too few; {enough} are enough"
    )
    return Found(happened, low * tried, high * tried, holds=holds, reason=reason, lacks=MORE_TRIES if reason else "")


def order(groups: Sequence[Iterable[float]]) -> Found:
    """Check whether groups of runs are in this order, from the lowest to the highest.

    The value is the smallest ratio of a group to the previous one, tested against 1. The order is confirmed if every
    step rises; p is then the largest p value of the steps. It is refuted if one step falls; the p value of this step is
    then corrected for the number of steps (Bonferroni).
    """
    one = Bound(1.0)
    steps = [ratio(a, b, one) for a, b in itertools.pairwise(groups)]
    unknown = [s for s in steps if not math.isfinite(s.p)]
    worst = min(steps, key=lambda s: s.value if math.isfinite(s.value) else math.inf)
    if unknown and (worst.value >= 1 or not math.isfinite(worst.p)):
        return replace(worst, p=NAN, reason=unknown[0].reason, lacks=unknown[0].lacks)
    p = max(s.p for s in steps) if worst.value >= 1 else min(1.0, worst.p * len(steps))
    return replace(worst, p=p)


def shape(x: Sequence[float], y: Sequence[float], shapes: Collection[str]) -> Found:
    """Check whether the curve y over x has one of these shapes (`statistics/knees.py`).

    The result is undecided if the shape of the curve is. The value is the knee or peak with its interval.
    """
    curve = knees.fit(np.asarray(x, dtype=float), np.asarray(y, dtype=float))
    holds = None if curve.shape == knees.UNDECIDED else curve.shape in shapes
    reason = curve.reason or curve.shape
    lacks = MORE_RUNS if holds is None else ""
    return Found(curve.knee.value, curve.knee.low, curve.knee.high, holds=holds, reason=reason, lacks=lacks)


def answers(given: Mapping[str, str], wanted: Collection[str], several: bool) -> Found:
    """Check the answers of systems to a probe. given: name of a system -> its answer.

    If `several` is not set, every system that answered must have given one of the answers `wanted`. If it is set, each
    of the answers `wanted` must have been given by at least one system, and at least two systems must have answered.
    Only `yes` and `no` count as answers. `differs` (the system did something other than requested) counts as `no`.
    """
    known = {system: COUNTS_AS[answer] for system, answer in given.items() if answer in COUNTS_AS}
    reason = "; ".join(
        f"{a}: {', '.join(system for system, answer in given.items() if answer == a)}"
        for a in dict.fromkeys(given.values())
    )
    if len(known) < (2 if several else 1):
        return Found(reason=reason, lacks=ANSWERS)
    met = [answer for answer in known.values() if answer in wanted]
    holds = set(wanted) <= set(met) if several else len(met) == len(known)
    return Found(len(met), holds=holds, reason=reason)
