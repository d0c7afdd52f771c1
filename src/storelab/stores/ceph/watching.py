"""What a Ceph of ours says of its redundancy, and what faults can be done to it."""

import time
from contextlib import suppress
from typing import Any

from storelab.core.errors import MeasurementFailed, UserError
from storelab.stores.base import CLEAN, DEGRADED, DOWN, RECOVERING, Condition
from storelab.stores.ceph import conf
from storelab.stores.ceph.cluster import CephCluster
from storelab.stores.managed.target import ASK_S

CLEAN_S, ACTIVE_S = 180.0, 60.0  # waited for full redundancy, and for all data to be reachable


class CephWatched(CephCluster):
    """Part of `Ceph`: its placement groups."""

    _whole_at = -1  # epoch of the map of OSDs in which all placement groups were seen active and clean

    def groups(self, timeout: float = 2.0) -> dict[str, str]:
        """Placement group -> its state, of all pools."""
        pools = {
            name: (i, count) for i, (name, count) in enumerate(conf.POOLS.items(), 1)
        }  # in the order of their making
        return self.admin.groups([n.replace("-", ".") for n in self.osds], pools, timeout)

    def wait_clean(self) -> None:
        """Wait until all copies of everything are there again, for CLEAN_S seconds at most.

        Raises MeasurementFailed where data stay out of reach.
        """
        begun = time.monotonic()
        while True:
            states = self.groups()
            asleep = {g: state for g, state in states.items() if not state.startswith("active")}
            waited = time.monotonic() - begun
            if all(state == "active+clean" for state in states.values()) or (waited > CLEAN_S and not asleep):
                return
            if asleep and waited > ACTIVE_S:
                group, state = next(iter(asleep.items()))
                raise MeasurementFailed(
                    f"{self.place}: {len(asleep)} of {len(states)} placement groups are not active after "
                    f"{ACTIVE_S:g} s, "
                    f"the first is {group} ({state or 'unknown'})"
                )
            time.sleep(0.1 if waited < 1 else 0.5)  # asking costs the OSDs some work

    # Faults

    def data_actors(self) -> list[str]:
        return list(self.osds)

    def bears(self) -> int:
        return conf.TOLERANCE[self.settings.redundancy]

    def timeouts(self) -> dict[str, Any]:
        return dict(conf.TIMEOUTS)

    def require_full(self, actor: str, place: str) -> None:
        if actor not in self.osds:
            raise UserError(place, f"{actor} has no disk of its own that could be filled", "name an OSD")

    def fill(self, actor: str) -> str:
        """An OSD takes itself for full: Ceph's own way to try that."""
        self._inject(actor, type="full", count=-1)
        return "injectfull full"

    def empty(self, actor: str) -> None:
        with suppress(OSError):  # it ended meanwhile, and forgot
            self._inject(actor, type="none")

    def _inject(self, actor: str, **arguments: Any) -> None:
        with suppress(ValueError):  # it answers nothing at all
            self.admin.ask(actor.replace("-", "."), "injectfull", **arguments)

    def condition(self) -> Condition:
        """As the monitor counts OSDs, and as these tell the states of their placement groups.

        The groups cost their OSDs some work, so they are asked only after the map of OSDs changed, until all are clean.
        """
        try:
            told = self.admin.ask("mon.a", "perf dump", ASK_S)["cluster"]
            up, epoch = told["num_osd_up"], told["osd_epoch"]
        except (OSError, ValueError, LookupError, TypeError):
            return Condition(DOWN, "the monitor does not answer")
        osds = f"monitor: {up} of {len(self.osds)} OSDs up"
        if epoch == self._whole_at and up == len(self.osds):
            return Condition(CLEAN, f"{osds}, all groups active+clean")
        states = self.groups(ASK_S)
        seen = list(states.values())
        counts = ", ".join(f"{seen.count(s)} {s or 'unknown'}" for s in sorted(set(seen)))
        detail = f"{osds}; groups: {counts}"[:200]
        if all(s == "active+clean" for s in seen):
            self._whole_at = epoch if up == len(self.osds) else -1
            return Condition(CLEAN, detail)
        if not any(s.startswith("active") for s in seen):
            return Condition(DOWN, detail)
        return Condition(DEGRADED if up < len(self.osds) else RECOVERING, detail)
