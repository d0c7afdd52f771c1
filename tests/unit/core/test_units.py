import pytest

from storelab.core import units
from storelab.core.errors import UserError


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("100 MB", "size", 100_000_000),
        ("4kB", "size", 4000),
        ("4 KiB", "size", 4096),
        ("1 MiB", "size", 2**20),
        ("0.5 GB", "size", 500_000_000),
        ("10 s", "duration", 10**10),
        ("500 ms", "duration", 5 * 10**8),
        ("2 min", "duration", 120 * 10**9),
        ("1 Gbit/s", "rate", 125_000_000),
        ("100 MB/s", "rate", 100_000_000),
    ],
)
def test_parse(text, kind, value):
    assert units.parse(text, kind, "here") == value


@pytest.mark.parametrize("text", ["100", 100, "100 KB", "MB", "-1 MB", "1 parsec", "", None, True, "1 MB/s"])
def test_a_size_without_a_right_unit_is_refused(text):
    with pytest.raises(UserError, match=r"^here: "):
        units.parse(text, "size", "here")


def test_the_mend_names_the_right_unit():
    with pytest.raises(UserError, match="did you mean 'kB'"):
        units.parse("4 KB", "size", "here")


@pytest.mark.parametrize("n", [1, 999, 1000, 4000, 4096, 2**20, 10**6, 10**8, 123_456_789, 50 * 2**20, 0])
def test_format_size_is_exact(n):
    assert units.parse(units.format_size(n), "size", "") == n


def test_human():
    assert units.human_size(1_234_000) == "1.23 MB"
    assert units.human_duration(200e9) == "3 min 20 s"
    assert units.human_duration(3900e9) == "1 h 05 min"
