"""Output of `storelab explain` about a code, a file or a number: table, rows, points, records, versions.

May import: `papers`, `core`.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from storelab.analysis.papers import origin
from storelab.analysis.papers.members import Member, gathered, is_campaign
from storelab.analysis.papers.origin import PaperItem
from storelab.core import sealed
from storelab.core.errors import UserError, nearest, shown

MAX_POINTS = 5  # maximum number of points that are listed by default
KINDS = {"figures": origin.FIGURE, "tables": origin.TABLE, "tex": origin.TEX}


def found(what: str, folders: Sequence[Path], results: Path, preferred: Path | None = None) -> list[PaperItem] | Path:
    """Return the figures, tables, numbers, claims and verdicts that a text names.

    For the code of a table that only a joined paper has, return the path of that paper's `codes.csv`. Raises UserError
    if nothing has this name.

    Parameters
    ----------
    what
        A code, a file of a campaign, or the name of a number, claim, figure or table.
    folders
        The campaigns to search for codes and names.
    results
        The folder of results, whose joined papers are searched.
    preferred
        The campaign whose number is returned if several campaigns have one with this name.
    """
    if items := _items_of_file(what):
        return items
    members = [m for folder in folders for m in _readable(folder)]
    if origin.is_code(what) and (items := origin.named(members).get(what.upper())):
        return items
    if origin.is_code(what) and (page := _paper_with_code(what.upper(), results)):
        return page
    items = [t for m in members for t in _items_with_name(m, what)]
    if near := [t for t in items if preferred and t.member.folder.resolve() == preferred.resolve()]:
        return near
    if items:
        return items
    if origin.is_code(what) and what.upper() == what:
        problem = f"{what} is not a code in {_searched(folders, results)}"
        hint = "codes change with the records: rebuild the paper, or name its campaign before the code"
        raise UserError("explain", problem, hint)
    if not members:
        problem = f"{shown(what)} cannot be found: no tables in {_searched(folders, results)}"
        raise UserError("explain", problem, "make them first: `storelab tables CAMPAIGN`")
    names = [str(name) for m in members for name in m.table("numbers")["name"]]
    problem = f"{shown(what)} is not a code, a file of a campaign, or a name in {_searched(folders, results)}"
    near = nearest(what, names)
    hint = (
        near
        if near.startswith("did")
        else "name a code like 7K2MXQ4, results/x/figures/y.pdf, or a number of numbers.csv"
    )
    raise UserError("explain", problem, hint)


def _searched(folders: Sequence[Path], results: Path) -> str:
    return str(folders[0]) if len(folders) == 1 else f"{len(folders)} campaigns below {results}"


def _readable(folder: Path) -> list[Member]:
    """Return a list with the campaign in a folder. If it has no tables, the list is empty."""
    try:
        return gathered([folder])
    except UserError:
        return []


def _items_of_file(what: str) -> list[PaperItem]:
    """Return the item in a file, such as `results/x/figures/y.pdf`, `…/tables/y.csv` or `…/tex/table_y.tex`.

    If the path does not have this form, the list is empty.
    """
    path = Path(what)
    kind, folder = KINDS.get(path.parent.name), path.parent.parent
    if kind is None or not is_campaign(folder):
        return []
    member = gathered([folder])[0]
    if kind == origin.FIGURE and path.stem in member.declared and path.exists():  # others may not be drawn yet
        return [PaperItem(member, kind, path.stem)]
    items = [t for t in origin.items(member) if t.kind == kind and t.name == path.stem]
    if not items:
        known = [t.name for t in origin.items(member) if t.kind == kind]
        if not known:
            command = "latex" if kind == origin.TEX else path.parent.name
            raise UserError(what, f"{folder} has no {command}", f"make them first: `storelab {command} {folder}`")
        raise UserError(what, "is not a result of the campaign", nearest(path.stem, known, "it has:"))
    return items


def _paper_with_code(code: str, results: Path) -> Path | None:
    """Return the path of `codes.csv` of the joined paper that has this code, or None."""
    pages = sorted((results / "papers").glob("*/tables/codes.csv"))
    return next((page for page in pages if (pd.read_csv(page)["code"] == code).any()), None)


def _items_with_name(member: Member, name: str) -> list[PaperItem]:
    """Return the numbers with this name. If there are none, return the claims, figures or tables with this name."""
    kinds = (origin.NUMBER, origin.CLAIM, origin.FIGURE, origin.TABLE, origin.TEX)
    items = [t for t in origin.items(member) if t.kind in kinds and name in (t.name, t.name.partition(", ")[0])]
    first = next((kind for kind in kinds if any(t.kind == kind for t in items)), None)
    return [t for t in items if t.kind == first]


def text(item: PaperItem, every: bool = False) -> Iterator[str]:
    """Yield the lines that explain a number, claim, figure or table.

    every: list all points, not only the first few.
    """
    member, keys = item.member, item.keys
    yield f"{item.code}  {item.kind} {item.name} of the campaign {member.name}: {member.folder / item.file}"
    if item.kind == origin.NUMBER:
        r = member.table("numbers").set_index("name").loc[item.name]
        yield f"  value     {r['value']}{' ' if r['unit'] else ''}{r['unit']}, from {r['source']}"
    if item.kind == origin.CLAIM and item.row is not None:
        r = member.table("claims").iloc[item.row]
        yield f"  says      {r['statement']} ({r['source']}): {r['verdict']}; {r['query']}; {r['expected']}"
    for rows in item.rows:
        yield f"  rows      {member.folder / 'tables' / f'{rows.table}.csv'}: {rows.lines}"
    if not keys:
        yield "  points    none, because the item does not depend on measured points"
        return
    listed = keys if every else keys[:MAX_POINTS]
    more = f" (first {MAX_POINTS}; --all lists all)" if len(keys) > len(listed) else ""
    yield f"  points    {len(keys)}{more}:"
    for key in listed:
        yield f"            {key}"
    raw = member.folder / "raw"
    if sealed.is_sealed_form(raw):
        yield f"  records   the rows of these points (column key) in {raw / sealed.RUNS} and the tables next to it"
    else:
        yield f"  records   {raw / listed[0]}/run.json and the files next to it, and the same for each point"
    versions = member.commits(keys)
    yield f"  commit    {', '.join(versions.get('commit', [])) or 'not recorded'}"
    all_versions = [*(f"storelab {v}" for v in versions.get("storelab", [])), *versions.get("versions", [])]
    yield f"  versions  {', '.join(all_versions)}"


def paper_lines(page: Path, code: str) -> Iterator[str]:
    """Yield the lines that explain a table that only a joined paper has. page: `codes.csv` of the paper."""
    table = pd.read_csv(page)
    r = table[table["code"] == code.upper()].iloc[0]
    folder = page.parent.parent
    yield f"{r['code']}  {r['kind']}: {folder / r['file']}"
    yield f"  rows      {r['lines']}"
    yield f"  points    {r['points']}, of the campaigns {', '.join(str(r['campaign']).split('+'))}"
    for line in pd.read_csv(folder / "tables" / "campaigns.csv").to_dict("records"):
        yield f"  records   {line['campaign']}: {line['points']} points, evidence {line['evidence'][:12]}"
