"""Least and most values that a campaign may give, defaults that nobody writes down, and what axes are to figures."""

import pyarrow.parquet as pq
import pytest
from paths import ROOT
from pydantic import ValidationError

from storelab.core import axes, campaign, model, records
from storelab.core.campaign import Limits, Sweep
from storelab.core.campaign.claims import Claim
from storelab.core.campaign.faults import Moment
from storelab.core.campaign.mixes import Mix
from storelab.core.campaign.release import Release, Tree
from storelab.core.plan import sweeps
from storelab.workloads import WORKLOADS

SAID = {"says": "So it is.", "source": "somebody", "table": "anomalies", "rule": "count", "metric": "anomalies"}
GET = {"workload": "get", "axes": {}}
EVERY = {a.name: a for w in WORKLOADS.values() for a in w.axes} | dict(axes.ALL)
# Axes whose values put more on a store: figures sort by them and take the least or the most.
LOAD = (
    "accounts batch buckets clients front_ends keys_per_worker max_amplification max_range_gap merge offset page_size "
    "parallel_parts part_size thrift workers"
)
# What people are told even where all points have the same.
TOLD = (
    "cache entry_fraction keys max_range_gap mix navigation object_size pattern range_size read_ahead scale sizes step "
    "stratum0 volume_fraction"
)
CURVE = "buckets clients front_ends workers"  # a curve of scaling runs along them
CEILING = (  # a point and its ceiling agree in them
    "batch clients clients_per_node engine keys object_size operation page_size parallel_parts part_size payload "
    "prefix_depth range_size scheme workers"
)
HEADINGS = {
    "arrival_rate": "Due/s",
    "front_ends": "Front-ends",
    "expired": "Expired",
    "read_ahead": "Read-ahead",
    "deletions": "Deletions [%]",
    "volume_fraction": "Volume [%]",
    "fill": "Full [%]",
}


@pytest.mark.parametrize(("flag", "names"), [("load", LOAD), ("told", TOLD), ("curve", CURVE), ("ceiling", CEILING)])
def test_what_axes_are_to_figures_and_ceilings(flag, names):
    assert sorted(name for name, axis in EVERY.items() if getattr(axis, flag)) == names.split()


def test_headings_are_short():
    assert {name: EVERY[name].heading for name in HEADINGS} == HEADINGS
    assert EVERY["read_ahead"].words == "{} read ahead"


def test_defaults_of_axes_that_do_nothing():
    for name in ("fill", "max_amplification", "prefix_depth", "read_ahead"):
        assert EVERY[name].minimum == 0 == EVERY[name].default, name
    assert (EVERY["most_buckets"].default, EVERY["most_buckets"].minimum) == (120, 0), (
        "one more than Amazon's and UDS's 100"
    )
    assert (EVERY["keys"].default, EVERY["page_size"].default) == (1000, 1000), "as S3 answers at most"
    assert EVERY["start_files"].default == 200


def good(of, **values):
    return of.model_validate(values)


@pytest.mark.parametrize(
    ("of", "rest", "name", "least", "most"),
    [
        (Limits, {}, "buckets", 1, None),
        (Limits, {}, "objects", 1, None),
        (Limits, {}, "clients", 1, None),
        (Limits, {}, "connections", 1, None),
        (Limits, {}, "requests_per_s", 1, None),
        (Sweep, GET, "repetitions", 1, None),
        (Sweep, GET, "parts", 1, 1000),
        (Release, {}, "days", 1, 100_000),
        (Release, {}, "files_a_day", 1, 10**8),
    ],
)
def test_least_and_most(of, rest, name, least, most):
    for value in (v for v in (least, most) if v is not None):
        assert getattr(good(of, **rest, **{name: value}), name) == value
    for value in (v for v in (least - 1, most and most + 1) if v is not None):
        with pytest.raises(ValidationError, match=name):
            good(of, **rest, **{name: value})


def test_lists_name_something():
    with pytest.raises(ValidationError, match="stores"):
        good(Sweep, **GET, stores=[])
    with pytest.raises(ValidationError, match="versions"):
        good(Tree, path="x", versions=[])


def test_defaults_that_nobody_writes_down():
    assert campaign.Campaign.model_fields["give_up_after"].default == 5
    assert good(Limits).buckets == 100, "of an account on UDS and Amazon S3"
    assert good(Claim, **SAID, at_most=0).enough == 100
    mix = good(Mix, head=3)
    assert (mix.get, mix.put, mix.head, mix.list) == (0, 0, 3, 0)


def test_a_moment_in_seconds_is_scaled_only_where_it_is_asked():
    assert Moment(5 * 10**9).after(20 * 10**9) == 5 * 10**9
    assert Moment(5 * 10**9).after(20 * 10**9, 0.5) == 25 * 10**8
    assert Moment(None, 25.0).after(20 * 10**9) == 5 * 10**9


def test_bounds_of_any_axis():
    axis = EVERY["clients"]
    assert axis.parse(10**9, "here") == 10**9
    with pytest.raises(model.UserError, match="too large"):
        axis.parse(10**9 + 1, "here")


def test_one_account_has_no_name_in_a_data_set():
    values = {"object_size": 4000, "keys": 10, "prefix_depth": 0, "buckets": 2}
    alone, two = (sweeps.folders_of_keys(7, values | {"accounts": n}) for n in (1, 2))
    assert "accounts" not in alone and alone["name"] == "keys-4kB-10x2" and alone["objects"] == 20
    assert two["accounts"] == 2 and two["name"] == "keys-4kB-10x2-a2"
    payload = {"object_size": 4000, "buckets": 2}
    one, three = (
        sweeps.dataset_of(_Seeded(), "sweeps.x", WORKLOADS["get"], payload | {"accounts": n}, {"objects": 6})
        for n in (1, 3)
    )
    assert "accounts" not in one and one["name"] == "payload-4kB-6x2"
    assert three["accounts"] == 3 and three["name"] == "payload-4kB-6x2a3"


class _Seeded:
    seed = 7


def test_records_in_the_repository_have_the_declared_columns():
    """What was measured and sealed tells which columns records have: a column that is renamed loses them."""
    files = sorted(ROOT.glob("results/*/raw/**/monitor.0.parquet"))[:3]
    if not files:
        pytest.skip("no raw records are unpacked here")
    for path in files:
        assert {*pq.read_schema(path).names} <= {*records.MONITOR}, path


def test_columns_of_a_host_and_of_tries():
    assert {f"{way}_{what}" for way in ("rx", "tx") for what in ("bytes", "packets")} <= {*records.MONITOR}
    assert {*records.SCENARIOS} == {"client", "scenario", "same_front_end", "tried", "anomalies", "errors"}
