"""Run a proxy that loses or changes objects (`loadgen/cmd/lossyproxy`) in front of a store, and read its faults."""

import json
import subprocess
from typing import Any, Self
from urllib.parse import urlsplit

from storelab.host import processes
from storelab.install import program


class LossyProxy:
    """A lossy proxy: `with LossyProxy(store's URL, "drop", every, seed) as proxy:` … `proxy.url`.

    After `stop()`, `false_answers` has the numbers of false answers by kind, and `remaining` the numbers of those that
    no later write repaired.
    """

    def __init__(self, url: str, lies: str, every: int = 1000, seed: int = 1):
        self.command = [str(program("lossyproxy", "loadgen", "lossy_proxy")), "-target", urlsplit(url).netloc]
        self.command += ["-lies", lies, "-every", str(every), "-seed", str(seed)]
        self.false_answers: dict[str, int] = {}
        self.remaining: dict[str, int] = {}

    def __enter__(self) -> Self:
        self.process: subprocess.Popen[str] = subprocess.Popen(
            self.command, stdout=subprocess.PIPE, text=True, preexec_fn=processes.die_with_parent()
        )
        self.url = f"http://127.0.0.1:{self._read_line()['port']}"
        return self

    def _read_line(self) -> dict[str, Any]:
        assert self.process.stdout
        return json.loads(self.process.stdout.readline())

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            sums = self._read_line()
            self.false_answers, self.remaining = sums["all"], sums["unrepaired"]
            self.process.wait(timeout=10)

    def __exit__(self, *_: object) -> None:
        self.stop()
