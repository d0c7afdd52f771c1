"""Tables, figure, section and numbers of a campaign in parts, compared with its known values (`soaked`)."""

import math

import pandas as pd
import pyarrow.parquet as pq
import pytest
import soaked
from tex_files import facts

from campaigns import built, copied
from storelab.analysis.figures import catalogue
from storelab.analysis.figures.draw import draw
from storelab.analysis.latex import roles as latex
from storelab.analysis.latex.roles import phases
from storelab.analysis.records import selection
from storelab.analysis.records.campaign import load
from storelab.analysis.tables import build, guarantees, soak
from storelab.analysis.tables.roles import step_ns
from storelab.core import integrity, plan, records
from storelab.core.errors import UserError
from storelab.measure import check
from storelab.stores.config import Config
from storelab.workloads import WORKLOADS

S = 10**9


@pytest.fixture(scope="module")
def tables():
    return {name: build.read(built("soak"), name) for name in build.NAMES}


def configured(**sweep):
    found = soaked.CONFIG | {"sweeps": {"soak": soaked.CONFIG["sweeps"]["soak"] | sweep}}
    return Config.model_validate(found)


def made(**sweep):
    return plan.make(configured(**sweep), WORKLOADS)


# Bins


def test_bins_of_point_and_roles():
    point = made()[0]
    assert point.fixed["bin_ns"] == S and [p.point.fixed["bin_ns"] for p in point.parts()] == [S, S]
    plain = made(bins=None)[0]
    assert "bin_ns" not in plain.fixed and all("bin_ns" not in p.point.fixed for p in plain.parts())


def test_bins_grow_with_scale():
    sweep = soaked.CONFIG["sweeps"]["soak"] | {"warm_up": "0 s"}

    def scaled(factor):
        config = soaked.CONFIG | {"scale": factor, "sweeps": {"soak": sweep}}
        return plan.make(Config.model_validate(config), WORKLOADS)[0].fixed

    for factor, bins, lasts in ((0.5, 0.5, 20), (24, 24, 960)):
        assert (scaled(factor)["bin_ns"], scaled(factor)["duration_ns"]) == (bins * S, lasts * S)
    with pytest.raises(UserError, match=r"sweeps\.soak\.bins: with bins of 0\.1 s"):
        scaled(0.01)


def test_impossible_bins_are_refused():
    with pytest.raises(ValueError, match="'50 ms'"):
        configured(bins="50 ms")
    with pytest.raises(UserError, match=r"sweeps\.soak\.bins: with bins of 3\.7 s"):
        made(bins="3.7 s")
    assert made(bins="3570 ms"), "35.7 s after the warm-up"
    point = made(roles={"r": {"workload": "put", "axes": {"engine": "s5cmd"}}})[0].parts()[0].point
    with pytest.raises(UserError, match=r"sweeps\.soak\.bins: engine s5cmd"):
        check._binned(point)
    check._binned(made(bins=None, roles={"r": {"workload": "put"}})[0].parts()[0].point)
    for part in made()[0].parts():
        check._binned(part.point)


# Series


def test_keys_name_series_and_part():
    cases = [
        ("a/put/part~0007_rep~001", "a/put/rep~001", 7),
        ("a/put/clients~0002_part~0012_rep~001", "a/put/clients~0002_rep~001", 12),
        ("a/roles-x/part~0003_w.part_size~16MiB_rep~002", "a/roles-x/w.part_size~16MiB_rep~002", 3),
        ("a/put/part_size~16MiB_rep~001", "a/put/part_size~16MiB_rep~001", 0),
        ("part~0001_x/put/rep~001", "part~0001_x/put/rep~001", 0),
        ("k", "k", 0),
    ]
    for key, name, part in cases:
        assert selection.split_part(key) == (name, part)


def test_series_have_their_parts_in_order():
    loaded = load(built("soak"))
    found = selection.parts_of(loaded.runs)
    assert sorted(map(len, found.values())) == [3, 12]
    for keys in found.values():
        assert [loaded.runs[k]["point"]["axes"]["part"] for k in keys] == [*range(1, len(keys) + 1)]
    lasts = selection.lengths_ns(loaded.plan)
    assert {lasts[k] for keys in found.values() for k in keys if len(keys) == 12} == {12 * 40 * S}


def test_steps_grow_with_length_of_run_or_series():
    """Seconds of the run and of its series, bin, step."""
    cases = [
        *[(120, None, None, 0.1), (121, None, None, 1), (7200, None, None, 1), (7201, None, None, 60)],
        *[(60, 7200, None, 1), (60, 86400, None, 60), (60, None, 1, 1), (60, 86400, 120, 120)],
    ]
    for seconds, lasts, bins, step in cases:
        fixed = {} if bins is None else {"bin_ns": bins * S}
        run = {"start_ns": 0, "deadline_ns": seconds * S, "point": {"fixed": fixed}}
        assert step_ns(run, lasts and lasts * S) == step * S, (seconds, lasts, bins)


# Tables


def test_parts_have_rates_of_their_roles(tables):
    mine = tables["soak"][tables["soak"]["role"].notna()]
    assert len(mine) == 2 * 12 and list(dict.fromkeys(mine["role"])) == ["readers", "writers"]
    for row in mine.itertuples():
        assert row.rate_per_s == pytest.approx(soaked.rate(row.role, row.part))
        assert row.operations == round(35.7 * soaked.rate(row.role, row.part)) and row.errors == row.errors_percent == 0
        assert row.latency_p99_ms == pytest.approx(soaked.latency_ms(row.role, row.part), rel=0.02)
        assert row.hour == pytest.approx(((row.part - 1) * 600 + 20) / 3600)
        assert row.state == ("invalid" if row.part == soaked.INVALID else "ok")
    assert list(mine[mine["role"] == "readers"]["part"]) == [*range(1, 13)]
    plain = tables["soak"][tables["soak"]["role"].isna()]
    assert list(plain["part"]) == [1, 2, 3] and set(plain["rate_per_s"]) == {300} and set(plain["does"]) == {"get"}


def test_memory_and_files_grow_since_second_quarter(tables):
    for row in tables["soak"].itertuples():
        role = row.role if isinstance(row.role, str) else ""
        clients = 2 if role == "readers" else 1
        for column, of in (("rss_mb", soaked.rss_mb), ("files", soaked.files)):
            last, second = (clients * of("client", role, row.part, q) for q in (3, 1))
            assert getattr(row, f"client_{column}") == last
            assert getattr(row, f"client_{column}_more") == last - second
            assert getattr(row, f"server_{column}") == of("server", "", row.part, 3)
            assert getattr(row, f"server_{column}_more") == 0
    assert set(tables["soak"].query("role == 'writers'")["client_files_more"]) == {1}


def test_trends_are_those_put_in(tables):
    found = tables["soak_trends"].fillna({"role": ""})
    mine = found[found["workload"] == "roles-soak"].set_index(["role", "metric"])
    assert mine.index.is_unique and (mine["n"] == 11).all(), "the invalid part does not count"
    moving = mine[mine["trend"] != "flat"]
    rising = [("writers", name) for name in ("latency_p99", "client_rss_within", "client_files_within")]
    rising += [("", "server_rss"), ("", "server_files")]
    assert dict(moving["trend"]) == dict.fromkeys(rising, "rises") | {("writers", "rate"): "falls"}
    firsts = (soaked.rate("writers", 1), *(of("server", "", 1, 3) for of in (soaked.rss_mb, soaked.files)))
    per_hour = {("writers", "rate"): -12, ("", "server_rss"): 60, ("", "server_files"): 6}
    for (place, slope), first in zip(per_hour.items(), firsts, strict=True):
        row = mine.loc[place]
        slopes = row[["slope_per_hour", "slope_low_per_hour", "slope_high_per_hour"]]
        assert slopes.tolist() == pytest.approx([slope] * 3)
        changes = row[["change_percent", "change_low_percent", "change_high_percent"]]
        assert changes.tolist() == pytest.approx([100 * slope * 11 * 600 / 3600 / first] * 3)
    gathered = mine.loc[("writers", "client_rss_within")]
    assert gathered["slope_per_hour"] == pytest.approx(20 / (20 / 3600)) and gathered["unit"] == "MB"
    few = found[found["workload"] == "get"]
    assert set(few["trend"]) == {"too few"} and set(few["n"]) == {3}
    assert mine.loc[("readers", "errors"), "p"] == 1


def test_timeline_has_steps_of_bins_and_no_figure(tables):
    assert set(tables["timeline"]["step_s"]) == {1}
    assert not [name for name in catalogue.names(load(built("soak")).plan) if name.startswith("timeline")]


def test_older_records_have_no_memory_or_files(tmp_path):
    """Part 2 has no column `files`, part 3 has no monitor."""
    copied("soak", tmp_path)
    old, without = [tmp_path / "raw" / p["key"] for p in load(tmp_path).points if p["sweep"] == "short"][1:]
    table = pq.read_table(old / "monitor.0.parquet").drop_columns(["files"])
    pq.write_table(table, old / "monitor.0.parquet")
    (without / "monitor.0.parquet").unlink()
    for place, schema in ((old, 3), (without, 4)):
        run = records.read_json(place / "run.json") | {"schema": schema}
        head = {k: v for k, v in run.items() if k not in ("files", "sum", "summed", "schema")}
        records.finish(place, head)
        if schema == 3:
            content = records.read_json(place / "run.json") | {"schema": 3}
            records.write_summed(place / "run.json", content)
    integrity.write_sums(tmp_path / "raw")
    build.build(tmp_path, ["soak"])
    found = build.read(tmp_path, "soak").query("does == 'get' and role != role").set_index("part")
    assert found["client_rss_mb"].tolist()[:2] == [80, 80] and math.isnan(found.loc[3, "client_rss_mb"])
    assert found["server_files"].tolist()[:1] == [51] and found["server_files"].isna().tolist() == [False, True, True]


# Numbers, figure, LaTeX


def test_text_quotes_length_and_trends(tables):
    content = {r.name: (r.value, r.unit) for r in tables["numbers"].itertuples() if r.source == "soak.csv"}
    assert content["soak_parts"] == ("11", "") and content["soak_least"] == ("5.0", "%")
    assert float(content["soak_hours"][0]) == pytest.approx((11 * 600 + 40) / 3600, rel=0.01)
    assert float(content["soak_own_memory"][0]) == pytest.approx(100 * 20 / 110)
    assert float(content["soak_own_files"][0]) == 1
    assert content["soak_moving"][0].startswith("rate (writers) fell by 22 %; p99 of the latency (writers) rose by")
    assert "memory of the store rose by" in content["soak_moving"][0] and "readers" not in content["soak_moving"][0]
    assert soak.numbers(tables["soak"][:0], tables["soak_trends"][:0]) == []


def test_figure_has_panel_for_each_series_and_measure(tables):
    fig = draw(catalogue.FIGURES["soak"], tables["soak"], tables["soak_trends"])
    assert len(fig.axes) == 2 * 5
    labels = [t.get_text() for t in fig.legends[0].get_texts()]
    assert labels == ["clients", "readers", "writers", "store", "slope of a rise or fall"]
    drawn = [line for ax in fig.axes if ax.get_ylabel() == "Operations/s" for line in ax.lines]
    lines = {len(line.get_xdata()) for line in drawn}
    assert lines <= {3, 11}
    dashed = [ax for ax in fig.axes if any(line.get_linestyle() == "--" for line in ax.lines)]
    assert len(dashed) == 4, "rate, p99, memory and files of one series"
    assert draw(catalogue.FIGURES["soak"], tables["soak"].assign(state="invalid"), tables["soak_trends"]) is None
    assert draw(catalogue.FIGURES["soak"], tables["soak"][:0], tables["soak_trends"][:0]) is None


def test_figure_shows_at_most_three_series(tables):
    one = tables["soak"][tables["soak"]["role"].isna()]
    many = pd.concat([one.assign(series=f"alpha/get/clients~000{n}_rep~001") for n in range(5)])
    fig = draw(catalogue.FIGURES["soak"], many, tables["soak_trends"][:0])
    assert len(fig.axes) == 3 * 5
    caption = catalogue.caption(catalogue.FIGURES["soak"], many)
    assert caption.endswith("Shown: 3 of 5 series, all are in soak.csv.")


def test_only_plans_with_parts_have_the_figure():
    found = load(built("soak")).plan
    assert "soak" in catalogue.names(found)
    config = Config.model_validate(soaked.CONFIG | {"sweeps": {"get": {"workload": "get"}}})
    other = plan.to_json(config, plan.make(config, WORKLOADS), WORKLOADS)
    assert "soak" not in catalogue.names(records.as_json(other))


def test_paper_has_trends_and_flags(tables):
    text = latex.trends(tables["soak_trends"])
    assert "rate (writers) [operations/s] & 11 & 86 & -12 & -22 & falls" in text
    assert text.count("too few") == 9 and text.count(r"\multicolumn{6}") >= 2
    numbers = {name for name, *_ in soak.numbers(tables["soak"], tables["soak_trends"])}
    assert numbers >= {"soak_moving", "soak_own_memory", "soak_own_files"}
    for rows, few in ((tables["soak_trends"], True), (tables["soak_trends"][:0], False)):
        assert facts(soak_trends=rows)["soak_few"] is few


def test_parts_are_one_row_in_tables_of_roles(tables):
    """Rates of writers fall by 2/s in each part; bounds are those of what all parts read."""
    text = phases(tables["roles"][tables["roles"]["role"] == "writers"])
    rates = sorted(soaked.rate("writers", part) for part in range(1, 13) if part != soaked.INVALID)
    assert text.count("throughout") == 1 and "Rate ratio" not in text
    assert f"& 11 & 35.7 & {rates[5]} [{rates[0]}, {rates[-1]}] &".replace(".0", "") in text.replace(".0", "")
    parts = pd.DataFrame({"store": "a", "workload": "x", "part": [1, 2], "n": 1, "when": "end", "read": [1000, 2000]})
    parts = parts.assign(**dict.fromkeys([c for c in guarantees.DURABILITY_COUNTS if c not in parts], 0))
    (row,) = guarantees.summed(parts).to_dict("records")
    assert (row["n"], row["read"]) == (2, 3000)
    assert row["wrong_upper95_percent"] == pytest.approx(100 * (1 - 0.05 ** (1 / 3000)))


def test_titles_have_the_differences_of_series():
    names = [f"a/roles-x/front_ends~0002_w.workers~000{n}_rep~001" for n in (1, 4)] + ["a/get/clients~0002_rep~001"]
    assert list(soak.titles(names).values()) == ["a, x, w: workers 1", "a, x, w: workers 4", "a, download"]
