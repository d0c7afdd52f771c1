"""Lines of s5cmd's command files. Names are data: any name gives the command that means it. May import: `core`.

s5cmd splits lines as a POSIX shell splits words, takes `*` and `?` for patterns unless `--raw` is given, and splits its
addresses at `://`.
"""

import shlex
from pathlib import Path

from storelab.core.errors import UserError, shown


def url(bucket: str, key: str) -> str:
    """Return how s5cmd addresses an object."""
    return f"s3://{bucket}/{key}"


def copy(source: str | Path, target: str | Path, options: str = "") -> str:
    """Return the line that copies; each side is a path, or an address by `url`. options: in s5cmd's words.

    Raises
    ------
    UserError
        A name that s5cmd has no way to write.
    """
    sides = [str(side) for side in (source, target)]
    for side in sides:
        name = side.removeprefix("s3://")
        if "\n" in name or "://" in name or name.endswith("/"):
            raise UserError("s5cmd", f"the name {shown(name)} cannot be written into its command file", "rename it")
    return f"cp --raw {options}{' '.join(map(shlex.quote, sides))}\n"


def encoded(lines: str) -> bytes:
    """Return the bytes of lines. Names of files need not be text: these letters become their bytes again."""
    return lines.encode(errors="surrogateescape")
