"""Figures that a campaign declares for itself: what its plan carries, as specifications."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pandas as pd

from storelab.analysis.figures.specification import Curve, Measure, Reference, Specification, same
from storelab.analysis.figures.systems import together
from storelab.analysis.figures.throughput import limits
from storelab.analysis.parts import words
from storelab.analysis.records.selection import Coupling, couplings_of
from storelab.core.figures import METRICS


def figures(plan: Mapping[str, Any]) -> dict[str, Specification]:
    """Those that the plan carries (plans of older versions: none)."""
    couplings = couplings_of(plan)
    return {name: _specification(said, couplings) for name, said in plan.get("figures", {}).items()}


def _specification(said: Mapping[str, Any], couplings: list[Coupling]) -> Specification:
    """said: a figure as `core.figures.resolved` gives it."""
    found = [METRICS[said["table"]][name] for name in said["y"]]
    labels = [said["y_label"] or label for _, _, label in found]
    measures = tuple(
        Measure((Curve(stem, unit),), _plain(label), scale=said["y_scale"])
        for (stem, unit, _), label in zip(found, labels, strict=True)
    )
    has_roles = said["table"] == "roles"  # each with an engine of its own
    against = said["x_label"] or words.heading(said["x"])
    drawn = f"{' and '.join(label.partition(' [')[0] for label in labels)} against {against[0].lower()}{against[1:]}"
    caption = said["caption"].strip().rstrip(".") or drawn

    def lines(rows: pd.DataFrame, measure: Measure) -> Iterator[Reference]:
        yield from (Reference(limit["at"], "--", limit["label"]) for limit in said["limits"])
        if said["table"] == "throughput" and said["x"] == "clients":
            yield from limits(rows, measure)

    return Specification(
        table=said["table"],
        where=said["where"],
        prepare=partial(together.along_x, couplings, said["x"]) if couplings else same,
        measures=measures,
        x=said["x"],
        x_label=_plain(against),
        x_scale=said["x_scale"],
        hue=tuple(said["hue"] or ["role" if has_roles else "engine"]),
        more=("store", "workload", "op", "loop", "role", "phase", together.TOLD),
        panels=tuple(said["panels"]),
        columns=len(measures) > 1,
        least=1,
        references=lines,
        title=_plain(said["title"] or drawn),
        caption=f"{_plain(caption)}{'' if has_roles else ' ({engine})'}. Medians; {{bars}}. {{shared}}{{limit}}",
    )


def _plain(text: str) -> str:
    """As it stands, in a template."""
    return text.replace("{", "{{").replace("}", "}}")
