"""Tables that list published numbers of earlier evaluations together with our results.

* `earlier.csv`: single statements of 2012-2015, compared with our results by a common measure. A published number is
  divided by the number of clients in its setting. If it was printed for one front-end, it is used as printed. If it
  cannot be divided, it is the number of the whole system. Throughput that filled a network is also divided by the
  capacity (Gbit/s) of its links. Our number is the highest median by the same measure: divided by the clients, divided
  by the front-ends that they used, or undivided. If the measure is per link, our number is the traffic of the busiest
  interface relative to its known capacity. The table lists the measure and the published number. If several measures
  give the same numbers for all our systems (for example with one client at one front-end), they are combined.
* `one_client.csv`: the table of 2012 about one client and its threads. Our rows are points of one client on whole
  objects of the published sizes, in a closed loop, with workers instead of threads. Rates are not scaled. Cells that
  were not published are empty.
* `table1.csv`: Table 1 of J. Phys.: Conf. Ser. 664 (2015) 022001 and further systems in its text, followed by our
  stores with the answers of the probe and their deployment. Cells that were not published or probed are empty.
* `table2.csv`: one job opens the file and reads its entries once, as in Table 2 of the same paper, whose rows are last.
  Our rows are selections of `read_entries` over all branches, at the smallest number of clients. First reads (`_first`,
  including the opening of the file as in the paper) are separate from later reads (`_again`). clusters: baskets per
  branch read, which is the number of clusters touched if all branches have the same clusters. A TTreeCache of the size
  of a cluster would make this number of calls, which corresponds to the read calls of the paper. ranges: baskets, each
  of which is a range requested by the reader; requests: requests sent for these ranges after merging and splitting.
  part: MB received by the first read, in percent of the MB at 100 % of the entries, which allows comparing files of
  different sizes. share_amplification: part divided by the fraction of the entries.
* `storage_lab.csv`: throughput into the nodes and events by system and number of jobs, as in the two tables of the
  storage laboratory of HEPiX (September 2010). Its events were counted over an undisclosed period, ours over
  `period_s`. The numbers are therefore not scaled to each other. Cells that were lost or never printed are empty. Our
  rows have the rates of events.csv by setting of the client, and these rates times `period_s`. The product is more
  precise than the number of steps that ended in a short run.
"""

import re
from collections.abc import Iterator
from typing import Any

import pandas as pd

from storelab.analysis.parts import groups, labels
from storelab.analysis.records import links, published, scan
from storelab.analysis.records.campaign import Campaign
from storelab.analysis.tables import reads
from storelab.analysis.tables.throughput import CLASSES, RATES, rows_of_class

PUBLISHED, MEASURED = "published", "measured"
SYSTEMS = {"uds1": "UDS 1", "uds2": "UDS 2", "uds_ihep": "UDS at IHEP"}  # systems of published numbers, without year
SMALL = 8192  # bytes; the published objects had 4 kB, which can mean 4000 or 4096 bytes
COLD, NETWORK = "cold", "network"  # downloads that are not cached; throughput without a printed direction
QUANTITIES = {  # (first words of a published quantity, its unit) -> class of our results
    ("upload 4 kB", "files/s"): "metadata_upload",
    ("download 4 kB, linear until", "files/s"): COLD,
    ("download 4 kB", "files/s"): "metadata_download",
    ("upload", "MB/s"): "throughput_upload",
    ("download", "MB/s"): "throughput_download",
    ("upload throughput", "Gb/s"): "throughput_upload",
    ("download throughput", "Gb/s"): "throughput_download",
    ("network limit", "Gb/s"): NETWORK,
}
STATEMENT_CLASSES = {
    COLD: ("metadata_download",),
    NETWORK: ("throughput_download", "throughput_upload"),
}  # other names are names of a class
WHAT = {COLD: "Downloads that are not cached", NETWORK: "Throughput, up or down"}
MB_PER_GBIT = 125.0
WHOLE, LINK = "system", "link"
MEASURES = {
    "clients": "per client",
    "front_ends": "per front-end",
    WHOLE: "of the whole system",
    LINK: "per Gbit/s of link",
}
LINKS = {  # setting -> Gbit/s of its network (printed/README.md): 1 for each client, at most 20 into the store
    "5 clients": 5,
    "20 clients": 20,
    "21 clients, 21 accounts, 2100 buckets": 20,
    "per front-end, 3 clients x 10 threads": 3,
    "2 x 10 Gb": 20,
}
SETTINGS = ("object_size_bytes", "engine", "clients", "workers", "front_ends")  # listed for our numbers
COLUMNS = (
    "what",
    "measure",
    "unit",
    "source",
    "system",
    "median",
    "low",
    "high",
    "n",
    "few",
    "setting",
    "printed",
    "printed_unit",
)


def printed_name(system: str) -> str:
    """Return the usual name of a system of the published numbers, such as `UDS 1` for `uds1_2012`."""
    return SYSTEMS.get(re.sub(r"_\d{4}$", "", system), system)


def _measures(setting: str, name: str) -> Iterator[tuple[str, float]]:
    """Yield the measures of a published result: a key of MEASURES, and the number by which the value is divided.

    setting: the setting of the statement; name: its class of results (`QUANTITIES`).
    """
    clients = re.match(r"(\d+) clients\b", setting)
    if setting.startswith("per front-end"):
        yield "front_ends", 1
    elif clients or setting == "one client":
        yield "clients", int(clients[1]) if clients else 1
    elif name in STATEMENT_CLASSES:
        yield WHOLE, 1
    if setting in LINKS and name in (NETWORK, "throughput_upload", "throughput_download"):
        yield LINK, LINKS[setting]


def printed() -> pd.DataFrame:
    """Return the published results that have a measure, with `class`, `over` and the columns of earlier.csv."""
    rows: list[dict[str, Any]] = []
    for r in published.load("uds_headlines").itertuples(index=False):
        same_unit = ((begin, name) for (begin, unit), name in QUANTITIES.items() if unit == r.unit)
        name = next((name for begin, name in same_unit if r.quantity.startswith(begin)), None)
        for over, number in _measures(r.setting, name) if name else ():
            value = r.value * (MB_PER_GBIT if r.unit == "Gb/s" else 1.0) / number
            head = {"source": r.source, "system": r.system, "setting": f"{r.setting}, {r.quantity}"}
            rows.append(
                {"class": name, "over": over, "median": value, "printed": r.value, "printed_unit": r.unit} | head
            )
    return pd.DataFrame(rows)


def _class_rows(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the rows of closed loops that are compared with statements of this class. table: throughput.csv."""
    rows = pd.concat([rows_of_class(table, class_name) for class_name in STATEMENT_CLASSES.get(name, (name,))])
    if len(rows) and not name.startswith(("throughput", NETWORK)):
        rows = rows[rows["object_size_bytes"] <= SMALL]
    if name == COLD:
        rows = rows[rows["access"].notna() & (rows["access"] != groups.WARM)] if "access" in rows else rows.iloc[:0]
    return groups.closed_loops(rows)


def _best_measured(
    throughput: pd.DataFrame, resources: pd.DataFrame | None, name: str, over: str
) -> list[dict[str, Any]]:
    """Return the row with the highest median by the measure `over` for each deployment, in the form of earlier.csv."""
    first_class = CLASSES[STATEMENT_CLASSES.get(name, (name,))[0]]
    metric, source = (("link", "percent"), resources) if over == LINK else (first_class.metric, throughput)
    columns = groups.spread([metric])
    if source is None or source.empty or not {*columns, *({over} - {WHOLE, LINK})} <= set(source):
        return []
    rows = _class_rows(source, name)
    rows = rows[rows[columns[0]].notna()]
    if rows.empty:
        return []
    rows = groups.labelled(rows).reset_index(drop=True)
    count = {WHOLE: 1.0, LINK: 100 / MB_PER_GBIT}.get(over) or _used(rows, over)
    parts = {part: rows[column].astype(float) / count for part, column in zip(groups.PARTS, columns, strict=True)}
    settings = (
        *(("workload",) if name in STATEMENT_CLASSES else ()),
        *SETTINGS,
        *(("access",) if name == COLD else ()),
    )
    out = []
    for system, group in rows.groupby("deployment"):
        best = parts["median"][group.index].idxmax()
        texts = (labels.value_text(c, rows.loc[best, c]) for c in settings if c in rows)
        out.append(
            {"source": MEASURED, "system": system, "n": rows.loc[best, "n"], "setting": ", ".join(filter(None, texts))}
            | {"few": over != LINK and bool(rows.loc[best].get("few", False))}
            | {part: values[best] for part, values in parts.items()}
        )
    return out


def _used(rows: pd.DataFrame, over: str) -> pd.Series:
    """Return for each row the number of clients, or the number of front-ends that they used.

    If each client is assigned to one front-end, clients cannot use more front-ends than there are clients.
    """
    count = rows[over].astype(float)
    if over != "front_ends":
        return count
    alone = rows["balance"].fillna(links.ALONE) == links.ALONE if "balance" in rows else True
    return count.mask(alone & (rows["clients"].astype(float) < count), rows["clients"].astype(float))


def table(throughput: pd.DataFrame, resources: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return one row per published result, and one row per measured system, sorted by quantity and measure.

    Statements about quantities that were not measured here are excluded. median: value in `unit`, by `measure`; few:
    True if our value is based on few operations; printed: the value as published, in `printed_unit`.
    """
    then, out = printed(), []
    for name in dict.fromkeys(QUANTITIES.values()):
        first_class = CLASSES[STATEMENT_CLASSES.get(name, (name,))[0]]
        blocks: dict[tuple[Any, ...], tuple[list[str], list[dict[str, Any]], list[dict[str, Any]]]] = {}
        for over, measure in MEASURES.items():
            theirs = then[(then["class"] == name) & (then["over"] == over)]
            ours = _best_measured(throughput, resources, name, over)
            if ours and len(theirs):  # list our numbers once if several measures give the same
                numbers = tuple((r["system"], *(r[part] for part in groups.PARTS)) for r in ours)
                measures, printed_rows, _ = blocks.setdefault(numbers, ([], [], ours))
                measures.append(measure)
                printed_rows += theirs.sort_values("source", kind="stable").to_dict("records")
        for measures, printed_rows, ours in blocks.values():
            head = {"what": WHAT.get(name, first_class.what), "measure": " and ".join(measures)}
            head |= {"unit": first_class.shown, "few": False}
            out += [head | row for row in [*printed_rows, *ours]]
    return pd.DataFrame(out, columns=list(COLUMNS)).astype({"n": "Int64", "few": "boolean"})


PRINTED = {4000: "4 kB", 4096: "4 kB", 10**7: "10 MB", 10 * 2**20: "10 MB"}  # sizes of 2012: decimal or binary units
ONE_CLIENT_OPERATIONS = {"put": "upload", "get": "download"}
SHOWN = ("engine", "object_size_bytes", "clients", "workers", "buckets")  # axes with a column, or with only one value
SOURCE, SYSTEM = "2012 minor review", "Huawei UDS, first generation"
ONE_CLIENT_COLUMNS = (
    "operation",
    "object_size",
    "source",
    "system",
    "engine",
    "buckets",
    "setting",
    "workers",
    "n",
    "interval",
    "few",
    *(f"{name}_{part}_{unit}" for name, unit in RATES for part in ("median", "low", "high", "spread")),
    "note",
)
_AS_PRINTED = {"rate_{}_per_s": "files_per_s", "throughput_{}_mb_per_s": "mb_per_s"}


def comparable_rows(throughput: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of throughput.csv with the published operations, sizes and number of clients.

    The columns `object_size` (as printed) and `setting` (other axes in words) are added.
    """
    needed = {"object_size_bytes", "clients", "workers", "buckets"}
    if throughput.empty or not needed <= set(throughput):
        return throughput.iloc[:0].assign(object_size="")
    size = throughput["object_size_bytes"].astype("Float64").map(PRINTED)
    own = throughput[(throughput["clients"] == 1) & throughput["workload"].isin(ONE_CLIENT_OPERATIONS) & size.notna()]
    own = groups.closed_loops(own)
    if own.empty:
        return own.assign(object_size="")
    axes = [c for c in labels.axes_of(own) if c not in (*SHOWN, *labels.DEPLOYMENT_NAMES)]
    texts = [[labels.value_text(c, r[c]) for c in axes if not labels.is_default(c, r[c])] for _, r in own.iterrows()]
    return groups.labelled(own).assign(object_size=size, setting=[", ".join(filter(None, t)) for t in texts])


def _printed(operation: str, size: str) -> Iterator[dict[str, Any]]:
    table = published.load("uds1_2012_single_client_threads")
    chosen = table[(table["operation"] == operation) & (table["object_size_printed"] == size)]
    for r in chosen.to_dict("records"):
        rates = {ours.format("median"): r[theirs] for ours, theirs in _AS_PRINTED.items()}
        rates |= {ours.format("spread"): r[f"{theirs}_err"] for ours, theirs in _AS_PRINTED.items()}
        yield {"source": SOURCE, "system": SYSTEM, "buckets": 1, "workers": r["threads"], "note": r["note"]} | rates


def one_client_table(throughput: pd.DataFrame) -> pd.DataFrame:
    """Return the published rows and the measured ones, for each operation and size that was measured here."""
    measured, out = comparable_rows(throughput), []
    for size in dict.fromkeys(PRINTED.values()):
        for workload, operation in ONE_CLIENT_OPERATIONS.items():
            mine = (
                measured[(measured["workload"] == workload) & (measured["object_size"] == size)]
                if len(measured)
                else measured
            )
            if mine.empty:
                continue
            head = {"operation": operation, "object_size": size}
            out += [head | row for row in _printed(operation, size)]
            mine = mine.sort_values(["deployment", "engine", "buckets", "setting", "workers"], kind="stable")
            kept = [c for c in ONE_CLIENT_COLUMNS if c in mine and c != "object_size"]
            for r in mine.to_dict("records"):
                out.append(head | {"source": MEASURED, "system": r["deployment"]} | {c: r[c] for c in kept})
    return pd.DataFrame(out, columns=list(ONE_CLIENT_COLUMNS)).astype(
        dict.fromkeys(("buckets", "workers", "n"), "Int64")
    )


PROBE_QUESTIONS = {  # column -> question of the probe
    "multipart_upload": ("multipart", "upload"),
    "multi_range_get": ("ranges", "multi-range 2"),
}
TABLE1_COLUMNS = (
    "source",
    "system",
    "name",
    "capacity_tb",
    "front_ends",
    "storage_nodes",
    "disk_tb",
    *PROBE_QUESTIONS,
    "version",
    "redundancy",
)


def deployed(campaign: Campaign) -> dict[str, dict[str, Any]]:
    """Return the facts about each store from its records: name of the store -> column of table1.csv -> value.

    The columns are name, version, redundancy, front_ends and storage_nodes. The last two are maxima over the runs.
    """
    out: dict[str, dict[str, Any]] = {}
    for run in campaign.runs.values():
        store = run.get("store") or {}
        facts = store.get("deployment") or {}
        system = out.setdefault(store.get("name", ""), {"name": facts.get("system") or store.get("kind")})
        system["version"] = store.get("version")
        system["redundancy"] = facts.get("redundancy")
        for column, fact in (("front_ends", "front_ends"), ("storage_nodes", "servers")):
            known = [n for n in (system.get(column), facts.get(fact)) if n is not None]
            system[column] = max(known) if known else None
    return out


def table1(campaign: Campaign, capabilities: pd.DataFrame) -> pd.DataFrame:
    """Return the published systems, then each probed store and deployment. Without a probe, there are no rows."""
    out: list[dict[str, Any]] = []
    if len(capabilities):
        out += [{"source": PUBLISHED, **r} for r in published.load("systems_2015").to_dict("records")]
        facts = deployed(campaign)
        rows = groups.labelled(capabilities)
        for (deployment, store), store_rows in rows.groupby(["deployment", "store"], sort=False):
            given = store_rows.set_index(["topic", "check"])["answer"]
            answers = {column: given.get(question) for column, question in PROBE_QUESTIONS.items()}
            out.append({"source": MEASURED, "system": deployment} | facts.get(store, {}) | answers)
    return pd.DataFrame(out, columns=list(TABLE1_COLUMNS)).astype({"front_ends": "Int64", "storage_nodes": "Int64"})


NAVIGATION = {"CMS": "scan", "ATLAS": "random"}  # use case of 2010 -> our value of the axis
RANGE = ("low", "high")
STORAGE_LAB_COLUMNS = (
    "source",
    "store",
    "workload",
    "navigation",
    "system",
    "setting",
    "jobs",
    "n",
    "interval",
    "few",
    "shared_host",
    "nodes",
    "period_s",
    "mb_per_s",
    *(f"mb_{part}_per_s" for part in RANGE),
    "events",
    *(f"events_{part}" for part in RANGE),
    "events_per_s",
    *(f"events_{part}_per_s" for part in RANGE),
)
NODES = 10  # worker nodes of 2010


def _our_storage_lab(found: pd.DataFrame) -> list[dict[str, Any]]:
    fixed = ("clients", "files", "navigation", *reads.CLIENT, *labels.DEPLOYMENT_NAMES)
    axes = [c for c in labels.axes_of(found) if c not in fixed and found[c].nunique() > 1]
    axes += (
        ["files"] if (found.groupby("clients")["files"].nunique() > 1).any() else []
    )  # the number of files is only an axis if it differs for an equal number of jobs
    out = []
    for r in groups.labelled(found).to_dict("records"):
        texts = (labels.value_text(c, r[c]) for c in axes)
        wire = "wire" if not pd.isna(r["wire_median_mb_per_s"]) else "asked"  # local files have no network traffic
        row = {c: r[c] for c in ("store", "workload", "navigation", "n", "interval", "shared_host", "nodes")}
        row |= {"source": MEASURED, "system": r["deployment"], "jobs": r["clients"], "period_s": r["duration_s"]}
        row |= {"setting": ", ".join(filter(None, [reads.setting(r), *texts]))}
        row |= {"mb_per_s": r[f"{wire}_median_mb_per_s"]}
        row |= {"events_per_s": r["events_median_per_s"], "events": r["duration_s"] * r["events_median_per_s"]}
        row["few"] = bool(r.get("few", False))
        for part in RANGE:
            row |= {f"mb_{part}_per_s": r[f"{wire}_{part}_mb_per_s"], f"events_{part}_per_s": r[f"events_{part}_per_s"]}
            row[f"events_{part}"] = r["duration_s"] * r[f"events_{part}_per_s"]
        out.append(row)
    return out


def storage_lab_table(found: pd.DataFrame) -> pd.DataFrame:
    """Return the published rows of the use cases that were measured here, followed by our rows.

    If nothing was measured here, there are no rows. found: events.csv.
    """
    ours = pd.DataFrame(_our_storage_lab(found) if len(found) else [], columns=list(STORAGE_LAB_COLUMNS))
    theirs = published.load("hepix_2010_storage_lab").rename(columns={"solution": "system", "threads": "jobs"})
    theirs = theirs.assign(source=PUBLISHED, nodes=NODES, navigation=theirs["use_case"].map(NAVIGATION))
    theirs = theirs.reindex(columns=list(STORAGE_LAB_COLUMNS))
    theirs = theirs[theirs["navigation"].isin(ours["navigation"])]
    both = pd.concat([theirs, ours], ignore_index=True) if len(ours) else ours
    return both.astype({"jobs": "Int64", "n": "Int64", "nodes": "Int64"})


def best_settings(found: pd.DataFrame) -> pd.DataFrame:
    """Return our rows with the best setting of each system and navigation.

    The best setting is the one with the most events/s at the largest number of jobs. Each system is thus tuned for the
    most events, as in 2010.
    """
    kept = []
    for _, group in found[found["source"] == MEASURED].groupby(["navigation", "system"], sort=False):
        widest = group[group["jobs"] == group["jobs"].max()].dropna(subset=["events_per_s"])
        if len(widest):
            best = widest.loc[widest["events_per_s"].astype(float).idxmax(), "setting"]
            kept.append(group[group["setting"] == best])
    return pd.concat(kept) if kept else found.iloc[:0]


SELECTION = "entry_fraction_percent"
_FIRST_READS = """
SELECT key, count(*) FILTER (read = 0) AS first_reads, count(*) FILTER (read > 0) AS later_reads,
  avg(entries) AS entries, avg(baskets) AS ranges, avg(baskets / branches) AS clusters,
    avg(needed_bytes) / 1e6 AS needed_mb,
  avg(requests) FILTER (read = 0) AS requests_first, avg(requests) FILTER (read > 0) AS requests_again,
  avg(wire_bytes) FILTER (read = 0) / 1e6 AS wire_mb_first, avg(wire_bytes) FILTER (read > 0) / 1e6 AS wire_mb_again,
  avg(wire_bytes) FILTER (read = 0) / avg(needed_bytes) FILTER (read = 0 AND wire_bytes IS NOT NULL)
    AS amplification_first,
  avg(wire_bytes) FILTER (read > 0) / avg(needed_bytes) FILTER (read > 0 AND wire_bytes IS NOT NULL)
    AS amplification_again
FROM rows GROUP BY key"""
TABLE2_METRICS = (
    "clusters",
    "ranges",
    "requests_first",
    "requests_again",
    "needed_mb",
    "wire_mb_first",
    "wire_mb_again",
    "amplification_first",
    "amplification_again",
)
TABLE2_COLUMNS = (
    "n",
    "interval",
    "entries",
    *TABLE2_METRICS,
    "wire_low_mb_first",
    "wire_high_mb_first",
    "part_percent",
    "share_amplification",
)


def table2(campaign: Campaign, points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return one row per selection, followed by the published rows. Values that were not printed are null.

    Our values are medians over the runs. For the MB of the first reads, low and high are also given, because random
    selections differ.
    """
    out = _measured_table2(campaign, points, by)
    if out.empty:
        return out
    shared = [c for c in by if c != SELECTION]
    whole = out[out[SELECTION] == 100].set_index(shared)[["wire_mb_first", "entries"]]
    whole = whole.reindex(pd.MultiIndex.from_frame(out[shared])).set_index(out.index)
    out["part_percent"] = 100 * out["wire_mb_first"] / whole["wire_mb_first"]
    out["share_amplification"] = out["part_percent"] / (100 * out["entries"] / whole["entries"])
    out = out.sort_values(["store", "engine", SELECTION], ascending=[True, True, False], kind="stable")
    return pd.concat([out, _published_table2(out)], ignore_index=True).astype({c: points.dtypes[c] for c in by[2:]})


def _measured_table2(campaign: Campaign, points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    wanted = points[(points["workload"] == "read_entries") & (points["state"] == "ok")]
    if len(wanted):
        wanted = wanted[(wanted["volume_fraction_percent"] == 100) & (wanted["clients"] == wanted["clients"].min())]
    con = scan.connect(campaign, "reads", wanted["key"])
    both = wanted.merge(con.execute(_FIRST_READS).df(), on="key") if con else wanted.iloc[:0]
    columns = ["source", *by, *TABLE2_COLUMNS]
    how = dict.fromkeys(("entries", *TABLE2_METRICS), "median")
    made = groups.summarised(
        both, by, [("wire", "mb_first")], columns, how, lambda runs: {"n": len(runs)}, "wire_mb_first"
    )
    return made.assign(source=MEASURED)


def _published_table2(out: pd.DataFrame) -> pd.DataFrame:
    """Return the published rows in the form of `out`.

    A read call corresponds to a cluster. The volume includes both opening and reading.
    """
    printed = published.share_amplification()
    return pd.DataFrame(
        {
            "source": PUBLISHED,
            "store": "Huawei UDS",
            "workload": "read_entries",
            "engine": "ROOT with davix",
            SELECTION: printed["percent_of_entries"],
            "entries": printed["entries"],
            "clusters": printed["read_calls"],
            "wire_mb_first": printed["volume_mb"],
            "part_percent": 100 * printed["volume_mb"] / printed["volume_mb"].iloc[0],
            "share_amplification": printed["share_amplification_ratio"],
        }
    ).reindex(columns=out.columns)
