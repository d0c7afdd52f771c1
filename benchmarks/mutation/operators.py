"""Faults that can be planted in a module: each is one small change of its syntax tree.

Texts for users (messages of exceptions, docstrings, annotations) get no faults. Neither does code without influence on
numbers that a test could check (imports, `zip(strict=)`).
"""

import ast
import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Any

COMPARISONS = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_PAIRS = (
    *(("min", "max"), ("any", "all"), ("floor", "ceil"), ("mean", "median"), ("sum", "mean"), ("minimum", "maximum")),
    *(("idxmax", "idxmin"), ("argmax", "argmin"), ("first", "last"), ("cummax", "cummin"), ("ffill", "bfill")),
    *(("notna", "isna"), ("add", "discard"), ("append", "extend"), ("removeprefix", "removesuffix")),
)
SWAPPED = dict(_PAIRS) | {b: a for a, b in _PAIRS if b != "mean"}
PASSED_ON = {"sorted": "list", "abs": "float", "round": "float", "set": "list", "reversed": "list"}  # changes nothing
SQL = re.compile(r"\b(SELECT|FROM|FILTER|CASE|OVER|sum\(|count\()")
IN_SQL = (
    *((r"<=", "<"), (r"(?<![<>=!])<(?![<>=])", "<="), (r">=", ">"), (r"(?<![<>=!])>(?![<>=])", ">=")),
    *((r"\bsum\(", "max("), (r"\bmax\(", "min("), (r"\bmin\(", "max("), (r"\bavg\(", "sum("), (r"\bAND\b", "OR")),
    *((r" \+ ", " - "), (r" - ", " + "), (r" / 1e(\d)", r" / 2e\1"), (r" / ", " * "), (r" \* ", " / ")),
    *((r"IS NOT NULL", "IS NULL"), (r"IS NULL", "IS NOT NULL"), (r" FILTER \([^()]*\)", ""), (r" = 0\b", " = 1")),
)
SILENT = {"strict", "description", "title", "help", "encoding", "doc", "frozen", "slots", "repr", "stacklevel"}
SKIPPED = (ast.Import, ast.ImportFrom, ast.Raise, ast.Assert, ast.Pass)


@dataclass(frozen=True)
class Fault:
    """A change with a number in its module.

    lines: of the changed statement, or of the head of a compound statement; function: the enclosing function as
    `Class.name()`, empty at the level of the module.
    """

    number: int
    line: int
    lines: tuple[int, int]
    function: str
    kind: str
    before: str

    @property
    def on_import(self) -> bool:
        """Return True if the line runs when the module is imported."""
        return "()" not in self.function


@dataclass(frozen=True)
class _Site:
    statement: ast.stmt
    function: str
    node: ast.AST
    kind: str
    change: Callable[[], ast.AST]  # applies the change; returns the node to show afterwards


def faults(source: str) -> list[Fault]:
    """Return every fault that can be planted in a module, always in the same order."""
    return [
        Fault(n, getattr(s.node, "lineno", s.statement.lineno), _lines(s.statement), s.function, s.kind, _code(s.node))
        for n, s in enumerate(_sites(ast.parse(source)))
    ]


def planted(source: str, number: int) -> tuple[ast.Module, str]:
    """Return the module's tree with that fault, and the source of the changed place."""
    tree = ast.parse(source)
    after = _code(next(islice(_sites(tree), number, None)).change())
    return ast.fix_missing_locations(tree), after


def _code(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).replace("\\n", " ").split())


def difference(before: str, after: str, around: int = 40) -> tuple[str, str]:
    """Return both texts without their common begin and end, except `around` characters of them."""
    begin = _shared(before, after)
    end = _shared(before[begin:][::-1], after[begin:][::-1])
    low = max(0, begin - around) if begin > around + 10 else 0
    return tuple(
        f"{'… ' if low else ''}{t[low : len(t) - max(0, end - around)]}{' …' if end > around else ''}"
        for t in (before, after)
    )


def _shared(one: str, other: str) -> int:
    """Return the number of characters with which both begin."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _lines(statement: ast.stmt) -> tuple[int, int]:
    body = getattr(statement, "body", None)
    end = body[0].lineno - 1 if body else statement.end_lineno
    return statement.lineno, max(statement.lineno, end or 0)


def _sites(tree: ast.Module) -> list[_Site]:
    subscripts = [n for n in ast.walk(tree) if isinstance(n, ast.Subscript) and _is_key(n.slice)]
    keys = sorted({n.slice.value for n in subscripts})
    for node in subscripts:  # replaced by another column that the module uses, so that the column exists
        node.other_key = keys[keys.index(node.slice.value) - 1] if len(keys) > 1 else f"{node.slice.value}_"
    return list(_in_body(tree, "body", ""))


def _is_key(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _in_body(owner: ast.AST, field: str, function: str) -> Iterator[_Site]:
    """Yield the faults of the statements in one block, in order, with those in nested blocks."""
    block = getattr(owner, field)
    for at, statement in enumerate(block):
        if isinstance(statement, SKIPPED) or _is_text(statement) or _for_type_checkers(statement):
            continue
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inside = f"{function}.{statement.name}".lstrip(".")
            inside += "" if isinstance(statement, ast.ClassDef) else "()"
            if not isinstance(statement, ast.ClassDef):
                for default in (*statement.args.defaults, *statement.args.kw_defaults):
                    yield from _in_expression(default, statement, function)
            yield from _in_body(statement, "body", inside)
            continue
        yield from _of_statement(block, at, statement, function)
        for name, value in ast.iter_fields(statement):
            if name in ("target", "targets", "annotation") and not isinstance(statement, ast.AugAssign):
                continue
            for node in value if isinstance(value, list) else [value]:
                if isinstance(node, (ast.expr, ast.withitem)):
                    yield from _in_expression(node, statement, function)
                elif isinstance(node, (ast.ExceptHandler, ast.match_case)):
                    yield from _in_body(node, "body", function)
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                yield from _in_body(statement, name, function)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _for_type_checkers(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING"


def _of_statement(block: list[ast.stmt], at: int, statement: ast.stmt, function: str) -> Iterator[_Site]:
    def instead(other: ast.stmt) -> Callable[[], ast.AST]:
        def change() -> ast.AST:
            block[at] = other
            return other

        return change

    def site(kind: str, other: ast.stmt) -> _Site:
        return _Site(statement, function, statement, kind, instead(other))

    if (
        "()" in function
        and isinstance(statement, (ast.Expr, ast.AugAssign))
        and not isinstance(statement.value, ast.Yield)
    ):
        yield site("removed", ast.Pass())
    if isinstance(statement, ast.Return) and statement.value and ast.unparse(statement.value) != "None":
        yield site("returns None", ast.Return(value=ast.Constant(None)))
    if isinstance(statement, ast.Continue):
        yield site("break", ast.Break())
    if isinstance(statement, ast.Break):
        yield site("continue", ast.Continue())
    if isinstance(statement, (ast.If, ast.While)):
        test = statement.test

        def negate() -> ast.AST:
            statement.test = ast.UnaryOp(ast.Not(), test)
            return statement.test

        yield _Site(statement, function, test, "negated", negate)


def _in_expression(node: ast.AST | None, statement: ast.stmt, function: str) -> Iterator[_Site]:
    if node is None or (isinstance(node, ast.Lambda) and isinstance(node.body, ast.Constant)):
        return
    for kind, change in _of_node(node):
        yield _Site(statement, function, node, kind, change)
    for name, value in ast.iter_fields(node):
        if name in ("format_spec", "annotation", "ctx"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, (ast.expr, ast.comprehension, ast.keyword, ast.withitem)) and not _silent(node, child):
                yield from _in_expression(child, statement, function)


def _silent(node: ast.AST, child: ast.AST) -> bool:
    """Return True if no number depends on the child, for example text in an f-string that is not SQL."""
    if isinstance(child, ast.keyword):
        return child.arg in SILENT
    return isinstance(node, ast.JoinedStr) and isinstance(child, ast.Constant) and not SQL.search(child.value)


def _become(node: ast.AST, other: ast.AST) -> ast.AST:
    """Turn a node into another one in its place, without the need to know its parent."""
    where = {k: getattr(node, k) for k in ("lineno", "col_offset", "end_lineno", "end_col_offset") if hasattr(node, k)}
    other = copy.deepcopy(other)
    node.__class__ = other.__class__
    node.__dict__.clear()
    node.__dict__.update(other.__dict__ | where)
    return node


def _set(node: ast.AST, **fields: Any) -> Callable[[], ast.AST]:
    def change() -> ast.AST:
        for name, value in fields.items():
            setattr(node, name, value)
        return node

    return change


_Changes = Iterator[tuple[str, Callable[[], ast.AST]]]


def _of_node(node: ast.AST) -> _Changes:
    match node:
        case ast.Compare(ops=[op]):
            for other in COMPARISONS[type(op)]:
                yield "comparison", _set(node, ops=[other()])
        case ast.Compare(ops=[first, *rest]):
            yield "comparison", _set(node, ops=[COMPARISONS[type(first)][0](), *rest])
            yield "comparison", _set(node, ops=[first, COMPARISONS[type(rest[0])][0](), *rest[1:]])
        case ast.BinOp() | ast.AugAssign() if type(node.op) in ARITHMETIC and not isinstance(node.left, ast.JoinedStr):
            yield "arithmetic", _set(node, op=ARITHMETIC[type(node.op)]())
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert()):
            yield "sign", lambda: _become(node, node.operand)
        case ast.BoolOp(values=values):
            yield "and/or", _set(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
            yield "operand dropped", lambda: _become(node, values[0])
            yield "operand dropped", lambda: _become(node, values[-1])
        case ast.IfExp():
            yield "negated", _set(node, body=node.orelse, orelse=node.body)
        case ast.comprehension(ifs=[_, *_]):
            yield "condition dropped", _set(node, ifs=node.ifs[1:])
        case ast.Slice():
            yield from _of_slice(node)
        case ast.Call():
            yield from _of_call(node)
        case ast.Constant():
            yield from _of_constant(node)
        case ast.Subscript() if _is_key(node.slice):
            yield "key", _becoming(node, node.slice, "value", node.other_key)
        case ast.Dict(keys=keys):
            for key in filter(_is_key, keys):
                yield "key", _becoming(node, key, "value", f"{key.value}_")


def _of_slice(node: ast.Slice) -> _Changes:
    if node.lower is not None:
        yield "slice", _set(node, lower=None)
    if node.upper is not None:
        yield "slice", _set(node, upper=None)


def _of_call(node: ast.Call) -> _Changes:
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    field = "id" if isinstance(node.func, ast.Name) else "attr"
    if name in SWAPPED:
        yield "other function", _becoming(node, node.func, field, SWAPPED[name])
    if field == "id" and name in PASSED_ON and len(node.args) == 1:
        plain = ast.Call(ast.Name(PASSED_ON[name], ast.Load()), node.args, [])
        yield "function dropped", lambda: _become(node, plain)
    for keyword in node.keywords:
        if keyword.arg and keyword.arg not in SILENT and len(node.keywords) + len(node.args) > 1:
            yield "keyword dropped", _set(node, keywords=[k for k in node.keywords if k is not keyword])
    if field == "attr" and name in ("get", "fillna", "clip", "round") and len(node.args) > 1:
        yield "argument dropped", _set(node, args=node.args[:-1])


def _becoming(shown: ast.AST, node: ast.AST, field: str, value: str) -> Callable[[], ast.AST]:
    def change() -> ast.AST:
        setattr(node, field, value)
        return shown

    return change


def _of_constant(node: ast.Constant) -> _Changes:
    value = node.value
    if isinstance(value, bool):
        yield "constant", _set(node, value=not value)
    elif isinstance(value, int):
        for other in (1,) if value == 0 else (0, 2) if value == 1 else (value + 1, value - 1):
            yield "constant", _set(node, value=other)
    elif isinstance(value, float):
        yield "constant", _set(node, value=value * 2 if value else 1.0)
    elif isinstance(value, str) and SQL.search(value):
        for old, new in IN_SQL:
            for found in re.finditer(old, value):
                yield "SQL", _set(node, value=value[: found.start()] + found.expand(new) + value[found.end() :])
