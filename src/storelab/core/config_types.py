"""Define types of configuration values: units, names, exact booleans, strict models, and entries of stores."""

import csv
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from storelab.core import units
from storelab.core.errors import UserError, shown
from storelab.core.model import NAME, OF_ROLE

_HOST = re.compile(r"[A-Za-z0-9:][A-Za-z0-9.:-]*")
# excludes options, and characters that a shell interprets
_SSH_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:/%\[\]-]*")
MAX_NAME = 64  # maximum number of characters of a name, which becomes part of paths
# maximum bytes of a path, and of a folder's name: Linux allows 4096 and 255, and storelab appends to the path
MAX_PATH, MAX_PART = 1000, 255
# Files and folders in `raw/` and in the folder of `state`, which also contain a folder for each store.
RESERVED_STORES = ("manifests", "changes", "SHA256SUMS", "SEAL", "go", "tests")
RESERVED_ENDINGS = (".json", ".parquet", ".measured", ".users", ".lock", ".tmp")
MAX_BYTES = 10**18
MAX_NS = 30 * 86400 * 10**9  # maximum of a window or of a waiting time
MIN_WAIT_NS = MIN_WINDOW_NS = 10**6
MIN_BIN_NS = 10**8


def _unit(kind: str, value: Any) -> int:
    try:
        number = units.parse(value, kind, "")
        if kind == "duration" and number > MAX_NS:
            raise UserError("", f"{shown(value)} is too long", "set at most 30 d")
        if number > MAX_BYTES:
            raise UserError("", f"{shown(value)} is too large", "set a smaller size")
        return number
    except UserError as error:
        raise ValueError(f"{error.problem}; {error.hint}") from None


def _name(value: Any) -> str:
    if not isinstance(value, str) or not NAME.match(value):
        raise ValueError(f"{shown(value)} is not a name; use letters, digits, '.' and '-'")
    if len(value) > MAX_NAME:
        raise ValueError(f"{shown(value)} has {len(value)} characters; use at most {MAX_NAME}")
    return value


def _store_name(value: Any) -> str:
    name = _name(value)
    if name in RESERVED_STORES or name.endswith(RESERVED_ENDINGS):
        raise ValueError(f"{name!r} is the name of a file or folder that storelab uses; choose another name")
    return name


def _sweep_name(value: Any) -> str:
    return "_".join(_name(part) for part in value.split("_")) if isinstance(value, str) else _name(value)


def given(text: str) -> Any:
    """Return a default value as a user would write it. The validators of the field parse it."""
    return text


def _text(value: Any) -> str:
    """Return the value if it is a non-empty, printable text on a single line. Raises ValueError."""
    if value is None or (isinstance(value, str) and not value.strip()):
        raise ValueError(f"{shown(value or '')} is empty; set a value")
    if not isinstance(value, str):
        raise ValueError(f"{shown(value)} is not a text; put it in quotes")
    if not value.isprintable():
        raise ValueError(f"{shown(value)} has unprintable characters; write plain text on one line")
    return value


def _host(value: Any) -> str:
    text = _text(value)
    if len(text) > 253 or not _HOST.fullmatch(text):
        raise ValueError(f"{shown(text)} is not a host name or address; write it like 127.0.0.1 or node1.example.org")
    return text


def _ssh_host(value: Any) -> str:
    text = _text(value)
    if len(text) > 253 or not _SSH_HOST.fullmatch(text):
        raise ValueError(
            f"{shown(text)} is not a valid SSH host; write it as node1, user@node1 or ssh://user@node1:2222"
        )
    return text


def _path(value: Any) -> str:
    text = _text(value)
    if text.startswith("~"):
        try:
            Path(text).expanduser()
        except RuntimeError:
            raise ValueError(
                f"the home folder at the start of {shown(text)} is unknown; write the complete path"
            ) from None
    if len(text) > MAX_PATH:
        raise ValueError(f"{shown(text)} has {len(text)} characters; use a path of at most {MAX_PATH}")
    if bad := next((part for part in text.split("/") if len(part.encode()) > MAX_PART), None):
        raise ValueError(f"{shown(bad)} has {len(bad.encode())} bytes; use at most {MAX_PART} for the name of a folder")
    return text


def _wait(value: Any) -> int:
    """Return a timeout in ns. Raises ValueError below 1 ms, because every wait would fail."""
    if (ns := _unit("duration", value)) < MIN_WAIT_NS:
        raise ValueError(f"{shown(value)} is too short; set at least 1 ms")
    return ns


def _window(value: Any) -> int:
    if (ns := _unit("duration", value)) < MIN_WINDOW_NS:
        raise ValueError(f"{shown(value)} is too short for a measurement; set at least 1 ms, better 10 s")
    return ns


def _bin(value: Any) -> int:
    if (ns := _unit("duration", value)) < MIN_BIN_NS:
        raise ValueError(f"{shown(value)} is too short for a bin; set at least 100 ms")
    return ns


def _role_name(value: Any) -> str:
    if OF_ROLE in _name(value):
        raise ValueError(f"{shown(value)} is not a valid role name; use letters, digits and '-'")
    return str(value)


def _once(values: list[Any]) -> list[Any]:
    """Return the list if no value occurs twice in it. Raises ValueError."""
    if twice := next((v for i, v in enumerate(values) if v in values[:i]), None):
        raise ValueError(f"{shown(twice)} is listed twice; list it once")
    return values


def _boolean(value: Any) -> bool:
    """Return an exact boolean.

    `--config measure=true` arrives as text, and Python converts the text "false" to True.
    """
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise ValueError(f"{shown(value)} is not a boolean; write true or false")


def _scalar(value: Any) -> Any:
    """Return a text, a finite number or a boolean. Raises ValueError for other values, such as dates of YAML.

    JSON and the columns of tables cannot contain other values.
    """
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{shown(value)} is not a finite number; give a number, or quote it if it is text")
    if not isinstance(value, str | int | float):
        raise ValueError(f"{shown(value)} is neither a text nor a number; quote it if it is text")
    return value


def _scalars(value: Any) -> Any:
    return [_scalar(one) for one in value] if isinstance(value, list) else _scalar(value)


def at_least(least: str) -> AfterValidator:
    """Return a validator with a minimum size, such as `1 MiB`, for settings that would misinterpret smaller values."""

    def bounded(value: int | None) -> int | None:
        if value is not None and value < units.parse(least, "size", ""):
            raise ValueError(f"{units.format_size(value)} is too small; set at least {least}")
        return value

    return AfterValidator(bounded)


def _json(**schema: Any) -> WithJsonSchema:
    """Return the values that a type accepts in a file, for config.schema.json. It may accept more, never less."""
    return WithJsonSchema(schema)


def _json_unit(kind: str) -> WithJsonSchema:
    hint = f"write it like {units.KINDS[kind][1]}"
    return _json(type="string", pattern=units.pattern(kind), patternErrorMessage=hint)


def json_list(**schema: Any) -> WithJsonSchema:
    """Return the JSON Schema of a value, or a list of values, for a type that accepts both."""
    return _json(anyOf=[schema, {"type": "array", "items": schema}])


_JSON_NAME = "[A-Za-z0-9][A-Za-z0-9.-]*"
_JSON_TEXT = _json(type="string", pattern=r"\S")
_JSON_DURATION = _json_unit("duration")
_JSON_SCALAR = {"type": ["string", "number", "boolean"]}
_JSON_COUNTS = {"type": "object", "additionalProperties": {"type": ["integer", "string", "array"]}}
Size = Annotated[int, BeforeValidator(partial(_unit, "size")), _json_unit("size")]
Duration = Annotated[int, BeforeValidator(partial(_unit, "duration")), _JSON_DURATION]
Rate = Annotated[int, BeforeValidator(partial(_unit, "rate")), Field(ge=1), _json_unit("rate")]
Wait = Annotated[int, BeforeValidator(_wait), _JSON_DURATION]
Window = Annotated[int, BeforeValidator(_window), _JSON_DURATION]
Bin = Annotated[int, BeforeValidator(_bin), _JSON_DURATION]
Name = Annotated[str, BeforeValidator(_name), _json(type="string", pattern=f"^{_JSON_NAME}$", maxLength=MAX_NAME)]
_STORE = _json(type="string", pattern=f"^{_JSON_NAME}$", maxLength=MAX_NAME)
StoreName = Annotated[str, BeforeValidator(_store_name), _STORE]
RoleName = Annotated[
    str, BeforeValidator(_role_name), _json(type="string", pattern="^[A-Za-z0-9][A-Za-z0-9-]*$", maxLength=MAX_NAME)
]
SweepName = Annotated[
    str, BeforeValidator(_sweep_name), _json(type="string", pattern=f"^{_JSON_NAME}(_{_JSON_NAME})*$")
]
Text = Annotated[str, BeforeValidator(_text), _JSON_TEXT]
Host = Annotated[str, BeforeValidator(_host), _json(type="string", pattern=f"^{_HOST.pattern}$", maxLength=253)]
SshHost = Annotated[
    str, BeforeValidator(_ssh_host), _json(type="string", pattern=f"^{_SSH_HOST.pattern}$", maxLength=253)
]
FolderPath = Annotated[str, BeforeValidator(_path), _JSON_TEXT]
Once = AfterValidator(_once)  # a list without repeated values
Scalar = Annotated[Any, BeforeValidator(_scalar), WithJsonSchema(_JSON_SCALAR)]
# one scalar, or a list of scalars
Scalars = Annotated[Any, BeforeValidator(_scalars), json_list(**_JSON_SCALAR)]
Boolean = Annotated[bool, BeforeValidator(_boolean), _json(enum=[True, False, "true", "false"])]


class StrictModel(BaseModel):
    """A part of the configuration with fixed keys. It rejects unknown keys, infinite numbers and later changes."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, protected_namespaces=(), allow_inf_nan=False
    )

    @field_validator("*", mode="before")
    @classmethod
    def _no_boolean(cls, value: Any, info: ValidationInfo) -> Any:
        """Reject a boolean in a field of another type, because pydantic converts `true` to the number 1."""
        if isinstance(value, bool) and not _takes_booleans(cls.model_fields[info.field_name or ""].annotation):
            raise ValueError(f"{str(value).lower()} is not a possible value of this key; see docs/configuration.md")
        return value


def _takes_booleans(annotation: Any) -> bool:
    return (
        isinstance(annotation, bool)
        or annotation in (bool, Any)
        or any(_takes_booleans(part) for part in get_args(annotation))
    )


MAX_CSV = 2**20  # maximum size of a CSV file with sizes
MAX_ROWS = 1000  # maximum number of rows of a histogram, because each point of a plan has a copy


def _histogram(value: Any) -> dict[str, list[int]]:
    """Return {size, count}, sorted by size.

    value: a mapping of sizes to counts, or the path of a CSV file with these columns.
    """
    rows: Sequence[Iterable[Any]]
    if isinstance(value, Mapping) and set(value) == {"size", "count"} and isinstance(value["size"], list):
        if not isinstance(value["count"], list) or len(value["size"]) != len(value["count"]):
            raise ValueError("`size` and `count` are not lists of the same length; give one count for each size")
        rows = list(zip(value["size"], value["count"], strict=True))  # the value is already converted
    else:
        rows = list(value.items()) if isinstance(value, Mapping) else _csv_rows(_path(value))
    if not rows or len(rows) > MAX_ROWS:
        raise ValueError(f"the histogram has {len(rows)} rows; give 1 to {MAX_ROWS}")
    known: dict[int, int] = {}
    for size, count in rows:
        text = str(size).strip()
        if not str(count).strip().isascii() or not str(count).strip().isdigit() or int(count) > MAX_BYTES:
            raise ValueError(f"{shown(count)} is not a count; write whole numbers, 0 or more")
        length = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else _unit("size", text)
        known[length] = known.get(length, 0) + int(count)
    if not sum(known.values()):
        raise ValueError("all counts are 0; give counts above 0")
    return {"size": sorted(known), "count": [known[size] for size in sorted(known)]}


def _csv_rows(name: str) -> list[list[str]]:
    path = Path(name).expanduser()
    try:
        if path.exists() and (not path.is_file() or path.stat().st_size > MAX_CSV):
            raise ValueError(
                f"{shown(name)} is not a regular file of at most 1 MiB; give a CSV file with the columns size and count"
            )
        with open(path, newline="", encoding="utf-8") as f:
            rows = [[cell.strip() for cell in row] for row in csv.reader(f) if row and not row[0].startswith("#")]
    except (OSError, UnicodeDecodeError, csv.Error):
        raise ValueError(f"{shown(name)} cannot be read; give a CSV file with the columns size,count") from None
    if not rows or rows[0] != ["size", "count"] or any(len(row) != 2 for row in rows):
        raise ValueError(
            f"{shown(name)} is not a table of sizes; the first line must be size,count, and each line needs two columns"
        )
    return rows[1:]


Histogram = Annotated[
    dict[str, list[int]], BeforeValidator(_histogram), _json(anyOf=[{"type": "string", "pattern": r"\S"}, _JSON_COUNTS])
]


class StoreEntry(BaseModel):
    """The part of a configured store that `core` reads: only its kind.

    The model of the kind in `stores/config.py` checks the other keys.
    """

    model_config = ConfigDict(extra="allow", frozen=True, protected_namespaces=())

    kind: str
