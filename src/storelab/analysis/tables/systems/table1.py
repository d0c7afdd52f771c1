"""`table1.csv`: Table 1 of J. Phys.: Conf. Ser. 664 (2015) 022001 and what its text says of further systems, with
today's stores beside: what the probe found them to do, and how they were deployed.

Empty where nothing was printed, or where nobody asked.
"""

from typing import Any

import pandas as pd

from storelab.analysis.parts import groups
from storelab.analysis.records import published
from storelab.analysis.records.campaign import Campaign

PUBLISHED, MEASURED = "published", "measured"
ASKED = {  # column -> question of the probe
    "multipart_upload": ("multipart", "upload"),
    "multi_range_get": ("ranges", "multi-range 2"),
}
COLUMNS = (
    "source",
    "system",
    "name",
    "capacity_tb",
    "front_ends",
    "storage_nodes",
    "disk_tb",
    *ASKED,
    "version",
    "redundancy",
)


def deployed(campaign: Campaign) -> dict[str, dict[str, Any]]:
    """Store -> what its records say of it: name, version, redundancy; most front-ends and servers."""
    out: dict[str, dict[str, Any]] = {}
    for run in campaign.runs.values():
        store = run.get("store") or {}
        facts = store.get("deployment") or {}
        own = out.setdefault(store.get("name", ""), {"name": facts.get("system") or store.get("kind")})
        own["version"] = store.get("version")
        own["redundancy"] = facts.get("redundancy")
        for column, fact in (("front_ends", "front_ends"), ("storage_nodes", "servers")):
            known = [n for n in (own.get(column), facts.get(fact)) if n is not None]
            own[column] = max(known) if known else None
    return out


def table(campaign: Campaign, capabilities: pd.DataFrame) -> pd.DataFrame:
    """The printed systems, then each store and deployment that was probed; nothing where none was."""
    out: list[dict[str, Any]] = []
    if len(capabilities):
        out += [{"source": PUBLISHED, **r} for r in published.load("systems_2015").to_dict("records")]
        facts = deployed(campaign)
        rows = groups.labelled(capabilities)
        for (deployment, store), own in rows.groupby(["deployment", "store"], sort=False):
            given = own.set_index(["topic", "check"])["answer"]
            answers = {column: given.get(question) for column, question in ASKED.items()}
            out.append({"source": MEASURED, "system": deployment} | facts.get(store, {}) | answers)
    return pd.DataFrame(out, columns=list(COLUMNS)).astype({"front_ends": "Int64", "storage_nodes": "Int64"})
