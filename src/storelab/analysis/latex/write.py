"""LaTeX of a campaign: `tables/*.csv`, `figures/index.json` and the templates of `paper/` in, `tex/*.tex` out.

`tex/` has a `table_*.tex` for each of TABLES, and `paper.tex`, the whole paper. May import: what `latex` may; nothing
slow at first.
"""

from collections.abc import Sequence
from pathlib import Path

from storelab.analysis.latex import TABLES
from storelab.analysis.parts import derived
from storelab.core import records

PAPER = "paper"  # the template, and the file that is made of it
TEX = (*TABLES, PAPER)


def build(campaign_dir: Path, only: Sequence[str] | None = None, paper_dir: Path = Path("paper")) -> list[Path]:
    """Write `tex/<name>.tex`, all of TEX or those named, atomically, and none where one cannot be made.

    Raises UserError where a table or the figures are missing, or where a template in `paper_dir` cannot be filled;
    KeyError where there is no file of that name.
    """
    from storelab.analysis.latex import templates, values  # not above: pandas comes with them

    sources, texts = values.Sources(campaign_dir), {}
    for name in TEX if only is None else only:
        if name == PAPER:
            text = templates.render(paper_dir, f"{PAPER}.tex", values.of_campaign(sources))
        else:
            text = values.table(sources, name)
        texts[campaign_dir / "tex" / f"{name}.tex"] = text
    for path, text in texts.items():
        records.write_atomic(path, derived.tex(text))
    return list(texts)
