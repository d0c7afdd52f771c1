"""The capability table: what clients and runs agree on, and that a probe stands in no table of rates."""

from dataclasses import asdict

import pandas as pd
import pytest

from storelab.analysis.records.campaign import load
from storelab.analysis.tables import build
from storelab.analysis.tables.systems import capabilities
from storelab.core import evidence, plan, records
from storelab.core.config import Config
from storelab.workloads import WORKLOADS

S = 10**9
T0 = 1_760_000_000 * S


def rows(*answered):
    return pd.DataFrame(answered, columns=["answer", "evidence"])


def test_what_was_not_tried_gives_way():
    assert capabilities.agreed(rows(("not tried", "one account"), ("yes", "403"), ("error", "?"))) == {
        "answer": "yes",
        "evidence": "403",
        "asked": 1,
    }
    assert capabilities.agreed(rows(("not tried", "a"), ("error", "b"))) == {
        "answer": "error",
        "evidence": "b",
        "asked": 0,
    }
    assert capabilities.agreed(rows(("no", "first"), ("no", "second"))) == {
        "answer": "no",
        "evidence": "first",
        "asked": 2,
    }


def test_contradictions_are_shown():
    found = capabilities.agreed(rows(("yes", "412"), ("no", "overwritten"), ("yes", "412")))
    assert found == {"answer": "unclear", "evidence": "2 x yes (412); 1 x no (overwritten)", "asked": 3}


def record(config, point, answers):
    """A record as the measuring side leaves it; `answers`: by client."""
    folder = config.raw / point.key
    clients = []
    for i, told in enumerate(answers):
        n, end = len(told), T0 + S
        ops = {
            "client": [i] * n,
            "op": ["PROBE"] * n,
            "count": [1] * n,
            "bytes": [0] * n,
            "start_ns": [T0] * n,
            "end_ns": [end] * n,
            "status": [0] * n,
        }
        records.write_table(folder / f"ops.{i}.parquet", records.OPS, ops)
        topic, check, answer = zip(*told, strict=True)
        columns = {
            "client": [i] * n,
            "topic": topic,
            "check": check,
            "answer": answer,
            "evidence": ["seen"] * n,
            "start_ns": [T0] * n,
            "end_ns": [end] * n,
        }
        records.write_table(folder / f"answers.{i}.parquet", records.ANSWERS, columns)
        clients.append(
            {"client": i, "start_ns": T0, "end_ns": end, "endpoint": "http://127.0.0.1:1", "connections_max": None}
        )
    head = {
        "point": asdict(point),
        "start_ns": T0,
        "deadline_ns": T0 + 60 * S,
        "clients": clients,
        "host": {},
        "engine": {"version": "1"},
        "checks": [],
    }
    records.finish(folder, head)


@pytest.fixture
def campaign(tmp_path):
    config = Config.model_validate(
        {
            "campaign": "c",
            "name": "c",
            "results": str(tmp_path),
            "stores": {"b": {"kind": "seaweedfs"}, "a": {"kind": "ceph"}},
            "use_stores": ["b", "a"],
            "repetitions": 1,
            "sweeps": {
                "p": {
                    "workload": "probe",
                    "duration": "60 s",
                    "axes": {"accounts": [1, 2], "scheme": ["default", "https"], "clients": 2},
                }
            },
        }
    )
    points = plan.make(config, WORKLOADS)
    records.write_json(config.raw / "plan.json", plan.to_json(config, points, WORKLOADS))
    for p in points:
        apart = "yes" if p.axes["accounts"] == 2 else "not tried"
        https = "yes" if p.axes["scheme"] == "https" else "not tried"
        told = [("ranges", "single range", "yes"), ("accounts", "read refused", apart), ("connection", "HTTPS", https)]
        record(config, p, [told, [("ranges", "single range", "yes" if p.store == "b" else "no")]])
    evidence.write_sums(config.raw)
    build.build(config.campaign_dir)
    return config.campaign_dir


def test_one_row_for_each_question_and_deployment(campaign):
    t = build.read(campaign, "capabilities")
    assert list(t.columns) == [
        "store",
        "redundancy",
        "servers",
        "backing",
        "scheme",
        "topic",
        "check",
        "answer",
        "evidence",
        "asked",
    ]
    assert len(t) == 2 * 2 * 3
    assert list(t["store"].unique()) == list(load(campaign).plan["stores"])
    assert list(t["check"][:3]) == ["single range", "read refused", "HTTPS"]
    assert set(t[t["check"] == "read refused"]["answer"]) == {"yes"} and set(
        t[t["check"] == "read refused"]["asked"]
    ) == {1}
    assert dict(t[t["check"] == "HTTPS"].groupby("scheme")["answer"].unique().map(list)) == {
        "default": ["not tried"],
        "https": ["yes"],
    }
    assert dict(t[t["check"] == "single range"].groupby("store")["answer"].unique().map(list)) == {
        "a": ["unclear"],
        "b": ["yes"],
    }


def test_a_probe_has_no_rate(campaign):
    points = build.read(campaign, "points")
    assert len(points) == 8 and set(points["state"]) == {"ok"}
    assert (
        points[
            [
                c
                for c in points
                if c.startswith(("overlap", "first_done", "last_done", "tail", "steadiness", "operations"))
            ]
        ]
        .isna()
        .all(axis=None)
    )
    assert build.read(campaign, "throughput").empty and build.read(campaign, "sparse").empty
    assert not build.read(campaign, "numbers")["value"].isin(["nan", "<NA>"]).any()


def test_a_campaign_without_a_probe_has_an_empty_table(tmp_path):
    from make_examples import make

    make(
        tmp_path,
        failed=(),
        sweeps={"upload": {"workload": "put", "duration": "4 s", "axes": {"clients": [1]}}},
        repetitions=1,
    )
    build.build(tmp_path, ["capabilities"])
    assert build.read(tmp_path, "capabilities").empty
