"""numbers.csv and environment.csv: values that the text quotes, definitions, and facts of the machine."""

from types import SimpleNamespace

import pandas as pd
import pytest

from campaigns import built
from storelab.analysis.statistics import medians, steadiness
from storelab.analysis.tables import build, numbers


def test_numbers_of_example():
    table = build.read(built("example"), "numbers")
    value = table.set_index("name")["value"]
    assert table["name"].is_unique
    expected = {"points": "90", "points_measured": "89", "points_failed": "1", "amplification_most": "6.0"}
    expected |= {"best_metadata_download_clients": "4 clients", "amplification_most_entry_fraction": "0.1 %"}
    assert value[[*expected]].to_dict() == expected
    assert float(value["best_metadata_download"]) == pytest.approx(1600, rel=1e-3)


def test_environment_of_example():
    env = build.read(built("example"), "environment")
    (requests,) = env.query("group == 'engine s5cmd' and item == 'requests_per_operation.GET'")["value"]
    assert requests == "2" and env.query("item == 'cpu_model'")["points"].tolist() == [89]


def test_environment_is_counted_and_sorted():
    run = {
        **{
            "store": {"name": "s", "kind": "k", "pools": {".rgw.root": 8}},
            "environment": {"packages": {"z": "1", "a": "2"}, "cores": 2},
        },
        **{"engine": {"name": "e", "version": "1", "settings": {"b": [1, 2], "a": None}}},
        "clients": [{"host": "x"}, {"host": "y"}],
        "checks": [{"name": "c", "ok": True}, {"name": "d", "ok": False}],
    }
    other = run | {"environment": {"cores": 4}, "clients": [{"host": "x"}]}
    table = numbers.environment(SimpleNamespace(runs={"one": run, "two": other, "three": run}))
    rows = [tuple(r) for r in table.itertuples(index=False)]
    machine = (("packages", "a 2, z 1", 2), ("cores", "2", 2), ("cores", "4", 1))
    engine = {"version": "1", "settings.b": "1, 2", "settings.a": "", "requests_per_operation": ""}
    assert rows == sorted(rows) and set(rows) == {
        *{
            ("store s", "kind", "k", 3),
            ("store s", "pools: .rgw.root", "8", 3),
            *(("engine e", item, value, 3) for item, value in engine.items()),
        },
        *{("environment", item, value, n) for item, value, n in machine},
        *{("clients", "hosts", "2", 2), ("clients", "hosts", "1", 1)},
        *{("checks", "c", "passed", 3), ("checks", "d", "failed", 3)},
    }


def test_intervals_steadiness_and_second_stores_are_counted_where_they_are():
    """Single runs have no interval; a second store has no separate point."""
    runs = {"p": {"observed": {"stratum0": {"name": "gw"}}}, "q": {"observed": {"stratum0": {"name": "s"}}}, "r": {}}
    points = pd.DataFrame({"store": "s", "state": ["ok", "ok", "failed"], "steadiness": ["steady", None, "steady"]})
    tables = {name: pd.DataFrame({"n": []}) for name in numbers.COUNTED} | {"points": points}

    def values(**more):
        rows = numbers._runs(SimpleNamespace(runs=runs), tables | more)
        return {name: (value, source) for name, value, _, source in rows}

    single = values(events=pd.DataFrame({"n": [1, 1, 0]}))
    assert single == {"steadiness_judged": (1, "points.csv"), "second_stores": ("gw", "records")}
    text, source = values(releases=pd.DataFrame({"n": [1, 4]}))["interval_text"]
    assert "4 runs" in text and "1 run" not in text and source == "releases.csv"


def test_definitions_are_those_of_the_statistics():
    """Fractions are in percent."""
    content = {name: (value, unit) for name, value, unit in numbers._definitions()}
    for name, fraction in (("still", steadiness.STILL), ("change", steadiness.MIN_CHANGE)):
        value, unit = content[f"steadiness_{name}"]
        assert unit == "%" and 0 < value < 100 and value == pytest.approx(fraction / 0.01)
    assert content["steadiness_confidence"] == (pytest.approx(99), "%"), "1 in 100 steady windows is reported"
    least = next(n for n in range(1, 9) if medians.summarise(range(n)).kind != medians.RANGE)
    assert content["interval_least"][0] == least
