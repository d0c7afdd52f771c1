"""A made campaign with roles and faults (tests/support/several.py): its tables, figures, words and section, against what was put into it."""

import copy
import json
import math

import pandas as pd
import pytest
import several

from storelab.analysis.figures import catalogue
from storelab.analysis.figures.draw import draw
from storelab.analysis.figures.roles import timeline
from storelab.analysis.parts import words
from storelab.analysis.records.campaign import load
from storelab.analysis.tables import build
from storelab.cli import cli
from storelab.core import config, plan
from storelab.core.errors import UserError
from storelab.workloads import WORKLOADS

REPS = (1, 2, 3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("several") / "several"
    several.write(made)
    build.build(made)
    return made


@pytest.fixture(scope="module")
def tables(folder):
    return {name: build.read(folder, name) for name in build.NAMES}


def row(table, **wanted):
    for column, value in wanted.items():
        table = table[table[column] == value]
    assert len(table) == 1, wanted
    return table.iloc[0]


def spread(found, name, unit):
    return [found[f"{name}_{part}_{unit}"] for part in ("median", "low", "high")]


def test_rates_of_roles_by_phase(tables):
    """Uploads: 100/s, then 40, 30 or 20/s from the kill until the daemon is back, 80/s while the store rebuilds, 100/s."""
    roles = tables["roles"]
    mine = roles[(roles["workload"] == "roles-faults") & (roles["fault"] == "killed") & (roles["role"] == "uploads")]
    assert list(mine["phase"]) == ["before", "during", "rebuilding", "after"] and set(mine["does"]) == {"put"}
    lasts = {"before": 3.02, "during": 2.28, "rebuilding": 1.4, "after": 2.3}
    expected = {"before": (100, 100, 100), "rebuilding": (80, 80, 80), "after": (100, 100, 100)}
    counts = [math.floor(2.28 * rate) for rate in (40, 30, 20)]
    expected["during"] = (counts[1] / 2.28, counts[2] / 2.28, counts[0] / 2.28)
    for phase, rates in expected.items():
        found = row(mine, phase=phase)
        assert found["length_s"] == pytest.approx(lasts[phase]) and found["n"] == 3
        assert spread(found, "rate", "per_s") == pytest.approx(rates, rel=0.004), phase
        assert spread(found, "throughput", "mb_per_s") == pytest.approx(rates, rel=0.004), "objects of 1 MB"
    during, rebuilding = row(mine, phase="during"), row(mine, phase="rebuilding")
    assert spread(during, "rate_over_before", "ratio") == pytest.approx([r / 100 for r in expected["during"]], rel=1e-3)
    assert during["latency_p50_median_ms"] == 60 and during["latency_p50_over_before_median_ratio"] == 3
    assert pd.isna(during["latency_p99_median_ms"]), "fewer than 100 operations cannot tell it"
    assert rebuilding["latency_p99_over_before_median_ratio"] == 1.5
    assert row(mine, phase="before")[["rate_over_before_median_ratio"]].isna().all()
    failed = [sum((end - 4020) * 20 // 1000 for end in [several.noticed(rep)]) + 1 for rep in REPS]
    assert during["errors"] == sum(failed) == mine["errors"].sum()


def test_what_nothing_disturbs_has_one_phase(tables):
    roles = tables["roles"]
    calm = roles[(roles["workload"] == "roles-faults") & (roles["fault"] == "none")]
    assert list(calm["phase"]) == ["throughout"] * 2 and list(calm["role"]) == ["uploads", "downloads"]
    assert list(calm["rate_median_per_s"]) == [100, 200] and list(calm["length_s"]) == [9, 9]


def test_deletions_slow_uploads_down(tables):
    """Figure 16 of 2015: 100/s before, 90, 80 or 70/s beside the deletions, 100/s after them."""
    found = row(tables["roles"], workload="roles-beside", role="uploads", phase="during")
    assert spread(found, "rate_over_before", "ratio") == pytest.approx([0.8, 0.7, 0.9])
    numbers = tables["numbers"].set_index("name")["value"]
    assert numbers["uploads_beside"] == "80.0 [70.0, 90.0]" and numbers["uploads_beside_where"] == "alpha"
    deletions = row(tables["roles"], workload="roles-beside", role="deletions")
    assert deletions["phase"] == "during" and deletions["length_s"] == 2, "its own second of warm-up is cut"
    assert deletions["rate_median_per_s"] == 300


def test_recovery(tables):
    found = tables["recovery"]
    own = found[found["source"] == "measured"]
    assert len(own) == 2 and set(own["fault"]) == {"killed"}
    ups, downs = (row(own, role=role) for role in ("uploads", "downloads"))
    whole = sorted((several.whole(rep) - several.KILLED) / 1000 for rep in REPS)
    for mine in (ups, downs):
        assert spread(mine, "noticed", "s") == pytest.approx([0.68, 0.58, 0.78])
        assert spread(mine, "whole", "s") == pytest.approx([whole[1], whole[0], whole[2]])
        assert mine["whole_after_median_s"] == pytest.approx((several.whole(2) - several.BACK) / 1000)
        assert mine["undone_median_s"] == pytest.approx((several.BACK - several.KILLED) / 1000)
        assert (mine["states_told"], mine["never_noticed"], mine["never_whole"], mine["never_served"]) == (3, 0, 0, 0)
    # Downloads are in bins of 20: the last before the kill ends at 4.0 s, the next one's first 5 ms after its begin.
    begin = sorted(several.served(rep) // 100 * 100 + 5 for rep in REPS)
    assert spread(downs, "pause", "s") == pytest.approx([(at - 4000) / 1000 for at in (begin[1], begin[0], begin[2])])
    assert downs["service_median_s"] == pytest.approx((begin[1] - several.KILLED) / 1000)
    assert downs["failed_operations"] == 0 and downs["pause_before_median_s"] == pytest.approx(0.005)
    assert ups["failed_operations"] == 42 and ups["service_median_s"] == 0
    assert ups["degraded_median_ratio"] == pytest.approx(0.298, abs=1e-3) and ups["rebuilding_median_ratio"] == 0.8


def test_published_recovery_stands_below(tables):
    """7 minutes until the nodes were back, 5 more until all was fully operative; no failed operation."""
    printed = tables["recovery"][tables["recovery"]["source"] != "measured"]
    assert list(printed["does"]) == ["put", "get"] and set(printed["source"]) == {"2013 major review"}
    assert set(printed["failed_operations"]) == {0} and set(printed["whole_after_median_s"]) == {12 * 60}
    numbers = tables["numbers"].set_index("name")["value"]
    assert float(numbers["published_back"]) == 7 and float(numbers["published_operative"]) == 5


def test_durability(tables):
    found = tables["durability"]
    assert list(found["when"]) == ["down", "recovered"] and set(found["n"]) == {3}
    end, down = row(found, when="recovered"), row(found, when="down")
    assert [end[f"acknowledged_{kind}"] for kind in ("put", "overwrite", "delete")] == [117_000, 1800, 1200]
    assert (end["read"], end["stale"], end["lost"], end["wrong"], end["unreadable"]) == (120_000, 1, 0, 1, 0)
    assert (down["read"], down["unreadable"], down["wrong"], down["states"]) == (600, 21, 0, 90_000)
    numbers = tables["numbers"].set_index("name")["value"]
    assert float(numbers["durability_read"]) == 120_000 == float(numbers["durability_acknowledged"])
    none = 100 * (1 - 0.05 ** (1 / 120_000))
    assert end["lost_upper95_percent"] == pytest.approx(none, rel=1e-6) and none < 0.0025
    p = end["stale_upper95_percent"] / 100  # one or none of 120 000 has a probability of 5 % there
    assert (1 - p) ** 120_000 + 120_000 * p * (1 - p) ** 119_999 == pytest.approx(0.05, rel=1e-6)
    assert "u" in str(end["example"]) and pd.isna(down["example"])


def test_states_that_are_read_twice_at_one_stage_count_once(tmp_path):
    """A sample beside the clients, and all of it when they have ended: what either finds wrong is told."""

    def twice(run):
        if kept := run.get("durability"):
            first = {"when": "down", "time_ns": 1, "states": 50, "read": 40, "lost": 0, "corrupted": 2, "stale": 0}
            kept["readings"].insert(0, first | {"resurrected": 0, "unreadable": 1, "examples": []})

    several.write(tmp_path, twice)
    down = row(build.Tables(load(tmp_path))["durability"], when="down")
    assert [down[f"acknowledged_{kind}"] for kind in ("put", "overwrite", "delete")] == [117_000, 1800, 1200]
    assert (down["read"], down["states"], down["unreadable"]) == (600, 90_000, 21)
    assert (down["corrupted"], down["lost"], down["wrong"]) == (6, 0, 6)


def test_timeline_holds_every_operation(tables):
    line, points = tables["timeline"], tables["points"].set_index("key")
    sums = line.groupby("key")[["operations", "errors"]].sum()
    assert sums["operations"].to_dict() == pytest.approx(points["operations"].astype(float).to_dict())
    assert sums["errors"].to_dict() == pytest.approx(points["errors"].astype(float).to_dict())
    assert [c for c in line if c.startswith("errors_")] == ["errors_0", "errors_503"]
    assert (line["errors"] == line["errors_0"] + line["errors_503"]).all() and set(line["step_s"]) == {0.1}
    mine = line[(line["role"] == "downloads") & line["key"].str.contains("killed") & (line["rep"] == 2)]
    assert len(mine) == 100 and (mine["second"] == [s / 10 for s in range(100)]).all()
    quiet = mine[mine["operations"] == 0]
    assert (quiet["second"].min(), quiet["second"].max()) == (4.0, 5.1)
    assert quiet["latency_p50_ms"].isna().all() and set(mine["rate_per_s"]) == {0, 200}
    late = line[line["role"] == "deletions"]
    assert (late["second"].min(), late["second"].max()) == (3.0, 5.9)


def test_a_long_run_has_steps_of_a_second(folder):
    run = copy.deepcopy(next(iter(load(folder).runs.values())))
    from storelab.analysis.tables.roles.timeline import step_ns

    assert step_ns(run) == 10**8 and step_ns(run | {"deadline_ns": run["start_ns"] + 120 * 10**9}) == 10**8
    assert step_ns(run | {"deadline_ns": run["start_ns"] + 121 * 10**9}) == 10**9


def test_disturbances_stand_in_order(tables):
    happened = tables["disturbances"]
    mine = happened[happened["key"].str.contains("killed") & (happened["rep"] == 1)]
    assert mine["begin_s"].is_monotonic_increasing
    acts = mine[mine["kind"] == "act"]
    assert (
        list(acts["name"]) == ["kill", "restart"] and list(acts["due_s"]) == [4, 6] and set(acts["actor"]) == {"data.0"}
    )
    assert list(acts["begin_s"]) == [4.02, 6.0] and list(acts["end_s"]) == [4.05, 6.3]
    states = mine[mine["kind"] == "state"]
    assert list(states["name"]) == ["clean", "degraded", "recovering", "clean"]
    assert list(states["end_s"]) == pytest.approx([4.6, 6.4, 7.6, 10])


def test_other_tables_have_no_point_with_roles(tables):
    for name in ("throughput", "latency", "resources", "noise", "scaling", "errors", "errors_over_time", "verdicts"):
        assert tables[name].empty, name
        assert not [c for c in tables[name] if "." in c], "nor their axes"
    points = tables["points"]
    assert len(points) == 18 and points["overlap_rate_per_s"].isna().all() and points["steadiness"].isna().all()
    assert (points["operations"] > 0).all() and "uploads.workers" in points and set(points["state"]) == {"ok"}


def test_a_point_that_does_one_thing_stays_what_it_was(tmp_path):
    """Beside points with roles, those without have the rows that they would have alone."""
    sweep = {"one": {"workload": "get", "duration": "1 s", "warm_up": "0 s", "axes": {"object_size": "4 kB"}}}
    settings = config.Config.model_validate(
        copy.deepcopy(several.CONFIG | {"sweeps": several.CONFIG["sweeps"] | sweep})
    )
    known = plan.to_json(settings, plan.make(settings, WORKLOADS), WORKLOADS)
    from storelab.analysis.tables.points import identity
    from storelab.analysis.tables.roles import axis_columns

    assert not [c for c in identity(known) if "." in c] and "workers" in identity(known)
    assert "workers" not in axis_columns(known) and "uploads.workers" in axis_columns(known)
    assert list(axis_columns(known)).index("fault") < list(axis_columns(known)).index("uploads.workers")


def test_tables_of_an_invalid_run_leave_it_out(tmp_path):
    def spoiled(run):
        if run["point"]["rep"] == 3:
            run |= {"valid": False, "budget": {"reason": "too many failed"}}

    several.write(tmp_path, spoiled)
    made = build.Tables(load(tmp_path))
    assert set(made["roles"]["n"]) == {2} and set(made["durability"]["n"]) == {2}
    assert set(made["timeline"]["state"]) == {"ok", "invalid"}
    found = row(made["roles"], workload="roles-beside", role="uploads", phase="during")
    assert found["rate_median_per_s"] == pytest.approx(85)


# Figures


def figure(folder, tables, name):
    found = catalogue.of(json.loads((folder / "raw" / "plan.json").read_text()))[name]
    beside = [tables[other] for other in getattr(found, "beside", ())]
    return found, draw(found, tables[found.table], *beside)


def test_which_figures_there_are(folder):
    names = catalogue.names(json.loads((folder / "raw" / "plan.json").read_text()))
    assert [n for n in names if n.startswith("timeline")] == ["timeline_faults", "timeline_beside", "timeline_tenants"]
    assert "role_phases" in names and "victim" in names


def test_a_figure_over_time_shows_what_happened(folder, tables):
    known, fig = figure(folder, tables, "timeline_faults")
    rate, latency, failed = fig.axes
    assert rate.get_ylabel() == "Operations/s" and latency.get_ylabel() == "Latency [ms]" and rate.get_xlim() == (0, 10)
    assert rate.get_title() == "alpha; killed (n\u00a0=\u00a03\u00a0runs)"
    thick = [line for line in rate.lines if line.get_linewidth() == 1.3]
    assert [list(line.get_ydata()[[20, 50, 70]]) for line in thick] == [[100, 30, 80], [200, 0, 200]]
    assert list(thick[0].get_xdata()[:2]) == pytest.approx([0.05, 0.15])
    assert sum(line.get_linewidth() == 0.4 for line in rate.lines) == 6, "three runs of two roles"
    bands = sorted((round(p.get_x(), 3), round(p.get_x() + p.get_width(), 3)) for p in rate.patches)
    assert bands == [(4.02, 6.3), (6.3, 7.7)], "during, and rebuilding until the median run is whole"
    assert [t.get_text() for t in rate.texts] == ["kill data.0", "restart data.0"]
    marks = {line.get_marker(): sorted(line.get_xdata()) for line in rate.lines if line.get_linestyle() == "None"}
    assert marks["v"] == pytest.approx([4.6, 4.7, 4.8]) and marks["o"] == pytest.approx([0, 0, 0, 7.6, 7.7, 7.8])
    told = {tuple(p.get_facecolor()): p.get_data().values for p in failed.patches if hasattr(p, "get_data")}
    assert [round(float(v[42]), 3) for v in told.values()] == [0, 20] or max(v[42] for v in told.values()) == 20
    assert failed.get_ylabel() == "Failed/s"
    said = [t.get_text() for t in fig.legends[0].get_texts()]
    assert {"uploads", "downloads", "during", "rebuilding", "failed: 503", "store: degraded"} <= set(said)
    text = catalogue.caption(known, tables["timeline"])
    assert "Points without a disturbance are in timeline.csv alone" in text and "1 MB objects" in text


def test_a_state_after_the_end_has_no_mark(folder, tables):
    """An unclipped line without a place counts as one in the corner of the figure, and leaves its panels no room."""
    happened = tables["disturbances"].replace({"name": "clean"}, "recovering")
    late = happened["name"].eq("recovering") & happened["kind"].eq("state")
    happened.loc[late, "begin_s"] = 11.0
    _, fig = figure(folder, tables | {"disturbances": happened}, "timeline_faults")
    assert late.any() and all(len(line.get_xdata()) for ax in fig.axes for line in ax.lines)


def test_a_figure_over_time_says_where_nothing_failed(folder, tables):
    _, fig = figure(folder, tables, "timeline_beside")
    assert [t.get_text() for t in fig.axes[2].texts] == ["no failed operation"]
    _, fig = figure(folder, tables, "timeline_tenants")
    titles = [ax.get_title().replace("\n", " ") for ax in fig.axes if ax.get_title()]
    assert len(titles) == 3 and "aggressor: open loop, 200 operations/s due" in titles[1]


def test_names_of_figures_over_time():
    assert timeline.name("faults") == "timeline_faults" and timeline.name("ec-2-1") == "timeline_ec_two_one"
    assert (
        timeline.name("a_B") == "timeline_a_b"
        and catalogue.is_built_in("timeline_x")
        and catalogue.is_built_in("role_phases")
    )
    assert not catalogue.is_built_in("timely")


def test_many_groups_have_several_figures(tmp_path):
    sweep = copy.deepcopy(several.CONFIG["sweeps"]["tenants"])
    sweep["roles"]["aggressor"]["axes"]["arrival_rate"] = list(range(10, 150, 10))
    settings = config.Config.model_validate(copy.deepcopy(several.CONFIG) | {"sweeps": {"tenants": sweep}})
    known = plan.to_json(settings, plan.make(settings, WORKLOADS), WORKLOADS)
    figures = timeline.of_plan(known)
    assert list(figures) == ["timeline_tenants", "timeline_tenants_two", "timeline_tenants_three"]
    assert [len(f.function.args[0]) for f in figures.values()] == [6, 6, 2]
    assert "One of 3 figures" in next(iter(figures.values())).caption


def test_a_campaign_cannot_name_its_figure_so(tmp_path):
    from storelab.cli import measuring

    asked = {"figures": {"timeline_x": several.CONFIG["figures"]["victim"]}}
    settings = config.Config.model_validate(copy.deepcopy(several.CONFIG) | asked)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(UserError, match="built-in figure"):
        patch.setattr(measuring, "load", lambda _: (settings, []))
        measuring.load_for_plan(None)


def test_the_victim_against_the_aggressor(folder, tables):
    known, fig = figure(folder, tables, "victim")
    (ax,) = fig.axes
    (curve,) = ax.containers
    assert list(curve[0].get_xdata()) == [100, 200, 400] and list(curve[0].get_ydata()) == [12, 22, 42]
    assert ax.get_xlabel() == "Aggressor: due/s" and "()" not in catalogue.caption(known, tables["roles"])


def test_phases_stand_in_order_of_time(folder, tables):
    _, fig = figure(folder, tables, "role_phases")
    ticks = [t.get_text() for t in fig.axes[0].get_yticklabels()]
    assert ticks == ["after", "rebuilding", "during"], "from below"


# Words and the section


def test_axes_of_roles_in_words():
    assert words.heading("uploads.workers") == "Uploads: workers per client" or words.heading(
        "uploads.workers"
    ).startswith("Uploads: ")
    assert words.value_text("uploads.clients", 2) == "uploads: 2 clients"
    assert words.value_text("uploads.object_size_bytes", 10**6) == "uploads: 1 MB objects"
    assert words.value_text("fault", "killed") == "killed" and words.value_text("fault", "none") == ""
    assert words.value_text("workload", "roles-beside") == "beside" and words.heading("fault") == "Fault"
    said = [("fault", "killed"), ("uploads.engine", "obstore"), ("uploads.clients", 2), ("downloads.clients", 1)]
    assert words.settings(said) == "killed; uploads: obstore, 2 clients; downloads: 1 client"
    assert words.is_default("uploads.buckets", 1) and not words.is_default("uploads.clients", 2)
    assert words.key_text("a/roles-x/fault~k_uploads.workers~0008_rep~001")[2:] == [
        "fault k",
        "uploads: workers 8",
        "rep 1",
    ]


def test_the_section(folder):
    def done(*arguments):
        assert cli.main([*arguments, "--campaign-dir", str(folder)], standalone_mode=False) in (0, None)

    done("figures")
    done("latex")
    tex = {p.stem: p.read_text() for p in (folder / "tex").glob("*.tex")}
    assert r"\input{sections/several}" in tex["sections"] and "FigTimelineFaults" in tex["timelines"]
    assert r"\newif\ifHasUploadsBeside\HasUploadsBesidetrue" in tex["figures"]
    recovery = [line for line in tex["table_recovery"].splitlines() if "alpha" in line]
    assert len(recovery) == 2 and "& 42 &" in recovery[0] and "1.21" in recovery[1] and "720" in tex["table_recovery"]
    assert r"120\,000 & 120\,000 & 0 & 0 & 1 & 0 & 0 & 0.0040" in tex["table_durability"]
    phases = tex["table_roles"]
    assert r"\emph{beside: alpha; uploads: obstore, 1~MB objects, 2 clients" in phases
    assert "uploads & during & 3 & 3 & 80.0 [70.0, 90.0] & 25" in phases
