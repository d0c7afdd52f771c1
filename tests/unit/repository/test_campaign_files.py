"""Check every campaign file on its own store and on each known S3 system, as `storelab check` does before it runs."""

import pytest
import yaml
from paths import ROOT

from storelab.core import plan
from storelab.core.errors import UserError
from storelab.measure import check
from storelab.stores import all_stores, config
from storelab.stores.s3 import PRESETS
from storelab.workloads import WORKLOADS

CAMPAIGNS = sorted(p.stem for p in (ROOT / "campaigns").glob("*.yaml"))
NO_STORE = {  # campaigns that name a store in a sweep: refused where only an S3 system is used
    **{"redundancy": ("ceph_upload", "ceph"), "fill": ("overwrites", "ceph"), "reference": ("volume", "seaweedfs")},
    **{"throughput2015": ("least_cpu_download", "seaweedfs"), "reads2015": ("volume_shared", "seaweedfs")},
    **{"entries2015": ("few", "seaweedfs")},
    **{"buckets2013": ("no_cache", "seaweedfs"), "hepix2010": ("ahead", "ceph")},
    **{"faults": ("uploads", "ceph"), "degraded": ("reads", "ceph")},
    **{"systems": ("capabilities_s3", "seaweedfs"), "probes": ("capabilities_s3", "seaweedfs")},
}
NO_FILE = (".axes.file_size: ", "'mine'")
REFUSED = {  # (campaign, preset; None: its own stores) -> place and value of the refusal
    ("own-file", None): NO_FILE,
    **{("own-file", preset): NO_FILE for preset in PRESETS},
    **{
        (campaign, preset): (f"sweeps.{sweep}.stores", repr(store))
        for campaign, (sweep, store) in NO_STORE.items()
        for preset in PRESETS
    },
    # The system of 2013 had seven front-ends.
    **{("openlab2013", preset): ("axes.front_ends", "at most 4") for preset in PRESETS if preset != "huawei-uds-1"},
    **{("multirange", preset): ("axes.round_trip_ms", "not managed") for preset in PRESETS},
    ("bigfiles", "huawei-uds-1"): ("sweeps.upload.axes.part_size", "does not support multipart uploads"),
}
# The evaluations of 2010 to 2015, with the factor for a rehearsal that their files recommend.
SMALL = {"openlab2013": 0.1, "chep2015": 0.03125, "ihep": 0.03}


def planned(campaign: str, **more) -> list:
    settings = config.load(ROOT / "config.yaml", overrides={"campaign": campaign, "calibrate": False} | more)
    return plan.make(settings, WORKLOADS)


def checked(campaign: str, preset: str | None, **more) -> int:
    """Return the number of points that pass the limits, on an endpoint of that S3 system. Raises UserError."""
    if preset:
        ends = [f"https://front-end-{i}.example.org" for i in range(PRESETS[preset].front_ends or 4)]
        accounts = [f"account-{i}" for i in range(1, 21)]
        uds = {"kind": "s3", "preset": preset, "endpoint": ends, "profiles": accounts}
        more = {"stores": {"uds": uds}, "stores_to_measure": ["uds"]} | more
    settings = config.load(ROOT / "config.yaml", overrides={"campaign": campaign} | more)
    points = plan.make(settings, WORKLOADS)
    check.limits(settings, points)
    check.rights(settings, points, WORKLOADS, all_stores(settings))
    return len(points)


def test_campaigns_are_planned_or_refused():
    wrong = []
    for case in [(campaign, preset) for campaign in CAMPAIGNS for preset in (None, *PRESETS)]:
        try:
            found = None if checked(*case, repetitions=2) > 1 else ("too few points",)
        except UserError as error:
            found = str(error)
        expected = REFUSED.get(case)
        if bool(found) != bool(expected) or not all(part in found for part in expected or ()):
            wrong.append((case, expected, found))
    assert not wrong
    assert {campaign for campaign, _ in REFUSED} <= set(CAMPAIGNS)
    assert checked("own-file", None, files={"mine": {"path": "/data/mine.root"}}) > 5


def test_reference_is_planned_for_its_testbed():
    """The file that its comment names gives all stores two front-ends, and the null server an address."""
    settings = config.load(ROOT / "config.yaml", [ROOT / "envs/testbed-links.yaml"], {"campaign": "reference"})
    check.limits(settings, plan.make(settings, WORKLOADS))
    ends = {name: settings.stores[name].front_end_addresses for name in settings.stores_to_measure}
    assert ends == {name: ["10.99.0.241", "10.99.0.242"] for name in ("seaweedfs", "ceph", "versitygw")}
    assert settings.launcher.kind == "srun" and settings.stores["nullserver"].address == settings.launcher.address


def test_evaluations_take_minutes_at_their_small_factor():
    for campaign, factor in SMALL.items():
        points = planned(campaign, scale=factor, repetitions=1)
        seconds = sum(p.fixed["duration_ns"] for p in points) / 1e9 + 2 * len(points)  # as `storelab check` estimates
        assert seconds <= 25 * 60, campaign
        whole = {(p.sweep, p.workload) for p in planned(campaign, repetitions=1)}
        assert {(p.sweep, p.workload) for p in points} == whole, campaign
        assert f"scale={factor:g}" in (ROOT / "campaigns" / f"{campaign}.yaml").read_text(), campaign
        assert checked(campaign, "huawei-uds-1", scale=factor, calibrate=False, repetitions=1) > 2, campaign


def test_rehearsal_of_chep2015_has_its_stores_in_memory():
    file = ROOT / "envs" / "memory.yaml"
    settings = config.load(ROOT / "config.yaml", [file], {"campaign": "chep2015", "scale": SMALL["chep2015"]})
    named = yaml.safe_load(file.read_text())["stores"]
    assert settings.stores_to_measure[0] in named and all(settings.stores[name].backing == "tmpfs" for name in named)
    assert "--configfile envs/memory.yaml" in (ROOT / "campaigns" / "chep2015.yaml").read_text()
    check.limits(settings, plan.make(settings, WORKLOADS))


def test_shape_of_openlab2013():
    points = planned("openlab2013", repetitions=1)
    grid = {(p.axes["front_ends"], p.axes["clients"]) for p in points if p.sweep == "front_ends_upload"}
    assert grid == {(n, 3 * n) for n in range(1, 8)}
    assert {p.axes["workers"] for p in points if p.sweep.startswith("front_ends")} == {10}
    accounts = [p for p in points if p.sweep.startswith(("accounts", "buckets"))]
    assert all(p.axes["buckets"] <= 100 * p.axes["accounts"] for p in accounts)
    assert {1, 2100} <= {p.axes["buckets"] for p in accounts} and {1, 21} <= {p.axes["accounts"] for p in accounts}
    assert {p.axes["access"] for p in points if p.sweep == "no_cache"} == {"once", "cold"}


def test_shape_of_chep2015():
    points = planned("chep2015", repetitions=1)

    def swept(sweep: str, *axes: str) -> set:
        return {tuple(p.axes[a] for a in axes) for p in points if p.sweep == sweep}

    for sweep in ("throughput_download", "throughput_upload", "metadata_download", "metadata_upload"):
        counts = {c for c, _ in swept(sweep, "clients", "front_ends")}
        assert len(counts) > 3 and 128 in counts, "also two clients a machine"
        assert swept(sweep, "clients", "front_ends") == {(c, f) for c in counts for f in (1, 2, 4)}
        assert swept(sweep, "engine") == {("s5cmd",), ("obstore",)}
    assert swept("volume_shared", "buckets") == {(1,)} and swept("volume_copies", "buckets") == {(64,)}
    fractions = swept("entries_of_branches", "entry_fraction", "volume_fraction")
    assert fractions == {(e, v) for e in (100, 0.1, 0.001) for v in (50, 1)}
    reads = [p.axes for p in points if p.workload == "read_entries" and p.axes["engine"] == "planned"]
    reads = [axes for axes in reads if (axes["buckets"], axes["volume_fraction"]) == (1, 100)]
    ranges = {(axes["transport"], axes["entry_fraction"], axes["clients"]) for axes in reads}
    assert ranges >= {(t, e, c) for t in ("default", "http") for e in (0.1, 0.001) for c in (1, 8, 64)}


def test_copies_and_shards_of_ihep_differ_only_in_redundancy():
    settings = config.load(ROOT / "config.yaml", overrides={"campaign": "ihep"})
    copies, shards = (settings.stores[n].model_dump() for n in ("ceph-copies", "ceph-shards"))
    assert {k for k in copies if copies[k] != shards[k]} == {"port", "redundancy"}
    assert (copies["redundancy"], shards["redundancy"], shards["servers"]) == ("replica-3", "ec-9-3", 12)
    assert {tuple(p.axes[a] for a in ("clients", "buckets", "accounts")) for p in planned("ihep")} == {(5, 500, 5)}


def test_broken_limit_names_a_factor_that_fits():
    """An account has at most 100 buckets: 200 need two accounts, or half the factor."""
    axes = {"object_size": "4 kB", "buckets": 200, "clients": 2}
    sweeps = {"s": {"workload": "put", "axes": axes, "scale_axes": ["buckets"]}}
    more = {"sweeps": sweeps, "limits": {"buckets": 1000}}
    with pytest.raises(UserError) as caught:
        checked("delete", "huawei-uds-1", **more)
    assert all(word in caught.value.hint for word in ("100 buckets", "2 `accounts`", "0.502"))
    assert checked("delete", "huawei-uds-1", scale=0.502, **more)
    axes["accounts"] = 2
    assert checked("delete", "huawei-uds-1", **more)
