"""Seals of campaigns: what they cover, and what a loaded campaign has."""

import hashlib
import json
import shutil

import command_line
import pytest
from refusals import check_refused

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


def dirty_campaign(folder, changes):
    """Write a campaign of a clean and a dirty point, whose environment has `changes`."""
    points = [{"key": k, "store": "s", "workload": "get", "axes": {}, "rep": i} for i, k in enumerate(("a", "b"), 1)]
    records.write_json(folder / "raw/plan.json", {"schema": 1, "points": points})
    for point, commit in zip(points, ({"git_commit": "0a1b"}, {"git_commit": "2c3d-dirty"} | changes), strict=True):
        records.finish(
            folder / "raw" / point["key"],
            {"point": point, "start_ns": 1_767_225_600_000_000_000, "environment": commit},
        )
    return folder


def test_seal_keeps_uncommitted_changes_on_request(tmp_path):
    text = b"--- a/src\n"
    digest = hashlib.sha256(text).hexdigest()
    folder = dirty_campaign(tmp_path, {"git_changes": {"sha256": digest}})
    kept = records.changes_file(folder / "raw", digest)
    fix = "commit the changes and measure again"
    check_refused(
        f"{folder}/raw/b: was measured with uncommitted changes of the code of commit 2c3d (1 of 2 points); {fix}, or",
        "seal --dirty",
        campaign.seal,
        folder,
    )
    lost = f"its changes of the code of commit 2c3d were not kept: their file is missing; {fix}"
    check_refused(f"{folder}/raw/b: ", lost, campaign.seal, folder, False, True)
    assert not records.sealed(folder / "raw")
    records.write_atomic(kept, text)
    integrity.write_sums(folder / "raw")
    seal = campaign.seal(folder, dirty=True)
    assert kept.read_bytes() == text and campaign.seal(folder) == seal and len(campaign.load(folder).runs) == 2
    kept.write_bytes(b"--- a/other\n")
    check_refused(str(kept), "was changed after it was measured", campaign.load, folder)


def test_dirty_records_without_changes(tmp_path):
    """Changes that were too large are a refusal; records of older versions have none."""
    large = dirty_campaign(tmp_path / "large", {"git_changes": {"sha256": "0" * 64, "not_kept": "they have 2 MB"}})
    check_refused(f"{large}/raw/b: ", "were not kept: they have 2 MB; commit", campaign.seal, large, False, True)
    older = dirty_campaign(tmp_path / "older", {})
    check_refused(f"{older}/raw/b: ", "seal --dirty", campaign.seal, older)
    shutil.copytree(older, tmp_path / "added")
    assert command_line.storelab("history", "add", str(tmp_path / "added"))[0] == 2
    for command in (("seal", str(older)), ("history", "add", str(tmp_path / "added"))):
        assert command_line.storelab(*command, "--dirty")[0] == 0
    assert records.sealed(older / "raw") and records.sealed(tmp_path / "added@2026-01-01/raw")


def test_sealed_dirty_records_are_converted(tmp_path):
    folder = dirty_campaign(tmp_path, {})
    integrity.write_sums(folder / "raw")
    old = {"schema": 1, "time": "2026-01-01T00:00:00Z", "points": 2, "failed": 0}
    records.write_json(folder / "raw/SEAL", old | {"sha256sums_sha256": records.sha256(folder / "raw/SHA256SUMS")})
    assert campaign.seal(folder)["converted"]


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
