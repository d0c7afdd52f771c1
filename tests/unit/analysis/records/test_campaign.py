"""Seals of campaigns: what they cover, and what a loaded campaign has."""

import hashlib
import json

import pytest

from storelab import __version__
from storelab.analysis.records import campaign
from storelab.core import integrity, records
from storelab.core.errors import UserError


def test_seal_covers_records_and_failures(tmp_path):
    raw = tmp_path / "raw"
    points = [{"key": k, "store": "s", "workload": "get", "axes": {}, "rep": i} for i, k in enumerate(("a", "b"), 1)]
    records.write_json(raw / "plan.json", {"schema": 1, "points": points})
    records.finish(raw / "a", {"point": points[0], "start_ns": 5})
    failure = {"schema": 3, "point": points[1], "time_ns": 7, "reason": "why", "earlier": []}
    records.write_json(raw / "b" / "failed.json", failure)
    with pytest.raises(UserError, match=r"failed \(1 of 2 points\): why"):
        campaign.seal(tmp_path)
    seal = campaign.seal(tmp_path, with_failures=True)
    text = json.dumps({"summed": seal.pop("summed")} | {k: v for k, v in seal.items() if k != "sum"}, indent=1) + "\n"
    assert seal.pop("sum") == hashlib.sha256(text.encode()).hexdigest()
    kept = json.loads((raw / "SEAL").read_text())
    assert {k: v for k, v in kept.items() if k not in ("summed", "sum")} == seal
    digest = hashlib.sha256((raw / "SHA256SUMS").read_bytes()).hexdigest()
    facts = {"schema": 2, "storelab": __version__, "points": 2, "failed": 1, "sha256sums_sha256": digest}
    assert {k: v for k, v in seal.items() if k != "time"} == facts
    assert campaign.seal(tmp_path) == integrity.seal_of(raw)
    loaded = campaign.load(tmp_path)
    assert list(loaded.runs) == ["a"] and list(loaded.failures) == ["b"] and loaded.tries("b") == []
    (raw / "SHA256SUMS").write_text((raw / "SHA256SUMS").read_text() + "\n")
    with pytest.raises(UserError, match="is not the one that was sealed"):
        integrity.seal_of(raw)


def test_plan_of_a_later_schema_is_refused(tmp_path, monkeypatch):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "plan.json").write_text("{}")
    for plan, known in (({}, True), ({"schema": 1}, True), ({"schema": 7}, False)):
        monkeypatch.setattr(campaign.integrity, "plan_of", lambda raw, plan=plan: plan)
        if known:
            assert campaign.read_plan(tmp_path) is plan
            continue
        with pytest.raises(UserError, match="schema 7"):
            campaign.read_plan(tmp_path)
