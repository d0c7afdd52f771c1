"""Which server answered how much in a point, by the servers' own counts before and after it.

May import: what `stores` may.
"""

from typing import Any

from storelab.stores.base import Store

WHOLE, RESTARTED, SILENT = "whole", "restarted", "silent"  # `state` of a server; see docs/records.md


class Answered:
    """Made before the clients start; `end` is called when they have left. record: None where clients meet one server
    only."""

    def __init__(self, store: Store):
        self.store, self.before = store, store.answered()
        self.record: list[dict[str, Any]] | None = None

    def end(self) -> None:
        if self.before:
            after = self.store.answered()
            self.record = [{"name": name, **difference(was, after.get(name))} for name, was in self.before.items()]


def difference(before: dict[str, int] | None, after: dict[str, int] | None) -> dict[str, Any]:
    """What a server answered meanwhile. One that began anew, or did not tell before, counts from its own start on."""
    if after is None:
        return {"state": SILENT}
    same = before is not None and before["pid"] == after["pid"]
    counts = {name: n - (before[name] if same and before else 0) for name, n in after.items() if name != "pid"}
    return {"state": WHOLE if same else RESTARTED, **counts}
