"""Evidence: every changed byte of a campaign's raw files is reported, and missing or renamed files are named."""

import json
import random
import shutil
import subprocess
from pathlib import Path

import collected
import pytest
from collected import FINE, flip, looks
from paths import ROOT
from refusals import refusal

from storelab.analysis.records import campaign
from storelab.core import integrity, records
from storelab.core.errors import UserError

# the campaigns whose records git contains
SEALED = {
    p.name
    for line in (ROOT / ".gitignore").read_text().splitlines()
    if line.startswith("!/results/") and line.count("/") == 3
    for p in ROOT.glob(line[2:-1])
}


@pytest.fixture
def copy(tmp_path) -> Path:
    return collected.copied(tmp_path)


def test_whole_campaign_agrees_with_sha256sum(copy):
    assert looks(copy) == FINE
    command = ["sha256sum", "-c", "--quiet", "SHA256SUMS"]
    done = subprocess.run(command, cwd=copy / "raw", capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("sealed", [pytest.param(False, marks=pytest.mark.heavy), True])
def test_flipped_bytes_are_reported(copy, sealed):
    """Flip bits of a file of each kind, at random places and at its first and last bytes."""
    if sealed:
        campaign.seal(copy, with_failures=True)
    raw, rng = copy / "raw", random.Random(17)
    kinds = {p.name.split(".")[0] + p.suffix: p for p in sorted(raw.rglob("*")) if p.is_file()}
    own = {"runs.parquet", "SHA256SUMS.measured", "SEAL"} if sealed else {"run.json", "failed.json"}
    assert {*own, "plan.json", "d.json", "d.parquet", "ops.parquet", "SHA256SUMS"} <= set(kinds)
    assert ("run.json" in kinds) != sealed
    for path in kinds.values():
        was = path.read_bytes()
        for place in {0, 1, len(was) - 1, len(was) - 2, *(rng.randrange(len(was)) for _ in range(12))}:
            flip(path, place, rng.randrange(1, 256))
            for message in looks(copy):
                assert message and "\n" not in message and str(raw) in message, (path.name, place, message)
            path.write_bytes(was)
    assert looks(copy) == FINE


def test_every_byte_of_a_seal_counts(copy):
    campaign.seal(copy, with_failures=True)
    path = copy / "raw/SEAL"
    was = path.read_bytes()
    for place in range(len(was)):
        flip(path, place, 1 << place % 8)
        assert "SEAL" in refusal(integrity.seal_of, copy / "raw")
        path.write_bytes(was)


def test_older_seal_is_read_and_sealed_again(copy):
    """Seals of schema 1 have no sum and a folder for each point: they are valid, and get the new form."""
    digest = records.sha256(copy / "raw/SHA256SUMS")
    old = {"schema": 1, "time": "2026-01-01T00:00:00Z", "points": 9, "failed": 1, "sha256sums_sha256": digest}
    (copy / "raw/SEAL").write_text(json.dumps(old, indent=1) + "\n")
    assert integrity.seal_of(copy / "raw") == old and looks(copy) == FINE
    was = (copy / "raw/SHA256SUMS").read_bytes()
    seal = campaign.seal(copy)
    assert seal["schema"] == 2 and seal["before"] == old and seal["time"] == old["time"] and looks(copy) == FINE
    assert (copy / "raw/SHA256SUMS.measured").read_bytes() == was and not list((copy / "raw").rglob("run.json"))
    records.write_summed(copy / "raw/SEAL", seal | {"schema": 3})
    assert "use a later version of storelab" in refusal(integrity.seal_of, copy / "raw")
    (copy / "raw/SEAL").write_text(json.dumps({k: v for k, v in old.items() if k != "points"}))
    with pytest.raises(UserError, match=r"SEAL.*'points'"):
        integrity.seal_of(copy / "raw")


def test_sealed_campaigns_verify():
    for name in SEALED:
        raw = ROOT / "results" / name / "raw"
        assert integrity.verify(raw) >= 4 and "summed" in integrity.seal_of(raw), name


def test_missing_and_renamed_files_differ(copy):
    path = next((copy / "raw").rglob("ops.0.parquet"))
    other = path.with_name("ops.7.parquet")
    path.rename(other)
    assert all(f"{path}: was renamed" in message and str(other) in message for message in looks(copy))
    other.unlink()
    assert all(f"{path}: raw record is missing" in message for message in looks(copy))


def test_renamed_and_unplanned_folders_are_named(copy):
    folder = next((copy / "raw").rglob("run.json")).parent
    other = folder.with_name("rep~009")
    folder.rename(other)
    assert all("was renamed" in message and other.name in message for message in looks(copy))
    shutil.copytree(other, folder)
    integrity.write_sums(copy / "raw")
    assert all("does not have" in message and other.name in message for message in looks(copy))


def test_damaged_sums_are_reported(copy):
    path = copy / "raw/SHA256SUMS"
    text = path.read_text()
    first, _, rest = text.partition("\n")
    for changed, words in (
        (text[: len(text) // 2], "checksum of a file"),
        (first[:64] + "\n" + text, "line 1"),
        (first + "\n" + text, "line 2"),
        (rest, "the checksum in its last line"),
        ("", "is not in SHA256SUMS"),
    ):
        path.write_text(changed)
        assert all(words in message for message in looks(copy)), words
    path.unlink()
    assert "was not collected" in refusal(integrity.verify, copy / "raw")


def test_load_run_sees_what_verify_sees(copy):
    folder = next((copy / "raw").rglob("run.json")).parent
    assert integrity.load_run(folder).files
    table, head = next(folder.glob("ops.*.parquet")), folder / "run.json"
    flip(table, 100, 1)  # the size stays
    assert integrity.load_run(folder) is None and str(table) in str(integrity.first_error(folder, None).error())
    flip(table, 100, 1)
    head.write_text(head.read_text().replace('"start_ns": 17', '"start_ns": 18'))  # before anything was collected
    assert integrity.load_run(folder) is None and "its checksum" in integrity.first_error(folder, None).problem
