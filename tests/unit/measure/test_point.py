"""One point, measured in a folder: its record, its remaining files, and those of a failed point."""

import dataclasses
from contextlib import nullcontext

import pytest
from refusals import refusal
from small_plan import configured

from storelab.analysis.records.campaign import seal
from storelab.core import folders, plan, records
from storelab.core.errors import MeasurementFailed, UserError
from storelab.host import environment
from storelab.measure import deployment, jobs, point
from storelab.stores import all_stores
from storelab.stores.base import Store
from storelab.workloads import WORKLOADS
from storelab.workloads.staging import left_over

S = 10**9


@pytest.fixture
def campaign(tmp_path, monkeypatch):
    """Return a configuration of one point of `put` in a folder, and its points."""
    monkeypatch.chdir(tmp_path)
    for name in ("files", "scratch"):
        (tmp_path / name).mkdir()
    axes = {"engine": "fsspec", "object_size": "10 kB", "clients": 2, "workers": 2}
    sweep = {"workload": "put", "duration": "1 s", "warm_up": "100 ms", "axes": axes}
    config = configured(
        stores={"a": {"kind": "directory", "path": str(tmp_path / "files")}},
        sweeps={"s": sweep},
        **{name: str(tmp_path / name) for name in ("results", "scratch", "state")},
    )
    return config, plan.make(config, WORKLOADS)


def test_point_is_measured_once(campaign, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(left_over, "MAX_OBJECTS", 10**6)  # a fast disk takes 30 000 in a second
    changed = environment.Checkout("0a1b-dirty", "--- a/src\n", "5" * 64)
    monkeypatch.setattr(environment, "checkout", lambda: changed)
    config, points = campaign
    (chosen,) = points
    run = point.point(config, points, chosen.key).to_json()
    folder = config.raw / chosen.key
    kept = records.read_json(folder / "run.json")
    assert run.items() <= kept.items()
    assert all(check["ok"] for check in run["checks"]) and run["engine"]["name"] == "fsspec"
    assert {"monitor.0.parquet", "ops.0.parquet", "ops.1.parquet"} <= {path.name for path in folder.iterdir()}
    assert kept["environment"]["git_changes"] == {"sha256": "5" * 64}
    assert records.changes_file(config.raw, "5" * 64).read_text() == "--- a/src\n"
    assert "[1/1] a put" in capsys.readouterr().err

    written = [path for path in (tmp_path / "files").rglob("put/**/*") if path.is_file()]
    left = left_over.left(config, "a")
    assert 0 < left["objects"] <= len(written) and left["bytes"] == 10_000 * left["objects"] and left["buckets"] == 1
    assert point.point(config, points, chosen.key) is None
    assert left_over.remove(config, all_stores(config)["a"], always=True) == len(written)
    assert left_over.left(config, "a")["objects"] == 0


def test_campaign_is_not_sealed_while_a_point_is_measured(campaign, monkeypatch):
    config, points = campaign
    with monkeypatch.context() as patch:
        patch.setattr(point, "measure", lambda *_: refusal(seal, config.campaign_dir))
        said = point.point(config, points, points[0].key)
    assert "is being measured, sealed or changed by another process; wait" in said
    with folders.campaign_lock(config.campaign_dir, exclusive=True):
        assert "is being sealed or changed by another process" in refusal(point.point, config, points, points[0].key)

    def seal_now(*_):
        (config.raw).mkdir(parents=True)
        (config.raw / "SEAL").touch()
        return nullcontext()

    monkeypatch.setattr(point.attempts, "measuring_lock", seal_now)  # sealed while this process waited for the lock
    assert "the campaign is sealed" in refusal(point.point, config, points, points[0].key)
    assert [path.name for path in config.raw.rglob("*")] == ["SEAL"]


def test_failures_leave_their_reason(campaign, monkeypatch):
    """A store that fails gives a failed point; after a user's mistake the point is not tried, and the run continues."""
    config, points = campaign
    key = points[0].key
    failed = config.raw / key / records.FAILED
    for error, begin in (
        (MeasurementFailed("the store is slow"), "the store is slow"),
        (UserError("stores.a.path", "is away", "mount it"), "not tried: stores.a.path: is away"),
    ):

        def fails(*_, error=error):
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(deployment.stage, "ensure", fails)
            patch.setattr(deployment.filling, "ensure", fails)
            with pytest.raises(type(error), match=str(error)):
                point.point(config, points, key)
        assert records.read_json(failed)["reason"].startswith(begin)
        assert records.read_json(failed)["point"]["key"] == key


def test_credentials_that_expire_give_no_record(campaign, monkeypatch):
    """The errors are not a result about the store. Without a record, the next run repeats the point."""
    config, (chosen,) = campaign
    folder, ended = config.raw / chosen.key, ["stores.a: the token has expired"]
    spent = point.record.budget
    failing = lambda *a, **k: dataclasses.replace(spent(*a, **k), reason="60 % of the operations failed")  # noqa: E731
    monkeypatch.setattr(point.record, "budget", failing)
    monkeypatch.setattr(Store, "credentials_refused", lambda _: ended[0])
    with pytest.raises(MeasurementFailed, match=r"60 % of the operations failed; stores\.a: the token has expired"):
        point.point(config, [chosen], chosen.key)
    assert records.read_json(folder / records.FAILED)["reason"].endswith("the token has expired")
    assert not (folder / "run.json").exists()
    ended[0] = ""  # then the failures are a result
    run = point.point(config, [chosen], chosen.key)
    assert not run.valid and (folder / "run.json").exists()


def test_window_without_operations_is_longer_at_the_next_attempt(campaign, monkeypatch):
    """Clients that upload nothing before the deadline fail the point, and its next window is three times as long."""
    config, (chosen,) = campaign
    short = dataclasses.replace(chosen, fixed=chosen.fixed | {"duration_ns": 1000, "warm_up_ns": 0})
    with pytest.raises(MeasurementFailed, match="no operation ended"):
        point.point(config, [short], short.key)
    assert jobs.lengthened(config, [short], short).fixed["duration_ns"] == 10_000  # at least 0.1 s, at most ten times
    assert records.read_json(config.raw / short.key / records.FAILED)["detail"] == {jobs.NO_OPERATION: True}


def test_window_of_few_operations_is_lengthened(campaign, tmp_path, capsys):
    """The record of the first repetition says how long an operation takes: 4 workers, 2 s each, n operations."""
    config, (first,) = campaign
    second = dataclasses.replace(first, rep=2, key=f"{first.key}-2")
    clients = [{"client": 0, "operations": 0}, {"client": 1, "operations": 2}]
    run = {"point": dataclasses.asdict(first), "start_ns": 0, "deadline_ns": 2 * S, "valid": True, "clients": clients}
    cases = {2: 10.0, 3: 8.1, 7: 3.6, 24: 1.1, 30: 1.0, 0: 10.0}  # 0.1 s + 3 * 8 s / n, at most ten times 1 s
    for done, expected in cases.items():
        clients[1]["operations"] = done
        records.finish(config.raw / first.key, run)
        changed = jobs.lengthened(config, [first, second], second)
        assert changed.fixed["duration_ns"] == pytest.approx(expected * S), done
        assert (f"extended to {expected:g} s" in capsys.readouterr().err) == (expected > 1), done
    assert jobs.lengthened(config, [first, second], first) is first, "no other repetition has a record"
    third = dataclasses.replace(first, rep=3, key=f"{first.key}-3")
    clients[1]["operations"] = 3
    records.finish(config.raw / third.key, run | {"point": dataclasses.asdict(third)})
    changed = jobs.lengthened(config, [first, second, third], first)  # measured again, after the others
    assert changed.fixed["duration_ns"] == pytest.approx(8.1 * S)
    failed = dataclasses.replace(first, key=f"{first.key}-0")
    records.fail(config.raw / failed.key, failed, "it took too long", {jobs.NO_OPERATION: True})
    for again in (failed, second):
        assert jobs.lengthened(config, [failed, second], again).fixed["duration_ns"] == 3 * S, "no operation ended"
    records.fail(config.raw / failed.key, failed, "the endpoint refused the connection")
    assert jobs.lengthened(config, [failed, second], failed) is failed, "a longer window does not help"
    scheduled = dataclasses.replace(second, axes=second.axes | {"arrival_rate": 5})
    assert jobs.lengthened(config, [first, scheduled], scheduled) is scheduled
