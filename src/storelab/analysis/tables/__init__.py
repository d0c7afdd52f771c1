"""Registry of the tables of a campaign: the function that makes each CSV file, and the inputs of this function.

An input is another table, an entry of GIVEN, `campaign`, `plan`, or `tables` (a mapping of all these by name). A module
is imported when one of its functions is first called, so that listing the names does not need pandas. `build` writes
and reads the files. May import: `records`, `statistics`, `parts`, `core`.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any


class Maker:
    """A function of this package (`<module>.<function>`), and the names of its inputs."""

    def __init__(self, function: str, *takes: str) -> None:
        self.function, self.takes = function, takes

    def make(self, source: Mapping[str, Any]) -> Any:
        """Return the result of the function, called with its inputs. source: name -> input."""
        module, _, name = self.function.rpartition(".")
        return getattr(import_module(f"{__name__}.{module}"), name)(*(source[taken] for taken in self.takes))


# Functions that return the rows of `<name>.csv`.
TABLES = {
    "calibration": Maker("calibration.table", "campaign", "measured"),
    "launches": Maker("releases.launches_table", "launch_runs", "plain", "by"),
    "releases": Maker("releases.releases_table", "release_days", "plain", "by"),
    "errors": Maker("errors.errors", "campaign", "points", "by", "roles_by"),
    "errors_over_time": Maker("errors.over_time", "campaign", "plain"),
    "events": Maker("reads.events_table", "step_runs", "by"),
    "latency": Maker("latency.table", "latency_runs", "by"),
    "noise": Maker("throughput.noise_table", "rated", "axes"),
    "numbers": Maker("numbers.numbers", "campaign", "tables"),
    "environment": Maker("numbers.environment", "campaign"),
    "points": Maker("points.table", "campaign", "measured", "calibration"),
    "resources": Maker("resources.table", "used", "by"),
    "roles": Maker("roles.table", "role_phases", "points", "roles_by"),
    "collections": Maker("releases.collections_table", "campaign", "points", "role_phases"),
    "durability": Maker("guarantees.durability_table", "campaign", "points"),
    "recovery": Maker("roles.recovery_table", "recoveries", "points", "roles_by"),
    "soak": Maker("soak.table", "campaign", "points", "role_phases"),
    "soak_trends": Maker("soak.over", "soak"),
    "timeline": Maker("roles.timeline_table", "campaign", "points"),
    "disturbances": Maker("roles.disturbances", "campaign", "points"),
    "scaling": Maker("throughput.scaling_table", "rated", "axes", "couplings"),
    "sparse": Maker("reads.sparse_table", "read_runs", "by"),
    "table2": Maker("earlier.table2", "campaign", "plain", "by"),
    "capabilities": Maker("guarantees.capabilities", "campaign", "axes"),
    "consistency": Maker("guarantees.consistency", "campaign", "axes"),
    "distributions": Maker("resources.distributions_table", "campaign", "rated", "by"),
    "one_client": Maker("earlier.one_client_table", "throughput"),
    "space": Maker("resources.space_table", "campaign", "plain", "by"),
    "storage_lab": Maker("earlier.storage_lab_table", "events"),
    "table1": Maker("earlier.table1", "campaign", "capabilities"),
    "traffic": Maker("resources.traffic_table", "traffic_runs", "by"),
    "throughput": Maker("throughput.table", "rated", "by"),
    "verdicts": Maker("verdicts.table", "tables", "by"),
    "claims": Maker("claims.table", "plan", "tables"),
    "earlier": Maker("earlier.table", "throughput", "resources"),
}
# Functions that return an input of tables that is not itself a table.
GIVEN = {
    "launch_runs": Maker("releases.launches_of_runs", "campaign"),
    "release_days": Maker("releases.days_of_runs", "campaign"),
    "step_runs": Maker("reads.with_event_points", "campaign", "plain"),
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
    "role_phases": Maker("roles.run_rows", "campaign"),
    "recoveries": Maker("roles.recoveries_of_runs", "campaign", "role_phases"),
    "couplings": Maker("throughput.couplings", "plan"),
    "read_runs": Maker("reads.read_points", "campaign", "plain", "axes"),
    "traffic_runs": Maker("resources.traffic_of_runs", "campaign", "rated"),
}
# Functions that return numbers which the paper's text quotes, as (name, value, unit). They are rows of numbers.csv, in
# this order.
NUMBERS = {
    "points": Maker("points.numbers", "points"),
    "throughput": Maker("throughput.numbers", "throughput"),
    "sparse": Maker("reads.sparse_numbers", "sparse"),
    "events": Maker("reads.events_numbers", "events"),
    "calibration": Maker("calibration.numbers", "points", "throughput", "calibration"),
    "latency": Maker("latency.numbers", "latency"),
    "errors": Maker("errors.numbers", "campaign", "points", "errors"),
    "resources": Maker("resources.numbers", "resources"),
    "noise": Maker("throughput.noise_numbers", "noise"),
    "scaling": Maker("throughput.scaling_numbers", "scaling"),
    "launches": Maker("releases.launches_numbers", "launches"),
    "releases": Maker("releases.releases_numbers", "releases"),
    "verdicts": Maker("calibration.link_numbers", "campaign", "points"),
    "roles": Maker("roles.numbers", "roles"),
    "collections": Maker("releases.collections_numbers", "collections"),
    "durability": Maker("guarantees.durability_numbers", "durability"),
    "recovery": Maker("roles.recovery_numbers", "recovery"),
    "soak": Maker("soak.numbers", "soak", "soak_trends"),
    "traffic": Maker("resources.traffic_numbers", "traffic_runs", "by"),
    "claims": Maker("claims.numbers", "claims"),
}
