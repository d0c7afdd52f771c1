"""Types of configuration values: units, names, exact booleans, stores, closed models."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainValidator

from storelab.core import stores, units
from storelab.core.errors import UserError
from storelab.core.model import NAME


def _unit(kind: str, value: Any) -> int:
    try:
        return units.parse(value, kind, "")
    except UserError as error:
        raise ValueError(f"{error.problem}; {error.mend}") from None


def _name(value: Any) -> str:
    if not isinstance(value, str) or not NAME.match(value):
        raise ValueError(f"{value!r} is not a name; use letters, digits, '.' and '-'")
    return value


def _boolean(value: Any) -> bool:
    """`--config measure=true` arrives as text, and the text "false" is true to Python: only exact booleans pass."""
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    raise ValueError(f"{value!r} is not a boolean; write true or false")


Size = Annotated[int, BeforeValidator(partial(_unit, "size"))]
Duration = Annotated[int, BeforeValidator(partial(_unit, "duration"))]
Rate = Annotated[int, BeforeValidator(partial(_unit, "rate"))]
Name = Annotated[str, BeforeValidator(_name)]
Boolean = Annotated[bool, BeforeValidator(_boolean)]


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, protected_namespaces=())


def _store(value: Any) -> Closed:
    """A store's settings, as the model of its kind reads them.

    Raises ValueError for a kind that is not known, and that model's own ValidationError.
    """
    if isinstance(value, Closed):
        return value
    kind = value.get("kind") if isinstance(value, Mapping) else value
    try:
        return stores.load(kind).Settings.model_validate(value)
    except UserError as error:
        raise ValueError(f"{error.problem}; {error.mend}") from None


Store = Annotated[Any, PlainValidator(_store)]
