"""The two ways to end without a result: a person's mistake (exit code 2) and a measurement that failed (1).

Imports nothing of storelab.
"""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A person's mistake: one line that names the place, the problem with its value, and the mend; exit code 2."""

    def __init__(self, place: str, problem: str, mend: str = ""):
        self.place, self.problem, self.mend = place, problem, mend
        line = f"{place}: {problem}" + (f"; {mend}" if mend else "")
        super().__init__(" ".join(line.split()))


class MeasurementFailed(Exception):
    """A point (or a staging) that was tried and failed for a reason outside the configuration; exit code 1."""


def nearest(word: str, known: Iterable[str], told: str = "known") -> str:
    """The mend for a word that is not known: the known one that is most like it, else all of them, after `told`."""
    names = list(known)
    near = difflib.get_close_matches(word, names, 1)
    return f"did you mean {near[0]!r}?" if near else f"{told}: {', '.join(names)}"
