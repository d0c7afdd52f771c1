"""LaTeX files of shared campaigns, each made from their tables when it is asked for, without drawing figures."""

from campaigns import built
from storelab.analysis.figures import catalogue
from storelab.analysis.latex import FILE
from storelab.analysis.latex.write import Paper
from storelab.analysis.records.campaign import read_plan


class TexFiles(dict):
    """File name -> text. Of the figures only those named count as drawn."""

    def __init__(self, campaign: str, *figures: str) -> None:
        super().__init__()
        self._paper = Paper(built(campaign))
        self._paper._known["drawn"] = {name: self._entry(name) for name in figures}

    def __missing__(self, name: str) -> str:
        self[name] = FILE.make(name, self._paper)
        return self[name]

    def _entry(self, name: str) -> dict[str, str]:
        known = catalogue.of(read_plan(self._paper["campaign_dir"]))
        return {"table": f"{known[name].table}.csv", "pdf": f"{name}.pdf", "caption": ""}
