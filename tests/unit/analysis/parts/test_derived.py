"""Derived files that were changed are named and refused, or made again; never used, and never with a traceback."""

import os
import shutil
import subprocess
import time

import pytest
from command_line import in_process

from campaigns import copied, typeset
from storelab.analysis.latex import typeset as latex
from storelab.analysis.parts import derived
from storelab.analysis.tables import build
from storelab.cli import workflow
from storelab.core import integrity, records
from storelab.core.errors import UserError

DAMAGES = {
    "byte": lambda data: data[:-9] + bytes([(data[-9] if len(data) > 9 else 0) ^ 1]) + data[-8:],
    "cut": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "list": lambda data: b"[]\n",
    "binary": lambda data: b"\x00\xff" * 40,
    "more": lambda data: data + b"1,2,3\n",
}


@pytest.fixture
def folder(tmp_path):
    """Return a campaign with tables, figures and LaTeX that a test may change."""
    shutil.copytree(typeset("one_each"), tmp_path / "c", symlinks=True)
    return tmp_path / "c"


def test_damaged_tables_are_named_by_each_command(folder, tmp_path):
    commands = {
        "points": (("report",), ("latex",), ("compare", str(folder), str(folder))),
        "verdicts": (("verdict",), ("report",)),
        "throughput": (("figures",), ("report",), ("latex", "table_best")),
        integrity.SUMS: (("verdict",), ("report",), ("latex",)),
    }
    for name, asked in commands.items():
        path = folder / "tables" / (name if name == integrity.SUMS else f"{name}.csv")
        was = path.read_bytes()
        for kind, damage in DAMAGES.items():
            path.write_bytes(damage(was))
            for command in asked:
                at = () if command[0] == "compare" else ("--campaign-dir", str(folder))
                ended, out, err = in_process(tmp_path, command[0], *at, *command[1:])
                if command[0] == "compare":  # reads the records instead, and says so
                    assert ended == 0 and "no newer tables" in out, (name, kind, err)
                    continue
                assert ended == 2 and err.count("\n") == 1 and "Traceback" not in err, (name, kind, command, err)
                assert str(path) in err and "run `storelab tables " in err, (name, kind, command, err)
        path.write_bytes(was)


def test_tables_of_other_records_or_code_are_refused(folder, monkeypatch):
    assert len(build.read(folder, "points"))
    sums = folder / "raw" / integrity.SUMS
    was = sums.read_bytes()
    sums.write_bytes(was + b"\n")
    with pytest.raises(UserError, match=r"tables: was made before .*raw/SHA256SUMS changed; run `storelab tables"):
        build.read(folder, "points")
    sums.write_bytes(was)
    (folder / "links.yaml").write_text("{}\n")
    with pytest.raises(UserError, match=r"tables: was made before .*links\.yaml changed"):
        build.read(folder, "points")
    (folder / "links.yaml").unlink()
    with monkeypatch.context() as m, pytest.raises(UserError, match="another version of storelab; run `storelab tab"):
        m.setattr(derived, "code", lambda: "0" * 64)
        build.read(folder, "points")
    assert len(build.read(folder, "points"))
    (folder / "tables" / integrity.SUMS).unlink()  # as storelab wrote them before there were sums
    with pytest.raises(UserError, match="another version of storelab"):
        build.read(folder, "points")


def test_new_tables_outdate_files_from_future(folder):
    later = time.time() + 3600
    page, old = folder / "report.html", folder / "paper.pdf"
    for path, seconds in ((page, later), (old, later - 7200)):
        path.write_text("")
        os.utime(path, (seconds, seconds))
    build.build(folder, ["points"])
    assert page.stat().st_mtime == derived.OLD_S and old.stat().st_mtime == pytest.approx(later - 7200, abs=1)


def test_sums_are_those_of_sha256sum(folder):
    done = subprocess.run(["sha256sum", "-c", "--strict", integrity.SUMS], cwd=folder / "tables", capture_output=True)
    assert done.returncode == 0 and not done.stderr, done
    assert done.stdout.count(b": OK") == len(build.NAMES) + 1
    text = (folder / "tables" / integrity.SUMS).read_bytes()
    for at in range(0, len(text), 7):
        flipped = text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :]
        (folder / "tables" / integrity.SUMS).write_bytes(flipped)
        assert derived.damaged_tables(folder, build.NAMES) or flipped == text, at


def test_some_tables_have_checksums_of_others(tmp_path):
    copied("one_each", tmp_path)
    build.build(tmp_path, ["points"])
    assert len(build.read(tmp_path, "throughput"))
    (tmp_path / "tables" / integrity.SUMS).unlink()
    build.build(tmp_path, ["points"])
    assert len(build.read(tmp_path, "points"))
    with pytest.raises(UserError, match=r"throughput\.csv: was altered after it was written"):
        build.read(tmp_path, "throughput")


def test_damaged_figures_and_tex_are_refused(folder, monkeypatch):
    index = folder / "figures" / "index.json"
    first = next(iter(derived.figure(index)["figures"]))
    monkeypatch.setattr(latex.shutil, "which", lambda name: name)
    for path, command in (
        (index, "figures"),
        (folder / "figures" / f"{first}.pdf", "figures"),
        (folder / "tex" / "paper.tex", "latex"),
    ):
        was = path.read_bytes()
        for kind, damage in DAMAGES.items():
            if damage(was) == was:
                continue
            path.write_bytes(damage(was))
            with pytest.raises(UserError, match=f"{command} {folder}") as raised:
                latex.build(folder)
            assert str(path) in str(raised.value), (path, kind)
            if path == index:
                assert in_process(folder, "latex", "--campaign-dir", str(folder), "paper")[0] == 2
        path.write_bytes(was)


def test_rebuild_makes_damaged_files_again(folder, capsys):
    root, name = folder.parent, folder.name
    (root / "campaigns").mkdir()
    (root / "config.yaml").write_text(f"campaign: c\nresults: {root}\nstores: {{far: {{kind: directory, path: /}}}}\n")
    (root / "campaigns" / "c.yaml").write_text(f"name: {name}\nsweeps: {{}}\n")
    index, paper = folder / "figures" / "index.json", folder / "tex" / "paper.tex"
    kept = {p: p.read_bytes() for p in (index, paper)}
    first = next(iter(derived.figure(index)["figures"]))

    def begun() -> set[str]:
        """Start as the Snakefile does, and return what is to be made again."""
        before = {p for p in folder.rglob("*") if p.is_file()}
        workflow.prepare({}, root / "config.yaml")
        gone = {p.name for p in before if not p.exists()}
        for path, data in kept.items():
            path.write_bytes(data)
        return gone

    assert begun() == set()
    table = folder / "tables" / "noise.csv"
    kept[table] = table.read_bytes()
    for kind, damage in DAMAGES.items():
        table.write_bytes(damage(kept[table]))
        assert begun() == {"noise.csv"}, kind
        assert f"{table}: differs from what the records give" in capsys.readouterr().err
        for name, mark in ((f"{first}.json", index), (f"{first}.pdf", index), ("index.json", index)):
            path = folder / "figures" / name
            was = path.read_bytes()
            if damage(was) != was:
                path.write_bytes(damage(was))
                assert begun() == {mark.name}, (kind, name)
                assert name == "index.json" or first in workflow.stale_figures(
                    folder, records.read_json(folder / "raw/plan.json")
                )
                path.write_bytes(was)
        path = folder / "tex" / "table_best.tex"
        was = path.read_bytes()
        path.write_bytes(damage(was))
        assert begun() == {"paper.tex"}, kind
        path.write_bytes(was)
