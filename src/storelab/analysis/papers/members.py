"""Campaigns of a paper: their plans, tables and figures, read from their folders without writing any file.

May import: the same packages as `papers`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from storelab.analysis.figures import catalogue, panels
from storelab.analysis.figures.specification import Declared, Specification
from storelab.analysis.latex.values import drawn
from storelab.analysis.papers import distinct
from storelab.analysis.parts import groups
from storelab.analysis.records.campaign import read_plan
from storelab.analysis.tables import build
from storelab.core import integrity
from storelab.core.calibration import WORKLOAD as CALIBRATION
from storelab.core.errors import UserError


@dataclass(frozen=True)
class Member:
    """A campaign of a paper."""

    folder: Path
    plan: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.plan["campaign"]["name"])

    @property
    def title(self) -> str:
        return str(self.plan["campaign"].get("title") or self.name)

    @cached_property
    def _tables(self) -> dict[str, pd.DataFrame]:
        return {}

    def table(self, name: str) -> pd.DataFrame:
        """Return `tables/<name>.csv`, which is read only once. Raises UserError if it does not exist."""
        if name not in self._tables:
            self._tables[name] = build.read(self.folder, name)
        return self._tables[name]

    @cached_property
    def _identities(self) -> dict[str, list[Any]]:
        return {}

    def identities(self, column: str) -> list[Any]:
        """Return the comparable values (`groups.comparable`) of a column of `points.csv`. They are computed once."""
        if column not in self._identities:
            self._identities[column] = groups.comparable(self.table("points")[column])
        return self._identities[column]

    @property
    def is_drawn(self) -> bool:
        return (self.folder / "figures" / "index.json").exists()

    @cached_property
    def figures(self) -> dict[str, Any]:
        """The figures that have data, in the order of the paper: name -> files and caption."""
        return drawn(self.folder)

    @cached_property
    def declared(self) -> dict[str, Declared]:
        """The figures that a campaign with this plan can have: name -> figure."""
        return catalogue.figures_of_plan(self.plan)

    @cached_property
    def _layouts(self) -> dict[str, panels.Layout | None]:
        return {}

    def layout(self, name: str) -> panels.Layout | None:
        """Return the panels of a figure with a specification, or None without data."""
        figure = self.declared[name]
        assert isinstance(figure, Specification)
        if name not in self._layouts:
            self._layouts[name] = panels.layout_of(figure, self.table(figure.table))
        return self._layouts[name]

    @cached_property
    def sums(self) -> str:
        """A checksum that changes if any of the raw records changes."""
        return integrity.sum_of_records(self.folder / "raw")

    @cached_property
    def measured(self) -> pd.DataFrame:
        """The measured points, without those of the calibration unless there are no others."""
        points = self.table("points")
        known = points[points["state"] != "failed"]
        measured_points = known[known["workload"] != CALIBRATION]
        return measured_points if len(measured_points) else known

    def captured(self, group: str, item: str) -> list[str]:
        """Return the values of an item in `environment.csv`. The value with the most points is first."""
        rows = self.table("environment")
        rows = rows[(rows["group"] == group) & (rows["item"] == item)].sort_values("points", ascending=False)
        return [str(v) for v in rows["value"] if str(v)]

    @cached_property
    def _versions(self) -> dict[str, list[tuple[str, str]]]:
        return {}

    def commits(self, keys: Iterable[str]) -> dict[str, list[str]]:
        """Return the versions in the records of these points: item -> distinct values.

        Each record is read only once, because many tables and figures use the same points.
        """
        found: dict[str, dict[str, None]] = {}
        for key in keys:
            if key not in self._versions:
                self._versions[key] = _versions(self.folder / "raw", key)
            for item, value in self._versions[key]:
                found.setdefault(item, {})[value] = None
        return {item: list(values) for item, values in found.items()}

    @property
    def days(self) -> list[str]:
        """The first and the last day of measurements. If they are equal, there is only one day."""
        started = self.measured["started"].dropna()
        return list(dict.fromkeys((started.min()[:10], started.max()[:10]))) if len(started) else []


def is_campaign(folder: Path) -> bool:
    """Return True if a folder has the plan of a measured campaign."""
    return (folder / "raw" / integrity.PLAN).exists()


def gathered(folders: Sequence[Path]) -> list[Member]:
    """Return the campaigns in these folders, in the order of the folders.

    Raises UserError if a folder is not a campaign, or has no records or tables, or if two campaigns have the same name
    or plans of different schemas.
    """
    members = [Member(folder, read_plan(folder)) for folder in folders]
    distinct([(m.name, m.folder) for m in members])
    first = members[0]
    for other in members[1:]:
        mine, theirs = (m.plan.get("schema", 0) for m in (first, other))
        if mine != theirs:
            raise UserError(
                str(other.folder / "raw" / integrity.PLAN),
                f"has schema {theirs}, but the plan of {first.name} has schema {mine}",
                "make separate papers of these campaigns",
            )
    for m in members:
        if not (m.folder / "raw" / integrity.SUMS).exists():
            hint = "run `storelab collect`, or make the paper without this campaign"
            raise UserError(str(m.folder), "was not collected: it is not known if its records are complete", hint)
        if m.measured.empty:
            hint = "measure it, or make the paper without this campaign"
            raise UserError(str(m.folder), "has no records: no point was measured", hint)
    return members


def everything(results: Path) -> list[Path]:
    """Return the folders of all campaigns below a folder of results, sorted by name."""
    return sorted(folder for folder in results.glob("*") if is_campaign(folder)) if results.is_dir() else []


def _versions(raw: Path, key: str) -> list[tuple[str, str]]:
    """Return the versions in the record of a point as pairs (item, value). Without a record, the list is empty."""
    if not integrity.has(raw, key):
        return []
    run = integrity.read(raw, key)
    captured, store, engine = (run.get(part) or {} for part in ("environment", "store", "engine"))
    versions = [("commit", captured.get("git_commit")), ("storelab", captured.get("storelab"))]
    for part in (store, engine):
        if part.get("name"):
            versions.append(("versions", " ".join(filter(None, (part["name"], str(part.get("version") or ""))))))
    return [(item, str(value)) for item, value in versions if value]
