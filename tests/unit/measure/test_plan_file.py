"""`plan.json`: settings that changed after a point was measured, and plans that drop records."""

from make_examples import CONFIG, ONE_EACH
from refusals import NONE, check_refused, refusal
from small_plan import configured

from campaigns import copied
from storelab.core import plan, records
from storelab.host import environment
from storelab.measure import plan_file
from storelab.stores import config
from storelab.workloads import WORKLOADS


def measured(folder, change=lambda then: None, **more):
    """Return the configuration and points of a campaign with one measured point, whose plan is changed."""
    settings = configured(results=str(folder), **more)
    points = plan.make(settings, WORKLOADS)
    then = records.as_json(plan_file.current(settings, points, WORKLOADS).to_json())
    change(then)
    records.write_json(settings.raw / "plan.json", then)
    (settings.raw / points[0].key).mkdir(parents=True)
    (settings.raw / points[0].key / "run.json").write_text("{}")
    return settings, points


def test_first_difference_is_reported_with_the_count(tmp_path):
    fixed = {"duration_ns": 1, "warm_up_ns": 2, "data_seed": 3}
    for changes in range(4):
        then = dict(list(fixed.items())[:changes])
        settings, points = measured(tmp_path / str(changes), lambda p, then=then: p["points"][0]["fixed"].update(then))
        found = plan_file.differences(settings, points)
        assert len(found) == changes
        message = refusal(plan_file.refuse_differences, settings, points)
        assert found[0] in message if changes else message == NONE
        assert (f"{changes - 1} more" in message) == (changes > 1)


def test_unknown_settings_of_a_store_count_as_defaults(tmp_path):
    kind = {"kind": "seaweedfs"}
    for number, (stores, differs) in enumerate(
        (({}, []), ({"a": kind}, []), ({"a": kind | {"volume_size": 7}}, ["volume_size"]))
    ):
        settings, points = measured(tmp_path / str(number), lambda p, stores=stores: p.update(stores=stores))
        found = plan_file.differences(settings, points)
        assert [line.split()[2] for line in found] == differs and all(line.startswith("store a: ") for line in found)


def test_addresses_ports_and_links_may_change(tmp_path):
    elsewhere = {"port": 12345, "address": "10.0.0.1", "directory": "/elsewhere", "link": 10**9}
    settings, points = measured(tmp_path, lambda then: then["stores"]["a"].update(elsewhere))
    assert plan_file.differences(settings, points) == []
    plan_file.write(settings, points, WORKLOADS)
    assert plan_file.up_to_date(settings, points, WORKLOADS), "the plan has the current settings"


def test_other_software_of_used_engines_is_a_difference(tmp_path, monkeypatch):
    now = environment.packages()
    for sweep, package in (
        ({"workload": "put", "axes": {"engine": "obstore"}}, "obstore"),
        ({"workload": "read_volume", "axes": {"engine": "planned"}}, "cramjam"),
        ({"workload": "put", "axes": {"engine": "fsspec"}}, "xrootd"),
    ):
        settings, points = measured(tmp_path / package, sweeps={"s": sweep})
        assert plan_file.differences(settings, points) == []
        with monkeypatch.context() as later:
            later.setattr(environment, "packages", lambda package=package: now | {package: "99.0"})
            assert plan_file.differences(settings, points) == [f"{package} was {now[package]}, is 99.0"]
    settings = configured(results=str(tmp_path))
    points = plan.make(settings, WORKLOADS)
    assert "uproot" not in plan_file.current(settings, points, WORKLOADS).software, "s5cmd moves these objects"


def test_plan_that_drops_records_is_refused(tmp_path):
    """Records of another campaign file, of an earlier plan, or without a plan; the whole plan is written."""
    raw = copied("one_each", tmp_path / "example") / "raw"

    def planned(campaign, sweeps=ONE_EACH):
        settings = config.Config.model_validate(
            CONFIG | {"results": str(tmp_path), "repetitions": 1, "sweeps": sweeps, "campaign": campaign}
        )
        return settings, plan.make(settings, WORKLOADS)

    records.write_summed(raw / "plan.json", records.read_json(raw / "plan.json") | {"file": "first"})
    less = {"upload": ONE_EACH["upload"]}
    message = refusal(plan_file.write, *planned("second", less), WORKLOADS)
    for text in ("campaign file second: ", "but not 2 records of campaign file first ", "alpha/get"):
        assert text in message, text
    first = planned("first", less)
    check_refused("", "but not 2 records that it planned before", plan_file.refuse_differences, *first)
    (raw / "plan.json").unlink()
    check_refused("", "but not 2 records without a plan", plan_file.refuse_differences, *first)
    whole = planned("/somewhere/first.yaml")
    plan_file.write(*whole, WORKLOADS)
    assert records.read_json(raw / "plan.json")["file"] == "first.yaml" and records.damage(raw / "plan.json") is None
    assert plan_file.up_to_date(*whole, WORKLOADS)


def test_plan_of_another_campaign_is_refused(tmp_path):
    settings, points = measured(tmp_path, lambda then: then["campaign"].update(name="other"))
    for act in (plan_file.refuse_differences, plan_file.write):
        message = refusal(act, settings, points, *([WORKLOADS] if act is plan_file.write else []))
        assert f"plan.json: is the plan of campaign 'other', not of {settings.name!r}; restore it" in message
