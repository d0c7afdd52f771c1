"""Engine `loadgen`: puts, overwrites and deletions over a bounded set of keys (workload `rewrite`)."""

import base64
from typing import Any

from storelab.engines.common import ledger
from storelab.engines.loadgen.client import LoadgenPut


class LoadgenRewrite(LoadgenPut):
    def told(self) -> dict[str, Any]:
        axes = self.job.point.axes
        mark = ledger.mark(self.job.attempt, self.job.client)
        return super().told() | {
            "operations": [{"op": "PUT"}, {"op": "DELETE"}],
            "ledger": str(ledger.begin(self.job, rewritten=True)),
            "rewrite": {
                "keys": axes["keys_per_worker"],
                "deletes": axes["deletions"] / 100,
                "stamp": base64.b64encode(mark).decode(),
            },
        }
