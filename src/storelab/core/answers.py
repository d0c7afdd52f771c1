"""The words of the capability table: what the probe, and a store's own administration, answer to a question.

`yes`: it works as its definition says; `no`: it is not there, or refused; `differs`: it answers, but not so; `not
tried`: it could not be asked (the evidence says why); `error`: the question itself failed, nothing is known. May
import: the standard library.
"""

from dataclasses import dataclass

YES, NO, DIFFERS, NOT_TRIED, ERROR = ANSWERS = ("yes", "no", "differs", "not tried", "error")


@dataclass(frozen=True)
class Told:
    """What a store's administration says. answer: one of ANSWERS; evidence: one line to check, nothing secret."""

    check: str
    answer: str
    evidence: str
