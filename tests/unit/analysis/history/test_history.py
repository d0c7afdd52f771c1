"""A campaign over months: its entries on disk, times of changes, rules for CI, and bad entries on one line."""

import json
import os
import re
import shutil
import time
from dataclasses import replace
from html.parser import HTMLParser

import command_line
import make_examples
import numpy as np
import pandas as pd
import pytest
from machine_answers import valid
from paths import ROOT

from storelab.analysis.history import entries, series, views
from storelab.analysis.parts import derived
from storelab.analysis.tables import build
from storelab.cli import compare as command
from storelab.cli.compare import KINDS, RULES
from storelab.core import integrity, records
from storelab.core.errors import UserError

DAY = 86_400 * 10**9
SWEEPS = {
    "upload": {"workload": "put", "duration": "4 s", "axes": {"object_size": ["4 kB", "10 MB"]}},
    "download": {"workload": "get", "duration": "4 s", "axes": {"object_size": "4 kB"}},
}
T0 = make_examples.T0  # 2025-10-09
DAYS = 11
MADE = ("points", "environment")
SLOW = 7  # number of the entry from which on uploads are 20 % slower, with another version of the store
NEW_KERNEL = 4


def scaled(points: pd.DataFrame, factor: float, workload: str | None = None) -> None:
    """All rates of a workload times a factor."""
    own = points["workload"].eq(workload) if workload else points["workload"].notna()
    for column in (c for c in points if c.startswith("overlap_") and c.endswith("_per_s")):
        points[column] = points[column].astype(float).where(~own, points[column] * factor)


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """Return a campaign with its tables, from which every entry is made."""
    folder = tmp_path_factory.mktemp("one") / "site"
    make_examples.make(folder, failed=(), repetitions=3, sweeps=SWEEPS, stores_to_measure=["alpha", "beta"])
    build.build(folder, MADE)
    return folder


def later(one, target, days: int) -> None:
    """Copy the campaign as if it was measured `days` later, with right sums and checksums."""
    shutil.copytree(one / "tables", target / "tables")
    shutil.copytree(one / "raw", target / "raw", copy_function=os.link)
    for head in (target / "raw" / key / "run.json" for key in integrity.heads(target / "raw")):
        run = records.read_json(head)
        content = records.with_sum(run | {name: run[name] + days * DAY for name in ("start_ns", "deadline_ns")})
        records.write_atomic(head, content, sync=False)  # a new file: the linked one stays
    integrity.write_sums(target / "raw")
    derived.write_sums(target, MADE)


@pytest.fixture(scope="module")
def results(one, tmp_path_factory):
    """Fill `site` with DAYS entries: a scatter of 1 % between days, and the changes SLOW and NEW_KERNEL."""
    folder, rng = tmp_path_factory.mktemp("results"), np.random.default_rng(20251009)
    for number in range(DAYS):
        site = folder / "site"
        later(one, site, number)
        points = pd.read_csv(site / "tables/points.csv")
        about = pd.read_csv(site / "tables/environment.csv", dtype=str, keep_default_na=False)
        scaled(points, float(np.exp(rng.normal(0, 0.01))))
        if number >= SLOW:
            scaled(points, 0.8, "put")
            about.loc[about["group"].str.startswith("store") & about["item"].eq("version"), "value"] = "4.49"
        if number >= NEW_KERNEL:
            about.loc[about["item"] == "kernel", "value"] = "6.2.0"
        points.to_csv(site / "tables/points.csv", index=False)
        about.to_csv(site / "tables/environment.csv", index=False)
        derived.write_sums(site, MADE)
        entries.add(site)
    return folder


@pytest.fixture(scope="module")
def found(results):
    return series.history(entries.read(results / "site"))


def day(number: int) -> str:
    return str(np.datetime64("2025-10-09") + number)


def run_history(*arguments) -> tuple[int, str, str]:
    return command_line.storelab("history", *map(str, arguments))


def refused(call, *words: str) -> None:
    """Check that there is one line with all of these words."""
    with pytest.raises(UserError) as raised:
        call()
    assert all(word in str(raised.value) for word in words), str(raised.value)


# --- on disk ----------------------------------------------------------------------------------------------------------


def test_entries_are_in_order_of_time_under_their_days(results, found):
    assert [e.name for e in found.entries] == [day(i) for i in range(DAYS)]
    assert sorted(p.name for p in results.iterdir()) == [f"site@{day(i)}" for i in range(DAYS)]
    assert all(e.measured.startswith(e.name) and e.measured.endswith("Z") and e.sealed for e in found.entries)


def test_second_entry_of_a_day_replaces_none(one, tmp_path):
    site, before = tmp_path / "site", {}
    for number in (1, 2, 3):
        shutil.copytree(one, site)
        (site / "notes.txt").write_text(str(number))
        content = valid("history add", run_history("add", "--campaign-dir", site, "--json")[1])
        wanted = day(0) + (f".{number}" if number > 1 else "")
        assert (content["entry"], content["entries"], content["folder"]) == (
            wanted,
            number,
            str(tmp_path / f"site@{wanted}"),
        )
        assert not site.exists()
        now = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
        assert before.items() <= now.items()
        before = now
    assert [(e / "notes.txt").read_text() for e in entries.folders(site)] == ["1", "2", "3"]


def test_add_reports_its_actions(one, tmp_path):
    shutil.copytree(one, tmp_path / "site")
    code, out, err = run_history("add", "--campaign-dir", tmp_path / "site")
    assert (code, err) == (0, "")
    assert out == f"{tmp_path}/site: is now {tmp_path}/site@{day(0)}, entry 1 of its history\n"
    assert command_line.storelab("verify", "--campaign-dir", str(tmp_path / f"site@{day(0)}"))[0] == 0


def test_entry_of_a_wrong_clock_is_refused(one, tmp_path):
    """It would always be the newest or the oldest entry."""
    today = (time.time_ns() - T0) // DAY
    for days, found in ((1 - T0 // DAY, "1970-01-0"), (-10_000, "1998-05-"), (today + 2, "20"), (30_000, "2107-")):
        later(one, site := tmp_path / str(days) / "site", days)
        for call in (entries.add, lambda folder: entries.measured(folder / "raw")):
            with pytest.raises(UserError, match=rf"was measured at {found}.*one of the clocks is wrong; set the clock"):
                call(site)
        assert site.is_dir() and not records.sealed(site / "raw")


def test_edited_start_is_named(one, tmp_path):
    for number, value in enumerate((10**30, "today", -1, None)):
        later(one, site := tmp_path / str(number) / "site", 0)
        head = site / "raw" / integrity.heads(site / "raw")[0] / "run.json"
        records.write_atomic(head, records.with_sum(records.read_json(head) | {"start_ns": value}))
        integrity.write_sums(site / "raw")
        with pytest.raises(UserError, match=r"run\.json of .*start_ns"):
            entries.add(site)


def test_incomplete_campaign_is_not_moved(one, tmp_path):
    site = tmp_path / "site"
    refused(lambda: entries.add(site), "is not a measured campaign")
    shutil.copytree(one, site)
    gone = next(site.glob("raw/**/run.json"))
    kept = gone.read_bytes()
    gone.unlink()
    refused(lambda: entries.add(site), str(gone.parent))
    gone.write_bytes(kept + b" ")
    refused(lambda: entries.add(site), "run.json")
    gone.write_bytes(kept)
    assert site.is_dir() and not entries.folders(site)
    entry = entries.add(site)
    refused(lambda: entries.add(entry), "is already an entry of a history", str(site))


def test_points_that_failed_are_added_by_request_alone(tmp_path):
    site = tmp_path / "site"
    make_examples.make(site, repetitions=1, sweeps=make_examples.ONE_EACH, failed=("put",))
    refused(lambda: entries.add(site), "failed (1 of 3 points)", "--with-failures")
    assert entries.add(site, with_failures=True).name == f"site@{day(0)}"
    make_examples.make(site, repetitions=1, sweeps=make_examples.ONE_EACH, failed=("put", "get", "read_entries"))
    refused(lambda: entries.add(site, with_failures=True), "has no measured point")


def test_bad_entries_print_one_line(one, tmp_path):
    site, entry = tmp_path / "site", tmp_path / "site@mine"
    refused(lambda: entries.read(site), "has no history", "site@…", "storelab history add")
    (tmp_path / "site@2025.tar.gz").write_text("an archive is not an entry")
    refused(lambda: entries.read(site), "has no history")
    entry.mkdir()
    refused(lambda: entries.read(site), "site@mine/raw/plan.json", "not a measured campaign")
    entry.rmdir()
    shutil.copytree(one, entry)
    refused(lambda: entries.read(site), "site@mine: is not sealed", "storelab seal ")
    assert command_line.storelab("seal", "--campaign-dir", str(entry))[0] == 0
    assert [e.name for e in entries.read(site)] == ["mine"]
    refused(lambda: entries.read(entry), "is one entry", str(site))
    refused(lambda: entries.read(site, since="November"), "--since: 'November' is not a date")
    refused(lambda: entries.read(site, since="2031-01-01"), "no entry", "2031-01-01")
    refused(lambda: entries.read(site, store="gamma"), "'gamma'", "alpha, beta")
    sums = entry / "raw/SHA256SUMS"
    sums.write_text(sums.read_text().replace("a", "b", 1))
    refused(lambda: entries.read(site), "SHA256SUMS", "is not the one that was sealed")


def test_the_command_reports_errors_on_one_line(results, tmp_path):
    for options, words in (
        (("--output", tmp_path / "x.jpg"), "suffix that is not supported"),
        (("--output", tmp_path / "no" / "x.csv"), "is not a folder"),
        (("--since", "x"), "is not a date"),
        (("--store", "gamma"), "gamma"),
        (("--fail-on", "worse"), "is not one of"),
        (("--margin", "-1"), "-1"),
    ):
        code, out, err = run_history("--campaign-dir", results / "site", *options)
        assert (code, out) == (2, "") and words in err and err.count("\n") == 1, err


# --- what changed -----------------------------------------------------------------------------------------------------


def test_changes_are_only_where_they_were_made(found):
    for s in found.series:
        steps = [(c.at, c.verdict) for c in s.steps]
        if s.workload == "get":
            assert steps == [], s
        else:
            assert steps == [(SLOW, "slower")], s
    assert {s.workload for s in found.series} == {"put", "get", "all"}
    for s in (s for s in found.series if s.workload == "put"):
        (change,) = s.steps
        assert change.low < 0.8 < change.high and change.ratio == pytest.approx(0.8, rel=0.02)


def test_values_are_the_medians_of_the_entries(results, found):
    for e in found.entries:
        points = pd.read_csv(e.folder / "tables/points.csv")
        of = points[(points["workload"] == "get") & (points["store"] == "beta")]
        (s,) = (s for s in found.series if (s.workload, s.store) == ("get", "beta"))
        value = s.values[found.entries.index(e)]
        assert value.median == pytest.approx(np.median(of["overlap_rate_per_s"])) and value.n == 3


def test_the_whole_is_the_geometric_mean_over_the_points(results, found):
    whole = found.series[-1]
    assert (whole.workload, whole.metric, whole.points) == ("all", "speed", 6)

    def logs(number: int) -> float:
        p = pd.read_csv(found.entries[number].folder / "tables/points.csv")
        large = (p["object_size_bytes"] >= 10**6) & p["workload"].isin(["put", "get"])
        speeds = p["overlap_rate_per_s"].where(~large, p["overlap_throughput_mb_per_s"])
        axes = [p["store"], p["workload"], p["object_size_bytes"], p["clients"]]
        return float(np.log(speeds).groupby(axes).mean().mean())

    assert whole.newest_p_corrected == pytest.approx(whole.newest.p), "a separate family"
    for number, value in enumerate(whole.values):
        assert value.median == pytest.approx(np.exp(logs(number) - logs(0)))


def test_other_changes_are_listed_at_their_entry(results):
    _, out, _ = run_history("--campaign-dir", results / "site")
    result = re.split(r"^(\d{4}-\d\d-\d\d), compared with \S+:$", out.partition("Changes")[2], flags=re.MULTILINE)
    blocks = dict(zip(result[1::2], result[2::2], strict=True))
    assert set(blocks) == {day(SLOW), day(NEW_KERNEL)}
    kernel = blocks[day(NEW_KERNEL)]
    assert "no change of level" in kernel and "environment: kernel 6.1.0 -> 6.2.0" in kernel
    assert blocks[day(SLOW)].count(", slower") == 5 and "kernel" not in blocks[day(SLOW)]
    assert "store alpha: version 4.48 -> 4.49" in blocks[day(SLOW)]


def test_a_series_that_came_later_and_one_that_ended(results):
    read = entries.read(results / "site")
    for i, e in enumerate(read):
        lost = "put" if i > 8 else "get" if i < 3 else ""
        gone = e.side.points["store"].eq("beta") & e.side.points["workload"].eq(lost)
        object.__setattr__(e.side, "points", e.side.points[~gone])
    found = series.history(read)
    ended = [s for s in found.series if (s.workload, s.store) == ("put", "beta")]
    late = [s for s in found.series if (s.workload, s.store) == ("get", "beta")]
    assert ended and all(not s.lasts and len(s.values) == 9 and "does not have this point" in s.reason for s in ended)
    assert late and all(s.lasts and s.values[0].entry == 3 and s.newest.before == DAYS - 4 for s in late)
    assert found.series[-1].points == 3, "the whole has the points of all entries"
    assert not {id(s) for s in series.worse(found, "newest")} & {id(s) for s in ended}


@pytest.mark.heavy
def test_the_page_and_the_figure(found, tmp_path):
    small = replace(found, series=[found.series[0], found.series[-1]])
    for kind in (".html", ".png", ".txt"):
        command._write_history(tmp_path / f"x{kind}", tmp_path / "site", small)
    page = (tmp_path / "x.html").read_text()
    assert page.count("<svg") == 1 and "src=" not in page and "@import" not in page and 'href="http' not in page
    HTMLParser().feed(page)
    assert "color-scheme:light dark" in page
    assert page.count('<div class="wide" tabindex="0"') == page.count("<table>") == 2
    assert "slower from here on" in page and "store alpha: version 4.48" in page and 'role="img"' in page
    assert "store alpha: version 4.48" in (tmp_path / "x.txt").read_text()
    assert (tmp_path / "x.png").read_bytes()[1:4] == b"PNG"
    assert views.svg(views.figure(small)) in page, "the same history has the same letters"


def test_the_table(results, found, tmp_path):
    code, _, err = run_history("--campaign-dir", results / "site", "--output", tmp_path / "x.csv")
    assert code == 0 and err == f"{tmp_path}/x.csv\n"
    table = pd.read_csv(tmp_path / "x.csv")
    assert len(table) == DAYS * len(found.series)
    begun = table[table["change"].notna()]
    assert set(begun["entry"]) == {day(SLOW)} and set(begun["verdict"]) == {"slower"} and len(begun) == 5
    assert set(table.loc[table["workload"] == "all", "unit"]) == {"ratio"}
    page, axes = (ROOT / "docs/history.md").read_text(), set(found.columns)
    assert all(f"`{c}`" in page for c in table.columns if c not in axes)


def test_the_figure_has_a_panel_a_series_and_marks_what_changed(found):
    fig = views.figure(found)
    assert len(fig.axes) == len(found.series)
    first = fig.axes[0]  # the whole
    upright = [line for line in first.lines if len(set(line.get_xdata())) == 1 and len(line.get_xdata()) == 2]
    assert len(upright) >= 3, "a change, and two changes of the environment"
    assert any(t.get_text().startswith("x0.8") for t in first.texts), [t.get_text() for t in first.texts]


@pytest.mark.heavy
def test_json_matches_the_text(results, found):
    content = valid("history", run_history("--campaign-dir", results / "site", "--json")[1])
    assert [e["name"] for e in content["entries"]] == [day(i) for i in range(DAYS)]
    assert [bool(e["environment"]) for e in content["entries"]] == [i in (SLOW, NEW_KERNEL) for i in range(DAYS)]
    changed = {("put", (day(SLOW),)), ("get", ()), ("all", (day(SLOW),))}
    assert {(s["workload"], tuple(c["at"] for c in s["changes"])) for s in content["series"]} == changed
    assert content["series"][0]["axes"]["object_size_bytes"] == 4000 and content["worse"] is None
    text = run_history("--campaign-dir", results / "site")[1]
    assert all(s["label"] in text for s in content["series"])


def test_one_store_and_the_entries_since_a_day(results):
    options = ("--store", "beta", "--since", day(4), "--json")
    content = valid("history", run_history("--campaign-dir", results / "site", *options)[1])
    assert [e["name"] for e in content["entries"]] == [day(i) for i in range(4, DAYS)]
    assert {s["store"] for s in content["series"]} == {"beta", None}
    assert not any("alpha" in line for e in content["entries"] for line in e["environment"])
    assert all(s["changes"] == [] and "too few entries" in s["reason"] for s in content["series"]), "7 entries"


# --- rules for CI -----------------------------------------------------------------------------------------------------


def test_a_change_for_the_worse_fails_until_one_begins_behind_it(results, found):
    assert [len(series.worse(found, rule)) for rule in RULES] == [0, 0, 5, 1]
    assert len(series.worse(found, "change", 10)) == 5 and not series.worse(found, "change", 25)
    assert not series.worse(series.history(found.entries[SLOW:]), "change")
    code, out, err = run_history("--campaign-dir", results / "site", "--fail-on", "change", "--json")
    assert code == 1 and valid("history", out)["worse"] == 5
    assert err == "storelab: series above that are slower: 5 (--fail-on change)\n"


def test_a_slow_newest_entry_fails_at_once(one, results, tmp_path):
    for folder in results.iterdir():
        (tmp_path / folder.name).symlink_to(folder)
    later(one, tmp_path / "site", DAYS)
    points = pd.read_csv(tmp_path / "site/tables/points.csv")
    scaled(points, 0.8, "put")
    scaled(points, 0.7, "get")
    points.to_csv(tmp_path / "site/tables/points.csv", index=False)
    derived.write_sums(tmp_path / "site", MADE)
    entries.add(tmp_path / "site")
    code, out, err = run_history("--campaign-dir", tmp_path / "site", "--fail-on", "newest", "--json")
    content = valid("history", out)
    slow = {s["workload"] for s in content["series"] if s["newest"]["verdict"] == "slower"}
    assert code == 1 and content["worse"] == 3 and slow == {"get", "all"}, err
    assert {s["newest"]["before"] for s in content["series"] if s["workload"] == "put"} == {DAYS - SLOW}
    assert {s["newest"]["before"] for s in content["series"] if s["workload"] == "get"} == {DAYS}


def test_latencies_are_worse_where_they_are_higher():
    def of(values: list[float], metric: str) -> series.Series:
        rows = [series.Value(i, 6, v, v, v) for i, v in enumerate(values)]
        (s,) = series._corrected([series._series((None, "get", {}, metric), 1, rows, len(rows))])
        return s

    rng = np.random.default_rng(3)
    noise = np.exp(rng.normal(0, 0.01, 12))
    up = [*noise[:6], *(1.5 * noise[6:])]
    assert of(up, "latency_p99").steps[-1].verdict == "slower" and of(up, "rate").steps[-1].verdict == "faster"
    last = [*noise[:11], 2.0]
    assert of(last, "latency_p50").verdict == "slower" and of(last, "rate").verdict == "faster"
    for metric, values in (("latency_p99", up), ("rate", [1 / v for v in up])):
        one = series.History([], [], [of(values, metric)])
        assert len(series.worse(one, "change", 30)) == 1 and not series.worse(one, "change", 60), metric
        assert not series.worse(one, "change-overall") and not series.worse(one, "newest")
    nothing = of([1.0] * 11 + [0.0], "rate")
    assert nothing.verdict == "undecided" and "a value of 0" in nothing.reason and nothing.steps == ()


# --- the environment --------------------------------------------------------------------------------------------------


def about(*rows: tuple[str, str, str]) -> dict:
    points = pd.DataFrame({"duration_s": [4.0, 4.0], "warm_up_s": [1.0, None]})
    return entries.environment_facts(pd.DataFrame(rows, columns=["group", "item", "value"]), points)


def test_facts_are_sets_and_packages_stand_alone():
    machine = [("packages", "boto3 1.43, s3fs 2026.9"), ("kernel", "6.1"), ("kernel", "6.2")]
    rows = [("environment", item, value) for item, value in machine]
    found = about(*rows, ("checks", "content", "passed"), ("store a", "version", None))
    assert found == {
        **{("environment", "boto3"): {"1.43"}, ("environment", "s3fs"): {"2026.9"}, ("store a", "version"): {""}},
        **{("environment", "kernel"): {"6.1", "6.2"}, ("measuring", "window [s]"): {"4"}},
        ("measuring", "warm-up [s]"): {"1"},
    }


def test_differences_are_lines():
    kernel = ("environment", "kernel", "6.1")
    was = about(("store a", "version", "1"), kernel, ("store b", "version", "1"))
    now = about(("store a", "version", "2"), kernel, ("store a", "kind", "s3"), ("store c", "version", ""))
    of_a = ["store a: kind (not recorded) -> s3", "store a: version 1 -> 2"]
    assert entries.differences(was, now) == ["store c: is new", "store b: no longer exists", *of_a]
    assert entries.differences(was, was) == []
    long = about(("store a", "version", "x" * 500))
    (line,) = entries.differences(about(("store a", "version", "1")), long)
    assert len(line) < 130 and line.endswith("…")
    assert entries.facts_of_store(was, "a").keys() == was.keys() - {("store b", "version")}


def test_names_of_the_series_are_those_of_compare(found):
    assert len(views.names(found)) == len(found.series) and views.names(found)[-1] == "all 6 points"
    assert len(set(views.names(found))) == len(found.series)


def test_rules_are_spelled_once():
    shown = json.loads((ROOT / "docs/machine.schema.json").read_text())["$defs"]["history"]["properties"]
    assert {"fail_on", "worse"} <= shown.keys()
    page = (ROOT / "docs/history.md").read_text()
    assert all(f"`{rule}`" in page for rule in RULES) and all(f"`{kind}`" in page for kind in KINDS)
