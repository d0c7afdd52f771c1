"""LaTeX of a campaign's paper and its tables.

`paper/paper.tex` and `paper/sections/` are Jinja templates (`templates`), which `build` fills. TABLES and HEADLINES
name the functions that make the tables and the headlines of the first page. To add a table, write a function and add a
line to TABLES. To add a section, write a template and add a line to `paper/paper.tex`.

May import: `figures`, `tables`, `parts`, `statistics`, `compare`, `core`.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from storelab.analysis.parts import derived
from storelab.core import records

# Name of a file in tex/ -> the function that makes it (module.function of this package), and its arguments: tables by
# name, or `headlines`. The file is empty if the first argument has no rows.
TABLES: dict[str, tuple[str, ...]] = {
    "table_best": ("rates.best", "throughput"),
    "table_calibration": ("campaign.ceilings", "calibration"),
    "table_capabilities": ("systems.capabilities", "capabilities"),
    "table_claims": ("verdicts.claims", "claims"),
    "table_claims_short": ("verdicts.short", "claims"),
    "table_cold": ("rates.accesses", "throughput"),
    "table_collections": ("roles.collected", "collections"),
    "table_consistency": ("systems.consistency", "consistency"),
    "table_distributions": ("systems.distributions", "distributions"),
    "table_durability": ("roles.kept", "durability"),
    "table_earlier": ("verdicts.earlier", "earlier"),
    "table_environment": ("campaign.environment", "environment"),
    "table_errors": ("campaign.errors", "errors"),
    "table_events": ("reads.events", "events"),
    "table_evidence": ("systems.evidence", "capabilities"),
    "table_failed": ("campaign.failed", "points"),
    "table_invalid": ("campaign.invalid", "points"),
    "table_knees": ("rates.knees", "scaling"),
    "table_latency": ("rates.latencies", "latency"),
    "table_launches": ("distribution.launched", "launches"),
    "table_one": ("systems.table1", "table1"),
    "table_one_client": ("rates.one_client", "one_client"),
    "table_recovery": ("roles.recovered", "recovery"),
    "table_releases": ("distribution.released", "releases"),
    "table_replay": ("reads.replay", "sparse"),
    "table_roles": ("roles.phases", "roles"),
    "table_soak": ("roles.trends", "soak_trends"),
    "table_space": ("systems.space", "space"),
    "table_sparse": ("reads.entries", "sparse"),
    "table_storage_lab": ("reads.storage_lab", "storage_lab"),
    "table_summary": ("headlines.summary", "headlines"),
    "table_systems": ("rates.systems", "throughput"),
    "table_throughput": ("rates.throughput", "throughput"),
    "table_traffic": ("systems.traffic", "traffic"),
    "table_tried": ("campaign.tried", "points"),
    "table_two": ("reads.table2", "table2"),
    "table_verdicts": ("verdicts.verdicts", "verdicts"),
    "table_volume": ("reads.volume", "sparse"),
}
# Functions that make the headlines of the first page, each with its tables, in the order of the headlines.
HEADLINES: tuple[tuple[str, ...], ...] = (
    ("rates.linearity_headlines", "scaling", "throughput"),
    ("rates.throughput_headlines", "throughput", "verdicts"),
    ("reads.events_headlines", "events", "verdicts"),
    ("reads.sparse_headlines", "sparse", "verdicts"),
    ("rates.latency_headlines", "latency"),
    ("distribution.releases_headlines", "releases"),
    ("distribution.launches_headlines", "launches"),
    ("roles.collections_headlines", "collections"),
    ("roles.role_headlines", "roles"),
    ("roles.fault_headlines", "recovery"),
    ("systems.capabilities_headlines", "capabilities"),
    ("systems.consistency_headlines", "consistency"),
    ("roles.ledger_headlines", "durability"),
    ("roles.soak_headlines", "soak_trends", "soak"),
)


def load(path: str) -> Callable[..., Any]:
    """Return a function of this package. path: `module.function`.

    The module is imported when this function is called, because it imports pandas.
    """
    module, function = path.split(".")
    found: Callable[..., Any] = getattr(import_module(f"{__name__}.{module}"), function)
    return found


PAPER = "paper"  # name of the template, and of the file that is made from it
TEX = (*TABLES, PAPER)


def build(campaign_dir: Path, only: Sequence[str] | None = None, paper_dir: Path = Path("paper")) -> list[Path]:
    """Write files `tex/<name>.tex` atomically, and return their paths. If one of them fails, no file is written.

    only: names of the files; default: all of TEX. paper_dir: folder of the templates.

    Raises UserError if a table or the figures are missing, or if a template cannot be filled. Raises KeyError for an
    unknown name.
    """
    from storelab.analysis.latex import templates, values  # imported here because they import pandas

    sources, texts = values.Sources(campaign_dir), {}
    for name in TEX if only is None else only:
        if name == PAPER:
            text = templates.render(paper_dir, f"{PAPER}.tex", values.campaign_values(sources))
        else:
            text = values.table(sources, name)
        texts[campaign_dir / "tex" / f"{name}.tex"] = text
    for path, text in texts.items():
        records.write_atomic(path, derived.tex(text))
    return list(texts)
