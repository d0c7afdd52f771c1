"""Every campaign file, on its own store and on each known S3 system: what `storelab check` finds before it looks at this machine."""

import pytest
import yaml
from paths import ROOT

from storelab.core import config, plan
from storelab.core.errors import UserError
from storelab.measure import check
from storelab.stores import all_stores
from storelab.stores.s3.presets import PRESETS
from storelab.workloads import WORKLOADS

CAMPAIGNS = sorted(p.stem for p in (ROOT / "campaigns").glob("*.yaml"))
NO_FILE = "'mine' is no scale and no name in `files`; one of: S, M, L; or name your file in `files`"
FOUR = "axes.front_ends: store uds (kind s3) has at most 4; list more of them in the configuration, or sweep fewer"
REFUSED = {  # (campaign, preset; None: its own stores) -> what the line says; all others are planned
    ("own-file", None): NO_FILE,
    **{("own-file", preset): NO_FILE for preset in PRESETS},
    **{
        ("redundancy", preset): "sweeps.ceph_upload.stores: 'ceph' is none of the campaign's stores; used: uds"
        for preset in PRESETS
    },
    **{
        ("reference", preset): "sweeps.volume.stores: 'seaweedfs' is none of the campaign's stores; used: uds"
        for preset in PRESETS
    },
    **{
        ("fill", preset): "sweeps.overwrites.stores: 'ceph' is none of the campaign's stores; used: uds"
        for preset in PRESETS
    },
    **{
        (name, preset): f"sweeps.{sweep}.stores: 'ceph' is none of the campaign's stores; used: uds"
        for name, sweep in (("faults", "uploads"), ("degraded", "reads"))
        for preset in PRESETS
    },
    **{
        (name, preset): "sweeps.capabilities_s3.stores: 'seaweedfs' is none of the campaign's stores"
        for name in ("systems", "probes")
        for preset in PRESETS
    },
    # The system of 2013 had seven front-ends.
    **{("openlab2013", preset): FOUR for preset in PRESETS if preset != "huawei-uds-1"},
    (
        "bigfiles",
        "huawei-uds-1",
    ): "sweeps.upload.axes.part_size: store uds takes no multipart uploads; leave it out: each object goes in a",
}


def at(preset: str) -> dict:
    """An endpoint of that system, with its documented front-ends and as many accounts as a campaign asks for; nothing is asked of it."""
    ends = [f"https://front-end-{i}.example.org" for i in range(PRESETS[preset].front_ends or 4)]
    settings = {"kind": "s3", "preset": preset, "endpoint": ends, "profiles": [f"account-{i}" for i in range(1, 21)]}
    return {"stores": {"uds": settings}, "use_stores": ["uds"]}


def checked(campaign: str, preset: str | None, **more) -> int:
    """Points of the plan, held against limits, stores and engines. Raises UserError."""
    settings = config.load(
        ROOT / "config.yaml", overrides={"campaign": campaign} | (at(preset) if preset else {}) | more
    )
    points = plan.make(settings, WORKLOADS)
    check.limits(settings, points)
    check.rights(settings, points, WORKLOADS, all_stores(settings))
    return len(points)


@pytest.mark.parametrize("preset", [None, *PRESETS], ids=lambda p: p or "own")
@pytest.mark.parametrize("campaign", CAMPAIGNS)
def test_planned_or_refused_as_expected(campaign, preset):
    line = REFUSED.get((campaign, preset))
    if line is None:
        assert checked(campaign, preset) > 5
        return
    with pytest.raises(UserError) as caught:
        checked(campaign, preset)
    assert line in str(caught.value) and "\n" not in str(caught.value)


def test_the_reference_is_planned_where_its_testbed_is():
    """The file that its own comment names: all its stores have two front-ends there, and the null server an address."""
    settings = config.load(ROOT / "config.yaml", [ROOT / "envs/testbed-links.yaml"], {"campaign": "reference"})
    check.limits(settings, plan.make(settings, WORKLOADS))
    ends = {name: settings.stores[name].front_end_addresses for name in settings.use_stores}
    assert set(ends) == {"seaweedfs", "ceph", "versitygw"} and all(
        e == ["10.99.0.241", "10.99.0.242"] for e in ends.values()
    )
    assert settings.launcher.kind == "srun" and settings.stores["nullserver"].address == settings.launcher.address


def test_a_file_of_ones_own_is_planned_where_it_is_named():
    assert checked("own-file", None, files={"mine": {"path": "/data/mine.root"}}) > 5


def test_no_expected_refusal_is_of_a_campaign_that_is_gone():
    assert {campaign for campaign, _ in REFUSED} <= set(CAMPAIGNS)


# The evaluations of 2010-2015

SMALL = {
    "openlab2013": 0.1,
    "chep2015": 0.03125,
    "ihep": 0.03,
    "hepix2010": 0.05,
    "threads2012": 0.1,
}  # as the files say


def planned(campaign: str, **more) -> list:
    settings = config.load(ROOT / "config.yaml", overrides={"campaign": campaign, "calibrate": False} | more)
    return plan.make(settings, WORKLOADS)


@pytest.mark.parametrize("campaign", SMALL)
def test_an_evaluation_is_a_rehearsal_of_minutes_at_its_small_factor(campaign):
    points = planned(campaign, scale=SMALL[campaign], repetitions=1)
    seconds = sum(p.fixed["duration_ns"] for p in points) / 1e9 + 2 * len(points)  # as `storelab check` estimates
    assert seconds <= 25 * 60
    assert {(p.sweep, p.workload) for p in points} == {(p.sweep, p.workload) for p in planned(campaign, repetitions=1)}
    text = (ROOT / "campaigns" / f"{campaign}.yaml").read_text()
    assert f"scale={SMALL[campaign]:g}" in text
    preset = "huawei-uds-1"
    assert checked(campaign, preset, scale=SMALL[campaign], calibrate=False) > 2


def test_a_rehearsal_has_its_stores_in_memory():
    """As the comment of chep2015 says."""
    file = ROOT / "envs" / "memory.yaml"
    settings = config.load(ROOT / "config.yaml", [file], {"campaign": "chep2015", "scale": SMALL["chep2015"]})
    named = yaml.safe_load(file.read_text())["stores"]
    assert settings.use_stores[0] in named and all(settings.stores[name].backing == "tmpfs" for name in named)
    assert "--configfile envs/memory.yaml" in (ROOT / "campaigns" / "chep2015.yaml").read_text()
    check.limits(settings, plan.make(settings, WORKLOADS))


def test_the_evaluation_of_2013_has_its_shape():
    points = planned("openlab2013", repetitions=1)
    grid = {(p.axes["front_ends"], p.axes["clients"]) for p in points if p.sweep == "front_ends_upload"}
    assert grid == {(n, 3 * n) for n in range(1, 8)} and all(
        p.axes["workers"] == 10 for p in points if p.sweep.startswith("front_ends")
    )
    accounts = [p for p in points if p.sweep.startswith(("accounts", "buckets"))]
    assert all(p.axes["buckets"] <= 100 * p.axes["accounts"] for p in accounts)
    assert {1, 2100} <= {p.axes["buckets"] for p in accounts} and {1, 21} <= {p.axes["accounts"] for p in accounts}
    cold = {p.axes["access"] for p in points if p.sweep == "no_cache"}
    assert cold == {"once", "cold"}


def test_the_paper_of_2015_has_its_shape():
    points = planned("chep2015", repetitions=1)

    def of(sweep: str, *axes: str) -> set:
        return {tuple(p.axes[a] for a in axes) for p in points if p.sweep == sweep}

    for sweep in ("throughput_download", "throughput_upload", "metadata_download", "metadata_upload"):
        counts = {c for c, _ in of(sweep, "clients", "front_ends")}
        assert len(counts) > 3 and 128 in counts, "also two clients a machine"
        assert of(sweep, "clients", "front_ends") == {(c, f) for c in counts for f in (1, 2, 4)}
        assert of(sweep, "engine") == {("s5cmd",), ("obstore",)}
    assert of("volume_shared", "buckets") == {(1,)} and of("volume_copies", "buckets") == {(64,)}
    everything = of("entries_of_branches", "entry_fraction", "volume_fraction")
    assert everything == {(e, v) for e in (100, 0.1, 0.001) for v in (50, 1)}
    beside = [p for p in points if p.workload == "read_entries" and p.axes["engine"] == "planned"]
    beside = [p for p in beside if (p.axes["buckets"], p.axes["volume_fraction"]) == (1, 100)]
    ranges = {(p.axes["transport"], p.axes["entry_fraction"], p.axes["clients"]) for p in beside}
    assert ranges >= {(t, e, c) for t in ("default", "http") for e in (0.1, 0.001) for c in (1, 8, 64)}


def test_copies_and_shards_of_ihep_differ_in_nothing_else():
    settings = config.load(ROOT / "config.yaml", overrides={"campaign": "ihep"})
    copies, shards = (settings.stores[n].model_dump() for n in ("ceph-copies", "ceph-shards"))
    assert {k for k in copies if copies[k] != shards[k]} == {"port", "redundancy"}
    assert (copies["redundancy"], shards["redundancy"], shards["servers"]) == ("replica-3", "ec-9-3", 12)
    for p in planned("ihep"):
        assert (p.axes["clients"], p.axes["buckets"], p.axes["accounts"]) == (5, 500, 5)


def test_a_limit_that_is_broken_says_which_factor_would_fit():
    """A hundred buckets an account: two accounts for 200, or half the factor."""
    axes = {"object_size": "4 kB", "buckets": 200, "clients": 2}
    sweeps = {"s": {"workload": "put", "axes": axes, "scaled_axes": ["buckets"]}}
    more = {"sweeps": sweeps, "limits": {"buckets": 1000}}
    with pytest.raises(UserError) as caught:
        checked("delete", "huawei-uds-1", **more)
    assert caught.value.mend == "sweep at most 100 buckets, or 2 `accounts`, or set `scale` to 0.502"
    assert checked("delete", "huawei-uds-1", scale=0.502, **more)
    axes["accounts"] = 2
    assert checked("delete", "huawei-uds-1", **more)
