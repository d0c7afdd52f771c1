"""One module per CSV file, `build` makes them all. May import: `records`, `statistics`, `parts`, `core`.

Decorators say what a function gives; further names are its arguments: tables, what is given, or `campaign`, `plan` and
`tables` (all of these, by name).

* `@TABLE("x", ...)`: x.csv.
* `@NUMBERS("x", ...)`: what the text quotes of it, (name, value, unit) each.
* `@GIVEN("x", ...)`: what several tables rest on.
"""

from storelab.analysis.parts.registry import Registry

TABLE, NUMBERS, GIVEN = (Registry(__name__, n) for n in ("TABLE", "NUMBERS", "GIVEN"))
