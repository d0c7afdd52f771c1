"""Refusals of the user's mistakes, collected in loops over tables of cases."""

from collections.abc import Callable
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
