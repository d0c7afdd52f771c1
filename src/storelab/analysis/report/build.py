"""Write `report.html`: the page, the libraries that draw, and the data, packed. Same tables and records, same bytes."""

from pathlib import Path
from typing import Any

from storelab.analysis.records.campaign import load
from storelab.analysis.report import charts, details, library, page, rows, summary
from storelab.analysis.tables import build as tables
from storelab.core import records
from storelab.core.redaction import redacted

NAME = "report.html"
SCHEMA = 1


def build(campaign_dir: Path) -> Path:
    """The page of a campaign with tables. Raises UserError: no tables, records missing or altered, no library."""
    target = campaign_dir / NAME
    records.write_atomic(target, page.filled(title(campaign_dir), blocks(campaign_dir), library.packed()).encode())
    return target


def title(campaign_dir: Path) -> str:
    """What stands in the browser's tab."""
    return summary.title(records.read_json(campaign_dir / "raw" / "plan.json"))


def blocks(campaign_dir: Path) -> dict[str, Any]:
    """The page's data by name: `head`, `tables`, `figures`, and the details of points in blocks of their own. The page
    draws whatever stands in them, so that they can be replaced while it is open."""
    campaign = load(campaign_dir)
    texts = {name: rows.read(campaign_dir, name) for name in tables.NAMES}
    every = {name: tables.read(campaign_dir, name) for name in tables.NAMES}
    behind = {name: rows.behind(table, every["points"]) for name, table in every.items()}
    told = details.parts(campaign)
    head = {"schema": SCHEMA} | summary.head(campaign, every) | {"details": list(told), "part": details.PART}
    found = {
        "head": head,
        "tables": {name: rows.table(texts[name], behind[name]) for name in tables.NAMES},
        "figures": charts.of(campaign.plan, every, behind),
        **told,
    }
    return redacted(found)
