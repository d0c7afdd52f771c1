"""What `--json` prints, command by command: closed models, so that no key is there that is not declared.

docs/machine.md and docs/machine.schema.json are made from them (`storelab docs`). A key that is here stays, with its
meaning; SCHEMA_VERSION rises when one goes or changes. Units end a key's name: `_s` seconds, `_bytes`, `_percent`.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION = 1
TIME = "in UTC, like 2026-11-23T16:40:00Z"


class Said(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Answer(Said):
    """What every object has."""

    command: str = Field(description="The command that printed it.")
    schema_version: Literal[1] = Field(
        description="Rises when a key goes or changes its meaning; a new key is no change."
    )
    storelab: str = Field(description="Version of storelab.")


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


class Verdict(Said):
    """What limited one subject: a row of [`verdicts.csv`](verdicts.md#columns-of-verdictscsv)."""

    store: str = Field(description="Store.")
    deployment: str = Field(description="Store and what its deployment is.")
    workload: str = Field(description="Workload.")
    engine: str | None = Field(description="Engine.")
    what: str | None = Field(description="Object size, range, file and fractions in words.")
    best: float = Field(description="Highest median over the runs.")
    unit: str = Field(description="Its unit.")
    where: str = Field(description="Clients, workers … that reached it.")
    n: int = Field(description="Number of runs.")
    few: bool = Field(description="Whether the rate depends on fewer than 10 operations in a run.")
    verdict: str = Field(description="The first rule that fires, or `not known`.")
    evidence: str = Field(description="Its numbers.")
    also: str | None = Field(description="Other rules that fire, each with its evidence.")
    would_tell: str | None = Field(description="Where the verdict is not known: what would tell.")


class Verdicts(Answer):
    """What limited each store."""

    folder: str = Field(description="The campaign's folder.")
    verdicts: list[Verdict] = Field(description="The verdicts.")


class Side(Said):
    """One side of a comparison."""

    name: str = Field(description="As it was given.")
    folder: str = Field(description="The campaign's folder.")
    stores: list[str] = Field(description="The stores that were compared.")
    source: str = Field(description="What it was read from.")
    days: list[str] = Field(description="The days (UTC) on which its runs began.")


class Compared(Said):
    """A comparable point and measure, or a whole."""

    store_a: str | None = Field(description="Store of A.")
    store_b: str | None = Field(description="Store of B.")
    workload: str = Field(description="Workload; `all` in the rows of the whole.")
    axes: dict[str, Any] = Field(description="The point's axes, sizes in bytes; empty in the rows of the whole.")
    metric: str = Field(
        description="`throughput` (MB/s), `rate` (1/s), `latency_p50`, `latency_p99` (ms), or of the whole `speed`."
    )
    points: int = Field(description="1; of the whole the number of points.")
    n_a: int = Field(description="Runs of A; of the whole repetitions.")
    n_b: int = Field(description="The same of B.")
    median_a: float | None = Field(description="Median of A; null in the rows of the whole.")
    median_b: float | None = Field(description="Median of B; null in the rows of the whole.")
    ratio: float | None = Field(description="B over A.")
    low: float | None = Field(description="Lower end of its 95 % interval; null where there is none.")
    high: float | None = Field(description="Upper end.")
    coverage_percent: float | None = Field(description="Coverage of the interval.")
    p: float | None = Field(description="Two-sided p of the row alone.")
    verdict: str = Field(description="`faster`, `slower` or `cannot tell`, of the row alone.")
    reason: str | None = Field(description="Why there is no interval.")
    p_corrected: float | None = Field(description="p, corrected for the number of rows.")
    verdict_corrected: str = Field(description="The verdict that counts.")
    bound_by: str | None = Field(description="`client` or `link`, where one was the limit of a run.")


class Compare(Answer):
    """How fast B is beside A."""

    a: Side = Field(description="A.")
    b: Side = Field(description="B.")
    days: list[str] = Field(description="Campaigns that tell what a day does (`--days`).")
    other_days: bool = Field(
        description="Whether A and B are campaigns of different days; without `days` a difference may be the day's."
    )
    rows: list[Compared] = Field(description="Comparable points, then the wholes.")
    alone_a: int = Field(description="Points of A without a counterpart.")
    alone_b: int = Field(description="Points of B without a counterpart.")
    fail_on: str | None = Field(description="The rule of `--fail-on`.")
    margin_percent: float = Field(description="What it forgives.")
    slower: int | None = Field(
        description="Rows that are slower by that rule: with one or more the command ends with 1. Null without a rule."
    )


class OneClient(Said):
    """What one client does at most."""

    bytes_per_s: float = Field(description="Rate.")
    source: str = Field(description="What it is known from.")


class Volume(Said):
    """What so many clients leave."""

    clients: int = Field(description="Clients.")
    operations_a_point: float = Field(description="Operations of a point.")
    records_a_point_bytes: float = Field(description="Records of a point.")
    records_bytes: float = Field(description="Records of the campaign.")
    files: int = Field(description="Files of the campaign.")


class Size(Answer):
    """How many clients fill a link."""

    link_bytes_per_s: int = Field(description="The link.")
    client_link_bytes_per_s: int = Field(description="The link of each client.")
    one_client: OneClient = Field(description="One client.")
    clients: int = Field(description="Clients that fill the link.")
    clients_with_room: int = Field(description="A quarter more, so that the link is seen to be the limit.")
    points: int = Field(description="Points of the campaign whose records are estimated.")
    records: list[Volume] = Field(description="Its records, for this and other numbers of clients.")


class Verify(Answer):
    """A campaign whose records are whole. If they are not, the command ends with 2."""

    folder: str = Field(description="The campaign's folder.")
    measured: int = Field(description="Points that have a record.")
    failed: int = Field(description="Points that failed.")
    files: int = Field(description="Raw files that are as they were.")
    sealed: str | None = Field(description=f"When it was sealed, {TIME}; null where it is not.")


class Seal(Answer):
    """A campaign that is closed."""

    folder: str = Field(description="The campaign's folder.")
    points: int = Field(description="Points of the plan.")
    failed: int = Field(description="Points that failed.")
    sealed: str = Field(description=f"When it was sealed, {TIME}.")
    already: bool = Field(description="Whether it was before.")


class Entry(Said):
    """A campaign of a history."""

    name: str = Field(description="What stands behind the `@` of its folder.")
    folder: str = Field(description="Its folder.")
    measured: str = Field(description=f"When its first run began, {TIME}.")
    sealed: str = Field(description="When it was sealed.")
    source: str = Field(description="What it was read from.")
    environment: list[str] = Field(description="What differs from the entry before; of the oldest nothing.")


class Value(Said):
    """A series in one entry."""

    entry: str = Field(description="Name of the entry.")
    n: int = Field(description="Runs; of the whole repetitions.")
    median: float | None = Field(description="Median; of the whole the ratio to the oldest entry.")
    low: float | None = Field(description="Lower end of its 95 % interval; below 6 runs the smallest.")
    high: float | None = Field(description="Upper end; below 6 runs the largest.")


class Change(Said):
    """A change of level."""

    at: str = Field(description="The first entry behind it.")
    ratio: float = Field(description="The stretch behind it over the one before.")
    low: float = Field(description="Lower end of the 95 % interval, where the place is given.")
    high: float = Field(description="Upper end.")
    verdict: Literal["faster", "slower"] = Field(description="What it was for.")


class Newest(Said):
    """The newest entry beside those since the last change."""

    there: bool = Field(description="Whether the newest entry has this series.")
    before: int = Field(description="Entries since the last change, without it; 0 where nothing can be told.")
    ratio: float | None = Field(description="Newest over their geometric mean.")
    low: float | None = Field(description="Lower end of the 95 % interval, which holds what entries differ by.")
    high: float | None = Field(description="Upper end.")
    p: float | None = Field(description="Two-sided p of the series alone.")
    p_corrected: float | None = Field(description="p, corrected for the number of series.")
    verdict: str = Field(description="`faster`, `slower` or `cannot tell`, with the correction.")


class Series(Said):
    """A point and measure over time, or a whole."""

    store: str | None = Field(description="Store; null of the whole.")
    workload: str = Field(description="Workload; `all` of the whole.")
    axes: dict[str, Any] = Field(description="The point's axes, sizes in bytes; empty of the whole.")
    metric: str = Field(description="As of `compare`.")
    said: str = Field(description="The point in words, as the text has it.")
    points: int = Field(description="1; of the whole the points that all entries have.")
    values: list[Value] = Field(description="Its values, oldest first.")
    p: float | None = Field(description="p of a series without a change; null where it is too short.")
    p_corrected: float | None = Field(description="p, corrected for the number of series.")
    changes: list[Change] = Field(description="Its changes, oldest first; none where `p_corrected` is 0.05 or more.")
    newest: Newest = Field(description="The newest entry.")
    reason: str | None = Field(description="Why something cannot be told.")


class History(Answer):
    """A campaign that was measured again and again (docs/history.md)."""

    folder: str = Field(description="The campaign's folder, without a date.")
    entries: list[Entry] = Field(description="Its entries, oldest first.")
    series: list[Series] = Field(description="Points, then the wholes.")
    fail_on: str | None = Field(description="The rule of `--fail-on`.")
    margin_percent: float = Field(description="What it forgives.")
    worse: int | None = Field(
        description="Series that are slower by that rule: with one or more the command ends with 1. Null without one."
    )


class Added(Answer):
    """A campaign that became an entry."""

    folder: str = Field(description="Its folder now.")
    entry: str = Field(description="Name of the entry.")
    entries: int = Field(description="Entries of the history with it.")


ANSWERS: dict[str, type[Answer]] = {
    "check": Check,
    "plan": Plan,
    "status": Status,
    "doctor": Doctor,
    "size": Size,
    "verify": Verify,
    "seal": Seal,
    "verdict": Verdicts,
    "compare": Compare,
    "history": History,
    "history add": Added,
}
