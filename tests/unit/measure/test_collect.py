"""Collecting: checksums are written only for records that agree with themselves."""

import random

import collected
import pytest
from collected import FINE, flip, looks, settings
from refusals import refusal

from storelab.core import integrity, plan, records
from storelab.measure import collect
from storelab.workloads import WORKLOADS


@pytest.fixture
def copy(tmp_path):
    return collected.copied(tmp_path)


@pytest.fixture
def campaign(copy):
    """Return the configuration and the points of the copy."""
    config = settings(copy)
    return config, plan.make(config, WORKLOADS)


def test_damaged_files_are_not_collected(copy, campaign):
    assert collect.write_sums(*campaign) and looks(copy) == FINE
    rng = random.Random(3)
    for pattern in ("run.json", "ops.0.parquet", "failed.json", "d.json", "d.baskets.parquet", "plan.json"):
        path = next((copy / "raw").rglob(pattern))
        was, sums = path.read_bytes(), (copy / "raw/SHA256SUMS").read_bytes()
        for _ in range(5):
            flip(path, rng.randrange(len(was)), rng.randrange(1, 256))
            assert "example" in refusal(collect.write_sums, *campaign)
            assert (copy / "raw/SHA256SUMS").read_bytes() == sums
            path.write_bytes(was)


def test_older_heads_are_compared_with_their_sums(copy, campaign):
    """Heads of earlier versions do not contain their own sum."""
    head = next((copy / "raw").rglob("run.json"))
    run = {k: v for k, v in records.read_json(head).items() if k not in records.SUM_KEYS}
    records.write_json(head, run)
    integrity.write_sums(copy / "raw")
    assert collect.write_sums(*campaign)
    records.write_json(head, run | {"start_ns": run["start_ns"] + 1})
    assert "run.json: was altered" in refusal(collect.write_sums, *campaign)


def test_damaged_records_are_measured_again(copy, campaign):
    assert collect.damaged(*campaign) == {}
    table = next((copy / "raw").rglob("reads.0.parquet"))
    flip(table, 9, 255)
    assert list(collect.damaged(*campaign)) == [table.parent.relative_to(copy / "raw").as_posix()]
