"""Ask questions about a store, one after another, and represent the answers. No error ends the probe.

The possible answers are defined in `stores/base.py`.
"""

import http.client
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from xml.etree.ElementTree import ParseError

from storelab.core import clock
from storelab.stores.base import DIFFERS, ERROR, NO, NOT_TRIED, YES

TIME_IS_UP = "the point's duration ended before"


@dataclass(frozen=True)
class Answer:
    """An answer. It contains no secrets.

    Attributes
    ----------
    answer
        One of ANSWERS.
    evidence
        One line that a reader can check.
    detail
        Facts for `run.json`.
    """

    answer: str
    evidence: str
    detail: dict[str, Any] = field(default_factory=dict)


class Refuted(Exception):
    """The store does not support it. The message is the evidence."""

    answer = NO


class Otherwise(Refuted):
    """The store supports it, but not as defined."""

    answer = DIFFERS


class NotTried(Refuted):
    """The question, or a part of it, could not be asked."""

    answer = NOT_TRIED


def demand(holds: bool, evidence: str, error: type[Refuted] = Refuted) -> None:
    """Raise `error` with the evidence unless `holds` is true."""
    if not holds:
        raise error(evidence)


def confirm(evidence: str, **detail: Any) -> Answer:
    """Return the answer that a function works. evidence: one line; detail: values for the record."""
    return Answer(YES, evidence, detail)


@dataclass(frozen=True)
class Check:
    """One question to a store. `topic` and `name` identify its row in the table. `ask` is called with the context."""

    topic: str
    name: str
    ask: Callable[[Any], Answer]


# The questions of a protocol by topic and name, in the order in which they are asked.
Questions = dict[tuple[str, str], Callable[[Any], Answer]]


@dataclass(frozen=True)
class TimedAnswer:
    """An answer with its place in the table and its time (UTC in ns)."""

    topic: str
    check: str
    answer: str
    evidence: str
    start_ns: int
    end_ns: int
    detail: dict[str, Any] = field(default_factory=dict)


def ask_question(check: Check, context: Any, deadline_ns: int, hide: Iterable[str] = ()) -> TimedAnswer:
    """Ask one question. Every error becomes an answer. Strings in `hide` are removed from the evidence."""
    begun = clock.now_ns()
    if begun >= deadline_ns:
        return TimedAnswer(check.topic, check.name, NOT_TRIED, TIME_IS_UP, begun, begun)
    try:
        answer = check.ask(context)
    except Refuted as refuted:
        answer = Answer(refuted.answer, str(refuted))
    except TimeoutError:
        answer = Answer(NO, "no answer in time")
    except (OSError, http.client.HTTPException, ParseError) as error:
        answer = Answer(NO, f"{type(error).__name__}: {error}")
    # An error of the probe, or an unexpected answer, shows nothing about the store.
    except Exception as error:  # noqa: BLE001
        answer = Answer(ERROR, f"{type(error).__name__}: {error}")
    ended = clock.now_ns()
    if ended >= deadline_ns and answer.answer in (NO, ERROR):
        answer = Answer(NOT_TRIED, TIME_IS_UP)  # the request was possibly interrupted
    evidence = " ".join(answer.evidence.split())[:400]
    for secret in filter(None, hide):
        evidence = evidence.replace(secret, "***")
    return TimedAnswer(check.topic, check.name, answer.answer, evidence, begun, ended, answer.detail)
