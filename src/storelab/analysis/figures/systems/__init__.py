"""Figures that compare systems and deployments: side by side, against front-ends, against buckets, space.

After experiments 4, 5 and 9 of the evaluations (docs/campaigns.md). `together.py`: figures along the rows of axes that
go together. May import: what `figures` may.
"""

import pandas as pd

from storelab.analysis.figures.panels import limits
from storelab.analysis.figures.specification import MIN_VALUES, Curve, Measure, Reference, Specification
from storelab.analysis.figures.throughput import of_class
from storelab.analysis.parts.groups import labelled
from storelab.analysis.tables.resources import SPACE_METRICS, STATES
from storelab.analysis.tables.throughput import CLASSES, side_by_side
from storelab.core import units


def _comparable(table: pd.DataFrame) -> pd.DataFrame:
    """What is compared of all classes of operations, at the largest number of clients, where there is more than one
    deployment; without objects of a size that fewer than three (of two, both) have."""
    found = [rows for name in reversed(CLASSES) if len(rows := side_by_side(table, name))]
    rows = pd.concat(found or [table.iloc[:0]])
    if rows.empty or rows["deployment"].nunique() < 2:
        return table.iloc[:0]
    several = rows.groupby(["workload", "object_size_bytes"])["deployment"].transform("nunique")
    rows = rows[several >= min(MIN_VALUES, rows["deployment"].nunique())]
    return rows.assign(series=rows["engine"]).sort_values("series", kind="stable")


def measures_of_classes(label: str) -> tuple[Measure, ...]:
    """One for each class of operations, those of small objects first."""
    return tuple(
        Measure((Curve(*of.metric),), label.format(what=of.what, unit=of.shown), of.what_within, of_class(name))
        for name, of in reversed(CLASSES.items())
    )


def heading_of(first: pd.Series, _: pd.DataFrame) -> str:
    """Title of a panel: the deployment, what is done, and the size of the objects, where they have one."""
    size = first["object_size_bytes"]
    return f"{first['deployment']}, {{what}}" + ("" if pd.isna(size) else f" of {units.format_size(int(size))}")


def _cannot_tell(rows: pd.DataFrame) -> str:
    blind = rows["shared_host"].astype(bool).any() and not limits(rows).any()
    return "; it cannot tell what more front-ends would bring" if blind else ""


def _against(column: str, hue: str, title: str, caption: str) -> Specification:
    """Rates against an axis that counts something: a panel per class of operation, deployment and size."""
    return Specification(
        table="throughput",
        where={"workload": ("put", "get", "stat")},
        several=(column,),
        prepare=labelled,
        measures=measures_of_classes("{unit}"),
        x=column,
        hue=(hue,),
        within=True,
        swept=True,
        panels=("deployment", "object_size_bytes"),
        heading=heading_of,
        note=_cannot_tell if column == "front_ends" else None,
        height=2.2,
        title=title,
        caption=caption,
    )


FIGURES = {
    "systems": Specification(
        table="throughput",
        beside=("points",),
        where={"workload": ("put", "get", "stat")},
        prepare=_comparable,
        measures=measures_of_classes("{what} of {{sizes}} [{unit}]"),
        x="deployment",
        panels=(),
        height=0.6,
        line=0.2,
        several=("deployment",),
        title="Systems side by side, {clients}; by engine",
        caption="The systems and deployments of the campaign side by side: operations per second on small objects, "
        "throughput of large "
        "ones, at the largest number of clients and the least of front-ends, buckets and accounts that was measured; "
        "by engine. "
        "Medians; {bars}. {shared}",
    ),
    "front_ends": _against(
        "front_ends",
        "clients",
        "Scaling with front-ends",
        "Rates against the number of front-ends; clients are spread over them in turn. Medians; {bars}. {scaling}",
    ),
    "buckets": _against(
        "buckets",
        "accounts",
        "Scaling with buckets and accounts",
        "Rates against the number of buckets that the objects are spread over, by the number of accounts that own "
        "them. Medians; {bars}. "
        "{shared}",
    ),
    "space": Specification(
        table="space",
        where={"workload": "space"},
        prepare=labelled,
        measures=(
            Measure(
                tuple(Curve(*metric, name) for metric, name in zip(SPACE_METRICS, STATES.values(), strict=True)),
                "Raw bytes used for each byte stored",
            ),
        ),
        x="deployment",
        by_curve=True,
        panels=("object_size_bytes",),
        references=lambda *_: [Reference(1)],
        note=lambda _: "; dashed: one raw byte for each byte stored",
        height=0.6,
        line=0.28,
        title="Space",
        caption="Raw bytes that a store uses for each byte stored, all copies and parity included: after the "
        "uploads, some seconds after "
        "their deletion, and after the store was told to give space back. Medians; {bars}.",
    ),
}
