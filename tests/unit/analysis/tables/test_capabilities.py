"""The capability table: answers on which clients and runs agree; a probe is in no table of rates."""

from dataclasses import asdict

import pandas as pd
import pytest

from campaigns import built
from storelab.analysis.records.campaign import load
from storelab.analysis.tables import build, guarantees
from storelab.core import integrity, plan, records
from storelab.stores.config import Config
from storelab.workloads import WORKLOADS

S = 10**9
T0 = 1_760_000_000 * S


def test_agreement_of_clients_and_runs():
    """Questions that were not tried give way to answers; contradictions are shown."""
    cases = [
        ([("yes", "a"), ("yes", "b")], "yes", "a", 2),
        ([("error", "x"), ("yes", "b"), ("not tried", "c")], "yes", "b", 1),
        ([("not tried", "c"), ("error", "x")], "error", "x", 0),
        ([("not tried", "c"), ("not tried", "d")], "not tried", "c", 0),
        ([("no", "n"), ("yes", "a"), ("yes", "b")], "unclear", "2 x yes (a); 1 x no (n)", 3),
        ([("yes", "412"), ("no", "b"), ("yes", "412")], "unclear", "2 x yes (412); 1 x no (b)", 3),
    ]
    for given, answer, shown, asked in cases:
        found = guarantees.agreed(pd.DataFrame(given, columns=["answer", "evidence"]))
        assert found == {"answer": answer, "evidence": shown, "asked": asked}, given


def record(config, point, answers):
    """Write a record as the measuring side does; `answers`: by client."""
    folder, clients = config.raw / point.key, []
    for i, found in enumerate(answers):
        n, end = len(found), T0 + S
        same = {"client": [i] * n, "start_ns": [T0] * n, "end_ns": [end] * n}
        ops = same | {"op": ["PROBE"] * n, "count": [1] * n, "bytes": [0] * n, "status": [0] * n}
        records.write_table(folder / f"ops.{i}.parquet", records.OPS, ops)
        columns = dict(zip(("topic", "check", "answer"), zip(*found, strict=True), strict=True))
        columns |= same | {"evidence": ["seen"] * n}
        records.write_table(folder / f"answers.{i}.parquet", records.ANSWERS, columns)
        clients.append({"client": i, "start_ns": T0, "end_ns": end, "endpoint": "http://127.0.0.1:1"})
    head = {"point": asdict(point), "start_ns": T0, "deadline_ns": T0 + 60 * S, "clients": clients, "host": {}}
    records.finish(folder, head | {"engine": {"version": "1"}, "checks": []})


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    axes = {"accounts": [1, 2], "scheme": ["default", "https"], "clients": 2}
    settings = {
        **{"campaign": "c", "name": "c", "results": str(tmp_path_factory.mktemp("c")), "repetitions": 1},
        **{"stores": {"b": {"kind": "seaweedfs"}, "a": {"kind": "ceph"}}, "use_stores": ["b", "a"]},
        "sweeps": {"p": {"workload": "probe", "duration": "60 s", "axes": axes}},
    }
    config = Config.model_validate(settings)
    points = plan.make(config, WORKLOADS)
    records.write_json(config.raw / "plan.json", plan.to_json(config, points, WORKLOADS))
    for p in points:
        apart = "yes" if p.axes["accounts"] == 2 else "not tried"
        https = "yes" if p.axes["scheme"] == "https" else "not tried"
        found = [("ranges", "single range", "yes"), ("accounts", "read refused", apart), ("connection", "HTTPS", https)]
        record(config, p, [found, [("ranges", "single range", "yes" if p.store == "b" else "no")]])
    integrity.write_sums(config.raw)
    build.build(config.campaign_dir)
    return config.campaign_dir


def test_each_question_and_deployment_has_a_row(campaign):
    t = build.read(campaign, "capabilities")
    deployment = ["store", "redundancy", "servers", "backing", "scheme"]
    assert list(t.columns) == [*deployment, "topic", "check", "answer", "evidence", "asked"]
    assert len(t) == 2 * 2 * 3 and list(t["store"].unique()) == list(load(campaign).plan["stores"])
    assert list(t["check"][:3]) == ["single range", "read refused", "HTTPS"]
    refused = t[t["check"] == "read refused"]
    assert set(refused["answer"]) == {"yes"} and set(refused["asked"]) == {1}

    def answers(check, by):
        return dict(t[t["check"] == check].groupby(by)["answer"].unique().map(list))

    assert answers("HTTPS", "scheme") == {"default": ["not tried"], "https": ["yes"]}
    assert answers("single range", "store") == {"a": ["unclear"], "b": ["yes"]}


def test_probe_has_no_rate(campaign):
    points = build.read(campaign, "points")
    assert len(points) == 8 and set(points["state"]) == {"ok"}
    rates = ("overlap", "first_done", "last_done", "tail", "steadiness", "operations")
    assert points[[c for c in points if c.startswith(rates)]].isna().all(axis=None)
    assert build.read(campaign, "throughput").empty and build.read(campaign, "sparse").empty
    assert not build.read(campaign, "numbers")["value"].isin(["nan", "<NA>"]).any()


def test_campaign_without_probe_has_empty_table():
    assert build.read(built("one_each"), "capabilities").empty
