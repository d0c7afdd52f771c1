"""Tables in, LaTeX and the paper out. May import: `figures`, `tables`, `parts`, `statistics`, `compare`, `core`.

One module per subject, `write` makes all. Decorators say what a function gives; further names are its arguments:
tables, what is given, `campaign_dir`, or `paper` (all of these, by name).

* `@FILE("table_x", "x")`: the text of `tex/table_x.tex`, from x.csv; nothing where x.csv has no row.
* `@FLAGS("x", ...)`: what the campaign has, flag -> bool: the paper's \\ifHas...; `@GIVEN("x", ...)`: what several rest
  on.
* `@HEADLINES("x", "x")`: what x.csv says of each system, for the abstract and the first page (`headlines`).
* `@FILLED("flag", "x")`, above any of them: the flag is true where x.csv has rows.
* `@SECTION("x", "flag", ...)`, above any of them: `paper/sections/x.tex` is read where one of the flags is true.
"""

from storelab.analysis.parts.registry import Registry

FILE, FLAGS, GIVEN, HEADLINES = (Registry(__name__, n) for n in ("FILE", "FLAGS", "GIVEN", "HEADLINES"))
FILLED, SECTION = (Registry(__name__, n) for n in ("FILLED", "SECTION"))
