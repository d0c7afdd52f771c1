"""A campaign is packed, unpacked elsewhere and rebuilt; an installed wheel does the same without a checkout."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from command_line import in_process
from paths import ROOT

import campaigns
from storelab.analysis.artefact import archive, members
from storelab.core import integrity, records

pytestmark = [pytest.mark.real, pytest.mark.heavy]
NAME = "example"
PACK = f"results/{NAME}/{NAME}.crate.zip"


def lay_down(folder: Path) -> None:
    """Write the configuration of a project folder, and the records of a campaign of three points."""
    (folder / "campaigns").mkdir(parents=True, exist_ok=True)
    shutil.copytree(campaigns.built("one_each") / "raw", folder / "results" / NAME / "raw")
    (folder / f"campaigns/{NAME}.yaml").write_text(
        f"name: {NAME}\nstores_to_measure: [seaweedfs]\nsweeps: {{a: {{workload: get, duration: 2 s}}}}\n"
    )
    if not (folder / "config.yaml").exists():
        (folder / "config.yaml").write_text(f"campaign: {NAME}\nstores: {{seaweedfs: {{kind: seaweedfs}}}}\n")


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """Return the folder, and the output of `storelab pack` there."""
    folder = tmp_path_factory.mktemp("packed")
    lay_down(folder)
    code, out, err = in_process(folder, "pack", NAME)
    assert code == 0, err
    return folder, out, err


def test_a_campaign_is_packed_with_all_that_is_made_of_it(packed):
    folder, out, err = packed
    assert f"{PACK}: " in out and records.sha256(folder / PACK) in out
    assert "tables that were made again" in err and "figures that were made again" in err, (
        "they did not exist, and were made"
    )
    with zipfile.ZipFile(folder / PACK) as pack:
        names = set(pack.namelist())
    results = {p.relative_to(folder).as_posix() for p in (folder / "results").rglob("*") if p.is_file()} - {PACK}
    assert results <= names and {"Snakefile", "rules/tables.smk", "envs/requirements.lock", "LICENSE"} <= names
    assert {archive.SUMS, members.METADATA, members.CITATION, members.ZENODO, "README.md"} <= names


def test_second_pack_reuses_all_and_is_identical(packed):
    folder, _, _ = packed
    first = (folder / PACK).read_bytes()
    code, _, err = in_process(folder, "pack", f"results/{NAME}")
    assert (code, err) == (0, "") and (folder / PACK).read_bytes() == first


def test_it_is_rebuilt_elsewhere(packed, tmp_path):
    folder, _, _ = packed
    code, out, err = in_process(tmp_path, "unpack", str(folder / PACK))
    assert code == 0, err
    made = folder / "results" / NAME
    tables, figures = len([*made.glob("tables/*.csv")]), len([*made.glob("figures/*.json")])
    assert f"{tables} tables, bit-identical" in out and f"{figures - 1} figures with identical data" in out
    assert "all checksums match" in out and "drawing library" not in out
    command = ["sha256sum", "--quiet", "-c", archive.SUMS]
    sums = subprocess.run(command, cwd=tmp_path / NAME, capture_output=True, text=True)
    assert sums.returncode == 0, sums.stdout + sums.stderr
    code, out, err = in_process(tmp_path, "unpack", str(folder / PACK), NAME, "--no-rebuild")
    assert code == 0 and "already unpacked and unchanged" in out and "rebuilt" not in out
    again = in_process(tmp_path / NAME, "pack", NAME, "--output", "../again.zip")
    assert again[0] == 0 and (tmp_path / "again.zip").read_bytes() == (folder / PACK).read_bytes(), "a pack of a pack"


def forged(pack: Path, target: Path, **changes: bytes) -> Path:
    """Return a pack with other members and a matching list of checksums, as a skilled forger would make it."""
    with zipfile.ZipFile(pack) as old:
        members = {name: old.read(name) for name in old.namelist() if name != archive.SUMS}
    archive.write(target, members | changes)
    return target


def test_tables_and_figures_that_the_records_do_not_give_are_named(packed, tmp_path):
    folder, _, _ = packed
    table, figure = f"results/{NAME}/tables/points.csv", f"results/{NAME}/figures/index.json"
    better = (folder / table).read_bytes().replace(b"1", b"2")
    pack = forged(folder / PACK, tmp_path / "forged.zip", **{table: better, figure: b'{"figures": {}}'})
    code, out, err = in_process(tmp_path, "unpack", str(pack), "new")
    assert code == 1 and "bit-identical" not in out
    assert (
        f"new/results/{NAME}: the rebuilt files differ: tables/points.csv, figures/index.json; the pack was made by"
        in err
    )


def test_records_that_were_forged_are_named(packed, tmp_path):
    """The list of the pack is right, but the checksums of the records are wrong."""
    folder, _, _ = packed
    raw = f"results/{NAME}/raw/"
    with zipfile.ZipFile(folder / PACK) as old:
        name = next(n for n in old.namelist() if n.startswith(raw) and n.endswith("run.json"))
        run = old.read(name)
    other = run.replace(b'"valid": true', b'"valid":false', 1) + b" "
    pack = forged(folder / PACK, tmp_path / "forged.zip", **{name: other})
    code, _, err = in_process(tmp_path, "unpack", str(pack), "new")
    assert code == 2 and Path(name).name in err and err.count("\n") == 1


def test_a_wheel_makes_a_project_far_from_any_checkout(packed, tmp_path):
    """Build it, install it into a fresh environment that borrows the packages of this one, plan and rebuild."""
    site = next(p for p in map(Path, sys.path) if p.name == "site-packages")
    uv, quiet = [str(Path(sys.executable).parent / "uv")], {"capture_output": True, "text": True}

    def run(*command: str | Path, where: Path = tmp_path) -> str:
        environ = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
        environ["PATH"] = f"{tmp_path}/venv/bin:{environ['PATH']}"
        done = subprocess.run([*map(str, command)], cwd=where, env=environ, timeout=120, **quiet)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "dist", where=ROOT)
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "dist", where=ROOT / "src/readplan")
    wheels = sorted((tmp_path / "dist").glob("*.whl"))
    run(*uv, "venv", "--offline", "--python", sys.executable, tmp_path / "venv")
    run(*uv, "pip", "install", "--offline", "--no-deps", "--python", tmp_path / "venv/bin/python", *wheels)
    own = next((tmp_path / "venv").glob("lib/*/site-packages"))
    (own / "borrowed.pth").write_text(f"{site}\n")
    code = "import storelab; from storelab.install import golang as go; print(storelab.__file__, go.pinned(go.LOADGEN))"
    found = run("python", "-c", code)
    assert found.split()[0].startswith(str(own)), "the module of the wheel, not of this checkout"
    run("storelab", "init", "lab")
    lab = tmp_path / "lab"
    lay_down(lab)
    assert "seaweedfs/" in run("storelab", "--set", "campaign=demo", "plan", where=lab)
    options = ("--profile", "profiles/local", "--config", f"campaign={NAME}", "measure=false")
    run("python", "-m", "snakemake", *options, "--", "tables", where=lab)
    made = {p.name: p.read_bytes() for p in (lab / f"results/{NAME}/tables").iterdir()}
    assert made == {p.name: p.read_bytes() for p in (packed[0] / f"results/{NAME}/tables").iterdir()}, (
        "as in a checkout"
    )
    assert f"loadgen {found.split()[1]}" in run("storelab", "install", "--dry-run", "loadgen", where=lab)
    assert integrity.verify(lab / f"results/{NAME}/raw")
