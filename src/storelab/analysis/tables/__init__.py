"""The tables of a campaign, one CSV file each: which function makes each of them, and from what.

A function takes what its entry names: other tables, what is GIVEN, `campaign`, `plan`, or `tables` (all of these, by
name). A module is imported when something of it is first made, so that names are known without pandas. `build` makes
and reads the files. May import: `records`, `statistics`, `parts`, `core`.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any


class Maker:
    """A function of this package (`<module>.<function>`), and the names of what it takes."""

    def __init__(self, function: str, *takes: str) -> None:
        self.function, self.takes = function, takes

    def make(self, source: Mapping[str, Any]) -> Any:
        """Call the function with what it takes from `source`."""
        module, _, name = self.function.rpartition(".")
        return getattr(import_module(f"{__name__}.{module}"), name)(*(source[taken] for taken in self.takes))


# Each gives the rows of `<name>.csv`.
TABLES = {
    "calibration": Maker("calibration.table", "campaign", "measured"),
    "launches": Maker("distribution.launches.table", "launch_runs", "plain", "by"),
    "releases": Maker("distribution.releases.table", "release_days", "plain", "by"),
    "errors": Maker("errors.errors", "campaign", "points", "by", "roles_by"),
    "errors_over_time": Maker("errors.over_time", "campaign", "plain"),
    "events": Maker("events.table", "step_runs", "by"),
    "latency": Maker("latency.table", "latency_runs", "by"),
    "noise": Maker("noise.table", "rated", "axes"),
    "numbers": Maker("numbers.numbers", "campaign", "tables"),
    "environment": Maker("numbers.environment", "campaign"),
    "points": Maker("points.table", "campaign", "measured", "calibration"),
    "resources": Maker("resources.table", "used", "by"),
    "roles": Maker("roles.table", "role_phases", "points", "roles_by"),
    "collections": Maker("roles.collections.table", "campaign", "points", "role_phases"),
    "durability": Maker("roles.durability.table", "campaign", "points"),
    "recovery": Maker("roles.recovery.table", "recoveries", "points", "roles_by"),
    "soak": Maker("roles.soak.table", "campaign", "points", "role_phases"),
    "soak_trends": Maker("roles.soak.over", "soak"),
    "timeline": Maker("roles.timeline.table", "campaign", "points"),
    "disturbances": Maker("roles.timeline.disturbances", "campaign", "points"),
    "scaling": Maker("scaling.table", "rated", "axes", "couplings"),
    "sparse": Maker("sparse.table", "read_runs", "by"),
    "table2": Maker("sparse.table2.table", "campaign", "plain", "by"),
    "capabilities": Maker("systems.capabilities.capabilities", "campaign", "axes"),
    "consistency": Maker("systems.consistency.consistency", "campaign", "axes"),
    "distributions": Maker("systems.distributions.table", "campaign", "rated", "by"),
    "one_client": Maker("systems.one_client.table", "throughput"),
    "space": Maker("systems.space.table", "campaign", "plain", "by"),
    "storage_lab": Maker("systems.storage_lab.table", "events"),
    "table1": Maker("systems.table1.table", "campaign", "capabilities"),
    "traffic": Maker("systems.traffic.table", "traffic_runs", "by"),
    "throughput": Maker("throughput.table", "rated", "by"),
    "verdicts": Maker("verdicts.table", "tables", "by"),
    "claims": Maker("verdicts.claims.table", "plan", "tables"),
    "earlier": Maker("verdicts.earlier.table", "throughput", "resources"),
}
# What several tables depend on.
GIVEN = {
    "launch_runs": Maker("distribution.launches.of_runs", "campaign"),
    "release_days": Maker("distribution.releases.of_runs", "campaign"),
    "step_runs": Maker("events.with_points", "campaign", "plain"),
    "latencies": Maker("latency.runs", "campaign"),
    "latency_runs": Maker("latency.with_points", "latencies", "rated"),
    "axes": Maker("points.axis_columns", "plan"),
    "by": Maker("points.identity", "plan"),
    "measured": Maker("points.points", "campaign", "latencies"),
    "plain": Maker("points.plain", "plan", "points"),
    "rated": Maker("points.rated", "plain"),
    "used": Maker("resources.with_points", "campaign", "rated"),
    "roles_axes": Maker("roles.axis_columns", "plan"),
    "roles_by": Maker("roles.identity", "roles_axes"),
    "role_phases": Maker("roles.of_runs", "campaign"),
    "recoveries": Maker("roles.recovery.of_runs", "campaign", "role_phases"),
    "couplings": Maker("scaling.couplings", "plan"),
    "read_runs": Maker("sparse.read_points", "campaign", "plain", "axes"),
    "traffic_runs": Maker("systems.traffic.of_runs", "campaign", "rated"),
}
# What the text quotes of a table, (name, value, unit) each: the rows of numbers.csv, in this order.
NUMBERS = {
    "points": Maker("points.numbers", "points"),
    "throughput": Maker("throughput.numbers", "throughput"),
    "sparse": Maker("sparse.numbers", "sparse"),
    "events": Maker("events.numbers", "events"),
    "calibration": Maker("calibration.numbers", "points", "throughput", "calibration"),
    "latency": Maker("latency.numbers", "latency"),
    "errors": Maker("errors.numbers", "campaign", "points", "errors"),
    "resources": Maker("resources.numbers", "resources"),
    "noise": Maker("noise.numbers", "noise"),
    "scaling": Maker("scaling.numbers", "scaling"),
    "launches": Maker("distribution.launches.numbers", "launches"),
    "releases": Maker("distribution.releases.numbers", "releases"),
    "verdicts": Maker("links.numbers", "campaign", "points"),
    "roles": Maker("roles.numbers", "roles"),
    "collections": Maker("roles.collections.numbers", "collections"),
    "durability": Maker("roles.durability.numbers", "durability"),
    "recovery": Maker("roles.recovery.numbers", "recovery"),
    "soak": Maker("roles.soak.numbers", "soak", "soak_trends"),
    "traffic": Maker("systems.traffic.numbers", "traffic_runs", "by"),
    "claims": Maker("verdicts.claims.numbers", "claims"),
}
