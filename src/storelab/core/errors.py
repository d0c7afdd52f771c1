"""The two ways to end without a result: a person's mistake (exit code 2) and a measurement that failed (1).

Imports nothing of storelab.
"""

import difflib
from collections.abc import Collection, Iterable
from typing import Any


class UserError(Exception):
    """A person's mistake: one line that names the place, the problem with its value, and the mend; exit code 2."""

    def __init__(self, place: str, problem: str, mend: str = ""):
        self.place, self.problem, self.mend = place, problem, mend
        line = f"{place}: {problem}" + (f"; {mend}" if mend else "")
        super().__init__(" ".join(line.split()))

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        """So that it comes out of a process pool: with its own arguments instead of the line."""
        return type(self), (self.place, self.problem, self.mend)


class MeasurementFailed(Exception):
    """A point (or a staging) that was tried and failed for a reason outside the configuration; exit code 1."""


def nearest(word: Any, known: Iterable[str], told: str = "known:") -> str:
    """The mend for a word that is not known: the known one that is most like it, else all of them, after `told`."""
    names = list(known)
    near = difflib.get_close_matches(str(word), names, 1)
    return f"did you mean {near[0]!r}?" if near else f"{told} {', '.join(names)}"


def require_known(place: str, word: Any, known: Collection[str], problem: str, told: str) -> None:
    """Raises UserError with the `problem` where the word is none of the known ones; the mend is as of `nearest`."""
    if word not in known:
        raise UserError(place, problem, nearest(word, known, told))
