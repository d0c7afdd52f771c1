"""Every campaign file, on its own store and on each known S3 system: what `storelab check` finds before it looks at this machine."""

from pathlib import Path

import pytest

from storelab.core import config, plan
from storelab.core.errors import UserError
from storelab.measure import check
from storelab.stores import all_stores
from storelab.stores.s3.presets import PRESETS
from storelab.workloads import WORKLOADS

ROOT = Path(__file__).parents[2]
CAMPAIGNS = sorted(p.stem for p in (ROOT / "campaigns").glob("*.yaml"))
NO_FILE = "'mine' is no scale and no name in `files`; one of: S, M, L; or name your file in `files`"
MANY = "sweeps.accounts_upload.axes.buckets: an account of store uds may have 100 buckets, 700 are asked; sweep fewer buckets, or more `accounts`"
REFUSED = {  # (campaign, preset; None: its own stores) -> what the line says; all others are planned
    ("own-file", None): NO_FILE,
    **{("own-file", preset): NO_FILE for preset in PRESETS},
    **{
        ("redundancy", preset): "sweeps.ceph_upload.stores: 'ceph' is none of the campaign's stores; used: uds"
        for preset in PRESETS
    },
    **{
        ("fill", preset): "sweeps.overwrites.stores: 'ceph' is none of the campaign's stores; used: uds"
        for preset in PRESETS
    },
    **{
        ("faults", preset): "sweeps.uploads.stores: 'ceph' is none of the campaign's stores; used: uds"
        for preset in PRESETS
    },
    **{
        (name, preset): "sweeps.capabilities_s3.stores: 'seaweedfs' is none of the campaign's stores"
        for name in ("systems", "probes")
        for preset in PRESETS
    },
    # Points of one and of few accounts with 2100 buckets are for a store without a bound.
    **{("buckets2013", preset): MANY for preset in PRESETS},
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


def test_a_file_of_ones_own_is_planned_where_it_is_named():
    assert checked("own-file", None, files={"mine": {"path": "/data/mine.root"}}) > 5


def test_no_expected_refusal_is_of_a_campaign_that_is_gone():
    assert {campaign for campaign, _ in REFUSED} <= set(CAMPAIGNS)
