"""Models of the JSON objects that `--json` prints, one for each command. They reject undeclared keys.

`storelab docs` writes docs/machine.md and docs/machine.schema.json from these models. SCHEMA_VERSION rises when a key
is removed or changes its meaning. The end of a key's name is its unit: `_s` (seconds), `_bytes`, `_percent`.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION = 2
TIME = "in UTC, like 2026-11-23T16:40:00Z"


class StrictModel(BaseModel):
    """A model that rejects undeclared keys."""

    model_config = ConfigDict(extra="forbid")


class Answer(StrictModel):
    """The keys that every object has."""

    command: str = Field(description="The command that printed the object.")
    schema_version: Literal[2] = Field(
        description="Rises when a key is removed or changes its meaning, not when a key is added."
    )
    storelab: str = Field(description="Version of storelab.")


class Work(StrictModel):
    """The points and the time of one workload in one store."""

    workload: str = Field(description="Workload; `all` in a summary.")
    points: int = Field(description="Number of points of the workload.")
    measuring_s: float = Field(description="Sum of the lengths of the windows of these points.")


class Demands(StrictModel):
    """The demands of the plan on one store."""

    store: str = Field(description="Store.")
    workloads: list[Work] = Field(description="Workloads that use the store.")
    estimated_s: float = Field(description="Upper limit of the measuring time, with 2 s added to each window.")
    staged_objects: int = Field(description="Number of objects that are uploaded before the measurement.")
    staged_bytes: int = Field(description="Total size of the objects that are uploaded before the measurement.")
    buckets: int = Field(description="Number of buckets that the plan needs.")
    free_bytes: int | None = Field(description="Free space in the store; null if the store does not report it.")
    scratch_bytes: int = Field(description="Space on tmpfs that the clients need.")


class Check(Answer):
    """The demands of a campaign. If space or limits are too small for it, no object is printed; the exit code is 2."""

    campaign: str = Field(description="Name of the campaign.")
    folder: str = Field(description="The campaign's folder.")
    stores: list[Demands] = Field(description="Demands on each store.")
    points: int = Field(description="Number of points in the plan.")
    measured: int = Field(description="Number of points that have a record.")
    sealed: bool = Field(description="Whether the campaign is sealed.")
    differences: list[str] = Field(description="Settings that have changed since points were measured.")
    notes: list[str] = Field(description="Remarks about cold accesses, versioning and object lock.")


class Planned(StrictModel):
    """A point of the plan."""

    order: int = Field(description="Position in the order in which points are measured.")
    state: Literal["measured", "failed", "to do"] = Field(description="State of the point.")
    key: str = Field(description="Key of the point: the argument of `storelab measure`, and a folder below `raw/`.")
    store: str = Field(description="Store.")
    workload: str = Field(description="Workload; `all` in a summary.")
    sweep: str = Field(description="The sweep that contains the point.")
    rep: int = Field(description="Number of the repetition, from 1.")
    clients: int = Field(description="Number of clients, over all roles.")
    duration_s: float = Field(description="Length of the point's window, including the warm-up.")
    axes: dict[str, Any] = Field(
        description="Values of the point's axes (docs/reference/workloads.md), with sizes in bytes."
    )


class Plan(Answer):
    """The points of a campaign, in the order in which they are measured."""

    campaign: str = Field(description="Name of the campaign.")
    folder: str = Field(description="The campaign's folder.")
    points: list[Planned] = Field(description="The points.")


class Store(StrictModel):
    """The state of a store."""

    store: str = Field(description="Name of the store. For an earlier deployment, `+` and its settings follow.")
    kind: str = Field(description="Kind of the store.")
    state: str = Field(description="`up`, `down`, `partly` or `external`.")
    version: str = Field(description="Version of the store's server; empty if it is not known.")
    endpoints: list[str] = Field(description="Addresses of the store.")
    detail: str = Field(description="Further information.")


class Status(Answer):
    """The state of all stores."""

    stores: list[Store] = Field(description="The stores.")


class Finding(StrictModel):
    """The result of one check."""

    name: str = Field(description="Name of the check.")
    level: Literal["ok", "note", "warn", "fail"] = Field(
        description="Result. The exit code is 2 if a check has `fail`."
    )
    value: str = Field(description="The value that the check found.")
    hint: str = Field(description="How to fix the problem; empty if there is none.")


class Node(StrictModel):
    """A node of the allocation. All values are strings, formatted as in the table."""

    host: str = Field(description="Host name.")
    python: str = Field(description="Version of this program on the node.")
    storelab: str = Field(description="Version of this program on the node.")
    s5cmd: str = Field(description="Version of this program on the node.")
    endpoints: str = Field(description="Endpoints that the node can reach.")
    tmpfs_free: str = Field(description="Free space on tmpfs.")
    open_files: str = Field(description="Limit of open files.")
    clock: str = Field(description="Offset of the node's clock.")
    link: str = Field(description="Rate of the node's link.")
    problem: str = Field(description="Why the node cannot measure; empty if it can.")


class Doctor(Answer):
    """Checks of this machine, or of the nodes with `--nodes`. The object is printed even if a check fails."""

    fit: bool = Field(description="Whether all checks passed. If not, the exit code is 2.")
    findings: list[Finding] = Field(description="Results of the checks; empty with `--nodes`.")
    nodes: list[Node] = Field(description="The nodes; empty without `--nodes`.")
    stores_down: list[str] = Field(
        description="Stores that are down, so that the nodes could not check them; empty without `--nodes`."
    )


class Verdict(StrictModel):
    """The limit of one workload in one store: a row of [`verdicts.csv`](verdicts.md#columns-of-verdictscsv)."""

    store: str = Field(description="Store.")
    deployment: str = Field(description="Store, with the settings of its deployment.")
    workload: str = Field(description="Workload; `all` in a summary.")
    engine: str | None = Field(description="Engine.")
    what: str | None = Field(description="Object size, range, file and fractions in words.")
    best: float = Field(description="Highest rate: the median over the runs of the best point.")
    unit: str = Field(description="Unit of `best`.")
    where: str = Field(description="Number of clients, workers, … of the point with the highest rate.")
    n: int = Field(description="Number of runs.")
    few: bool = Field(description="Whether a run has fewer than 10 operations, so that the rate is uncertain.")
    verdict: str = Field(description="The first rule that applies, or `not known`.")
    evidence: str = Field(description="The numbers that support the verdict.")
    also: str | None = Field(description="Other rules that apply, each with its evidence.")
    would_decide: str | None = Field(description="The measurement that would decide, if the verdict is not known.")


class Verdicts(Answer):
    """The limits of all stores."""

    folder: str = Field(description="The campaign's folder.")
    verdicts: list[Verdict] = Field(description="The verdicts.")


class Side(StrictModel):
    """One side of a comparison."""

    name: str = Field(description="The argument of the command.")
    folder: str = Field(description="The campaign's folder.")
    stores: list[str] = Field(description="The stores that were compared.")
    source: str = Field(description="The files from which the values were read.")
    days: list[str] = Field(description="The days (UTC) on which the runs began.")


class Compared(StrictModel):
    """A metric of a comparable point, or the summary of all points."""

    store_a: str | None = Field(description="Stores of A and B.")
    store_b: str | None = Field(description="Stores of A and B.")
    workload: str = Field(description="Workload; `all` in a summary.")
    axes: dict[str, Any] = Field(description="Values of the point's axes, sizes in bytes; empty in a summary.")
    metric: str = Field(
        description="`throughput` (MB/s), `rate` (1/s), `latency_p50`, `latency_p99` (ms); `speed` in a summary."
    )
    points: int = Field(description="Number of points in a summary; otherwise 1.")
    n_a: int = Field(description="Number of runs; in a summary, number of repetitions.")
    n_b: int = Field(description="Number of runs; in a summary, number of repetitions.")
    median_a: float | None = Field(description="Median over the runs; null in a summary.")
    median_b: float | None = Field(description="Median over the runs; null in a summary.")
    ratio: float | None = Field(description="B divided by A.")
    low: float | None = Field(description="Ends of the 95 % interval of the ratio.")
    high: float | None = Field(description="Ends of the 95 % interval of the ratio.")
    coverage_percent: float | None = Field(description="Coverage of the interval.")
    p: float | None = Field(description="Two-sided p value, without correction.")
    verdict: str = Field(description="`faster`, `slower` or `undecided`, without correction.")
    reason: str | None = Field(description="Reason why a value is missing.")
    p_corrected: float | None = Field(description="p value, corrected for multiple comparisons.")
    verdict_corrected: str = Field(description="The verdict with the correction. Prefer it to `verdict`.")
    bound_by: str | None = Field(description="`client` or `link`, if one of them limited a run.")


class Compare(Answer):
    """The speed of B compared with A."""

    a: Side = Field(description="Side A.")
    b: Side = Field(description="Side B.")
    days: list[str] = Field(description="Campaigns from which the variation between days is estimated (`--days`).")
    other_days: bool = Field(
        description="Whether A and B were measured on different days, which can cause a difference."
    )
    rows: list[Compared] = Field(description="Comparable points, then the summary rows.")
    unmatched_a: int = Field(description="Points without a counterpart on the other side.")
    unmatched_b: int = Field(description="Points without a counterpart on the other side.")
    fail_on: str | None = Field(description="The value of `--fail-on`.")
    margin_percent: float = Field(description="The value of `--margin`: slowdown that `--fail-on` tolerates.")
    slower: int | None = Field(
        description="Number of rows that `--fail-on` found slower. If it is above 0, the exit code is 1. Null without "
        "`--fail-on`."
    )


class OneClient(StrictModel):
    """The highest rate of one client."""

    bytes_per_s: float = Field(description="Rate.")
    source: str = Field(description="The measurement that gave the rate.")


class Volume(StrictModel):
    """The size of the records for one number of clients."""

    clients: int = Field(description="Number of clients.")
    operations_a_point: float = Field(description="Number of operations of one point.")
    records_a_point_bytes: float = Field(description="Size of the records of one point.")
    records_bytes: float = Field(description="Size of the records of the campaign.")
    files: int = Field(description="Number of files of the campaign.")


class Size(Answer):
    """The number of clients that fill a link."""

    link_bytes_per_s: int = Field(description="Rate of the link that is to be filled.")
    client_link_bytes_per_s: int = Field(description="Rate of the link of each client's node.")
    one_client: OneClient = Field(description="The highest rate of one client.")
    clients: int = Field(description="Number of clients that fill the link.")
    clients_with_room: int = Field(description="25 % more clients, with which the link is clearly the limit.")
    points: int = Field(description="Number of points for which the records are estimated.")
    records: list[Volume] = Field(description="Estimated size of the records, for several numbers of clients.")


class Verify(Answer):
    """A campaign with complete and unaltered records. If a record is missing or altered, the exit code is 2."""

    folder: str = Field(description="The campaign's folder.")
    measured: int = Field(description="Number of points that have a record.")
    failed: int = Field(description="Number of points that failed.")
    files: int = Field(description="Number of raw files, all with the recorded checksum.")
    sealed: str | None = Field(description=f"When the campaign was sealed, {TIME}; null if it is not sealed.")
    unknown_commits: list[str] = Field(
        description="Commits in the records that this checkout does not have; empty outside of a checkout."
    )


class Seal(Answer):
    """A sealed campaign."""

    folder: str = Field(description="The campaign's folder.")
    points: int = Field(description="Number of points in the plan.")
    failed: int = Field(description="Number of points that failed.")
    sealed: str = Field(description=f"When the campaign was sealed, {TIME}.")
    already: bool = Field(description="Whether the campaign was sealed before this command.")


class Entry(StrictModel):
    """A campaign of a history."""

    name: str = Field(description="Name of the entry: the part of its folder's name after the `@`.")
    folder: str = Field(description="Folder of the entry.")
    measured: str = Field(description=f"When the first run of the entry began, {TIME}.")
    sealed: str = Field(description=f"When the campaign was sealed, {TIME}.")
    source: str = Field(description="The files from which the values were read.")
    environment: list[str] = Field(description="Differences of the environment from the previous entry.")


class Value(StrictModel):
    """The value of a series in one entry."""

    entry: str = Field(description="Name of the entry.")
    n: int = Field(description="Number of runs; in a summary, number of repetitions.")
    median: float | None = Field(description="Median over the runs; in a summary, the ratio to the oldest entry.")
    low: float | None = Field(
        description="Ends of the 95 % interval of the median; with fewer than 6 runs, the smallest and largest value."
    )
    high: float | None = Field(
        description="Ends of the 95 % interval of the median; with fewer than 6 runs, the smallest and largest value."
    )


class Change(StrictModel):
    """A change of level."""

    at: str = Field(description="The first entry after the change.")
    ratio: float = Field(description="Level after the change divided by the level before it.")
    low: float = Field(description="Ends of the 95 % interval of the ratio, for a change at this entry.")
    high: float = Field(description="Ends of the 95 % interval of the ratio, for a change at this entry.")
    verdict: Literal["faster", "slower"] = Field(description="Direction of the change.")


class Newest(StrictModel):
    """The newest entry compared with the entries since the last change."""

    there: bool = Field(description="Whether the newest entry has this series.")
    before: int = Field(
        description="Number of entries since the last change, without the newest; 0 if no comparison is possible."
    )
    ratio: float | None = Field(
        description="Value of the newest entry divided by the geometric mean of the entries since the last change."
    )
    low: float | None = Field(
        description="Ends of the 95 % interval of the ratio, which includes the variation between entries."
    )
    high: float | None = Field(
        description="Ends of the 95 % interval of the ratio, which includes the variation between entries."
    )
    p: float | None = Field(description="Two-sided p value, without correction.")
    p_corrected: float | None = Field(description="p value, corrected for multiple comparisons.")
    verdict: str = Field(description="`faster`, `slower` or `undecided`, with the correction.")


class Series(StrictModel):
    """A metric of a point over time, or the summary of all points."""

    store: str | None = Field(description="Store; null in a summary.")
    workload: str = Field(description="Workload; `all` in a summary.")
    axes: dict[str, Any] = Field(description="Values of the point's axes, sizes in bytes; empty in a summary.")
    metric: str = Field(description="Metric, as in `compare`.")
    label: str = Field(description="The point in words, as in the printed text.")
    points: int = Field(description="Number of common points in a summary; otherwise 1.")
    values: list[Value] = Field(description="Values of the series, oldest first.")
    p: float | None = Field(
        description="p value of the hypothesis that the level never changed; null if the series is too short."
    )
    p_corrected: float | None = Field(description="p value, corrected for multiple comparisons.")
    changes: list[Change] = Field(
        description="Changes of the series, oldest first; empty if `p_corrected` is 0.05 or more."
    )
    newest: Newest = Field(description="Comparison of the newest entry with the entries before it.")
    reason: str | None = Field(description="Reason why a value is missing.")


class History(Answer):
    """A campaign that was measured several times (docs/history.md)."""

    folder: str = Field(description="The campaign's folder, without a date.")
    entries: list[Entry] = Field(description="Entries of the history, oldest first.")
    series: list[Series] = Field(description="Series of the points, then the summaries.")
    fail_on: str | None = Field(description="The value of `--fail-on`.")
    margin_percent: float = Field(description="The value of `--margin`: slowdown that `--fail-on` tolerates.")
    worse: int | None = Field(
        description="Number of series that `--fail-on` found slower. If it is above 0, the exit code is 1. Null "
        "without `--fail-on`."
    )


class Added(Answer):
    """A campaign that became an entry of its history."""

    folder: str = Field(description="New folder of the campaign.")
    entry: str = Field(description="Name of the entry.")
    entries: int = Field(description="Number of entries of the history, including the new one.")


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
