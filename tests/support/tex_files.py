"""Make the LaTeX files of shared campaigns from their tables on request, without drawing figures."""

from typing import Any

from paths import ROOT

from campaigns import built
from storelab.analysis.figures import catalogue
from storelab.analysis.latex import templates, values
from storelab.analysis.records.campaign import read_plan


class TexFiles(dict):
    """A lazy mapping from file name to text. The name `paper` is the whole paper. Only the given figures exist."""

    def __init__(self, campaign: str, *figures: str) -> None:
        super().__init__()
        self._sources = values.Sources(built(campaign))
        self._sources["drawn"] = {name: self._entry(name) for name in figures}

    def __missing__(self, name: str) -> str:
        if name == "paper":
            self[name] = templates.render(ROOT / "paper", "paper.tex", values.campaign_values(self._sources))
        else:
            self[name] = values.table(self._sources, name)
        return self[name]

    def _entry(self, name: str) -> dict[str, str]:
        known = catalogue.figures_of_plan(read_plan(self._sources.campaign_dir))
        return {"table": f"{known[name].table}.csv", "pdf": f"{name}.pdf", "caption": ""}


def facts(**tables: Any) -> dict[str, bool]:
    """Return the values for templates from these tables. All other tables are those of a small campaign."""
    sources = values.Sources(built("one_each"))
    sources.update({"headlines": {}, **tables})
    return values.facts(sources)
