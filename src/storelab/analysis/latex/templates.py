"""Render the templates of the papers with Jinja, with delimiters that have no meaning in LaTeX.

`<< name >>` prints a value, and `<% if name %>…<% endif %>` includes part of a sentence under a condition. A line that
begins with `%%` is a statement: `%% if name`, `%% for x in y`, `%% include "…"`. Text is escaped, but `Tex` is printed
unchanged. An undefined value is false in an `if`. Printing it is an error. May import: `parts`.
"""

import re
import traceback
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from jinja2.ext import Extension

from storelab.analysis.latex import parts
from storelab.analysis.parts import labels
from storelab.core.errors import UserError


class Tex(str):
    """A text that is already LaTeX. `present` is its truth value in an `if`."""

    present: bool

    def __new__(cls, text: str, present: bool = True) -> "Tex":
        new = super().__new__(cls, text)
        new.present = present
        return new

    def __bool__(self) -> bool:
        return self.present


NOTHING = Tex("%", False)  # text for a missing figure or table; TeX ignores a line with only this text


class _Absent(jinja2.StrictUndefined):
    """An undefined value, which is false in an `if`."""

    def __bool__(self) -> bool:
        return False


class _LineStatements(Extension):
    """An extension of Jinja for lines of the form `%% statement`.

    The line statements of Jinja would remove the empty lines below them, which separate paragraphs in LaTeX.
    """

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        return re.sub(r"^%% (.*)\n", r"<% \1 %><!--\n-->", source, flags=re.MULTILINE)


def _finalize(value: Any) -> str:
    return value if isinstance(value, Tex) else parts.escape(value)


def counted(number: str, one: str, several: str = "") -> Tex:
    """Return a number with its noun, such as `1~run` or `2~runs`. several: the plural; default: `one` with an s."""
    return Tex(f"{number}~{one if number == '1' else several or f'{one}s'}")


def breakable(name: str) -> Tex:
    """Return a name as LaTeX with possible line breaks after its punctuation."""
    return Tex(parts.breakable(parts.escape(name)))


def join(values: Iterable[Any], separator: str) -> Tex:
    """Return the joined values as LaTeX. Values that are not LaTeX are escaped.

    This replaces the filter of Jinja with the same name, which would escape LaTeX again.
    """
    return Tex(separator.join(map(_finalize, values)))


def figures_with(names: Sequence[str], one: str, several: str) -> Tex:
    r"""Return `Figure~\\ref{fig:x} is`, or `Figures~\\ref{fig:x} and \\ref{fig:y} are`, for these figures.

    one, several: the verb for one and for several figures.
    """
    named = labels.listed([f"\\ref{{fig:{name}}}" for name in names])
    return Tex(f"Figures~{named} {several}" if len(names) > 1 else f"Figure~{named} {one}")


def environment(paper_dir: Path) -> jinja2.Environment:
    """Return the Jinja environment for the templates in this folder."""
    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(paper_dir),
        block_start_string="<%",
        block_end_string="%>",
        variable_start_string="<<",
        variable_end_string=">>",
        comment_start_string="<!--",
        comment_end_string="-->",
        extensions=[_LineStatements],
        keep_trailing_newline=True,
        undefined=_Absent,
        finalize=_finalize,
    )
    found.filters |= {"counted": counted, "figures_with": figures_with, "breakable": breakable, "join": join}
    return found


def render(paper_dir: Path, name: str, values: Mapping[str, Any]) -> str:
    """Return the text of a template in `paper_dir`, filled with these values.

    Raises UserError if the template does not exist or is invalid, or if it prints an undefined value.
    """
    try:
        return environment(paper_dir).get_template(name).render(values)
    except jinja2.TemplateNotFound as error:
        fix = "name the folder of the templates with --paper-dir"
        raise UserError(str(paper_dir / str(error.name)), "does not exist", fix) from None
    except jinja2.TemplateSyntaxError as error:
        place = f"{paper_dir / str(error.name)}:{error.lineno}"
        raise UserError(place, str(error.message), "correct the template; docs/paper.md describes the syntax") from None
    except jinja2.UndefinedError as error:
        frames = traceback.extract_tb(error.__traceback__)
        frame = next(f for f in reversed(frames) if Path(f.filename).is_relative_to(paper_dir))
        fix = "put the text that needs this value between `%% if` and `%% endif`, because the campaign does not have it"
        raise UserError(f"{frame.filename}:{frame.lineno}", str(error.message), fix) from None
