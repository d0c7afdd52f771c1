"""Values that the templates of a campaign's paper can print or test.

The values are the numbers of numbers.csv by name, `tables` and `figures` by name, further facts (`has`), and the
sentences of the first page and of the conclusions. May import: the same packages as `latex`.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from storelab.analysis.latex import TABLES, headlines, load
from storelab.analysis.latex.campaign import numbers
from storelab.analysis.latex.parts import ONE_PIECE, escape
from storelab.analysis.latex.templates import NOTHING, Tex
from storelab.analysis.parts import derived
from storelab.analysis.records.roles import THROUGHOUT
from storelab.analysis.tables import build as csv
from storelab.analysis.tables.roles import measured
from storelab.analysis.tables.throughput import CLASSES, rows_of_class
from storelab.analysis.tables.verdicts import NOT_KNOWN

# The first page shows the first of these figures that the campaign has. If it has none of them, the first page shows
# the first figure that is not in NEVER_LEAD.
LEAD_FIGURES = (
    *("threads", "systems", "events_bars", "front_ends", "throughput_download", "launches", "releases", "soak"),
    *("timeline", "role_phases"),
)
NEVER_LEAD = ("errors_over_time", "distributions", "client_resources", "earlier")


class Sources(dict[str, Any]):
    """The tables of a campaign by name, `drawn` and `headlines`. Each is read or made when it is first used."""

    def __init__(self, campaign_dir: Path) -> None:
        super().__init__()
        self.campaign_dir = campaign_dir

    def __missing__(self, name: str) -> Any:
        if name == "drawn":
            self[name] = drawn(self.campaign_dir)
        elif name == "headlines":
            self[name] = headlines.headlines(self)
        else:
            self[name] = csv.read(self.campaign_dir, name)
        return self[name]


class Blocks(dict[str, Tex]):
    """The LaTeX of tables or figures by name, made when it is first used. It is NOTHING for a name without content."""

    def __init__(self, make: Callable[[str], str]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, name: str) -> Tex:
        text = self._make(name)
        self[name] = Tex(text.rstrip("\n")) if text else NOTHING
        return self[name]


def campaign_values(sources: Sources) -> dict[str, Any]:
    """Return the values for the templates of the paper of a campaign."""
    from storelab.analysis.figures.planned import STEM  # imported here because it needs pydantic, which is slow to load

    shown, known = sources["drawn"], sources["headlines"]
    first = lead_figure(shown)

    def figure_of(name: str) -> str:
        if name == first:
            return "% the figure of the first page"
        return figure("Figure", name, shown[name]) if name in shown else ""

    return {
        **numbers(sources["numbers"]),
        "tables": Blocks(lambda name: table(sources, f"table_{name}")),
        "figures": Blocks(figure_of),
        "lead": Tex(figure("Lead", first, shown[first])) if first else NOTHING,
        "has": facts(sources),
        "abstract": Tex(headlines.abstract(known, sources["claims"])),
        "answers": list(map(Tex, headlines.conclusions(known))),
        # Names of figures that the templates show one after the other.
        "own_figures": [name for name, entry in shown.items() if entry.get("own")],
        "timelines": [name for name, entry in shown.items() if entry["table"] == "timeline.csv"],
        "along": [name for name in shown if name.split("_")[0] == STEM],
        "left_out": left_out(sources.campaign_dir),
    }


def table(sources: Mapping[str, Any], name: str) -> str:
    """Return the LaTeX of a table of TABLES, or an empty string if it has no rows."""
    function, *needs = TABLES[name]
    return str(load(function)(*(sources[n] for n in needs))) if len(sources[needs[0]]) else ""


def drawn(campaign_dir: Path) -> dict[str, Any]:
    """Return the files and the caption of each figure that has data: name -> entry of the index.

    Raises UserError if the index is missing or damaged.
    """
    found: dict[str, Any] = derived.figure(campaign_dir / "figures" / "index.json")["figures"]
    return found


def lead_figure(drawn: Mapping[str, Any]) -> str | None:
    """Return the name of the figure of the first page, or None if the campaign has no figure for it."""
    known = [name for stem in LEAD_FIGURES for name in drawn if name == stem or name.startswith(f"{stem}_")]
    return next(iter([*known, *(name for name in drawn if name not in NEVER_LEAD)]), None)


def figure(macro: str, name: str, entry: Mapping[str, Any]) -> str:
    r"""Return the LaTeX of a figure with caption and label. macro: `Figure`, or `Lead` for the first page."""
    return f"\\{macro}{{{entry['pdf'].removesuffix('.pdf')}}}{{{escape(entry['caption'])}}}{{fig:{name}}}"


def left_out(campaign_dir: Path) -> list[str]:
    """Return the figures that were not drawn because they have too few data, each with its table."""
    index = campaign_dir / "figures" / "index.json"
    found = derived.figure(index).get("left_out", {}) if index.exists() else {}
    return [f"{name.replace('_', ' ')} ({of['table']})" for name, of in found.items()]


def facts(tables: Mapping[str, Any]) -> dict[str, bool]:
    """Return the facts that templates test, and that are not in numbers.csv: name -> True if it holds."""
    points, roles, faults = tables["points"], tables["roles"], measured(tables["recovery"])
    verdicts, releases = tables["verdicts"], tables["releases"]
    classes = [rows_of_class(tables["throughput"], name) for name in CLASSES]
    ends = points.reindex(columns=["front_ends", "clients"]).astype("Float64")
    named = verdicts[verdicts["verdict"] != NOT_KNOWN]
    known = list(tables["headlines"].values())
    kinds = [{h.kind for h in of} for of in known]
    values = dict(tables["numbers"][["name", "value"]].to_numpy())

    def holds_for_any(table: pd.DataFrame, true: Callable[[pd.DataFrame], Any]) -> bool:
        return bool(len(table)) and bool(true(table).any())

    return {
        "several_clients": values.get("clients_most", "1 client") != "1 client",
        "one_front_end": not any(rows["front_ends"].nunique() > 1 for rows in classes if rows.size),
        "idle_front_ends": bool((ends["front_ends"] > ends["clients"]).any()),
        "limits_named": bool(len(named)),
        "limits_long": len(named) + named["deployment"].nunique() > ONE_PIECE,
        "roles_together": holds_for_any(roles, lambda rows: rows.groupby("workload")["role"].nunique() > 1),
        "roles_disturbed": holds_for_any(roles, lambda rows: rows["phase"] != THROUGHOUT),
        "recovery_states": holds_for_any(faults, lambda rows: rows["states_reported"] > 0),
        "recovery_whole_later": holds_for_any(faults, lambda rows: rows["whole_after_median_s"] > 0),
        "replicated": holds_for_any(releases, lambda rows: rows["stratum"] == 1),
        "soak_few": holds_for_any(tables["soak_trends"], lambda rows: rows["trend"] == "too few"),
        "summary_several": len(known) > 1,
        "summary_gaps": any(kind_set != set.union(*kinds) for kind_set in kinds),
        "summary_intervals": any("[" in line for of in known for h in of for line in h.lines),
    }
