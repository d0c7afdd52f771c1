"""Programs that tests run: scripts in place of a program, and Python code in another process."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def script(path: Path, text: str) -> Path:
    """Write an executable file and the folders above it; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@contextmanager
def python(code: str = "input()", *arguments: Any) -> Iterator["subprocess.Popen[str]"]:
    """Run code in another process, which is killed at the end; the default waits for a line."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()
