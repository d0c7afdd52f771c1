"""A store in memory for the workload `consistency`, and the counts in its ledger."""

from storelab.core import clock
from storelab.workloads.consistency.seen import ABSENT, OK, Ledger, Seen, View


class Memory(View):
    """A front-end of a store in memory.

    fault(operation, key, number of the front-end): returns a wrong answer, or None for the right answer.
    """

    def __init__(self, number: int, objects: dict[str, bytes], fault, asked: list[tuple[str, int]], buckets=()):
        self.number, self.objects, self.fault, self.received, self.buckets = number, objects, fault, asked, buckets

    def answer(self, op: str, key: str, right: Seen) -> Seen:
        self.received.append((op, self.number))
        return self.fault(op, key, self.number) or right

    def now(self, **facts) -> Seen:
        return Seen(clock.now_ns(), clock.now_ns(), **facts)

    def put(self, key: str, body: bytes) -> Seen:
        self.objects[key] = body
        return self.answer("PUT", key, self.now())

    def get(self, key: str) -> Seen:
        data = self.objects.get(key)
        return self.answer("GET", key, self.now(data=data) if data is not None else self.now(state=ABSENT))

    def delete(self, key: str) -> Seen:
        self.objects.pop(key, None)
        return self.answer("DELETE", key, self.now())

    def listing(self, bucket: str, prefix: str, cut: int) -> Seen:
        if bucket:
            return self.head_bucket(bucket)
        names = {key: len(body) for key, body in self.objects.items() if key.startswith(prefix)}
        return self.answer("LIST", prefix, self.now(names=names))

    def make_bucket(self, bucket: str) -> Seen:
        self.buckets.add(bucket)
        return self.answer("MAKE_BUCKET", bucket, self.now())

    def drop_bucket(self, bucket: str) -> Seen:
        """Delete the bucket, unless a fault replaces the answer."""
        seen = self.answer("DELETE_BUCKET", bucket, self.now())
        if seen.state == OK:
            self.buckets.discard(bucket)
        return seen

    def head_bucket(self, bucket: str) -> Seen:
        return self.answer("HEAD_BUCKET", bucket, self.now(state=OK if bucket in self.buckets else ABSENT))

    def bucket_names(self) -> Seen:
        return self.answer("LIST_BUCKETS", "", self.now(names=dict.fromkeys(self.buckets, 0)))


def counts(ledger: Ledger) -> dict[str, tuple[int, int, int]]:
    """Return scenario -> (tries, anomalies, errors), summed over reads through the same and another front-end."""
    found: dict[str, tuple[int, int, int]] = {}
    for (scenario, _), row in ledger.counts.items():
        before = found.get(scenario, (0, 0, 0))
        now = (row[what] for what in ("tried", "anomalies", "errors"))
        found[scenario] = tuple(a + b for a, b in zip(before, now, strict=True))
    return found
