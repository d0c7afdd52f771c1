"""Answers to questions about a store, and how they are asked: one after another; no error ends the probe.

The answers are defined in `stores/base.py`.
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
    """An answer. answer: one of ANSWERS; evidence: one line that a reader can check; detail: facts for `run.json`.

    It contains no secrets.
    """

    answer: str
    evidence: str
    detail: dict[str, Any] = field(default_factory=dict)


class Refuted(Exception):
    """The store does not support it; the message is the evidence."""

    answer = NO


class Otherwise(Refuted):
    """The store supports it, but not as defined."""

    answer = DIFFERS


class NotTried(Refuted):
    """It could not be asked, or not completely."""

    answer = NOT_TRIED


def demand(holds: bool, evidence: str, error: type[Refuted] = Refuted) -> None:
    """Raise `error` with the evidence unless `holds` is true."""
    if not holds:
        raise error(evidence)


def confirm(evidence: str, **detail: Any) -> Answer:
    return Answer(YES, evidence, detail)


@dataclass(frozen=True)
class Check:
    """One question: topic and name are its place in the table and never change; `ask` takes the context."""

    topic: str
    name: str
    ask: Callable[[Any], Answer]


# The questions of a protocol by topic and name, in the order of asking.
Questions = dict[tuple[str, str], Callable[[Any], Answer]]


@dataclass(frozen=True)
class TimedAnswer:
    """An answer with its place in the table and its time (UTC ns)."""

    topic: str
    check: str
    answer: str
    evidence: str
    start_ns: int
    end_ns: int
    detail: dict[str, Any] = field(default_factory=dict)


def ask_question(check: Check, context: Any, deadline_ns: int, hide: Iterable[str] = ()) -> TimedAnswer:
    """Ask one question. Any error becomes an answer; strings in `hide` are removed from the evidence."""
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
    # A fault of the probe, or an unexpected answer: it shows nothing about the store.
    except Exception as error:  # noqa: BLE001
        answer = Answer(ERROR, f"{type(error).__name__}: {error}")
    ended = clock.now_ns()
    if ended >= deadline_ns and answer.answer in (NO, ERROR):
        answer = Answer(NOT_TRIED, TIME_IS_UP)  # may only have been cut off
    evidence = " ".join(answer.evidence.split())[:400]
    for secret in filter(None, hide):
        evidence = evidence.replace(secret, "***")
    return TimedAnswer(check.topic, check.name, answer.answer, evidence, begun, ended, answer.detail)
