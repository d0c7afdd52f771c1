"""Units: sizes, durations and rates are read with their unit, and printed so that they can be read back."""

import pytest
from refusals import refusal

from storelab.core import units
from storelab.core.errors import UserError


def test_values_are_read_with_their_unit():
    for kind, values in {
        "size": {"100 MB": 10**8, "4kB": 4000, "4 KiB": 4096, "1 MiB": 2**20, "0.5 GB": 5 * 10**8},
        "duration": {"10 s": 10**10, "500 ms": 5 * 10**8, "2 min": 120 * 10**9},
        "rate": {"1 Gbit/s": 125_000_000, "100 MB/s": 10**8},
    }.items():
        assert {text: units.parse(text, kind, "here") for text in values} == values


def test_sizes_without_a_right_unit_are_refused():
    for text in ("100", 100, "100 KB", "MB", "-1 MB", "1 parsec", "", None, True, "1 MB/s"):
        with pytest.raises(UserError, match=r"^here: "):
            units.parse(text, "size", "here")
    assert "'kB'" in refusal(units.parse, "4 KB", "size", "here")


def test_printed_sizes_are_exact():
    for n in (1, 999, 1000, 4000, 4096, 2**20, 10**6, 10**8, 123_456_789, 50 * 2**20, 0):
        assert units.parse(units.format_size(n), "size", "") == n


def test_values_are_rounded_for_users():
    assert units.human_size(1_234_000) == "1.23 MB"
    assert units.human_duration(200e9) == "3 min 20 s"
    assert units.human_duration(3900e9) == "1 h 05 min"
    assert [units.human_duration(s * 1e9) for s in (59.7, 239.8, 3599.8)] == ["1 min 00 s", "4 min 00 s", "1 h 00 min"]
