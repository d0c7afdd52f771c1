"""Figures that compare systems and deployments: side by side, against front-ends, against
buckets, space.

After experiments 4, 5 and 9 of the evaluations (docs/campaigns.md).
"""

import pandas as pd

from storelab.analysis.figures.plots import limits
from storelab.analysis.figures.specification import Curve, Measure, Reference, Specification
from storelab.analysis.figures.throughput import of_class
from storelab.analysis.parts import words
from storelab.analysis.tables import throughput
from storelab.core import units

METRICS = {
    "metadata_upload": ("Uploads", ("rate", "per_s"), "objects/s"),
    "metadata_download": ("Downloads", ("rate", "per_s"), "objects/s"),
    "throughput_upload": ("Upload", ("throughput", "mb_per_s"), "MB/s"),
    "throughput_download": ("Download", ("throughput", "mb_per_s"), "MB/s"),
}
STATES = {
    "put": "after the uploads",
    "delete": "some seconds after their deletion",
    "reclaim": "after the store was told to reclaim",
}


def labelled(rows: pd.DataFrame) -> pd.DataFrame:
    """Add `deployment`: store, redundancy, data servers, backing and scheme in words, as far as they are chosen."""
    return rows.assign(deployment=[words.deployment(r) for _, r in rows.iterrows()])


def comparable(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Rows of a class that stand side by side in `systems`: measured, of one number of front-ends and of buckets
    (the least)."""
    rows = throughput.of_class(table, name)
    metric, unit = METRICS[name][1]
    rows = rows[rows[f"{metric}_median_{unit}"].notna()] if len(rows) else rows
    for column in ("front_ends", "buckets", "accounts", "clients"):
        if len(rows) and column in rows:
            rows = rows[rows[column] == rows[column].min()]
    return labelled(rows) if len(rows) else rows


def _comparable(table: pd.DataFrame) -> pd.DataFrame:
    parts = [rows for name in METRICS if len(rows := comparable(table, name))]
    every = pd.concat(parts) if parts else table.iloc[:0]
    if every.empty or every["deployment"].nunique() < 2:
        return table.iloc[:0]
    return every.assign(series=every["engine"]).sort_values("series", kind="stable")


def _measures(label: str) -> tuple[Measure, ...]:
    """One for each class of operation."""
    return tuple(
        Measure((Curve(*metric),), label.format(what=what, unit=f"[{unit}]"), what.lower(), of_class(name))
        for name, (what, metric, unit) in METRICS.items()
    )


def _cannot_tell(rows: pd.DataFrame) -> str:
    blind = rows["shared_host"].astype(bool).any() and not limits(rows).any()
    return "; it cannot tell what more front-ends would bring" if blind else ""


def _against(column: str, hue: str, title: str, caption: str) -> Specification:
    """Rates against an axis that counts something: a panel per class of operation, deployment and size."""
    return Specification(
        table="throughput",
        where={"workload": ("put", "get")},
        several=(column,),
        prepare=labelled,
        measures=tuple(
            Measure(m.curves, m.label.partition("[")[2].rstrip("]"), m.what, m.where) for m in _measures("{unit}")
        ),
        x=column,
        hue=(hue,),
        within=True,
        swept=True,
        panels=("deployment", "object_size_bytes"),
        heading=lambda first, _: (
            f"{first['deployment']}, {{what}} of {units.format_size(int(first['object_size_bytes']))}"
        ),
        note=_cannot_tell if column == "front_ends" else None,
        height=2.2,
        title=title,
        caption=caption,
    )


FIGURES = {
    "systems": Specification(
        table="throughput",
        where={"workload": ("put", "get")},
        prepare=_comparable,
        measures=_measures("{what} of {{sizes}} {unit}"),
        x="deployment",
        panels=(),
        height=0.6,
        line=0.2,
        several=("deployment",),
        title="Systems side by side, {clients}; by engine",
        caption="The systems and deployments of the campaign side by side: operations per second on small objects, "
        "throughput of large "
        "ones, at the least number of clients, front-ends, buckets and accounts that was measured; by engine. "
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
                tuple(Curve(f"raw_per_byte_after_{state}", "ratio", name) for state, name in STATES.items()),
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
