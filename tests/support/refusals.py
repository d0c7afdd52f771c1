"""Refusals of the user's mistakes, collected in loops over tables of cases."""

from collections.abc import Callable, Iterable
from typing import Any

from pydantic import ValidationError

from storelab.core.errors import MeasurementFailed, UserError

NONE = "(not refused)"


def refusal(call: Callable[..., Any], *arguments: Any, **named: Any) -> str:
    """Return the message with which a call ends, or NONE where it ends without one.

    A message of several lines fails the test: storelab reports each mistake on one line.
    """
    try:
        call(*arguments, **named)
    except (UserError, MeasurementFailed) as error:
        assert "\n" not in str(error), str(error)
        return str(error)
    except ValidationError as error:  # `config.load` makes one line of it
        return str(error)
    return NONE


def all_refused(cases: Iterable[tuple[Any, ...]]) -> None:
    """Check that each call is refused with the expected message; report all other cases together.

    A case is (begin of the message, a text in it, call, *arguments). With the text NONE the call must be accepted.
    """
    wrong = []
    for begin, text, call, *arguments in cases:
        message = refusal(call, *arguments)
        if text not in message or not (text == NONE or message.startswith(begin)):
            wrong.append((arguments, message))
    assert not wrong, wrong


def check_refused(begin: str, text: str, call: Callable[..., Any], *arguments: Any) -> None:
    """Check that one call is refused with a message that begins with `begin` and contains `text`."""
    all_refused([(begin, text, call, *arguments)])
