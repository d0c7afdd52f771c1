"""Declare the axes of mixed operations, and resolve their values.

The value of `mix` is the name of weights of operations, and the value of `sizes` is the name of a distribution of
object sizes. The campaign file declares these names, so that paths of points stay short. A point records the weights
and the distribution in `fixed`.
"""

import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import Any

from storelab.core import units
from storelab.core.errors import UserError, require_known
from storelab.core.model import Axis

OPERATIONS = ("get", "put", "head", "list", "delete")
WARP = "warp"  # built-in mix with the weights of `warp mixed`, a mode of the benchmark warp
BUILT_IN = {WARP: {"get": 45.0, "put": 15.0, "head": 30.0, "list": 0.0, "delete": 10.0}}
MAX_RATIO = 100  # default of the maximum size in a log-normal distribution, in units of the mean

MIX = Axis(
    "mix",
    "text",
    WARP,
    "Mix",
    "Weights of the operations: a name in `mixes`, or `warp`, which is built in.",
    heading="Mix",
    words="mix {}",
    always_shown=True,
)
SIZES = Axis(
    "sizes",
    "place",
    "4kB",
    "Sizes",
    "Object sizes: a name in `sizes`, or one size for all objects.",
    heading="Sizes",
    words="sizes {}",
    always_shown=True,
)


def meaning(axes: Mapping[str, Any], mixes: Mapping[str, Any], sizes: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return {mix: weights by operation, sizes: distribution} for the axes of a point, or {} if it has no mix.

    Parameters
    ----------
    axes
        Values of the point's axes.
    mixes, sizes
        Declarations of the campaign.
    place
        Path of the axes in the configuration, for messages.

    Raises
    ------
    UserError
        A name is not declared.
    """
    if MIX.name not in axes:
        return {}
    known = BUILT_IN | dict(mixes)
    name, given = axes[MIX.name], axes[SIZES.name]
    require_known(f"{place}.{MIX.name}", name, known, f"there is no mix {name!r}", "declared in `mixes`:")
    if given in sizes:
        return {"mix": known[name], "sizes": sizes[given]}
    try:
        return {"mix": known[name], "sizes": {"fixed": units.parse(given, "size", "")}}
    except UserError:
        hint = f"declare it, or set a size like 4 kB; declared: {', '.join(sizes) or 'none'}"
        raise UserError(f"{place}.{SIZES.name}", f"{given!r} is neither a name in `sizes` nor a size", hint) from None


def largest(sizes: Mapping[str, Any]) -> int:
    """Return the size in bytes of the largest object of a distribution."""
    if "fixed" in sizes:
        return int(sizes["fixed"])
    return int(sizes["most"]) if "mean" in sizes else max(sizes["size"])


def mean(sizes: Mapping[str, Any]) -> float:
    """Return the mean size in bytes of a distribution; for a log-normal distribution, the mean between its bounds.

    If X = exp(N(mu, sigma)) is limited to [a, b], then E[X] = M (F(b') - F(a')) / (F(b) - F(a)). M is the mean without
    limits, and F is the normal distribution of the logarithm. a' and b' are a sigma² lower than a and b (N. L. Johnson,
    S. Kotz, N. Balakrishnan, Continuous Univariate Distributions, vol. 1, 2nd ed., section 14.3).
    """
    if "fixed" in sizes:
        return float(sizes["fixed"])
    if "size" in sizes:
        return float(sum(s * n for s, n in zip(sizes["size"], sizes["count"], strict=True)) / sum(sizes["count"]))
    sigma = sizes["sigma"]
    normal = NormalDist(math.log(sizes["mean"]) - sigma**2 / 2, sigma)
    # Sizes are whole bytes, so a value within half a byte of a bound is rounded to the bound.
    low, high = (math.log(edge) if edge > 0 else -math.inf for edge in (sizes["least"] - 0.5, sizes["most"] + 0.5))
    below = [0.0 if x == -math.inf else normal.cdf(x) for x in (low, low - sigma**2)]
    part = (normal.cdf(high - sigma**2) - below[1]) / (normal.cdf(high) - below[0])
    return float(sizes["mean"] * part)
