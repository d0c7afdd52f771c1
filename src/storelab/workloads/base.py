"""What a workload is to the rest: its declaration, and hooks around the measurement (room `workloads`).

Hooks of the coordinator (`possible`, `before`, `after`, `observe`, `ended`) do nothing here: a workload overrides those
that it needs.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from storelab import engines
from storelab.core import axes, model
from storelab.core.errors import UserError

if TYPE_CHECKING:  # a client process must start fast
    from storelab.core.config import Config
    from storelab.engines.contract import Client, GangJob, Job
    from storelab.stores.base import Store


MOVES = (
    "What moves the bytes: the program s5cmd, fsspec (all protocols), obstore (S3, times of each operation), or "
    "loadgen (the same, at the least CPU)."
)


ONCE = ("once", "cold")  # values of `access` with which an object is read by one client, once
ACCESS = replace(
    axes.ACCESS,
    help="`warm`: objects are read again and again; `once`: each object by one client, once, and the run ends when all "
    "are read; `cold`: the same, after the store was started anew and the kernel dropped its files from memory.",
    choices=("warm", *ONCE),
)


def each_once(point: model.Point) -> None:
    """Raises UserError where there are fewer objects than clients that read each of them once."""
    clients = point.axes["clients"]
    if point.axes["access"] in ONCE and clients > (objects := point.fixed["objects"]):
        problem = f"{clients} clients read each object once, and there are {objects}"
        raise UserError(f"sweeps.{point.sweep}.objects", problem, "raise `objects`, or sweep fewer clients")


def whole_objects(workload: str) -> tuple[model.Axis, ...]:
    """Axes of `put` and `get`."""
    places = (axes.engine(workload, "s5cmd", MOVES), axes.OBJECT_SIZE, *axes.PLACES)
    pace = (axes.PART_SIZE, axes.PARALLEL_PARTS, axes.ARRIVAL_RATE, axes.BALANCE)
    return (*places, *pace, *axes.DEPLOYMENT, axes.CLIENTS_PER_NODE)


class Made(NamedTuple):
    """Objects that an attempt can make. key: pattern of all of a key below the bucket's prefix; its group `client`, if
    there is one, is a client's number. least, most: bytes. bucket: pattern of the bucket's name, '' for any."""

    key: str
    least: int
    most: int
    bucket: str = ""


@dataclass(frozen=True)
class Workload(model.Workload):
    """`axes` are those that the workload picks; axes that its engines obey besides come behind them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "axes", (*self.axes, *axes.obeyed(self.name, self.axes)))

    def client(self, job: "Job") -> "Client":
        """The client of the point's engine, as the catalogue names it; loaded only now."""
        return engines.client_of(self.name, job.point.axes["engine"])(job)

    def possible(self, point: model.Point) -> None:
        """Raises UserError where values of the point's axes do not go together; pure."""

    def require(self, point: model.Point) -> None:
        """Raises UserError that says what installs a program which the workload itself starts."""

    def beside(self, point: model.Point) -> str:
        """Name of a second store that the clients ask, '' where there is none; pure."""
        return ""

    def makes(self, point: model.Point, attempt: str) -> list[Made]:
        """Which objects an attempt at the point can leave in the store: these alone are deleted behind it. Pure."""
        return []

    def before(self, config: "Config", store: "Store", point: model.Point, job: "GangJob") -> None:
        """Before the clients start: what they need in the store, or to know (`job.extra`). Raises UserError,
        MeasurementFailed."""

    def after(self, store: "Store", point: model.Point, job: "GangJob", folder: Path) -> list[dict[str, Any]]:
        """Checks of what the clients left in the store and in `folder` (their Parquet files), as `contract.Check`
        fields."""
        return []

    def observe(self, store: "Store", point: model.Point, job: "GangJob", folder: Path) -> dict[str, Any] | None:
        """What is seen of the store afterwards, for `observed` of the record; None for nothing."""
        return None

    def ended(self, job: "GangJob") -> None:
        """Called last, whatever happened: what `before` started ends here."""
