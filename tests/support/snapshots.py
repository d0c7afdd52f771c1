"""Compare output of the package with stored snapshots. The last digits of numbers can differ.

Snapshots are JSON files in `tests/data/golden/`. `pytest --force-regen <test>` writes changed ones.
"""

import csv
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from paths import DATA

SNAPSHOTS = DATA / "golden"
MAX_ROWS = 40  # maximum number of rows of a table or curve; longer ones are thinned
TOLERANCE = 1e-6  # relative; the last digits of a fit depend on the processor
MAX_SHOWN = 20


def check(regression: Any, name: str, content: Any) -> None:
    """Compare content with the snapshot `name`; `regression` is the fixture `file_regression`."""
    regression.check(_text(content) + "\n", extension=".json", fullpath=SNAPSHOTS / f"{name}.json", check_fn=_same)


def _text(value: Any, indent: str = "") -> str:
    """Return JSON with one line for each list of plain values, so that a changed column changes one line."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if not any(isinstance(item, dict | list) for item in items) and not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    inner = indent + " "
    if isinstance(value, dict):
        lines = [f"{inner}{json.dumps(k, ensure_ascii=False)}: {_text(v, inner)}" for k, v in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}" if lines else "{}"
    flat = json.dumps(value, ensure_ascii=False)
    return flat if len(flat) < 110 else "[\n" + ",\n".join(inner + _text(v, inner) for v in value) + f"\n{indent}]"


def _same(obtained: Path, expected: Path) -> None:
    found = list(differences(*(json.loads(p.read_text()) for p in (obtained, expected))))
    shown = "\n".join(found[:MAX_SHOWN])
    assert not found, f"{len(found)} differences (renew with --force-regen); place, now, before:\n{shown}"


def differences(now: Any, before: Any, place: str = "") -> Iterator[str]:
    """Yield a message for each difference of two structures."""
    if isinstance(now, dict) and isinstance(before, dict):
        for key in [*before, *(k for k in now if k not in before)]:
            yield from differences(now.get(key), before.get(key), f"{place}/{key}")
    elif isinstance(now, list) and isinstance(before, list) and len(now) == len(before):
        for i, (one, other) in enumerate(zip(now, before, strict=True)):
            yield from differences(one, other, f"{place}/{i}")
    elif now != before and not near(now, before):
        yield f"{place}: {json.dumps(now)[:200]} | {json.dumps(before)[:200]}"


def near(now: Any, before: Any) -> bool:
    """Return True if two numbers, or two texts with numbers, agree except for the last digits."""
    try:
        return math.isclose(float(now), float(before), rel_tol=TOLERANCE)
    except (TypeError, ValueError):
        return False


def tables(folder: Path) -> dict[str, Any]:
    """Return the non-empty tables below `folder`: columns, number of rows, and the cells of at most MAX_ROWS rows."""
    out = {}
    for path in sorted((folder / "tables").glob("*.csv")):
        with path.open(newline="") as file:
            columns, *rows = csv.reader(file)
        if rows:
            out[path.stem] = {"rows": len(rows)} | {
                column: thinned([row[i] for row in rows]) for i, column in enumerate(columns)
            }
    return {name: {k: _uniform(v) for k, v in table.items()} for name, table in out.items()}


def _uniform(cells: Any) -> Any:
    """Return a single cell for a column with equal cells."""
    return cells[0] if isinstance(cells, list) and len(set(cells)) == 1 else cells


def thinned(items: list[Any]) -> list[Any]:
    """Return at most MAX_ROWS items, evenly distributed."""
    return items[:: math.ceil(len(items) / MAX_ROWS)] if items else items


def tex(folder: Path) -> dict[str, Any]:
    """Return the text of the paper without its tables, and the cells of each table."""
    text = {path.stem: path.read_text() for path in sorted((folder / "tex").glob("*.tex"))}
    cells = {name: _cells(text[name]) for name in text if name.startswith("table_")}
    return {
        "paper": _sections(text["paper"]),
        "tables": {name: thinned(rows) for name, rows in cells.items() if rows},
    }


def _sections(paper: str) -> dict[str, list[str]]:
    """Return the lines of each section of a paper, without rows of tables."""
    found: dict[str, list[str]] = {}
    title = "First page"
    for line in paper.split(r"\begin{document}")[1].split(r"\end{document}")[0].splitlines():
        if heading := re.match(r"\\(?:section|Appendix|ShortAppendix)\{(.*?)\}", line):
            title = heading[1]
        if line and not re.search(r"\\\\(\[3pt\]|\*|\\addlinespace\[2pt\])?$", line):
            found.setdefault(title, []).append(line)
    return found


def _cells(text: str) -> list[str]:
    """Return the rows of all tabulars, with cells separated by `&`."""
    lines = (line.strip() for line in text.splitlines())
    return [" ".join(line.removesuffix(r"\\").split()) for line in lines if line.endswith(r"\\") and "&" in line]
