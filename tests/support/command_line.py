"""Run commands of storelab in this process."""

import contextlib
import io
import os
import runpy
import sys
from pathlib import Path
from unittest import mock

from paths import ROOT


def storelab(*arguments: str) -> tuple[int, str, str]:
    """Return exit code, stdout and stderr of `python -m storelab …`, run from the root of the repository."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    here = Path.cwd()
    os.chdir(ROOT)
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            mock.patch.object(sys, "argv", ["storelab", *arguments]),
            mock.patch.dict(os.environ, {"COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"}),
        ):
            try:
                runpy.run_module("storelab", run_name="__main__", alter_sys=False)
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        os.chdir(here)
    return code, out.getvalue(), err.getvalue()


def done(*arguments: str) -> str:
    """Return the output of a command that must succeed."""
    code, out, err = storelab(*arguments)
    if code:
        raise AssertionError(f"storelab {' '.join(arguments)}: exit code {code}: {err}")
    return out
