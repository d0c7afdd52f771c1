"""Check in loops over cases that wrong input raises the expected error."""

from collections.abc import Callable, Iterable
from typing import Any

from pydantic import ValidationError

from storelab.core.errors import MeasurementFailed, UserError

NONE = "(not refused)"


def refusal(call: Callable[..., Any], *arguments: Any, **named: Any) -> str:
    """Return the error message of a call, or NONE if it raises no error.

    A message with several lines fails the test, because storelab reports each error on one line.
    """
    try:
        call(*arguments, **named)
    except (UserError, MeasurementFailed) as error:
        assert "\n" not in str(error), str(error)
        return str(error)
    except ValidationError as error:  # `config.load` converts it to one line
        return str(error)
    return NONE


def all_refused(cases: Iterable[tuple[Any, ...]]) -> None:
    """Check that each call raises an error with the expected message. Report all failed cases together.

    A case is (begin of the message, a text in it, call, *arguments). With the text NONE, the call must not raise an
    error.
    """
    wrong = []
    for begin, text, call, *arguments in cases:
        message = refusal(call, *arguments)
        if text not in message or not (text == NONE or message.startswith(begin)):
            wrong.append((arguments, message))
    assert not wrong, wrong


def check_refused(begin: str, text: str, call: Callable[..., Any], *arguments: Any) -> None:
    """Check that a call raises an error whose message begins with `begin` and contains `text`."""
    all_refused([(begin, text, call, *arguments)])
