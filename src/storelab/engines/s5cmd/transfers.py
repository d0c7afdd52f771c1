"""Uploads and downloads by s5cmd: the command lists, and the checks of what was moved."""

import hashlib
import random
from collections.abc import Iterator
from pathlib import Path

from storelab.core.model import derive_seed
from storelab.datasets import payload
from storelab.engines.common import shares
from storelab.engines.common.names import put_key
from storelab.engines.contract import Check
from storelab.engines.s5cmd.client import S5cmdClient, part_option


class S5cmdPut(S5cmdClient):
    """Uploads of body files on tmpfs to new keys, spread over the buckets round robin."""

    op = "PUT"

    def prepare_files(self) -> None:
        self.files = payload.body_files(self.job.scratch.parent, self.job.point.fixed["data_seed"], self.size)

    def commands(self) -> Iterator[str]:
        buckets, client, n = self.job.own_buckets, self.job.client, 0
        option = part_option(self.job.endpoint, self.size, self.part_size, self.parallel)
        while True:
            bucket = buckets[(client + n) % len(buckets)]
            key = bucket.prefix + put_key(self.job.attempt, client, n)
            yield f"cp {option}{self.files[n % payload.BODIES]} s3://{bucket.name}/{key}\n"
            n += 1

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
        manifest, own = shares.staged(self.job)
        self.bodies = manifest["bodies"]
        self.objects = [(f"s3://{o.place.name}/{o.key}", o.body) for o in own]
        self.slots_per_body = -(-max(self.workers, 4) // payload.BODIES)
        self.ring = self.job.scratch / "ring"
        self.ring.mkdir(exist_ok=True)

    def slot(self, body: int, turn: int) -> Path:
        return self.ring / f"{(turn % self.slots_per_body) * payload.BODIES + body:05d}"

    def commands(self) -> Iterator[str]:
        rng = random.Random(derive_seed(self.job.point.seed, self.job.client))
        turns = [0] * payload.BODIES
        option = part_option(self.job.endpoint, 0, self.part_size, self.parallel)
        while True:
            for url, body in rng.sample(self.objects, len(self.objects)):
                yield f"cp {option}{url} {self.slot(body, turns[body])}\n"
                turns[body] += 1

    def check_content(self) -> Check:
        """SHA-256 of up to 16 files of the ring (at most 200 MB) against the manifest."""
        seen = wrong = 0
        for path in sorted(p for p in self.ring.iterdir() if p.name.isdigit())[
            : max(2, min(16, 200_000_000 // max(self.size, 1)))
        ]:
            body = self.bodies[int(path.name) % payload.BODIES]
            seen += 1
            wrong += (
                path.stat().st_size != body["size"] or hashlib.sha256(path.read_bytes()).hexdigest() != body["sha256"]
            )
        return Check(
            "content", seen > 0 and wrong == 0, f"{seen - wrong} of {seen} downloaded objects have the right SHA-256"
        )
