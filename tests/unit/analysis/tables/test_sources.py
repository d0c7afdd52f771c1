"""The findings, judged by their rules on the numbers that their own sources printed: each must be confirmed.

A source printed one number, at best with a spread. Eight runs replace it, which scatter by the spread or by 3 %. Where
a source has words instead of a number, `IN_WORDS` has the smallest value that they mean.
"""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from paths import ROOT

from storelab.analysis.records import published
from storelab.analysis.tables import claims as table_of

REVIEW_2012, REVIEW_2013, PAPER_2015 = "2012 minor review", "2013 major review", "CHEP 2015 paper"
IHEP, HEPIX = "2013 major review (IHEP)", "HEPiX storage laboratory 2010"
SPREAD = np.array([-1.0, 1.0, -0.7, 0.7, -0.4, 0.4, -0.2, 0.2])  # of eight runs, in the printed spread
SMALL, LARGE, GBIT = 4000, 10**8, 125.0  # bytes, bytes, MB/s
LINKS = {1: 1, 3: 3, 5: 5, 20: 20, 21: 20}  # clients -> Gbit/s that their network could carry: printed/README.md
SHARED = {"access": "warm", "accounts": 1}


def runs(value: float, column="rate_per_s", spread: float | None = None, **columns) -> pd.DataFrame:
    """Return eight runs around a printed number."""
    values = value + SPREAD * (0.03 * value if spread is None else spread)
    key = "/".join(map(str, columns.values()))
    return pd.DataFrame({column: values, "key": [f"{key}/{i}" for i in range(len(values))]}).assign(**columns)


def transfers(mb_per_s: float, gbit: float, **columns) -> pd.DataFrame:
    """Return runs of large objects, and how much of their links they used."""
    made = runs(mb_per_s, "throughput_mb_per_s", spread=0.002 * mb_per_s, object_size_bytes=LARGE, **columns)
    return made.assign(link_used_percent=100 * made["throughput_mb_per_s"] / (gbit * GBIT))


def one_client() -> dict[str, pd.DataFrame]:
    """2012: the table of threads, and the limits that the slides name."""
    same = {"store": "uds1", "clients": 1} | SHARED
    parts = []
    for r in published.load("uds1_2012_single_client_threads").itertuples():
        axes = same | {
            "workload": {"upload": "put", "download": "get"}[r.operation],
            "workers": r.threads,
            "buckets": 1,
        }
        if r.object_size_printed == "4 kB":
            parts.append(runs(r.files_per_s, spread=r.files_per_s_err, object_size_bytes=SMALL, **axes))
        else:
            made = runs(r.mb_per_s, "throughput_mb_per_s", r.mb_per_s_err, object_size_bytes=10**7, **axes)
            parts.append(made.assign(link_used_percent=100 * made["throughput_mb_per_s"] / GBIT))
    small = same | {"object_size_bytes": SMALL}
    limit = published.headline("uds1_2012", "download 4 kB, client limit")
    buckets = published.headline("uds1_2012", "upload 4 kB, 5 buckets")
    parts.append(runs(limit, workload="get", workers=16, buckets=1, **small))  # never printed: its sockets ended
    parts.append(runs(limit, workload="get", workers=16, buckets=5, **small))  # in words: no more with more buckets
    parts.append(runs(buckets, workload="put", workers=200, buckets=5, **small))
    used = [runs(100, "ports_percent", 0, workload="get", workers=w, object_size_bytes=SMALL, **same) for w in (16, 40)]
    full = {"workers": 150, "object_size_bytes": 10**7} | same
    used += [runs(100, "host_memory_percent", 0, workload=w, **full) for w in ("put", "get")]
    return {"throughput": pd.concat(parts), "resources": pd.concat(used)}


def front_ends_2013() -> dict[str, pd.DataFrame]:
    """2013: five, 20 and 21 clients, 1 to 7 front-ends of three clients, accounts, a chassis."""
    head, same = published.headline, {"store": "uds1", "workers": 10} | SHARED
    whole, accounts, each = (
        same | {"front_ends": 7, "buckets": 100},
        published.ACCOUNTS,
        published.load("uds_headlines"),
    )
    each = each[each["setting"] == "per front-end, 3 clients x 10 threads"].set_index("quantity")["value"]
    small = same | {"object_size_bytes": SMALL, "buckets": 100}
    many = {"clients": 21, "accounts": 21, "buckets": 2100}
    most = head("uds1_2013", "upload 4 kB", accounts)
    half, alone = {"clients": 21}, {"clients": 21, "buckets": 1}  # one account: 100 buckets, or one
    parts = [
        runs(head("uds1_2013", "upload 4 kB", "5 clients"), workload="put", clients=5, front_ends=7, **small),
        *(
            runs(head("uds1_2013", "download 4 kB", f"{n} clients"), workload="get", clients=n, front_ends=7, **small)
            for n in (5, 20)
        ),
        transfers(5 * GBIT, LINKS[5], workload="get", clients=5, **whole),
        transfers(5 * GBIT, LINKS[5], workload="put", clients=5, **whole),
        transfers(18 * GBIT, LINKS[20], workload="get", clients=20, **whole),
        transfers(18 * GBIT, LINKS[21], workload="put", **whole | many),
        runs(most, workload="put", front_ends=7, **small | many),
        runs(most / 2, workload="put", front_ends=7, **small | half),
        runs(most / 2 * IN_WORDS["one_bucket"], workload="put", front_ends=7, **small | alone),
    ]
    for n in range(1, 8):
        axes = same | {"front_ends": n, "clients": 3 * n, "buckets": 100}
        parts.append(transfers(n * each["download throughput"], min(3 * n, 20), workload="get", **axes))
    share = [
        runs(0, "spread_percent", 0, workload="get", object_size_bytes=LARGE, front_ends=n, clients=3 * n, **same)
        for n in range(2, 8)
    ]
    cold = head("uds1_2013", "download 4 kB, linear until")
    for n in (5, 10, 15, 20):
        axes = small | {"access": "cold", "front_ends": 7}
        parts.append(runs(cold * n / 20, workload="get", clients=n, **axes))
    chassis = published.chassis()
    lost = {"store": "uds1", "workload": "roles", "fault": "drives-gone", "beyond_redundancy": 0}
    gone = [
        runs(IN_WORDS["suffer"][does], "degraded_ratio", does=does, role=does, **lost).assign(
            failed_operations=chassis["failed"], whole_after_s=chassis["whole_s"]
        )
        for does in ("put", "get")
    ]
    return {"throughput": pd.concat(parts), "traffic": pd.concat(share), "recovery": pd.concat(gone)}


def ihep() -> dict[str, pd.DataFrame]:
    """IHEP, 2012: three copies, and what listings did."""
    head, copies = published.headline, {"store": "ceph-copies", "object_size_bytes": SMALL, "clients": 5}
    rates = [
        runs(head("uds_ihep_2012", f"{name} 4 kB"), workload=does, **copies)
        for name, does in (("upload", "put"), ("download", "get"))
    ]
    seen = ("listed_bucket_exists", "listing_works", "comes_back_listed")
    rows = [{"store": "uds-ihep", "scenario": s, "tried": 1, "anomalies": IN_WORDS["seen"]} for s in seen]
    return {"throughput": pd.concat(rates), "consistency": pd.DataFrame(rows)}


def paper_2015() -> dict[str, pd.DataFrame]:
    """2015: what a front-end adds until the network is full, Table 1, Table 2, reads of many clients."""
    head, parts, full = published.headline, [], published.headline("uds2_2015", "network limit, reached")
    for system, front_ends in published.load("systems_2015").set_index("system")["front_ends"].dropna().items():
        for n in range(1, int(front_ends) + 1) if system != "uds-ihep" else ():
            axes = {"store": system, "front_ends": n, "clients": 64, "workers": 4} | SHARED
            for name, does in (("download", "get"), ("upload", "put")):
                mb_per_s = min(n * head(f"{system}_2015", f"{name} 100 MB"), full * GBIT)
                parts.append(transfers(mb_per_s, full, workload=does, **axes))
            small = axes | {"object_size_bytes": SMALL}
            parts.append(runs(n * head(f"{system}_2015", "download 4 kB"), workload="get", **small))
            parts.append(runs(IN_WORDS["uploads"], workload="put", **small))
    answers = published.load("systems_2015").dropna(subset="multi_range_get")
    answers = answers.assign(store=answers["system"], answer=answers["multi_range_get"], check="multi-range 2")
    slowed = {"store": "uds2", "does": "put", "phase": "during", "deletions.workers": 400, "deletions.batch": 1}
    deleted = {"does": "delete", "operations": 1000, "errors": 0, "key": "deletions"}
    return {
        "throughput": pd.concat(parts),
        "sparse": pd.concat([table_2(), many_readers(full)]),
        "capabilities": answers[["store", "check", "answer"]],
        "roles": pd.concat(
            [
                runs(IN_WORDS["slowed"], "rate_over_before_ratio", **slowed),
                pd.DataFrame([{"store": "uds2", "phase": "during"} | deleted]),
            ]
        ),
        "releases": pd.DataFrame([{"store": "uds2", "workload": "replicate", "behind": 0, "published_days": 110}]),
    }


def table_2() -> pd.DataFrame:
    """Table 2: one client reads entries of all branches."""
    same = {"store": "uds1", "workload": "read_entries", "volume_fraction_percent": 100.0, "clients": 1, "buckets": 1}
    out = []
    for r in published.share_amplification().itertuples():
        axes = same | {"entry_fraction_percent": float(r.percent_of_entries), "file_size": "L"}
        row = {"clusters_per_read": r.read_calls, "entries_per_read": r.entries, "file_entries": 11918.0}
        row |= {"share_amplification_ratio": r.share_amplification_ratio, "file_clusters": 23.0}
        out.append(runs(r.volume_mb, "wire_mb_per_read", 0, **axes).assign(**row))
    return pd.concat(out)


def many_readers(gbit: float) -> pd.DataFrame:
    """Figures 9 to 14 in words: parts of the network's capacity that 1 to 128 clients used."""
    out = []
    for what, buckets, shares in IN_WORDS["readers"]:
        for clients, share in shares.items():
            axes = {"store": "uds1", "clients": clients, "buckets": buckets, "file_size": "L"}
            axes |= {"workload": "read_volume" if "entry_fraction_percent" not in what else "read_entries"} | what
            used = runs(share * gbit * GBIT, "wire_mb_per_s", spread=0.004 * share * gbit * GBIT, **axes)
            out.append(used.assign(link_used_percent=100 * used["wire_mb_per_s"] / (gbit * GBIT)))
    return pd.concat(out)


def storage_lab() -> pd.DataFrame:
    """2010: both use cases; `vanilla` clients read ahead, all others were tuned."""
    table = published.load("hepix_2010_storage_lab").dropna(subset="events")
    out = []
    for r in table.itertuples():
        vanilla = r.solution.endswith(" vanilla")
        axes = {"store": r.solution.removesuffix(" vanilla"), "workload": "events", "clients": r.threads}
        axes |= {
            "navigation": {"ATLAS": "random", "CMS": "scan"}[r.use_case],
            "engine": "fsspec" if vanilla else "planned",
        }
        axes |= {"cache": "readahead" if vanilla else "none", "read_ahead_bytes": 2**21 if vanilla else 0}
        out.append(
            runs(r.events, "events_per_s", spread=0.001 * r.events, **axes).assign(
                wire_bytes_per_event=r.mb_per_s / r.events
            )
        )
    return pd.concat(out)


FILLED = {1: 0.1, 64: 1.0, 128: 1.0}  # fraction of the network that this number of clients used
GROWN = {1: 0.01, 8: 0.08, 64: 0.64}
IN_WORDS = {
    "seen": 1,  # "does not exist", "fails again and again", "come back": once at least
    "suffer": {"put": 0.5, "get": 0.6},  # uploads suffer more: 10 % at least
    "one_bucket": 0.8,  # more buckets, more uploads: 10 % at least
    "uploads": 1400.0,  # front-ends are not the limit: the same with each number
    "slowed": 0.9,  # only a little
    "readers": [
        # 1 % falls when too many clients share it, and grows where each machine has its own; 50 and 100 % fill.
        ({"volume_fraction_percent": 1.0}, 1, {1: 0.1, 8: 0.5, 64: 0.4, 128: 0.2}),
        ({"volume_fraction_percent": 1.0}, 64, {1: 0.1, 8: 0.5, 64: 0.8, 128: 0.8}),
        *(({"volume_fraction_percent": v}, b, FILLED) for v in (50.0, 100.0) for b in (1, 64)),
        # all entries and 0.1 % fill it; one entry only with copies
        *(({"entry_fraction_percent": e, "volume_fraction_percent": 100.0}, 1, FILLED) for e in (100.0, 0.1)),
        ({"entry_fraction_percent": 0.001, "volume_fraction_percent": 100.0}, 1, {1: 0.1, 64: 0.5, 128: 0.4}),
        *(({"entry_fraction_percent": e, "volume_fraction_percent": 100.0}, 64, FILLED) for e in (100.0, 0.1, 0.001)),
        *(
            ({"entry_fraction_percent": e, "volume_fraction_percent": v}, 64, GROWN)
            for e in (100.0, 0.1)
            for v in (50.0, 1.0)
        ),
    ],
}


@cache
def sources() -> dict[str, dict[str, pd.DataFrame]]:
    return {
        REVIEW_2012: one_client(),
        REVIEW_2013: front_ends_2013(),
        IHEP: ihep(),
        PAPER_2015: paper_2015(),
        HEPIX: {"events": storage_lab()},
    }


@pytest.mark.parametrize("name", published.findings())
def test_source_confirms_its_finding(name):
    claim = published.findings()[name]
    found = table_of.judged({name: claim}, sources()[claim["source"]])
    assert set(found["verdict"]) == {"confirmed"}, found[
        ["system", "verdict", "value", "evidence", "reason"]
    ].to_string()


def test_all_findings_at_once_are_confirmed():
    """Chance is corrected for over all findings, as in a campaign."""
    for source, tables in sources().items():
        own = {name: c for name, c in published.findings().items() if c["source"] == source}
        assert set(table_of.judged(own, tables)["verdict"]) == {"confirmed"}, source


def test_printed_tables_are_those_of_the_sources():
    folder = ROOT.parent / "shared" / "published"
    if not folder.is_dir():
        pytest.skip("data: ../shared/published is not there")
    for name in published.NAMES:
        ours, theirs = published.load(name), pd.read_csv(folder / f"{name}.csv")
        added = ours["quantity"] == "failed operations" if "quantity" in ours else np.zeros(len(ours), dtype=bool)
        assert ours[~added].to_csv(index=False) == theirs.to_csv(index=False), name
        assert added.sum() == (name == "uds_headlines"), "the only number that is in a sentence"
