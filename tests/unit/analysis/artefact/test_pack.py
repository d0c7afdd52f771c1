"""Check a pack as a file.

The same members give the same bytes, every change is refused with the name of the file, and no member is written
outside of the folder.
"""

import json
import os
import stat
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner
from make_examples import ONE_EACH, make
from paths import ROOT

from storelab.analysis.artefact import archive, members
from storelab.analysis.parts import derived
from storelab.analysis.records.campaign import load
from storelab.analysis.tables import build
from storelab.cli import Settings, artefact
from storelab.cli.campaigns import find
from storelab.core import config, records
from storelab.core.errors import UserError, without_tokens
from storelab.stores import config as stores_config

KINDS = {  # a member of each kind that a pack holds
    "results/c/raw/plan.json": b'{"points": [], "campaign": {}}\n',
    "results/c/raw/s/get/rep~001/ops.0.parquet": bytes(range(256)),
    "results/c/raw/SHA256SUMS": b"sums\n",
    "results/c/tables/points.csv": b"a,b\n1,2\n",
    "results/c/figures/entries.json": b'{"empty": true}\n',
    "results/c/figures/entries.png": b"\x89PNG" + bytes(40),
    "results/c/paper.pdf": b"%PDF-1.5 and so on",
    "campaigns/c.yaml": b"name: c\n",
    "config.yaml": b"campaign: c\n",
    "Snakefile": b"rule all:\n",
    "envs/requirements.lock": b"click==8\n",
    members.METADATA: b'{"@graph": []}\n',
    members.CITATION: b"cff-version: 1.2.0\n",
    members.ZENODO: b"{}\n",
}


@pytest.fixture
def pack(tmp_path):
    path = tmp_path / "c.crate.zip"
    archive.write(path, KINDS)
    return path


def refusal(path: Path, folder: Path) -> str:
    with pytest.raises(UserError) as caught:
        archive.unpack(path, folder)
    assert not folder.exists() and not [p for p in folder.parent.iterdir() if p.name.startswith(".")], "nothing remains"
    return str(caught.value)


def repacked(path: Path, change) -> Path:
    """Return the pack with another list of (ZipInfo, content)."""
    with zipfile.ZipFile(path) as old:
        entries = [(info, old.read(info)) for info in old.infolist()]
    with zipfile.ZipFile(path, "w") as new:
        for info, content in change(entries):
            new.writestr(info, content)
    return path


def test_the_same_members_make_the_same_bytes(tmp_path, pack):
    """The order and times of members do not matter, nor whether they come from files."""
    written = {}
    for number, (name, content) in enumerate(reversed(KINDS.items())):
        place = tmp_path / "elsewhere" / str(number)
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(content)
        os.utime(place, (number, 10**9 + number))
        written[name] = place
    again = tmp_path / "again.zip"
    archive.write(again, written)
    assert again.read_bytes() == pack.read_bytes()


def test_unpacked_files_equal_packed_ones(tmp_path, pack):
    where, files, there = archive.unpack(pack, tmp_path / "new" / "folder")
    assert (where, files, there) == (tmp_path / "new/folder/results/c", len(KINDS), False)
    found = {p.relative_to(tmp_path / "new/folder").as_posix(): p for p in (tmp_path / "new/folder").rglob("*")}
    assert {name: p.read_bytes() for name, p in found.items() if p.is_file() and name != "SHA256SUMS"} == KINDS
    assert len({p.stat().st_mtime_ns for p in found.values() if p.is_file()}) == 1, "all files have the same age"
    sums = (tmp_path / "new/folder/SHA256SUMS").read_text().splitlines()[:-1]
    assert dict(reversed(line.split("  ")) for line in sums) == {n: records.sha256_of(c) for n, c in KINDS.items()}
    assert stat.S_IMODE((tmp_path / "new/folder").stat().st_mode) & 0o055, "as any other new folder, not only for us"


def test_programs_stay_programs(tmp_path):
    program = tmp_path / "setup.sh"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    archive.write(tmp_path / "c.zip", KINDS | {"envs/setup.sh": program})
    archive.unpack(tmp_path / "c.zip", tmp_path / "new")
    modes = {n: (tmp_path / "new" / n).stat().st_mode & 0o100 for n in ("envs/setup.sh", "Snakefile")}
    assert modes == {"envs/setup.sh": 0o100, "Snakefile": 0}


@pytest.mark.parametrize("name", [*KINDS, archive.SUMS])
def test_a_flipped_byte_is_refused_by_the_name_of_its_file(tmp_path, pack, name):
    whole = pack.read_bytes()
    with zipfile.ZipFile(pack) as opened:
        content = opened.read(name)
    begin = whole.index(content)
    for place in {0, len(content) // 2, len(content) - 1}:
        broken = bytearray(whole)
        broken[begin + place] ^= 1
        pack.write_bytes(broken)
        line = refusal(pack, tmp_path / "new")
        assert f"{pack}: {name}: was changed after it was packed" in line


@pytest.mark.parametrize("name", [*KINDS, archive.SUMS])
def test_a_change_that_the_zip_itself_does_not_see_is_refused_too(tmp_path, pack, name):
    """A user opened the pack, edited a file and closed it: its CRC is right again."""
    flip = lambda entries: [(i, c[:-2] + b"x" + c[-1:] if i.filename == name else c) for i, c in entries]  # noqa: E731
    line = refusal(repacked(pack, flip), tmp_path / "new")
    assert f"{pack}: {name}" in line and ("changed after it was packed" in line or "it was changed" in line)


def test_no_change_of_a_pack_is_unseen(tmp_path):
    """Every second byte of a small pack is changed: the result is the packed content, or a refusal on one line."""
    path, small = tmp_path / "c.zip", {"a": b"bc"}
    archive.write(path, small)
    whole, refused = path.read_bytes(), 0
    for place in range(0, len(whole), 2):
        broken = bytearray(whole)
        broken[place] ^= 0x81
        path.write_bytes(broken)
        folder = tmp_path / "new"
        folder.mkdir()
        try:
            archive.extract(path, folder)
            found = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
            assert {n: c for n, c in found.items() if n != archive.SUMS} == small, place
        except UserError:
            refused += 1
        for p in sorted(folder.rglob("*"), reverse=True):
            p.rmdir() if p.is_dir() else p.unlink()
        folder.rmdir()
    assert refused > len(whole) / 4


def test_missing_or_added_file_is_reported(tmp_path, pack):
    line = refusal(repacked(pack, lambda e: [x for x in e if x[0].filename != "Snakefile"]), tmp_path / "new")
    assert f"{pack}: Snakefile: is missing" in line
    archive.write(pack, KINDS)
    more = zipfile.ZipInfo("results/c/raw/more.json")
    line = refusal(repacked(pack, lambda e: [*e, (more, b"{}")]), tmp_path / "new")
    assert f"{pack}: results/c/raw/more.json: was added" in line


@pytest.mark.parametrize(
    "name", ["../out", "/out", "a/../../out", "a\\..\\out", "..", "a//b", "./a", "a\0b", "a\nb", "a/" + 300 * "x"]
)
def test_no_name_leads_out_of_the_folder(tmp_path, pack, name):
    def change(entries):
        info = zipfile.ZipInfo("x")
        info.filename = info.orig_filename = name
        return [*entries, (info, b"out")]

    line = refusal(repacked(pack, change), tmp_path / "new")
    assert "nothing was unpacked" in line and not (tmp_path / "out").exists() and "\n" not in line
    with pytest.raises(UserError, match="cannot be in a pack"):
        archive.write(tmp_path / "other.zip", {name: b""})


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR])
def test_no_link_and_no_device_is_unpacked(tmp_path, pack, kind):
    def change(entries):
        info = zipfile.ZipInfo("link")
        info.create_system, info.external_attr = 3, (kind | 0o777) << 16
        return [*entries, (info, b"/etc/passwd")]

    assert "'link': is a link or a device" in refusal(repacked(pack, change), tmp_path / "new")


def test_a_name_twice(tmp_path, pack, recwarn):
    twice = zipfile.ZipInfo("Snakefile")
    changed = repacked(pack, lambda e: [*e, (twice, b"x")])
    assert "'Snakefile': is in the pack twice" in refusal(changed, tmp_path / "new")


def test_recompressed_pack_is_valid(tmp_path, pack):
    def change(entries):
        for info, _ in entries:
            info.compress_type = zipfile.ZIP_DEFLATED
        return [*entries, (zipfile.ZipInfo("results/"), b"")]

    assert archive.unpack(repacked(pack, change), tmp_path / "new")[1] == len(KINDS)


def test_no_pack_at_all(tmp_path):
    path = tmp_path / "c.zip"
    assert "does not exist" in refusal(path, tmp_path / "new")
    path.write_bytes(b"no zip")
    assert "is not a pack, or is damaged" in refusal(path, tmp_path / "new")
    with zipfile.ZipFile(path, "w") as some:
        some.writestr("a", "b")
    assert "it has no SHA256SUMS" in refusal(path, tmp_path / "new")
    archive.write(path, {"a": b"b"})
    assert "contains 0 campaigns" in refusal(path, tmp_path / "new")
    (tmp_path / "folder").mkdir()
    assert "is a folder, not a pack" in refusal(tmp_path / "folder", tmp_path / "new")


def test_no_space(tmp_path, pack, monkeypatch):
    monkeypatch.setattr(archive.shutil, "disk_usage", lambda _: type("usage", (), {"free": 100}))
    assert "unpack it on another disk" in refusal(pack, tmp_path / "new")


def test_nothing_is_unpacked_over_something_else(tmp_path, pack):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "diary").write_text("dear")
    with pytest.raises(UserError, match=r"mine: is not empty and has other content; choose a new folder"):
        archive.unpack(pack, folder)
    assert [p.name for p in folder.iterdir()] == ["diary"]
    with pytest.raises(UserError, match="exists and is not a folder"):
        archive.unpack(pack, folder / "diary")
    other = tmp_path / "other.zip"
    archive.write(other, KINDS | {"Snakefile": b"rule another:\n"})
    archive.unpack(other, tmp_path / "taken")
    with pytest.raises(UserError, match="and has other content"):
        archive.unpack(pack, tmp_path / "taken")


def test_same_pack_can_exist_already(tmp_path, pack, monkeypatch):
    archive.unpack(pack, tmp_path / "new")
    (tmp_path / "new/results/c/notes").write_text("mine")
    assert archive.unpack(pack, tmp_path / "new")[2]
    (tmp_path / "new/Snakefile").write_text("rule other:\n")
    with pytest.raises(UserError, match="new/Snakefile: was changed after it was unpacked"):
        archive.unpack(pack, tmp_path / "new")
    monkeypatch.chdir(tmp_path / "new/results/c/raw/s")
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    assert archive.unpack(pack, Path()) == (Path("results/c"), len(KINDS), False)
    assert (empty / archive.SUMS).is_file() and not list(empty.glob(".storelab*"))


def test_failed_pack_leaves_nothing(tmp_path):
    with pytest.raises(FileNotFoundError):
        archive.write(tmp_path / "c.zip", {"a": b"b", "gone": tmp_path / "gone"})
    growing = tmp_path / "growing"
    growing.write_bytes(b"one")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive, "size_of", lambda member: 2)
        with pytest.raises(UserError, match="growing: changed while it was packed"):
            archive.write(tmp_path / "c.zip", {"growing": growing})
    assert [p.name for p in tmp_path.iterdir()] == ["growing"]


# --- what is packed of a campaign -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Write a project folder with a measured campaign, and files in place of its tables and figures."""
    root = tmp_path_factory.mktemp("project")
    folder = root / "results" / "example"
    make(folder, repetitions=1, failed=(), sweeps=ONE_EACH)
    for path in [folder / "tables" / f"{name}.csv" for name in build.NAMES] + [folder / "figures" / "index.json"]:
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}")
    derived.write_sums(folder, build.NAMES)
    (root / "campaigns").mkdir()
    (root / "config.yaml").write_text(
        "campaign: mine\nstate: /home/someone/state\nscratch: /somewhere\n"
        "stores:\n  alpha: {kind: s3, endpoint: 'https://s3.example.org', profile: someone, "
        "ca_file: /home/someone/ca}\n"
        "  private: {kind: s3, endpoint: 'https://inside.example.org'}\n"
        "launcher: {kind: ssh, hosts: [someone@node1], setup: export TOKEN=hush, port: 7}\n"
    )
    (root / "campaigns/mine.yaml").write_text(
        "# why\nname: example\nstores_to_measure: [alpha]\nrepetitions: 1\n"
        "sweeps: {a: {workload: get, duration: 4 s}}\n"
    )
    return root


def packed(root: Path, *set_: str, project: dict[str, Path] | None = None):
    over = config.parse_set(("campaign=mine", *set_))
    layers, _ = config.read_layers(root / "config.yaml", (), over)
    return members.everything(load(root / "results/example"), layers, project or {"Snakefile": ROOT / "Snakefile"}, "X")


def test_a_pack_is_a_project_folder_of_its_campaign(project, tmp_path):
    found, left = packed(project)
    assert not left
    assert found["campaigns/example.yaml"] == (project / "campaigns/mine.yaml").read_bytes(), "as it was written"
    for name, content in found.items():
        if isinstance(content, bytes):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(content)
    again = stores_config.load(tmp_path / "config.yaml")
    assert (again.campaign, again.name, again.measure, again.repetitions) == ("example", "example", False, 1)
    assert again.campaign_dir == Path("results/example") and next(iter(again.stores)) == "alpha"


def test_other_campaigns_are_not_packed(project):
    files = {n: ROOT / n for n in ("Snakefile", "campaigns/demo.yaml", "config.yaml")}
    found, _ = packed(project, project=files)
    assert [n for n in found if n.startswith("campaigns/")] == ["campaigns/example.yaml"]
    assert found["Snakefile"] == ROOT / "Snakefile" and isinstance(found["config.yaml"], bytes)


def test_nothing_about_machine_and_user_is_packed(project):
    text = packed(project)[0]["config.yaml"].decode()
    assert "https://s3.example.org" in text and "port: 7" in text
    assert not any(word in text for word in ("someone", "TOKEN", "hush", "private", "inside", "/somewhere"))


def test_options_change_the_packed_configuration(project):
    found, _ = packed(project, "sweeps.a.duration=2 s", "limits.clients=3")
    assert "clients: 3" in found["config.yaml"].decode() and "duration: 2 s" in found["config.yaml"].decode()
    assert "duration: 2 s" in found["campaigns/example.yaml"].decode()


def test_a_token_is_never_packed(project):
    with pytest.raises(UserError, match=r"config.yaml: contains a text that looks like a key or token"):
        packed(project, "title=AKIAABCDEFGHIJKLMNOP", "sweeps.a.objects=5")
    for path in sorted((ROOT / "campaigns").glob("*.yaml")):
        assert without_tokens(path.read_text()) == path.read_text(), "a false alarm"


def test_a_paper_that_is_older_than_the_tables_is_left_out(project):
    folder = project / "results/example"
    (folder / "paper.pdf").write_bytes(b"%PDF")
    (folder / "notes.txt").write_text("mine")
    (folder / "figures/mine.png").write_bytes(b"png")
    try:
        names = set(packed(project)[0])
        assert "results/example/paper.pdf" in names and "results/example/report.html" not in names
        assert not {n for n in names if "notes" in n or "mine" in n}, "files of users stay"
        os.utime(folder / "paper.pdf", (1, 1))
        found, left = packed(project)
        assert "results/example/paper.pdf" not in found and left == ["paper.pdf"]
    finally:
        (folder / "paper.pdf").unlink()


def test_crate_lists_every_file_and_is_reproducible(project):
    found, _ = packed(project)
    graph = json.loads(found[members.METADATA])["@graph"]
    assert {e["@id"] for e in graph if "File" in e["@type"]} == set(found) - {members.METADATA}
    assert packed(project)[0][members.METADATA] == found[members.METADATA]


# --- the commands: a person's mistakes --------------------------------------------------------------------------------


def run(root: Path, command, *words: str):
    return CliRunner().invoke(command, list(words), obj=Settings(str(root / "config.yaml"), (), ()))


def test_a_campaign_without_records(tmp_path):
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "campaigns/empty.yaml").write_text("name: nothing\n")
    (tmp_path / "config.yaml").write_text(f"campaign: empty\nresults: {tmp_path}/results\n")
    line = str(run(tmp_path, artefact.pack, "empty").exception)
    assert line.startswith(f"campaign nothing: has no records in {tmp_path}/results/nothing/raw; ")
    assert line.endswith("`storelab run empty`")
    assert "did you mean 'empty'?" in str(run(tmp_path, artefact.pack, "emty").exception)
    (tmp_path / "elsewhere/raw").mkdir(parents=True)
    found = run(tmp_path, artefact.pack, f"{tmp_path}/elsewhere").exception
    assert "campaign elsewhere: has no file in campaigns/" in str(found)


def test_a_license_is_one_of_spdx(project):
    assert "is not an SPDX identifier" in str(run(project, artefact.pack, "mine", "--license", "ask me").exception)


def test_a_pack_that_is_there_stays(tmp_path):
    target = tmp_path / "c.zip"
    artefact._write(target, KINDS, again=False)
    first = target.read_bytes()
    artefact._write(target, KINDS, again=False)  # the same: there is nothing to say
    with pytest.raises(UserError, match="already exists with different content; use --again"):
        artefact._write(target, KINDS | {"Snakefile": b""}, again=False)
    assert target.read_bytes() == first and [p.name for p in tmp_path.iterdir()] == ["c.zip"]
    artefact._write(target, KINDS | {"Snakefile": b""}, again=True)
    assert target.read_bytes() != first
    with pytest.raises(UserError, match="is a folder"):
        artefact._write(tmp_path, KINDS, again=True)


def test_folder_and_name_select_the_same_campaign(project, monkeypatch):
    monkeypatch.chdir(project)
    settings = Settings("config.yaml", (), ())
    assert find(settings, "mine").folder == find(settings, "results/example").folder == Path("results/example")
    (project / "archive/example/raw").mkdir(parents=True)
    assert find(settings, "archive/example").folder == Path("archive/example"), "in any folder of results"
