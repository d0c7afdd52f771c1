"""Run storelab commands in the process of the tests."""

import contextlib
import io
import os
import signal
import sys
from pathlib import Path
from unittest import mock

from paths import ROOT

from storelab.cli import main

PLAIN = {"COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"}


def in_process(folder: Path, *arguments: str, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    """Run the command `storelab` in `folder`, in this process. Return exit code, stdout and stderr."""
    out, err, code, here = io.StringIO(), io.StringIO(), 0, Path.cwd()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    os.chdir(folder)
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            mock.patch.object(sys, "argv", ["storelab", *arguments]),
            mock.patch.object(sys, "meta_path", list(sys.meta_path)),  # because `measure` forbids the import of pandas
            mock.patch.dict(os.environ, os.environ if env is None else env, clear=True),
        ):
            try:
                main()
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        os.chdir(here)
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return code, out.getvalue(), err.getvalue()


def storelab(*arguments: str) -> tuple[int, str, str]:
    """Run `storelab …` in the root of the repository. Return exit code, stdout and stderr."""
    return in_process(ROOT, *arguments, env=os.environ | PLAIN)


def done(*arguments: str) -> str:
    """Run a command that must succeed, and return its output."""
    code, out, err = storelab(*arguments)
    if code:
        raise AssertionError(f"storelab {' '.join(arguments)}: exit code {code}: {err}")
    return out
