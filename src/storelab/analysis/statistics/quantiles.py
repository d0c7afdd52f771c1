"""Quantiles of one run: of histograms, and where some operations are known by a lower bound only. Pure."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

WIDTH = 1.02  # a bucket's upper end over its lower one, at most


def enough(operations: float, level: float) -> bool:
    """Whether so many operations can tell this quantile from their maximum."""
    return operations * (1 - level) >= 1 - 1e-9


def of_histogram(upper: np.ndarray, count: np.ndarray, levels: Sequence[float]) -> np.ndarray:
    """Quantiles (unit of `upper`, shape of levels) of a histogram whose buckets end at `upper` (ascending) and hold
    `count` values; parts of one too, where a bin was cut.

    Within a bucket the values are taken as evenly spaced in their logarithm, between its ends, which are WIDTH apart at
    most.
    """
    lower = np.maximum(upper / WIDTH, np.concatenate([[0], upper[:-1]]))
    after = np.cumsum(count)
    rank = np.minimum(np.ceil(np.asarray(levels) * after[-1] - 1e-9), after[-1])
    i = np.searchsorted(after, rank)
    share = np.clip((rank - (after[i] - count[i]) - 0.5) / count[i], 0, 1)
    return lower[i] * (upper[i] / lower[i]) ** share


def with_bounds(ended: pd.Series, bounds: pd.Series, levels: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """(quantiles, whether each is only a lower bound), shapes of levels, of operations that `ended` took and of others
    that took at least `bounds`: how many (one or more in all), by their time."""
    every = pd.concat([ended, bounds]).groupby(level=0).sum()
    rank = np.ceil(np.asarray(levels) * every.sum() - 1e-9)
    beyond = rank > ended.sum()
    known, least = (_ranked(of, rank) for of in (ended.groupby(level=0).sum(), every))
    return np.where(beyond, least, known), beyond


def _ranked(counts: pd.Series, rank: np.ndarray) -> np.ndarray:
    """The value at each rank (1 …) of values with their counts, ascending; beyond, the last; NaN without any."""
    at = np.searchsorted(counts.cumsum(), rank).clip(max=len(counts) - 1)
    return counts.index.to_numpy(float)[at] if len(counts) else np.full(len(rank), np.nan)
