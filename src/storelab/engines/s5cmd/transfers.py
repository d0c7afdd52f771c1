"""Uploads and downloads by s5cmd: the command lists, and the checks of what was moved."""

import hashlib
import itertools
from collections.abc import Iterator
from pathlib import Path

from storelab.datasets import payload
from storelab.engines.common import shares
from storelab.engines.common.transfers import orders
from storelab.engines.contract import Check
from storelab.engines.s5cmd import commands
from storelab.engines.s5cmd.client import S5cmdClient, part_option


class S5cmdPut(S5cmdClient):
    """Uploads of body files on tmpfs to new keys, spread over the buckets round robin."""

    op = "PUT"

    def prepare_files(self) -> None:
        self.files = payload.body_files(self.job.scratch.parent, self.job.point.fixed["data_seed"], self.size)

    def commands(self) -> Iterator[str]:
        option = part_option(self.job.endpoint, self.size, self.part_size, self.parallel)
        for to in map(self.upload, itertools.count()):
            yield commands.copy(self.files[to.body], commands.url(to.place.name, to.key), option)

    def check_content(self) -> Check:
        # The coordinator lists what arrived and reads it back for comparison.
        return Check(
            "body files", all(f.stat().st_size == self.size for f in self.files), f"{len(self.files)} of {self.size} B"
        )


class S5cmdGet(S5cmdClient):
    """Downloads of staged objects into a bounded ring of names on tmpfs, which the check reads afterwards.

    s5cmd writes a temporary file and renames it, so that a name of the ring always holds one whole object. A slot
    serves one body only (slot mod BODIES = body), so that its content is known whatever the order of the downloads.
    """

    op = "GET"

    def prepare_files(self) -> None:
        self.finite = shares.once(self.job)
        manifest, own = shares.staged(self.job)
        self.bodies = manifest["bodies"]
        self.objects = [(commands.url(o.place.name, o.key), o.body) for o in own]
        self.slots_per_body = -(-max(self.workers, 4) // payload.BODIES)
        self.ring = self.job.scratch / "ring"
        self.ring.mkdir(exist_ok=True)

    def slot(self, body: int, turn: int) -> Path:
        return self.ring / f"{(turn % self.slots_per_body) * payload.BODIES + body:05d}"

    def commands(self) -> Iterator[str]:
        turns = [0] * payload.BODIES
        option = part_option(self.job.endpoint, 0, self.part_size, self.parallel)
        for url, body in orders(self.objects, self.rng(), self.finite):
            yield commands.copy(url, self.slot(body, turns[body]), option)
            turns[body] += 1

    def check_content(self) -> Check:
        """SHA-256 of up to 16 files of the ring (at most 200 MB) against the manifest."""
        most = max(2, min(16, 200_000_000 // max(self.size, 1)))
        kept = sorted(p for p in self.ring.iterdir() if p.name.isdigit())[:most]
        self.compared = len(kept)
        wanted = [self.bodies[int(path.name) % payload.BODIES]["sha256"] for path in kept]
        good = sum(hashlib.sha256(p.read_bytes()).hexdigest() == w for p, w in zip(kept, wanted, strict=True))
        detail = f"{good} of {len(kept)} downloaded objects have the right SHA-256"
        return Check("content", 0 < good == len(kept), detail)
