"""The client of `collect_garbage`: one process, which collects until all is collected or the deadline comes.

A collection that fails is run again, as people run the tool again: it goes on where it was. May import: what
`workloads` may.
"""

import itertools
import time

from storelab.core import clock, records
from storelab.engines.contract import Check, Job, Result
from storelab.workloads.distribution import many
from storelab.workloads.distribution.client import CUT, FAILED, ObstorePublishClient, PublishClient
from storelab.workloads.distribution.collector import Collector
from storelab.workloads.distribution.stratum import Failed, OutOfTime

COLLECTED = "collected"  # state of a collection
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0  # before a collection that failed is run again: twice the last one's
COUNTED = ("deletes", "requests", "gets", "retries", "failures")


class CollectClient(PublishClient):
    """Collects the garbage of a repository in the point's store."""

    def __init__(self, job: Job):
        super().__init__(job)
        self.rows = {name: [] for name in records.COLLECTIONS}

    def prepare(self) -> None:
        self.open()
        repository = self.job.point.fixed["release"]["repository"]
        keep, workers, batch = (self.axes[name] for name in ("keep", "workers", "batch"))
        self.collector = Collector(self.zero, repository, keep, workers, batch)

    def run(self, start_ns: int, deadline_ns: int) -> None:
        self.zero.deadline_ns, pause = deadline_ns, FIRST_PAUSE_S
        for number in itertools.count(1):
            if self.once(number) != FAILED or clock.now_ns() + pause * 1e9 >= deadline_ns:
                return
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def once(self, number: int) -> str:
        """Collect, and keep its row; returns the state."""
        log, reason, begin = self.zero.log, None, clock.now_ns()
        log.begin()
        try:
            self.collector.run()
            state = COLLECTED
        except Failed as error:
            state, reason = FAILED, str(error)
        except OutOfTime:
            state, reason = CUT, "the deadline came"
        found = self.collector.found
        row = {"client": self.job.number, "number": number, "state": state, "reason": reason}
        row |= {"begin_ns": begin, "marked_ns": found.marked_ns, "end_ns": clock.now_ns()}
        row |= {"kept": len(found.kept), "dropped": len(found.dropped), "alive": len(found.alive), "dead": found.dead}
        row |= {name: log.counts[name] for name in COUNTED}
        for name, column in self.rows.items():
            column.append(row[name])
        return state

    def result(self) -> Result:
        states, reasons = self.rows["state"], self.rows["reason"]
        done = COLLECTED in states
        told = f"{len(states)} tries, {sum(self.rows['deletes'])} deletions"
        late = "" if done else f"; {reasons[-1] if reasons else 'none began'}: raise `duration` if it was late"
        settings = {
            "workers": self.axes["workers"],
            "batch": self.axes["batch"],
            "x_amz_acl": self.pattern.acl or "",
        }
        return Result(
            self.zero.log.ops(),
            engine={
                "name": self.axes["engine"],
                "version": self.version(),
                "settings": settings | self.waits(),
                "requests_per_operation": {"GET": 1, "PUT": 1, many.ONE: 1, many.SEVERAL: 1},
                "errors": self.zero.log.messages,
            },
            checks=[Check("collected", done, told + late)],
            connections={"max": len(self.zero.wires) or self.axes["workers"], "samples": []},
            tables={"collections": self.rows},
        )


class ObstoreCollectClient(CollectClient, ObstorePublishClient):
    """By the library obstore."""
