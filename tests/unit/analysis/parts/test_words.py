"""Numbers, axes and counts in words."""

import math

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storelab.analysis.parts import labels
from storelab.core import units
from storelab.core.errors import UserError

DURATIONS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9}
PROPERTY = settings(max_examples=150, deadline=None, database=None, derandomize=True)


@pytest.mark.parametrize(
    ("value", "places", "said"),
    [
        (None, None, "--"), (math.nan, None, "--"), (0, None, "0"), (12345, None, "12 345"), (1234, None, "1234"),
        (-12345, None, "-12 345"),
        (-1234.0, None, "-1234"), (1.2345, None, "1.23"), (0.012345, None, "0.0123"), (123.45, None, "123"), (12345.6,
        None, "12 300"),
        (2.5, 0, "2"), (2.345, 2, "2.35"), (1234567.8, 1, "1 234 567.8"), (1.0, 2, "1.00"),
    ],
)  # fmt: skip
def test_numbers(value, places, said):
    assert labels.number(value, places=places) == said


@PROPERTY
@given(st.floats(1e-6, 1e9), st.integers(1, 6))
def test_a_number_keeps_its_significant_digits(value, significant):
    """It differs from the value by at most half of the last digit that is shown."""
    shown = float(labels.number(value, significant, gap=""))
    unit = 10.0 ** (math.floor(math.log10(value)) - significant + 1)
    assert shown == value if value.is_integer() else abs(shown - value) <= unit / 2 * (1 + 1e-9)
    digits = labels.number(value, significant, gap="").replace(".", "").lstrip("0")
    if value.is_integer():
        return
    if labels.decimals(value, significant) <= 0:
        assert len(digits.rstrip("0")) <= significant
    else:
        assert len(digits) == significant


def test_numbers_round_to_power_of_ten_or_zero():
    assert [labels.number(v) for v in (99.95, 9.996, 0.09996, 99.94)] == ["100", "10.0", "0.100", "99.9"]
    assert [labels.number(v, places=2) for v in (-0.004, -0.006, 0.004)] == ["0.00", "-0.01", "0.00"]


def test_user_gap_is_compared():
    assert labels.grouped("1234567.25", "~") == "1~234~567.25" and labels.grouped("-1234") == "-1234"
    assert [labels.decimals(v) for v in (0.0, math.inf, -250)] == [0, 0, 0] and labels.decimals(2500, 2) == -2


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((1.5, 1.25, 2.0), "1.50 [1.25, 2.00]"),
        ((100.04, 100.01, 100.07), "100.04 [100.01, 100.07]"),  # as narrow as 0.06: two decimals, five digits
        ((1000.4, 1000.1, 1000.7), "1000.4 [1000.1, 1000.7]"),
        ((10.00004, 10.00001, 10.00007), "10.000 [10.000, 10.000]"),  # no more than five digits
        ((5.25, 5.25, 5.25), "5.25"),  # one run has no interval
        ((12345.0, 12345.0, 12345.0), "12 345"),
        ((12345.0, 12000.0, 13000.0), "12 300 [12 000, 13 000]"),
        ((4.43, 0.1234, 1234.56), "4.43 [0.12, 1230]"),  # neither end has more digits than the median or itself needs
        ((712.0, 68.123, 98765.4), "712 [68, 98 800]"),
        ((0.005, -1.23456, 20.4), "0.00500 [-1.23, 20.4]"),
        ((math.nan, 1.0, 2.0), "--"),
        ((2.25, None, None), "2.25"),
    ],
)  # fmt: skip
def test_spreads(values, said):
    assert labels.spread(values) == said


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("clients", 1, "1 client"), ("clients", 2.0, "2 clients"), ("workers", 8, "8 workers per client"),
        ("object_size_bytes", 4000, "4 kB objects"),
        ("object_size_bytes", 4096.0, "4 KiB objects"), ("arrival_rate", 0, "closed loop"), ("arrival_rate", 20000,
        "open loop, 20 000 operations/s due"),
        ("arrival_rate", 1_000_000, "open loop, 1 000 000 operations/s due"), ("backing", "default", ""), ("backing",
        "tmpfs", "on tmpfs"),
        ("entry_fraction_percent", 0.1, "0.1 % of entries"), ("workload", "get", "download"), ("workload",
        "read_entries", "read entries"),
        ("nothing_such", 3, "nothing such 3"), ("clients", None, ""), ("clients", math.nan, ""), ("servers", 0, ""),
        ("servers", 3, "3 data servers"),
        ("connections", 64, "connections 64"),
    ],
)  # fmt: skip
def test_axis_values(column, value, said):
    assert labels.value_text(column, value) == said


def test_headings_and_cells():
    columns = ("clients", "object_size_bytes", "entry_fraction_percent", "some_thing_bytes")
    assert [labels.heading(c) for c in columns] == ["Clients", "Objects", "Entries [%]", "Some thing"]
    cells = (("object_size_bytes", 4000.0), ("clients", 2.0), ("engine", "x"), ("clients", None), ("clients", math.nan))
    assert [labels.cell(*c) for c in cells] == ["4 kB", "2", "x", "", ""]


def test_counts():
    stores = ["no stores", "one store", "two stores", "twelve stores", "13 stores"]
    assert [labels.counted(n, "store") for n in (0, 1, 2, 12, 13)] == stores
    assert [labels.plural(n, "run") for n in (0, 1, 2.0)] == ["0 runs", "1 run", "2 runs"]
    assert [labels.runs_text(n) for n in ([3, 3], [1], [4, 2, 3])] == ["3 runs", "1 run", "2 to 4 runs"]
    spans = (([4, 4.0], "s"), ([10, 2, math.nan], "s"), ([], "s"), ([1, 2], ""))
    assert [labels.span(*span) for span in spans] == ["4 s", "2 s to 10 s", "", "1 to 2"]


def test_deployments():
    row = {"store": "ceph", "redundancy": "ec-2-1", "servers": 3, "backing": "default", "scheme": "https"}
    assert labels.deployment(row) == "ceph, ec-2-1, 3 data servers, https"
    assert labels.deployment({"store": "x", "redundancy": math.nan}) == "x"


def test_axes_are_between_workload_and_n():
    table = pd.DataFrame(columns=["store", "workload", "clients", "workers", "n", "rate"])
    assert labels.axes_of(table) == ["clients", "workers"]


def test_bars_and_intervals_are_explained():
    rows = pd.DataFrame({"n": [3, 5, 8], "interval": ["range", "range", "95 % interval"]})
    assert labels.bars_text(rows) == "n = 3 to 8 runs; bars: range (minimum to maximum) or 95 % interval"
    assert labels.bars_text(rows[:1]) == "n = 3 runs; bars: range (minimum to maximum)"
    few, many = labels.interval_text([3, 0, 5, 8]).split("; ")
    covers = "which covers the true median with a probability of"  # 1 - 2 / 2^n
    assert few == f"the range (minimum to maximum) of 3 to 5 runs, {covers} 75 % to 93.8 %"
    assert many.startswith(f"a 95 % interval by interpolated order statistics of 8 runs, {covers} 9")
    assert labels.interval_text([5]).count("of 5 runs") == 1 and "95 %" not in labels.interval_text([5])
    assert labels.interval_text([]) == labels.interval_text([1, 0, 1]) == ""
    assert labels.interval_text([1, 4]) == labels.interval_text([4]), "one run has no interval to describe"
    single = rows.assign(n=[1, 1, 3])
    assert labels.bars_text(single[:2]) == "n = 1 run"
    assert labels.bars_text(single) == "n = 1 to 3 runs; bars: 95 % interval"
    assert labels.interval_text([6]).startswith("a 95 % interval")


def test_shares_of_the_cpu():
    rows = pd.DataFrame({"client_cpu_percent": [40.4, 59.6, None], "server_cpu_percent": [30.0, 30.2, None]})
    assert labels.cpu_shares(rows) == "; CPU: clients 40-60 %, server 30 % of the host"
    assert labels.cpu_shares(rows[["client_cpu_percent"]][2:]) == ""
    assert labels.cpu_shares(rows[["server_cpu_percent"]]) == "; CPU: server 30 % of the host"


# Units


@PROPERTY
@given(st.integers(0, 10**18))
def test_sizes_go_there_and_back(n):
    text = units.format_size(n)
    assert units.parse(text, "size", "") == n
    number, unit = text.split(" ")
    # the largest unit that divides it, decimal ones first
    sizes = {u: 1000**k for k, u in ((5, "PB"), (4, "TB"), (3, "GB"), (2, "MB"), (1, "kB"))}
    sizes |= {u: 1024**k for k, u in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB"))}
    assert unit == next((u for u, size in sizes.items() if n and n % size == 0), "B") and number.isdigit()


@PROPERTY
@given(st.integers(0, 10**6), st.sampled_from([*DURATIONS.items()]))
def test_durations_are_whole_nanoseconds(number, unit):
    name, ns = unit
    assert units.parse(f"{number} {name}", "duration", "x") == number * ns
    if ns > 1:
        assert units.parse(f"{number}.5{name}", "duration", "x") == number * ns + ns // 2


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [("1 kbit/s", "rate", 125), ("8 bit/s", "rate", 1), ("1 Mbit/s", "rate", 125_000), ("1 Tbit/s", "rate",
    125 * 10**9), ("2 KiB/s", "rate", 2048), ("1 PB", "size", 10**15), ("1 PiB", "size", 2**50), ("0.001 kB", "size",
    1)],
)  # fmt: skip
def test_units(text, kind, value):
    assert units.parse(text, kind, "x") == value


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("0.5 B", "size", "'0.5 B' is not a whole number of bytes (write it like 100 MB, 4 kB or 1 MiB)"),
        ("0.1 ns", "duration", "'0.1 ns' is not a whole number of ns (write it like 10 s, 500 ms or 2 min)"),
        ("1 bit/s", "rate", "'1 bit/s' is not a whole number of bytes (write it like 1 Gbit/s or 100 MB/s)"),
        ("1 S", "duration", "the unit 'S' of '1 S' is unknown (did you mean 's'?)"),
        ("1 foo", "duration", "the unit 'foo' of '1 foo' is unknown (write it like 10 s, 500 ms or 2 min)"),
        ("foo", "rate", "'foo' is not a rate with a unit (write it like 1 Gbit/s or 100 MB/s)"),
    ],
)  # fmt: skip
def test_wrong_unit_has_problem_and_hint(text, kind, message):
    with pytest.raises(UserError) as error:
        units.parse(text, kind, "place")
    assert (error.value.problem, error.value.hint) == (message.split(" (")[0], message.split(" (")[1][:-1])


@pytest.mark.parametrize(
    ("n", "said"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (-1500, "-1.5 kB"), (999_999, "1e+03 kB"), (1_000_000, "1 MB"), (1.5e9,
    "1.5 GB"), (2e12, "2 TB"), (3e15, "3 PB")],
)  # fmt: skip
def test_sizes_for_users(n, said):
    assert units.human_size(n) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (10, "10 s"), (59.4, "59 s"), (60, "1 min 00 s"), (61, "1 min 01 s"), (3599,
    "59 min 59 s"), (3600, "1 h 00 min"), (7260, "2 h 01 min")],
)  # fmt: skip
def test_durations_for_users(seconds, said):
    assert units.human_duration(seconds * 1e9) == said
