"""Programs for tests: scripts that replace a program, and Python code in another process."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def script(path: Path, text: str) -> Path:
    """Write an executable file and its parent folders. Return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@contextmanager
def python(code: str = "input()", *arguments: Any) -> Iterator["subprocess.Popen[str]"]:
    """Run Python code in another process, which is killed at the end. The default code waits for a line of input."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()
