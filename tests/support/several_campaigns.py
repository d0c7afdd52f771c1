"""Campaigns for papers of several, made of the golden set without computing anything: raw records, tables and LaTeX as
expected.

Pictures are empty files: whoever looks at them draws them.
"""

import json
import shutil
from pathlib import Path

import golden

from storelab.analysis.figures import catalogue
from storelab.core import records


def campaign(name: str, parent: Path, as_name: str | None = None) -> Path:
    """A folder as the rules of a campaign leave it: records, `tables/`, `tex/` and the index of its figures.

    `as_name`: another name of the campaign, which has plan and checksums alone then.
    """
    folder, expected = parent / (as_name or name), golden.GOLDEN / name / "expected"
    folder.mkdir(parents=True)
    plan = json.loads((golden.raw_of(name) / "plan.json").read_text())
    if as_name:
        plan["campaign"]["name"] = as_name
        (folder / "raw").mkdir()
        records.write_summed(folder / "raw" / "plan.json", plan)
        shutil.copy(golden.raw_of(name) / "SHA256SUMS", folder / "raw" / "SHA256SUMS")
    else:
        (folder / "raw").symlink_to(golden.raw_of(name))
    for kind in ("tables", "tex"):
        shutil.copytree(expected / kind, folder / kind, copy_function=shutil.copy)  # newer than the records
    captions = json.loads((expected / "captions.json").read_text())
    figures = catalogue.of(plan)
    entries = {
        name: {"table": f"{figures[name].table}.csv", "pdf": f"{name}.pdf", "png": f"{name}.png", "caption": said}
        for name, said in captions.items()
    }
    (folder / "figures").mkdir()
    for entry in entries.values():
        (folder / "figures" / entry["pdf"]).write_bytes(b"%PDF-1.4\n")
    (folder / "figures" / "index.json").write_text(json.dumps({"schema": 1, "figures": entries}))
    return folder
