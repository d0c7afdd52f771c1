"""Rules that judge a claim: each gives a number with its interval, and the p value against the claim's bound. Pure.

The unit is one run. A rule never says yes or no itself: `verdict` does, of a p value that is corrected for the number
of claims. Rules without a p value (`count`, `shape`, `answers`) say what they saw, `holds`.
"""

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import bdtr, betaincinv, stdtr

from storelab.analysis.statistics import knees, medians, ratios
from storelab.analysis.statistics.medians import CONFIDENCE, student

CONFIRMED, REFUTED, CANNOT_TELL, NOT_MEASURED = "confirmed", "refuted", "cannot tell", "not measured here"
VERDICTS = (CONFIRMED, REFUTED, CANNOT_TELL, NOT_MEASURED)
# What would decide a claim, a phrase for each kind of reason.
MORE_RUNS = "six runs or more of each point"
NARROWER = "more runs, or runs that scatter less"
LONGER = "windows in which operations end"
MORE_TRIES = "more tries"
ANSWERS = "a yes or a no of the systems"
NAN = math.nan
COUNTS_AS = {"yes": "yes", "no": "no", "differs": "no"}  # answers of a probe


@dataclass(frozen=True)
class Found:
    """`value` between `low` and `high` (NaN: not known); p: two-sided, of the value against the bound (NaN: no test).
    holds: of rules without a test, what was seen (None: cannot tell). reason: why it is undecided, or what was seen.
    lacks: what would decide it, where it is undecided."""

    value: float = NAN
    low: float = NAN
    high: float = NAN
    p: float = NAN
    holds: bool | None = None
    reason: str = ""
    lacks: str = ""


@dataclass(frozen=True)
class Bound:
    """A claim holds from `at` on: upwards, or where `most` is set downwards."""

    at: float
    most: bool = False

    def met(self, value: float) -> bool:
        return value <= self.at if self.most else value >= self.at


def verdict(found: Found, bound: Bound, p: float) -> str:
    """`p`: the rule's own, or corrected for the number of claims. With a test: on which side of the bound the value
    is, where p is below 5 %, else `cannot tell`. Without one: what the rule saw."""
    if math.isfinite(p):
        told = p < 1 - CONFIDENCE and math.isfinite(found.value)
        return (CONFIRMED if bound.met(found.value) else REFUTED) if told else CANNOT_TELL
    return {True: CONFIRMED, False: REFUTED, None: CANNOT_TELL}[found.holds]


def slope(x: Sequence[float], y: Sequence[float], bound: Bound) -> Found:
    """Exponent e of y ~ x^e: the slope of log y on log x by least squares, with Student's interval of n - 2 degrees of
    freedom and the t test against the bound. 1: proportional, 0: no gain. x, y (shapes (n,)) > 0. A curve that is no
    power scatters around it, so that its interval is wide. It needs repetitions: more runs than values of x."""
    xs, ys = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    values = len(np.unique(xs))
    if min(xs.min(), ys.min()) <= 0:
        return Found(reason="a run with a value of 0 has no exponent", lacks=LONGER)
    lx, ly = np.log(xs), np.log(ys)
    around = ((lx - lx.mean()) ** 2).sum()
    value = float(((lx - lx.mean()) * ly).sum() / around)
    df = len(ys) - 2
    if len(ys) <= values or df < 2:
        return Found(value, reason=f"{len(ys)} runs at {values} values do not tell their scatter", lacks=MORE_RUNS)
    rest = ly - ly.mean() - value * (lx - lx.mean())
    error = math.sqrt(float((rest**2).sum()) / df / around)
    reach = student(df) * error
    t = abs(value - bound.at) / error if error > 0 else math.inf
    return Found(value, value - reach, value + reach, p=2 * float(stdtr(df, -t)))


def ratio(a: Iterable[float], b: Iterable[float], bound: Bound, chosen: int = 1) -> Found:
    """b over a, the ratio of two groups of runs: Hodges and Lehmann's, with the exact interval of Moses, and the
    Mann-Whitney test of b against a times the bound (`statistics/ratios.py`): 4 against 4 runs are the fewest. Where a
    and b were chosen as the lowest and the highest of several groups, p counts for all of their `chosen` pairs
    (Bonferroni)."""
    x, y = medians.known(a), medians.known(b)
    of = ratios.ratio(x, y)
    p = ratios.ratio(x * bound.at, y).p
    p = float(np.minimum(1.0, p * chosen))  # NaN stays: no test, which counts in no correction
    lacks = "" if not of.reason else MORE_RUNS if math.isfinite(of.ratio) else LONGER
    return Found(of.ratio, of.low, of.high, p, reason=of.reason, lacks=lacks)


def level(values: Iterable[float], bound: Bound) -> Found:
    """The median of the runs with its 95 % interval, and the sign test of the median against the bound: 6 runs are the
    fewest (`statistics/medians.py`). Runs that are at the bound itself count for the claim."""
    x = medians.known(values)
    of = medians.summarise(x)
    if of.n < medians.LEAST:
        few = "1 run is" if of.n == 1 else f"{of.n} runs are"
        reason = f"{few} too few for a 95 % interval; {medians.LEAST} are enough"
        return Found(of.median, reason=reason, lacks=MORE_RUNS)
    met = int(sum(bound.met(v) for v in x))
    p = 2 * float(bdtr(min(met, of.n - met), of.n, 0.5))
    return Found(of.median, of.low, of.high, min(1.0, p))


def count(happened: int, tried: int, bound: Bound, enough: int) -> Found:
    """How often something happened in so many tries, with the 95 % interval of Clopper and Pearson, in tries. What
    happened settles `at_most` 0 or `at_least` 1 at once; that it did not counts from `enough` tries on."""
    low = float(betaincinv(happened, tried - happened + 1, 0.025)) if happened else 0.0
    high = float(betaincinv(happened + 1, tried - happened, 0.975)) if happened < tried else 1.0
    seen = (happened > bound.at) if bound.most else (happened >= bound.at)  # what more tries cannot undo
    holds = (not seen if bound.most else seen) if seen or tried >= enough else None
    reason = (
        "" if holds is not None else f"{tried} {'try is' if tried == 1 else 'tries are'} too few; {enough} are enough"
    )
    return Found(happened, low * tried, high * tried, holds=holds, reason=reason, lacks=MORE_TRIES if reason else "")


def order(groups: Sequence[Iterable[float]]) -> Found:
    """Whether groups of runs are in this order, from the lowest to the highest: the smallest ratio of a group over
    the one before it, against 1. It holds where every step rises (the largest p of the steps), and is refuted where one
    falls (its p, counted for all steps: Bonferroni)."""
    one = Bound(1.0)
    steps = [ratio(a, b, one) for a, b in itertools.pairwise(groups)]
    unknown = [s for s in steps if not math.isfinite(s.p)]
    worst = min(steps, key=lambda s: s.value if math.isfinite(s.value) else math.inf)
    if unknown and (worst.value >= 1 or not math.isfinite(worst.p)):
        return replace(worst, p=NAN, reason=unknown[0].reason, lacks=unknown[0].lacks)
    p = max(s.p for s in steps) if worst.value >= 1 else min(1.0, worst.p * len(steps))
    return replace(worst, p=p)


def shape(x: Sequence[float], y: Sequence[float], shapes: Collection[str]) -> Found:
    """The shape of the curve y over x (`statistics/knees.py`): it holds where it is one of `shapes`, and is undecided
    where the curve is. The number is the knee or peak, and its interval."""
    curve = knees.fit(np.asarray(x, dtype=float), np.asarray(y, dtype=float))
    holds = None if curve.shape == knees.CANNOT_TELL else curve.shape in shapes
    reason = curve.reason or curve.shape
    lacks = MORE_RUNS if holds is None else ""
    return Found(curve.knee.value, curve.knee.low, curve.knee.high, holds=holds, reason=reason, lacks=lacks)


def answers(given: Mapping[str, str], wanted: Collection[str], several: bool) -> Found:
    """What systems answered, by name. One system: its answer is one of `wanted`. Several: each of `wanted` was given by
    one system at least; two systems are the fewest. Only `yes` and `no` count as answers, and `differs` (it did
    something else than it was asked for) as `no`."""
    known = {who: COUNTS_AS[said] for who, said in given.items() if said in COUNTS_AS}
    told = "; ".join(f"{a}: {', '.join(w for w, s in given.items() if s == a)}" for a in dict.fromkeys(given.values()))
    if len(known) < (2 if several else 1):
        return Found(reason=told, lacks=ANSWERS)
    met = [said for said in known.values() if said in wanted]
    holds = set(wanted) <= set(met) if several else len(met) == len(known)
    return Found(len(met), holds=holds, reason=told)
