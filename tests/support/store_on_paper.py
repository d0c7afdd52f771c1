"""A store for tests of `storelab check` that never runs."""

from types import SimpleNamespace
from typing import Any

from storelab.stores.config import Config


class StoreOnPaper:
    """A store with default answers to all checks. A test can change single answers."""

    def __init__(self, config: Config, name: str = "a", **changes: Any):
        self.name, self.settings, self.state, self.managed, self.protocol = name, config.stores[name], "", False, "s3"
        self.retains_data, self.reports_usage, self.free, self.parts, self.buckets = True, True, None, True, None
        self.counts = {"front_ends": 4, "accounts": 4}
        self.drives = SimpleNamespace(require=lambda: None)
        self.required = 0
        vars(self).update(changes)

    def require(self) -> None:
        self.required += 1

    def ports(self) -> list:
        return []

    def bucket(self, campaign: str, index: int, account: int) -> Any:
        pass

    def variant(self, axes: dict[str, Any]) -> dict[str, Any]:
        return {}

    def most(self, axis: str) -> int:
        return self.counts[axis]

    def buckets_per_account(self) -> int | None:
        return self.buckets

    def multipart(self) -> bool:
        return self.parts

    def free_bytes(self) -> int | None:
        return self.free
