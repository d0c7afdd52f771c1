"""What uproot 5.7.7 needs to write large and reproducible files: patched for the length of a `with`, then restored.

1. `Tree._build_out` sums over its whole growing output several times per branch: O(branches^2), minutes at 6000
   branches. Its source is rewritten to use a list that keeps the totals; the bytes written are the same (a test
   compares them). 5.7.7 is the newest uproot (November 2026): the method is one of 400 lines, and the list a local name
   in it, so neither a subclass nor a hook reaches it. A newer uproot whose source differs is refused; the patch goes
   when uproot sums no more than once.
2. A file differs from run to run in its UUID and in the times of its keys: both become constants.
Not for use from several threads: the patches are seen by the whole process.
"""

import contextlib
import datetime
import inspect
import re
import textwrap
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest import mock

UUID = uuid.UUID(int=0x73746F72656C6162)
TIME = datetime.datetime(2015, 4, 13, 9, 0, 0)  # uproot stores naive local times


class TotalList(list):
    """A list of bytes or None that knows the sum of its lengths (`nbytes`) and how many are None (`nnone`)."""

    __slots__ = ("nbytes", "nnone")

    def __init__(self, items: Iterable[bytes | None]):
        super().__init__(items)
        self.nbytes = sum(len(x) for x in self if x is not None)
        self.nnone = sum(x is None for x in self)

    def _add(self, x: bytes | None, sign: int = 1) -> None:
        self.nnone += sign * (x is None)
        self.nbytes += sign * len(x or b"")

    def append(self, x: bytes | None) -> None:
        super().append(x)
        self._add(x)

    def extend(self, xs: Iterable[bytes | None]) -> None:
        for x in xs:
            self.append(x)

    def insert(self, i: Any, x: bytes | None) -> None:
        super().insert(i, x)
        self._add(x)

    def __setitem__(self, i: Any, x: Any) -> None:
        self._add(self[i], -1)
        super().__setitem__(i, x)
        self._add(x)


class _Clock(datetime.datetime):
    @classmethod
    def now(cls, tz: Any = None) -> datetime.datetime:
        return TIME


class _DateTime:
    """Stands in for the module `datetime` in uproot's writing modules; all but the clock passes through."""

    datetime = _Clock

    def __getattr__(self, name: str) -> Any:
        return getattr(datetime, name)


def linear_build_out() -> Callable[..., Any]:
    """`Tree._build_out` with the running totals. Raises RuntimeError where uproot's source is another one."""
    import uproot.writing._cascadetree as module

    source = textwrap.dedent(inspect.getsource(module.Tree._build_out))
    n0 = source.count("out = [None]")
    source = source.replace("out = [None]", "out = _TotalList([None])")
    source, n1 = re.subn(r"sum\(\s*len\(x\) for x in out if x is not None\s*\)", "out.nbytes", source)
    source, n2 = re.subn(r"sum\(1 if x is None else 0 for x in out\)", "out.nnone", source)
    if (n0, n1, n2) != (1, 3, 3):
        raise RuntimeError(
            f"uproot's Tree._build_out has changed (found {(n0, n1, n2)}, not (1, 3, 3)): check the patch against "
            "its source"
        )
    names = dict(vars(module), _TotalList=TotalList)
    exec(compile(source, "<storelab: uproot Tree._build_out>", "exec"), names)
    return names["_build_out"]


@contextlib.contextmanager
def reproducible(linear: bool = True) -> Iterator[Callable[[], uuid.UUID]]:
    """Patch uproot's writer; yields the `uuid_function` for `uproot.recreate`. Restores all, after errors too."""
    import uproot.writing._cascade
    import uproot.writing._cascadetree
    import uproot.writing.writable

    patches: list[tuple[Any, str, Any]] = [
        (module, "datetime", _DateTime())
        for module in (uproot.writing._cascade, uproot.writing._cascadetree, uproot.writing.writable)
    ]
    if linear:
        patches.append((uproot.writing._cascadetree.Tree, "_build_out", linear_build_out()))
    with contextlib.ExitStack() as restored:
        for patch in patches:
            restored.enter_context(mock.patch.object(*patch))
        yield lambda: UUID
