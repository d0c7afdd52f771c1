"""Old names of configuration keys. They still work for one release; the first use of each prints a line with its new
name.

This is the only place with old names of keys: `config.read_layers` calls `current` for each file and for `--set`. Plans
keep the names that they were written with, so the analysis calls it, too. May import: `errors`.
"""

import sys
from typing import Any

from storelab.core.errors import UserError

# Path of the old key -> new key. `*` is any key, or any element of a list.
KEYS = {
    "use_stores": "stores_to_measure",
    "lead": "start_delay",
    "launcher.silence": "heartbeat_timeout",
    "stores.*.door": "gateway",
    "sizes.*.least": "minimum",
    "sizes.*.most": "maximum",
    "sweeps.*.together": "zip",
    "sweeps.*.scaled_axes": "scale_axes",
    "sweeps.*.roles.*.scaled_axes": "scale_axes",
    "claims.*.says": "statement",
    "claims.*.apart": "may_differ",
    "claims.*.enough": "min_attempts",
}
_PATHS = {tuple(path.split(".")): new for path, new in KEYS.items()}
_reported: set[str] = set()  # old keys of which this process has printed a line


def current(document: Any, place: str = "", path: tuple[str, ...] = ()) -> Any:
    """Return a document of the configuration with the new names of its keys.

    place: file or option that has the document; without it, nothing is printed. path: of a part of the document.
    Raises UserError: the document has an old key and its new name.
    """
    if isinstance(document, list):
        return [current(item, place, (*path, "*")) for item in document]
    if not isinstance(document, dict):
        return document
    out = {}
    for old, value in document.items():
        here = (*path, str(old))
        new = next((name for known, name in _PATHS.items() if _matches(known, here)), None)
        if new is not None:
            if new in document:
                text = f"both `{old}` and `{new}` are given, which are names of one key"
                raise UserError(f"{place}: {'.'.join(here)}", text, f"remove `{old}`")
            if place:
                _report(f"{place}: {'.'.join(here)}", str(old), new)
        out[old if new is None else new] = current(value, place, here)
    return out


def _matches(known: tuple[str, ...], path: tuple[str, ...]) -> bool:
    return len(known) == len(path) and all(part in ("*", key) for part, key in zip(known, path, strict=True))


def _report(place: str, old: str, new: str) -> None:
    """Print one line about an old name, once per process."""
    if old not in _reported:
        _reported.add(old)
        print(f"storelab: {place}: the name `{old}` is deprecated; write `{new}`", file=sys.stderr)
