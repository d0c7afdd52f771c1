"""Source files that a Snakemake target depends on (room `cli`).

A stage of the paper depends on all files of its folders: after an edit, more is made again than strictly needed, but
nothing is ever stale. May import: names of the analysis, `core`.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from storelab.analysis.figures import KINDS
from storelab.analysis.parts import derived

PACKAGE = Path(__file__).parents[1]
NO_CODE = (".pyc", ".md")
_TABLES = ("core", *(f"analysis/{name}" for name in ("statistics", "records", "parts", "tables")))
_FIGURES = (*_TABLES, "analysis/figures")
_LATEX = (*_FIGURES, "analysis/compare", "analysis/latex")
# Stage -> folders of the package with the code and data that it depends on.
STAGES = {
    "tables": _TABLES,
    "figures": _FIGURES,
    "latex": _LATEX,
    "report": (*_FIGURES, "analysis/report"),
    "papers": (*_LATEX, "analysis/papers"),
    "notebooks": ("core", "readplan", "analysis"),
}


def files(stage: str) -> list[str]:
    """Return the files that a stage depends on, sorted, relative to the working folder where they are below it."""
    found = {PACKAGE / "__init__.py", PACKAGE / "analysis" / "__init__.py"}
    for folder in STAGES[stage]:
        found |= {path for path in (PACKAGE / folder).rglob("*.*") if path.suffix not in NO_CODE}
    here = Path.cwd()
    return sorted(str(path.relative_to(here) if path.is_relative_to(here) else path) for path in found)


def stale_figures(campaign_dir: Path, plan: Mapping[str, Any], kinds: Iterable[str] = KINDS) -> list[str]:
    """Return the figures of a campaign that are missing, damaged, or older than the tables or the code.

    kinds: of the files that each figure has.
    """
    from storelab.analysis.figures import catalogue

    since = _newest([*(campaign_dir / "tables").glob("*.csv"), *map(Path, files("figures"))])
    return [name for name in catalogue.names(plan) if _drawn(campaign_dir / "figures", name, kinds) < since]


def _drawn(folder: Path, name: str, kinds: Iterable[str]) -> float:
    """Return when a figure was drawn, in Unix seconds; 0 where a file of it is missing or damaged."""
    mark = folder / f"{name}.json"
    if not derived.is_whole(mark, kinds):
        return 0.0
    pictures = () if derived.figure(mark)["empty"] else kinds
    return min(p.stat().st_mtime for p in (mark, *(folder / f"{name}.{kind}" for kind in pictures)))


def _newest(paths: Iterable[Path]) -> float:
    return max(path.stat().st_mtime for path in paths)
