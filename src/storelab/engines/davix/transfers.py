"""Whole objects and ranges by the engine `davix`: each worker has a program, and the session that it keeps.

May import: what `engines` may, `engines.fsspec.transfers`, `engines.davix.program`.
"""

from contextlib import suppress
from typing import Any

from storelab.core import clock
from storelab.engines.common.transfers import SAMPLE_NS, TransferClient
from storelab.engines.davix import program
from storelab.engines.davix.program import Program
from storelab.engines.fsspec.client import Transfer
from storelab.engines.fsspec.transfers import FsspecGet, FsspecGetRange

TIMEOUT_S = 120.0  # of one operation, as for the engine fsspec
KEPT_EVERY = 8  # answers: every so many one is kept for the content check, and the first


class DavixGet(FsspecGet):
    """Downloads of whole staged objects, as davix-get reads them."""

    engine = "davix"

    def prepare(self) -> None:
        self.asynchronous = False  # workers are threads, each waits for its program
        self.systems: list[Program] = []
        self.prepare_tasks()
        for _ in range(self.workers):
            self.systems.append(Program(self.endpoint, TIMEOUT_S))
        for one in self.systems if self.objects else ():  # connections are made before the window
            with suppress(OSError):
                one.read(self._url(self.objects[0]), 0, 1)
        self.before = sum(one.spent.requests for one in self.systems)
        self.answers = 0

    def _url(self, task: Transfer) -> str:
        return program.url_of(self.endpoint, task.path)

    async def do(self, fs: Program, task: Transfer) -> Any:
        """The answer lies in the program's memory until its next question."""
        if task.begin is None:
            return fs.get(self._url(task), self.size)
        return fs.read(self._url(task), task.begin, task.end - task.begin)

    def _note(self, row: tuple[Any, ...], task: Transfer, answer: Any) -> None:
        wanted = answer is not None and self.answers % KEPT_EVERY == 0
        self.answers += answer is not None
        super()._note(row, task, bytes(answer) if wanted else None)

    def _sample(self) -> None:
        while (now := clock.now_ns()) < self.deadline_ns:
            self.samples.append((now, sum(one.spent.open for one in self.systems)))
            clock.sleep_until(min(now + SAMPLE_NS, self.deadline_ns))

    def described(self) -> tuple[str, dict[str, Any], dict[str, Any]]:
        done, sent = len(self.rows), sum(one.spent.requests for one in self.systems) - self.before
        each = round(sent / done, 3) if done else None
        settings = {"protocol": self.endpoint.protocol, "programs": self.workers, "timeout_s": TIMEOUT_S}
        return program.version(), settings, {self.op: int(each) if each and each == int(each) else each}

    def close(self) -> None:
        for one in getattr(self, "systems", ()):
            one.close()
        TransferClient.close(self)


class DavixGetRange(DavixGet, FsspecGetRange):
    """Downloads of one range: single-range requests."""
