"""Tables, figures and section of a campaign with roles and faults, compared with its known values (`several`)."""

import copy

import numpy as np
import pandas as pd
import pytest
import several
from tex_files import TexFiles
from throughput_rows import only_row

from campaigns import built
from storelab.analysis.figures import catalogue, timeline
from storelab.analysis.figures.draw import draw
from storelab.analysis.latex import roles as latex
from storelab.analysis.parts import labels
from storelab.analysis.records.campaign import load
from storelab.analysis.tables import build, points, roles
from storelab.cli import measuring
from storelab.core import plan
from storelab.core.errors import UserError
from storelab.stores import config
from storelab.workloads import WORKLOADS

REPS = (1, 2, 3)


@pytest.fixture(scope="module")
def tables():
    return {name: build.read(built("several"), name) for name in build.NAMES}


@pytest.fixture(scope="module")
def numbers(tables):
    return tables["numbers"].set_index("name")["value"]


def planned(**changes):
    """Return the plan of the campaign with changes to its configuration."""
    settings = config.Config.model_validate(copy.deepcopy(several.CONFIG | changes))
    return plan.to_json(settings, plan.make(settings, WORKLOADS), WORKLOADS)


def spread(found, name, unit):
    return [found[f"{name}_{part}_{unit}"] for part in ("median", "low", "high")]


def test_rates_of_roles_by_phase(tables):
    """Uploads: 100/s, then 40, 30 or 20/s until the daemon is back, 80/s while the store rebuilds, 100/s."""
    roles = tables["roles"]
    mine = roles[(roles["workload"] == "roles-faults") & (roles["fault"] == "killed") & (roles["role"] == "uploads")]
    assert list(mine["phase"]) == ["before", "during", "rebuilding", "after"] and set(mine["does"]) == {"put"}
    lasts = {"before": 3.02, "during": 2.28, "rebuilding": 1.4, "after": 2.3}
    expected = {"before": (100, 100, 100), "rebuilding": (80, 80, 80), "after": (100, 100, 100)}
    expected["during"] = (30, 20, 40)
    for phase, rates in expected.items():
        found = only_row(mine, phase=phase)
        assert found["length_s"] == pytest.approx(lasts[phase]) and found["n"] == 3
        assert spread(found, "rate", "per_s") == pytest.approx(rates, abs=1.1 / lasts[phase]), phase
        assert spread(found, "throughput", "mb_per_s") == spread(found, "rate", "per_s"), "objects of 1 MB"
        assert found["few"] == False  # noqa: E712
    during, rebuilding = only_row(mine, phase="during"), only_row(mine, phase="rebuilding")
    assert spread(during, "rate_over_before", "ratio") == pytest.approx([0.3, 0.2, 0.4], abs=0.005)
    assert during["latency_p50_median_ms"] == 60 and during["latency_p50_over_before_median_ratio"] == 3
    assert pd.isna(during["latency_p99_median_ms"]), "fewer than 100 operations"
    assert rebuilding["latency_p99_over_before_median_ratio"] == 1.5
    assert only_row(mine, phase="before")[["rate_over_before_median_ratio"]].isna().all()
    failed = [sum((end - 4020) * 20 // 1000 for end in [several.noticed(rep)]) + 1 for rep in REPS]
    assert during["errors"] == sum(failed) == mine["errors"].sum()


def test_undisturbed_roles_have_one_phase(tables):
    roles = tables["roles"]
    calm = roles[(roles["workload"] == "roles-faults") & (roles["fault"] == "none")]
    assert list(calm["phase"]) == ["throughout"] * 2 and list(calm["role"]) == ["uploads", "downloads"]
    assert list(calm["rate_median_per_s"]) == pytest.approx([100, 200], rel=2e-3) and list(calm["length_s"]) == [9, 9]


def test_deletions_slow_uploads_down(tables, numbers):
    """Figure 16 of 2015: 100/s before, 90, 80 or 70/s during the deletions, 100/s after them."""
    found = only_row(tables["roles"], workload="roles-beside", role="uploads", phase="during")
    assert spread(found, "rate_over_before", "ratio") == pytest.approx([0.8, 0.7, 0.9], abs=0.003)
    assert numbers["uploads_beside"].startswith("80") and numbers["uploads_beside_where"] == "alpha"
    deletions = only_row(tables["roles"], workload="roles-beside", role="deletions")
    assert deletions["phase"] == "during" and deletions["length_s"] == 3, "its begin counts as the disturbance"
    assert deletions["rate_median_per_s"] == pytest.approx(300, rel=5e-3)


def test_recovery(tables):
    found = tables["recovery"]
    own = found[found["source"] == "measured"]
    assert len(own) == 2 and set(own["fault"]) == {"killed"}
    ups, downs = (only_row(own, role=role) for role in ("uploads", "downloads"))
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
    assert ups["degraded_median_ratio"] == pytest.approx(0.3, abs=0.005)
    assert ups["rebuilding_median_ratio"] == pytest.approx(0.8, abs=0.005)


def test_published_recovery_follows(tables, numbers):
    """7 minutes until the nodes were back, 5 more until all was operative; no failed operation."""
    printed = tables["recovery"][tables["recovery"]["source"] != "measured"]
    assert list(printed["does"]) == ["put", "get"] and set(printed["source"]) == {"2013 major review"}
    assert set(printed["failed_operations"]) == {0} and set(printed["whole_after_median_s"]) == {12 * 60}
    assert float(numbers["published_back"]) == 7 and float(numbers["published_operative"]) == 5


def test_durability(tables, numbers):
    found = tables["durability"]
    assert list(found["when"]) == ["down", "recovered"] and set(found["n"]) == {3}
    end, down = only_row(found, when="recovered"), only_row(found, when="down")
    assert [end[f"acknowledged_{kind}"] for kind in ("put", "overwrite", "delete")] == [117_000, 1800, 1200]
    assert (end["read"], end["stale"], end["lost"], end["wrong"], end["unreadable"]) == (120_000, 1, 0, 1, 0)
    assert (down["read"], down["unreadable"], down["wrong"], down["states"]) == (600, 21, 0, 90_000)
    assert float(numbers["durability_read"]) == 120_000 == float(numbers["durability_acknowledged"])
    none = 100 * (1 - 0.05 ** (1 / 120_000))
    assert end["lost_upper95_percent"] == pytest.approx(none, rel=1e-6) and none < 0.0025
    p = end["stale_upper95_percent"] / 100  # one or none of 120 000 has a probability of 5 % there
    assert (1 - p) ** 120_000 + 120_000 * p * (1 - p) ** 119_999 == pytest.approx(0.05, rel=1e-6)
    assert "u" in str(end["example"]) and pd.isna(down["example"])


def test_states_read_twice_at_one_stage_count_once():
    """A sample during the run, and all of it when the clients have ended: errors of either are counted."""
    campaign = load(built("several"))
    for run in campaign.runs.values():
        if kept := run.get("durability"):
            first = {"when": "down", "time_ns": 1, "states": 50, "read": 40, "lost": 0, "corrupted": 2, "stale": 0}
            kept["readings"].insert(0, first | {"resurrected": 0, "unreadable": 1, "examples": []})
    down = only_row(build.Tables(campaign)["durability"], when="down")
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


def test_disturbances_are_in_order_of_time(tables):
    happened = tables["disturbances"]
    mine = happened[happened["key"].str.contains("killed") & (happened["rep"] == 1)]
    assert mine["begin_s"].is_monotonic_increasing
    acts = mine[mine["kind"] == "act"]
    assert list(acts["name"]) == ["kill", "restart"] and set(acts["actor"]) == {"data.0"}
    assert list(acts["due_s"]) == [4, 6]
    assert list(acts["begin_s"]) == [4.02, 6.0] and list(acts["end_s"]) == [4.05, 6.3]
    states = mine[mine["kind"] == "state"]
    assert list(states["name"]) == ["clean", "degraded", "recovering", "clean"]
    assert list(states["end_s"]) == pytest.approx([4.6, 6.4, 7.6, 10])


def test_other_tables_have_no_points_with_roles(tables):
    for name in ("throughput", "latency", "resources", "noise", "scaling", "errors_over_time", "verdicts"):
        assert tables[name].empty, name
        assert not [c for c in tables[name] if "." in c], "nor their axes"
    points = tables["points"]
    assert len(points) == 18 and points["overlap_rate_per_s"].isna().all() and points["steadiness"].isna().all()
    assert (points["operations"] > 0).all() and "uploads.workers" in points and set(points["state"]) == {"ok"}


def test_errors_of_roles_are_in_table_of_errors(tables, numbers):
    found, recovered = tables["errors"], tables["recovery"]
    assert found["operations"].sum() == tables["points"]["errors"].sum() == float(numbers["errors_all"]) > 0
    assert found["operations"].sum() >= recovered["failed_operations"].sum() and "killed" in set(found["fault"])


def test_points_without_roles_keep_their_columns():
    sweep = {"one": {"workload": "get", "duration": "1 s", "warm_up": "0 s", "axes": {"object_size": "4 kB"}}}
    known = planned(sweeps=several.CONFIG["sweeps"] | sweep)
    columns, identity = roles.axis_columns(known), points.identity(known)
    assert not [c for c in identity if "." in c] and "workers" in identity
    assert "workers" not in columns and "uploads.workers" in columns
    assert list(columns).index("fault") < list(columns).index("uploads.workers")


def test_invalid_runs_are_left_out():
    campaign = load(built("several"))
    for run in campaign.runs.values():
        if run["point"]["rep"] == 3:
            run |= {"valid": False, "budget": {"reason": "too many failed"}}
    made = build.Tables(campaign)
    assert set(made["roles"]["n"]) == {2} and set(made["durability"]["n"]) == {2}
    assert set(made["timeline"]["state"]) == {"ok", "invalid"}
    found = only_row(made["roles"], workload="roles-beside", role="uploads", phase="during")
    assert found["rate_median_per_s"] == pytest.approx(85, rel=1e-3)


# Figures


def figure(tables, name):
    found = catalogue.figures_of_plan(planned())[name]
    return found, draw(found, tables[found.table], *(tables[other] for other in getattr(found, "further_tables", ())))


def test_names_of_figures():
    names = catalogue.names(planned())
    assert [n for n in names if n.startswith("timeline")] == ["timeline_faults", "timeline_beside", "timeline_tenants"]
    assert "role_phases" in names and "victim" in names


def test_figure_over_time_shows_what_happened(tables):
    known, fig = figure(tables, "timeline_faults")
    rate, latency, failed = fig.axes
    assert rate.get_ylabel() == "Operations/s" and latency.get_ylabel() == "Latency [ms]" and rate.get_xlim() == (0, 10)
    assert rate.get_title() == "alpha; killed (n\u00a0=\u00a03\u00a0runs)"
    thick = [line for line in rate.lines if line.get_linewidth() == 1.3]
    assert sorted([*line.get_ydata()[[20, 50, 70]]] for line in thick) == [[100, 30, 80], [200, 0, 200]]
    assert list(thick[0].get_xdata()[:2]) == pytest.approx([0.05, 0.15])
    assert sum(line.get_linewidth() == 0.4 for line in rate.lines) == 6, "three runs of two roles"
    bands = sorted((round(p.get_x(), 3), round(p.get_x() + p.get_width(), 3)) for p in rate.patches)
    assert bands == [(4.02, 6.3), (6.3, 7.7)], "during the fault, and rebuilding until the median run is healthy"
    assert [t.get_text() for t in rate.texts] == ["kill data.0", "restart data.0"]
    marks = {line.get_marker(): sorted(line.get_xdata()) for line in rate.lines if line.get_linestyle() == "None"}
    assert marks["v"] == pytest.approx([4.6, 4.7, 4.8]) and marks["o"] == pytest.approx([0, 0, 0, 7.6, 7.7, 7.8])
    content = {tuple(p.get_facecolor()): p.get_data().values for p in failed.patches if hasattr(p, "get_data")}
    assert [round(float(v[42]), 3) for v in content.values()] == [0, 20] or max(v[42] for v in content.values()) == 20
    assert failed.get_ylabel() == "Failed/s" and failed.get_yscale() == "linear"
    shown = [t.get_text() for t in fig.legends[0].get_texts()]
    assert {"uploads", "downloads", "during", "rebuilding", "failed: 503", "store: degraded"} <= set(shown)
    text = catalogue.caption(known, tables["timeline"])
    assert "Points without a disturbance are only in timeline.csv" in text and "1 MB objects" in text
    assert "Failed operations" in text and "Marks above a panel" in text and "separate panels" not in text


def test_state_after_the_end_has_no_mark(tables):
    """A mark without a place would be in the corner of the figure, and leave no room for its panels."""
    happened = tables["disturbances"].replace({"name": "clean"}, "recovering")
    late = happened["name"].eq("recovering") & happened["kind"].eq("state")
    happened.loc[late, "begin_s"] = 11.0
    _, fig = figure(tables | {"disturbances": happened}, "timeline_faults")
    assert late.any() and all(len(line.get_xdata()) for ax in fig.axes for line in ax.lines)


def test_slow_role_has_a_panel_and_wider_steps(tables):
    """Uploads 40 times as fast as downloads, which end less than five operations in a step of the table."""
    rows = tables["timeline"].astype({"rate_per_s": float})
    rows.loc[rows["role"] == "downloads", "rate_per_s"] /= 80
    _, fig = figure(tables | {"timeline": rows}, "timeline_faults")
    fast, slow, latency, failed = fig.axes
    assert [fast.get_ylabel(), slow.get_ylabel()] == ["Operations/s"] * 2 and failed.get_ylabel() == "Failed/s"
    assert latency.get_ylabel() == "Latency [ms]" and fast.get_ylim()[1] > 20 * slow.get_ylim()[1]
    steps = [np.diff(ax.lines[0].get_xdata())[0] for ax in (fast, slow)]
    assert steps == pytest.approx([0.1, 0.2]), "the slow one has at least 40 steps"


def test_role_with_bursts_has_a_panel():
    """5000/s for a tenth of the time is not a rate that can be compared with 500/s."""
    burst = np.array([[0.0] * 18 + [5000.0] * 2])
    found = [{name: timeline.Lines(*[rate] * 4) for name, rate in (("dels", burst), ("ups", np.full((1, 20), 500.0)))}]
    assert timeline._levels(found) == [["dels"], ["ups"]]
    assert timeline._levels([found[0] | {"more": found[0]["ups"]}]) == [["dels"], ["ups", "more"]]


def test_names_of_acts_do_not_cover_each_other():
    index = pd.MultiIndex.from_tuples([("kill", "a-1", 0), ("kill", "a_2", 0), ("start", "", 0)])
    at = pd.Series([5.0, 5.5, 9.0], index=index)
    assert timeline._texts(at, 1.0) == [("kill a-1\nkill a 2", 5.0), ("start", 9.0)]
    assert len(timeline._texts(at, 0.1)) == 3


def test_figure_over_time_without_failures(tables):
    known, fig = figure(tables, "timeline_beside")
    text = catalogue.caption(known, tables["timeline"])
    assert "Bands" in text and "Failed" not in text and "Marks" not in text
    assert "No operation failed" in fig.get_supxlabel()
    assert [ax.get_ylabel() for ax in fig.axes] == ["Operations/s", "Latency [ms]"]
    _, fig = figure(tables, "timeline_tenants")
    titles = [ax.get_title().replace("\n", " ") for ax in fig.axes if ax.get_title()]
    assert len(titles) == 3 and "aggressor: open loop, 200 operations/s due" in titles[1]


def test_names_of_figures_over_time():
    assert timeline.name("faults") == "timeline_faults" and timeline.name("ec-2-1") == "timeline_ec_two_one"
    assert timeline.name("a_B") == "timeline_a_b" and not catalogue.is_built_in("timely")
    assert catalogue.is_built_in("timeline_x") and catalogue.is_built_in("role_phases")


def test_many_groups_have_several_figures():
    sweep = copy.deepcopy(several.CONFIG["sweeps"]["tenants"])
    sweep["roles"]["aggressor"]["axes"]["arrival_rate"] = list(range(10, 150, 10))
    figures = timeline.figures_of_plan(planned(sweeps={"tenants": sweep}))
    assert list(figures) == ["timeline_tenants", "timeline_tenants_two", "timeline_tenants_three"]
    assert [len(f.function.args[0]) for f in figures.values()] == [6, 6, 2]
    assert "One of 3 figures" in next(iter(figures.values())).caption


def test_campaign_cannot_use_a_built_in_name(monkeypatch):
    asked = {"figures": {"timeline_x": several.CONFIG["figures"]["victim"]}}
    settings = config.Config.model_validate(copy.deepcopy(several.CONFIG) | asked)
    monkeypatch.setattr(measuring, "load", lambda _: (settings, []))
    with pytest.raises(UserError, match="built-in figure"):
        measuring.load_for_plan(None)


def test_figure_of_victim_against_aggressor(tables):
    known, fig = figure(tables, "victim")
    (ax,) = fig.axes
    (curve,) = ax.containers
    assert list(curve[0].get_xdata()) == [100, 200, 400] and list(curve[0].get_ydata()) == [12, 22, 42]
    assert ax.get_xlabel() == "Aggressor: due/s" and "()" not in catalogue.caption(known, tables["roles"])


def test_figure_of_phases_is_in_order_of_time(tables):
    _, fig = figure(tables, "role_phases")
    ticks = [t.get_text() for t in fig.axes[0].get_yticklabels()]
    assert ticks == ["after", "rebuilding", "during"], "from below"


def test_figure_of_phases_has_panel_for_each_fault(tables):
    """Four systems of which one lost drives as well; each mark is at the system's ratio."""
    rows = tables["roles"][tables["roles"]["fault"] == "killed"]
    found = [rows.assign(store=f"s{n}") for n in range(4)] + [rows.assign(store="s3", fault="drives-gone")]
    rows = pd.concat(found, ignore_index=True)
    ratios = [f"rate_over_before_{part}_ratio" for part in ("median", "low", "high")]
    rows.loc[rows["fault"] == "drives-gone", ratios] = 0.125
    _, fig = figure(tables | {"roles": rows}, "role_phases")
    titles = [ax.get_title() for ax in fig.axes if ax.get_title()]
    assert titles == ["drives-gone", "killed"]
    lost, killed = fig.axes[0], fig.axes[2]
    assert sorted(t.get_text() for t in killed.get_yticklabels()) == ["s0", "s1", "s2", "s3"]
    marks = [float(x) for c in lost.containers for x in c[0].get_xdata()]
    assert marks and set(marks) == {0.125}


# Words and the section


def test_axes_of_roles_in_words():
    assert labels.heading("uploads.workers") == "Uploads: workers"
    assert labels.value_text("uploads.clients", 2) == "uploads: 2 clients"
    assert labels.value_text("uploads.object_size_bytes", 10**6) == "uploads: 1 MB objects"
    assert labels.value_text("fault", "killed") == "killed" and labels.value_text("fault", "none") == ""
    assert labels.value_text("workload", "roles-beside") == "beside" and labels.heading("fault") == "Fault"
    found = [("fault", "killed"), ("uploads.engine", "obstore"), ("uploads.clients", 2), ("downloads.clients", 1)]
    assert labels.settings(found) == "killed; uploads: obstore, 2 clients; downloads: 1 client"
    assert labels.is_default("uploads.buckets", 1) and not labels.is_default("uploads.clients", 2)
    key = labels.key_text("a/roles-x/fault~k_uploads.workers~0008_rep~001")
    assert key[2:] == ["fault k", "uploads: workers 8", "rep 1"]


def test_paper_has_section_of_roles():
    tex = TexFiles("several", *(name for name in catalogue.names(planned()) if name.startswith("timeline")))
    assert r"\section{Several workloads at once}" in tex["paper"] and "{fig:timeline_faults}" in tex["paper"]
    assert "Here, uploads during deletions had" in tex["paper"]
    recovery = [line for line in tex["table_recovery"].splitlines() if "alpha" in line]
    assert len(recovery) == 2 and "& 42 &" in recovery[0] and "1.21" in recovery[1] and "720" in tex["table_recovery"]
    assert r"120\,000 & 120\,000 & 0 & 0 & 1 & 0 & 0 & 0.0040" in tex["table_durability"]
    phases = tex["table_roles"]
    assert r"\emph{beside: alpha; uploads: obstore, 1~MB objects, 2 clients" in phases
    assert "uploads & during & 3 & 3 & 80.0 [70.0, 90.0] & 25" in phases


# What the text quotes


def test_text_quotes_roles_at_one_time():
    rows = [(w, r) for w, several_ in (("roles-a", "xyz"), ("roles-b", "x")) for r in several_]
    table = pd.DataFrame(rows, columns=["workload", "role"])
    table = table.assign(phase="during", does="get", rate_over_before_median_ratio=1.0)
    content = {name: value for name, value, _ in roles.numbers(table)}
    assert (content["roles_sweeps"], content["roles_most"]) == (2, 3)


def test_text_quotes_uploads_during_deletions():
    """A garbage collection is a deletion; downloads are not."""

    def quoted(workload, does, phase, ratio):
        parts = {f"rate_over_before_{p}_ratio": ratio for p in ("median", "low", "high")}
        return {"store": "a", "workload": workload, "role": does, "does": does, "phase": phase} | parts

    rows = [quoted("roles-x", "put", "during", 0.7), quoted("roles-x", "collect_garbage", "during", None)]
    rows += [quoted("roles-y", "put", "during", 0.1), quoted("roles-y", "get", "during", None)]
    content = {name: value for name, value, _ in roles.numbers(pd.DataFrame(rows))}
    assert content["uploads_beside"] == "70"


def test_headline_has_the_worst_case_and_the_range_of_the_others(tables):
    """The victim keeps 100, 90 and 50 % of its rate."""
    rows = tables["roles"][tables["roles"]["workload"] == "roles-tenants"].assign(phase="during")
    kept = dict(zip(rows.index[rows["role"] == "victim"], (1.0, 0.9, 0.5), strict=True))
    for part in ("median", "low", "high"):
        rows = rows.assign(**{f"rate_over_before_{part}_ratio": rows.index.map(kept).astype(float)})
    (found,) = latex.role_headlines(rows)
    assert found.value == r"50~\%" and "aggressor: open loop, 400 operations/s due" in found.where
    assert r"90 to 100~\%" in found.where and "at aggressor: due/s 100 to 200" in found.where
    ratios = {f"latency_p99_over_before_{part}_ratio": 1170.0 for part in ("median", "low", "high")}
    bound = rows.assign(lower_bounds="latency_p99_over_before", **ratios)
    assert r"$\geq$" in next(latex.role_headlines(bound)).of


def test_headline_of_ledgers_has_bound(tables):
    (found,) = latex.ledger_headlines(tables["durability"])
    assert found.value == r"1 of 120\,000" and found.where.startswith(r"at most 0.00395")
