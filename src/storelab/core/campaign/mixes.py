"""Mixes of operations and distributions of sizes, as a campaign file declares them.

May import: `axes.mixes`, `config_types`, `errors`, `units`.
"""

from contextlib import suppress
from typing import Any

from pydantic import Field, model_validator

from storelab.core import units
from storelab.core.axes import mixes
from storelab.core.config_types import Closed, Histogram, Size, given
from storelab.core.errors import UserError

MOST_OBJECT = 5 * 10**9  # bytes of one upload that is not in parts (Amazon S3 API reference)


def new_names(declared: dict[str, Any]) -> dict[str, Any]:
    """Raises ValueError for a name that is built in, or that reads as a size."""
    for name in declared:
        if name in mixes.BUILT_IN:
            raise ValueError(f"{name} is built in; give your mix another name")
        with suppress(UserError):
            units.parse(name, "size", "")
            raise ValueError(f"{name} is a size; give it another name")
    return declared


class Mix(Closed):
    """Weights of operations that clients mix; the axis `mix` of the workload `mix` names them. See docs/mixes.md."""

    get: float = Field(0.0, ge=0, description="Downloads.")
    put: float = Field(0.0, ge=0, description="Uploads.")
    head: float = Field(0.0, ge=0, description="HEAD requests.")
    list: float = Field(0.0, ge=0, description="Pages of a listing.")
    delete: float = Field(0.0, ge=0, description="Deletions: at most as many as uploads.")

    @model_validator(mode="after")
    def _goes_on(self) -> "Mix":
        if not sum(self.told().values()):
            raise ValueError("no operation has a weight; give one, e.g. `get: 90, put: 10`")
        if self.delete > self.put:
            raise ValueError("more is deleted than put, so that nothing would be left; let `put` be at least `delete`")
        return self

    def told(self) -> dict[str, float]:
        return self.model_dump()


class Sizes(Closed):
    """How long the objects of a mix are: `fixed`, `mean` with `sigma`, or `histogram`; the axis `sizes` names it."""

    fixed: Size | None = Field(None, description="All are so long.")
    mean: Size | None = Field(None, description="Log-normal: the mean, before it is cut at `least` and `most`.")
    sigma: float | None = Field(None, gt=0, le=5, description="Log-normal: standard deviation of the logarithm.")
    least: Size = Field(given("1 B"), description="Log-normal: shorter ones are drawn again.")
    most: Size | None = Field(None, description="Log-normal: longer ones are drawn again; default: 100 times the mean.")
    histogram: Histogram | None = Field(
        None, description="Mapping of size to count, or a CSV file with the columns size,count (bytes, or with unit)."
    )

    @model_validator(mode="after")
    def _one_kind(self) -> "Sizes":
        if [self.fixed, self.mean, self.histogram].count(None) != 2:
            raise ValueError("is not one of `fixed`, `mean` with `sigma`, `histogram`; give one of them")
        if (self.mean is None) != (self.sigma is None):
            raise ValueError("`mean` and `sigma` belong together; give both")
        if self.mean is None and {"least", "most"} & self.model_fields_set:
            raise ValueError("`least` and `most` bound a log-normal distribution; leave them out")
        told = self.told()
        if self.mean is not None and not told["least"] < self.mean < told["most"]:
            raise ValueError("the mean is not between `least` and `most`; move them")
        if mixes.largest(told) > MOST_OBJECT:
            raise ValueError(f"objects of more than {units.format_size(MOST_OBJECT)} are no single upload; bound them")
        return self

    def told(self) -> dict[str, Any]:
        """As a point keeps it."""
        if self.fixed is not None:
            return {"fixed": self.fixed}
        if self.mean is not None:
            most = mixes.MOST_TIMES * self.mean if self.most is None else self.most
            return {"mean": self.mean, "sigma": self.sigma, "least": self.least, "most": most}
        return dict(self.histogram or {})
