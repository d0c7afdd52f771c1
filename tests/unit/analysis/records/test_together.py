"""Axes that vary together: rows in the plan, curves along them, and messages about wrong rows."""

import itertools

import numpy as np
import pandas as pd
import pytest
from paths import ROOT
from tex_files import facts

from storelab.analysis.figures import catalogue
from storelab.analysis.figures.draw import draw
from storelab.analysis.latex import rates as latex
from storelab.analysis.latex import templates
from storelab.analysis.latex.templates import Tex
from storelab.analysis.records import selection as couplings
from storelab.analysis.tables import throughput as of_rates
from storelab.core import plan
from storelab.core.errors import UserError
from storelab.core.model import accounts_of
from storelab.measure import check
from storelab.stores import all_stores
from storelab.stores import config as configuration
from storelab.stores.config import Config
from storelab.workloads import WORKLOADS

ROWS = [{"front_ends": n, "clients": 3 * n} for n in (1, 2, 3)]
SWEEP = {"workload": "get", "zip": ROWS, "axes": {"object_size": ["4 kB", "1 MB"]}}
DEFAULTS = {"store": "a", "workload": "get"} | {a.column: a.default for a in WORKLOADS["get"].axes}


def configured(**more) -> Config:
    base = {"campaign": "x", "name": "x", "stores": {"a": {"kind": "seaweedfs"}}, "stores_to_measure": ["a"]}
    return Config.model_validate(base | {"calibrate": False, "repetitions": 1, "sweeps": {"s": SWEEP}} | more)


def made(**more) -> list:
    return plan.make(configured(**more), WORKLOADS)


def values(points, *axes) -> set:
    return {tuple(p.axes[a] for a in axes) for p in points}


def plan_of(**more) -> dict:
    config = configured(**more)
    return plan.to_json(config, plan.make(config, WORKLOADS), WORKLOADS)


# The plan


def test_rows_are_multiplied_with_the_other_axes_and_not_with_each_other():
    points = made()
    expected = {(n, 3 * n, s) for n in (1, 2, 3) for s in (4000, 10**6)}
    assert values(points, "front_ends", "clients", "object_size") == expected and len(points) == 6


def test_columns_say_the_same_as_rows():
    columns = {"front_ends": [1, 2, 3], "clients": [3, 6, 9]}
    assert made(sweeps={"s": SWEEP | {"zip": columns}}) == made()


def test_a_row_may_repeat_a_value_and_points_keep_their_names():
    """A point is the same, whether a product or a row asks for it."""
    rows = {"front_ends": [2, 2], "clients": [1, 4]}
    alone = made(sweeps={"s": {"workload": "get", "axes": {"front_ends": 2, "clients": [1, 4]}}})
    both = made(sweeps={"s": {"workload": "get", "zip": rows}})
    assert [(p.key, p.seed, p.order) for p in both] == [(p.key, p.seed, p.order) for p in alone]


def test_axes_of_roles_combine_with_those_of_point():
    names, rows = ("front_ends", "up.clients", "down.clients"), {(1, 2, 5), (2, 4, 6)}
    roles = {"up": {"workload": "put"}, "down": {"workload": "get", "axes": {"workers": [1, 2]}}}
    together = [dict(zip(names, row, strict=True)) for row in sorted(rows)]
    points = made(sweeps={"s": {"roles": roles, "zip": together}})
    expected = {(*row, w) for row, w in itertools.product(rows, (1, 2))}
    assert values(points, *names, "down.workers") == expected
    assert {(len(p.parts()[0].ranks), len(p.parts()[1].ranks)) for p in points} == {(2, 5), (4, 6)}


def test_factor_scales_axes_and_merges_equal_rows():
    rows = {"front_ends": [1, 2, 4], "clients": [4, 8, 64]}
    sweep = {"workload": "get", "zip": rows, "scale_axes": ["clients"]}
    assert values(made(sweeps={"s": sweep}, scale=0.25), "front_ends", "clients") == {(1, 1), (2, 2), (4, 16)}
    both = sweep | {"scale_axes": ["clients", "front_ends"]}
    assert values(made(sweeps={"s": both}, scale=0.125), "front_ends", "clients") == {(1, 1), (1, 8)}
    assert plan_of(sweeps={"s": both}, scale=0.125)["together"]["s"]["rows"] == [[1, 1], [1, 8]]
    roles = {"up": {"workload": "put", "scale_axes": ["clients"]}}
    sweep = {"roles": roles, "zip": {"front_ends": [1, 2], "up.clients": [10, 20]}}
    assert values(made(sweeps={"s": sweep}, scale=0.5), "front_ends", "up.clients") == {(1, 5), (2, 10)}
    files = {
        "workload": "read_volume",
        "zip": {"file_size": ["L", "M"], "clients": [1, 2]},
        "scale_axes": ["file_size"],
    }
    assert values(made(sweeps={"s": files}, scale=0.1), "file_size", "clients") == {("M", 1), ("S", 2)}


def test_plan_lists_zipped_axes_only():
    assert plan_of()["together"] == {"s": {"axes": ["front_ends", "clients"], "rows": [[1, 3], [2, 6], [3, 9]]}}
    assert "together" not in plan_of(sweeps={"s": {"workload": "get"}})


@pytest.mark.parametrize("order", [("rows", "product"), ("product", "rows")])
def test_a_point_of_both_kinds_of_sweeps_counts_as_one_of_the_product(order):
    sweeps = {"rows": SWEEP, "product": {"workload": "get", "axes": {"front_ends": 3, "clients": [3, 6, 9]}}}
    points = made(sweeps={name: sweeps[name] for name in order})
    (shared,) = [p for p in points if (p.axes["front_ends"], p.axes["clients"], p.axes["object_size"]) == (3, 9, 4000)]
    assert shared.sweep == "product" and sum(p.sweep == "rows" for p in points) == 5


# Wrong rows


def refused(sweep) -> str:
    with pytest.raises(UserError) as caught:
        plan.make(configured(sweeps={"s": sweep}), WORKLOADS)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ([{"front_ends": 1, "clients": 2}, {"front_ends": 2}], "row 2 has front_ends, row 1 has front_ends, clients"),
        ({"front_ends": [1, 2], "clients": [3]}, "columns differ in length (front_ends 2, clients 1 values)"),
        ({"front_ends": [1, 2], "clients": 3}, "'clients': 3 is not a list of values; write rows like"),
        ([], "there are no rows; write rows like"),
        ({"front_ends": [], "clients": []}, "there are no rows; write rows like"),
        ([7], "row 1 is 7; write rows like"),
        ("clients", "'clients' is not a list of rows; write rows like"),
        ({"clients": [1, 2]}, "'clients' is the only axis; add another one, or write it in `axes`"),
    ],
)
def test_wrong_shape_of_rows_names_file_and_key(rows, line):
    with pytest.raises(UserError) as caught:
        over = {"campaign": "smoke", "sweeps": {"s": {"workload": "get", "zip": rows}}}
        configuration.load(ROOT / "config.yaml", overrides=over)
    assert str(caught.value).startswith(f"command line: sweeps.s.zip: {line}") and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"zip": {"clents": [1], "front_ends": [1]}}, "clents: get has no axis 'clents'; did you mean 'clients'?"),
        ({"zip": {"object_size": ["1 MB"], "clients": [1]}}, "object_size: object_size is also in `axes`"),
        ({"zip": {"clients": [1, "two"], "front_ends": [1, 2]}}, "clients: 'two' is not a whole number; give"),
        ({"zip": {"clients": [1, 0], "front_ends": [1, 2]}}, "clients: 0 is too small; give at least 1"),
    ],
)
def test_wrong_axis_or_value_is_reported_at_its_place(change, line):
    assert refused(SWEEP | change).startswith(f"sweeps.s.zip.{line}")


def test_a_row_that_is_there_twice_is_refused():
    rows = {"front_ends": [1, 2, 1], "clients": [1, 1, 1]}
    assert refused(SWEEP | {"zip": rows}).startswith("sweeps.s.zip: row 3 repeats row 1; list it once")


def test_parts_are_no_axis_of_a_row():
    sweep = {"workload": "get", "parts": 2, "zip": {"part": [1, 2], "clients": [1, 2]}}
    assert refused(sweep) == "sweeps.s.zip.part: parts are numbered automatically; write sweeps.s.parts: 24"


def test_axes_of_roles_are_checked_by_role():
    roles = {"up": {"workload": "put", "axes": {"clients": 2}}}
    sweep = {"roles": roles, "zip": {"front_ends": [1], "up.clients": [1]}}
    assert refused(sweep).startswith("sweeps.s.zip.up.clients: up.clients is also in `axes`; remove one of them")
    sweep["zip"] = {"front_ends": [1], "down.clients": [1]}
    assert "sweeps.s.zip.down.clients: roles-s has no axis 'down.clients'" in refused(sweep)


def test_buckets_of_a_row_are_filled_and_scale_axes_known():
    rows = {"buckets": [1, 65], "clients": [1, 2]}
    sweep = {"workload": "get", "objects": 64, "zip": rows}
    assert refused(sweep) == "sweeps.s.objects: 64 objects are too few for 65 buckets; set at least 65"
    assert refused(SWEEP | {"scale_axes": ["workers"]}).endswith(
        "no axis 'workers'; its axes: object_size, front_ends, clients"
    )


def test_missing_feature_of_store_is_reported_at_its_row():
    config = configured(sweeps={"s": {"workload": "get", "zip": {"front_ends": [1, 99], "clients": [1, 2]}}})
    with pytest.raises(UserError) as caught:
        check.everything(config, plan.make(config, WORKLOADS), WORKLOADS, all_stores(config))
    assert caught.value.place == "sweeps.s.zip.front_ends"


# Along the rows


def throughput(rows, speed, **fixed) -> pd.DataFrame:
    """Return a table of groups as `throughput.csv` is: `rows` of axes, the rate of each."""
    names = [a.column for a in WORKLOADS["get"].axes]
    units = (("rate", "per_s"), ("throughput", "mb_per_s"))
    facts = {"n": 3, "interval": "range", "duration_s": 2.0, "shared_host": False}
    out = []
    for row in rows:
        spread = {f"{m}_{part}_{u}": speed(row) for m, u in units for part in ("median", "low", "high")}
        out.append(DEFAULTS | fixed | row | facts | spread)
    head = ["store", "workload", *names, "n"]
    return pd.DataFrame(out, columns=[*head, *(c for c in out[0] if c not in head)])


def lines(fig) -> list:
    """Return (places, values) of every curve."""
    data = [container.lines[0] for ax in fig.axes for container in ax.containers]
    return [([round(float(x), 6) for x in d.get_xdata()], list(map(float, d.get_ydata()))) for d in data]


def test_figure_along_rows_shows_all_values():
    written = plan_of(sweeps={"s": {"workload": "get", "zip": ROWS}})
    figure = catalogue.figures_of_plan(written)["along_front_ends_clients"]
    fig = draw(figure, throughput(ROWS, lambda row: 100.0 * row["front_ends"]))
    (ax,) = fig.axes
    assert [t.get_text() for t in ax.get_xticklabels()] == ["1\n3", "2\n6", "3\n9"]
    assert list(ax.get_xticks()) == [1, 2, 3] and ax.get_xlabel() == "Front-ends and clients together"
    assert lines(fig) == [([1, 2, 3], [100.0, 200.0, 300.0])], "one curve, and no separate points"
    assert "n = 3 runs" in catalogue.caption(figure, throughput(ROWS, lambda _: 1.0))


def test_rows_without_a_number_are_consecutive():
    rows = [{"engine": e, "clients": n} for e, n in (("s5cmd", 2), ("obstore", 5), ("loadgen", 7))]
    written = plan_of(sweeps={"s": {"workload": "get", "zip": rows}})
    fig = draw(
        catalogue.figures_of_plan(written)["along_engine_clients"], throughput(rows, lambda row: 10.0 * row["clients"])
    )
    assert [t.get_text() for t in fig.axes[0].get_xticklabels()] == ["s5cmd\n2", "obstore\n5", "loadgen\n7"]
    assert lines(fig) == [([1, 2, 3], [20.0, 50.0, 70.0])]


def test_other_figures_show_no_lone_points_of_rows_and_keep_what_a_product_asks_for():
    product = {"workload": "get", "axes": {"front_ends": 3, "clients": [3, 6, 9]}}
    written = plan_of(sweeps={"s": {"workload": "get", "zip": ROWS}, "p": product})
    table = throughput([*ROWS, *({"front_ends": 3, "clients": n} for n in (3, 6))], lambda row: 10.0 * row["clients"])
    figures = catalogue.figures_of_plan(written)
    assert lines(draw(figures["metadata_download"], table)) == [([3, 6, 9], [30.0, 60.0, 90.0])]
    assert lines(draw(figures["along_front_ends_clients"], table)) == [([1, 2, 3], [30.0, 60.0, 90.0])]
    alone = plan_of(sweeps={"s": {"workload": "get", "zip": ROWS}})
    assert not {"metadata_download", "front_ends"} & set(catalogue.figures_of_plan(alone))


def test_rows_with_one_value_are_not_single_points_in_figure():
    """Accounts and buckets vary together at two clients; clients are an axis of a figure only if there are more."""
    rows = [{"accounts": n, "buckets": 4 * n} for n in (1, 2)]
    one = plan_of(sweeps={"s": {"workload": "get", "zip": rows, "axes": {"clients": 2}}})
    assert "metadata_download" not in catalogue.figures_of_plan(
        one
    ) and "along_accounts_buckets" in catalogue.figures_of_plan(one)
    more = plan_of(sweeps={"s": {"workload": "get", "zip": rows, "axes": {"clients": [2, 4, 8]}}})
    table = throughput([row | {"clients": c} for row in rows for c in (2, 4, 8)], lambda row: 10.0 * row["clients"])
    curves = lines(draw(catalogue.figures_of_plan(more)["metadata_download"], table))
    assert [y for _, y in curves] == [[20.0, 40.0, 80.0]] * 2


def test_only_sweeps_with_same_rows_share_a_figure():
    up = {"workload": "put", "zip": ROWS}
    other = {"workload": "get", "zip": [{"front_ends": n, "clients": 5 * n} for n in (1, 2)]}
    names = catalogue.names(plan_of(sweeps={"s": {"workload": "get", "zip": ROWS}, "up": up, "other": other}))
    expected = {"along_front_ends_clients", "along_front_ends_clients_again"}
    assert {n for n in names if n.startswith("along") and "latency" not in n} == expected
    assert catalogue.is_built_in("along_x")


def test_user_figure_along_one_axis_has_one_curve():
    mine = {"mine": {"table": "throughput", "x": "front_ends", "y": "rate"}}
    written = plan_of(sweeps={"s": {"workload": "get", "zip": ROWS}}, figures=mine)
    others = [{"front_ends": n, "clients": 9} for n in (1, 2)]
    table = throughput([*ROWS, *others], lambda row: 10.0 * row["clients"])
    assert lines(draw(catalogue.figures_of_plan(written)["mine"], table[:3])) == [([1, 2, 3], [30.0, 60.0, 90.0])]
    product = {"workload": "get", "axes": {"front_ends": [1, 2], "clients": 9}}
    written = plan_of(sweeps={"s": {"workload": "get", "zip": ROWS}, "p": product}, figures=mine)
    fig = draw(catalogue.figures_of_plan(written)["mine"], table)
    curves = {tuple(y) for _, y in lines(fig)}
    assert curves == {(30.0, 60.0, 90.0), (90.0, 90.0)}
    shown = [t.get_text() for t in fig.legends[0].get_texts()]
    assert sorted(shown) == ["9 clients", "with 3 to 9 clients"]


def test_every_group_of_the_plan_is_along_and_no_other():
    written = plan_of(sweeps={"s": SWEEP, "p": {"workload": "get", "axes": {"clients": [3, 4]}}})
    (one,) = couplings.couplings_of(written)
    names = ["front_ends", "clients", "object_size_bytes"]
    every = itertools.product((1, 2, 3), (3, 4, 6, 9), (4000, 10**6, 5))
    table = throughput([dict(zip(names, row, strict=True)) for row in every], lambda _: 1.0)
    kept = table[one.along(table)]
    expected = {(n, 3 * n, s) for n in (1, 2, 3) for s in (4000, 10**6)}
    assert {tuple(row) for row in kept[names].to_numpy().tolist()} == expected
    assert one.only(table).sum() == 5, "3 clients of one front-end are also in the product"


def test_rows_of_part_of_a_grid_are_not_a_coupling():
    rows = [{"clients": c, "front_ends": f} for c, f in ((1, 1), (2, 1), (2, 2), (4, 2))]
    assert couplings.couplings_of(plan_of(sweeps={"s": SWEEP | {"zip": rows}})) == []
    assert len(couplings.couplings_of(plan_of(sweeps={"s": SWEEP | {"zip": rows[:2]}}))) == 1


def test_scaling_has_a_curve_along_the_rows():
    written = plan_of(sweeps={"s": {"workload": "get", "zip": ROWS}})
    rng = np.random.default_rng(5)
    rows = [DEFAULTS | row | {"rep": rep, "state": "ok"} for row in ROWS for rep in range(6)]
    axes = {a.column: {"int": "Int64", "size": "Int64"}.get(a.kind, "string") for a in WORKLOADS["get"].axes}
    points = pd.DataFrame(rows)
    rates = 350.0 * points["front_ends"] * np.exp(rng.normal(0, 0.01, len(points)))
    points = points.assign(overlap_rate_per_s=rates, overlap_throughput_mb_per_s=rates)
    assert of_rates.scaling_table(points, axes).empty, "no axis varies by itself"
    found = of_rates.scaling_table(points, axes, couplings.couplings_of(written))
    (curve,) = found.to_dict("records")
    assert curve["axis"] == "front_ends, clients" and pd.isna(curve["front_ends"]) and pd.isna(curve["clients"])
    assert (curve["least"], curve["most"], curve["values"], curve["n"]) == (1, 3, 3, 18)
    assert curve["linearity_value"] == pytest.approx(1, abs=0.03)
    assert curve["slope_value"] == pytest.approx(350, rel=0.03)
    numbers = {name: value for name, value, _ in of_rates.scaling_numbers(found)}
    assert numbers["linearity_front_ends"].startswith(("1.0", "0.9"))
    assert r"Front-ends (with clients) 1--3" in latex.knees(found)
    unknown = found.assign(curve="undecided")
    assert latex.knees(unknown) == ""


def test_the_paper_has_a_section_for_such_figures():
    points = pd.DataFrame({"front_ends": [1, 2], "clients": [1, 2]})
    for clients, idle in (([1, 2], False), ([1, 1], True)):
        assert facts(points=points.assign(clients=clients))["idle_front_ends"] is idle
    values = {"along": ["along_front_ends_clients"], "figures": {"along_front_ends_clients": Tex("FIGURE")}}
    for names, shown in ((values["along"], True), ([], False)):
        text = templates.render(ROOT / "paper", "sections/along.tex", {**values, "along": names, "has": {}})
        assert (r"\section{Along rows}" in text and "FIGURE" in text) is shown


# Accounts and clients


@pytest.mark.parametrize(("clients", "accounts"), [*itertools.product(range(1, 8), range(1, 8))])
def test_every_account_has_a_client_and_every_client_an_account(clients, accounts):
    used = [accounts_of(i, clients, accounts) for i in range(clients)]
    assert {a for own in used for a in own} == set(range(accounts)) and all(used)
    if accounts <= clients:
        assert used == [(i % accounts,) for i in range(clients)]
    else:
        assert sum(map(len, used)) == accounts, "each has one client"
        assert max(map(len, used)) - min(map(len, used)) <= 1
