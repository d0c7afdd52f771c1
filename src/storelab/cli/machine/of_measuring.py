"""What `--json` prints of plans, stores and machines (room `cli`)."""

from typing import Any, Literal

from pydantic import Field

from storelab.cli.machine.declared import Answer, Said


class Work(Said):
    """What one workload takes in one store."""

    workload: str = Field(description="The workload.")
    points: int = Field(description="Its points.")
    measuring_s: float = Field(description="Sum of their windows.")


class Asked(Said):
    """What the plan asks of one store."""

    store: str = Field(description="The store.")
    workloads: list[Work] = Field(description="Its workloads.")
    estimated_s: float = Field(description="Time that it takes at most, at 2 s beside each window.")
    staged_objects: int = Field(description="Objects that are uploaded before, as many PUT requests.")
    staged_bytes: int = Field(description="Their bytes.")
    buckets: int = Field(description="Buckets.")
    free_bytes: int | None = Field(description="Room in the store; null where it cannot be asked.")
    scratch_bytes: int = Field(description="What clients need of tmpfs.")


class Check(Answer):
    """What a campaign asks for. It is printed where room and limits allow it; else the command ends with 2."""

    campaign: str = Field(description="Name of the campaign.")
    folder: str = Field(description="Its folder.")
    stores: list[Asked] = Field(description="What it asks of each store.")
    points: int = Field(description="Points of the plan.")
    measured: int = Field(description="Those that have a record.")
    sealed: bool = Field(description="Whether it is closed.")
    differences: list[str] = Field(description="Settings that differ from those of points already measured.")
    notes: list[str] = Field(description="What to know of cold accesses.")


class Planned(Said):
    """A point."""

    order: int = Field(description="Place in the order of measuring.")
    state: Literal["measured", "failed", "to do"] = Field(description="What became of it so far.")
    key: str = Field(description="Its key: what `storelab measure` takes, and its folder below `raw/`.")
    store: str = Field(description="Store.")
    workload: str = Field(description="Workload.")
    sweep: str = Field(description="The sweep that asks for it.")
    rep: int = Field(description="Number of the repetition, from 1.")
    clients: int = Field(description="Clients, of all roles.")
    duration_s: float = Field(description="Length of its window, warm-up included.")
    axes: dict[str, Any] = Field(description="Its axes (docs/configuration.md), sizes in bytes.")


class Plan(Answer):
    """The points of a campaign, in the order of measuring."""

    campaign: str = Field(description="Name of the campaign.")
    folder: str = Field(description="Its folder.")
    points: list[Planned] = Field(description="The points.")


class Store(Said):
    """State of a store."""

    store: str = Field(description="Its name; deployments of before have theirs behind a `+`.")
    kind: str = Field(description="Its kind.")
    state: str = Field(description="`up`, `down`, `partly` or `external`.")
    version: str = Field(description="Version of its server; empty where nobody tells.")
    endpoints: list[str] = Field(description="Addresses.")
    detail: str = Field(description="What else it says.")


class Status(Answer):
    """The state of all stores."""

    stores: list[Store] = Field(description="The stores.")


class Finding(Said):
    """One thing that was looked at."""

    name: str = Field(description="What.")
    level: Literal["ok", "warn", "fail"] = Field(description="How it is; with a `fail` the command ends with 2.")
    value: str = Field(description="What was found.")
    mend: str = Field(description="What mends it; empty where nothing needs to.")


class Node(Said):
    """A node of the allocation. Values are texts, as the table has them."""

    host: str = Field(description="Host.")
    python: str = Field(description="Version of Python.")
    storelab: str = Field(description="Version of storelab.")
    s5cmd: str = Field(description="Version of s5cmd.")
    endpoints: str = Field(description="Endpoints that it reaches.")
    tmpfs_free: str = Field(description="Room on tmpfs.")
    open_files: str = Field(description="Open files that it may have.")
    clock: str = Field(description="Offset of its clock.")
    link: str = Field(description="Rate of its link.")
    problem: str = Field(description="Why it is not fit; empty where it is.")


class Doctor(Answer):
    """Whether the machine, or with `--nodes` the nodes, can measure. It is printed where they cannot, too."""

    fit: bool = Field(description="Whether nothing is missing. If not, the command ends with 2.")
    findings: list[Finding] = Field(description="What was looked at; empty with `--nodes`.")
    nodes: list[Node] = Field(description="The nodes; empty without `--nodes`.")
    stores_down: list[str] = Field(description="Stores that no node could try; empty without `--nodes`.")
