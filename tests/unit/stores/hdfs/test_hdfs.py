"""What storelab writes for HDFS, what it pins, and how it understands WebHDFS's answers; no Java runs."""

import re
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
import requests

from storelab.core.errors import MeasurementFailed, UserError
from storelab.engines.common.error_classes import classify
from storelab.stores.hdfs import conf, recipe
from storelab.stores.hdfs.store import HDFS, Settings
from storelab.stores.protocols import webhdfs


def store(tmp_path: Path, **settings) -> HDFS:
    return HDFS("h", Settings(kind="hdfs", port=21000, **settings), tmp_path)


def properties(text: str) -> dict[str, str]:
    return {p.findtext("name"): p.findtext("value") for p in ElementTree.fromstring(text)}


def test_configuration_is_xml_of_these_properties(tmp_path):
    odd = {"a": "<&>\"'", "b": 3}
    assert properties(conf.configuration(odd)) == {"a": odd["a"], "b": "3"}
    files = HDFS("h+1", Settings(kind="hdfs", port=21000, redundancy="replica-3"), tmp_path)._files
    core, site = properties(files["core-site.xml"]), properties(files["hdfs-site.xml"])
    assert core["fs.defaultFS"] == "hdfs://127.0.0.1:21000" and core["hadoop.tmp.dir"] == f"{tmp_path}/h+1/tmp"
    assert site["dfs.replication"] == "3" and site["dfs.namenode.http-address"] == "127.0.0.1:21001"
    assert site["dfs.namenode.name.dir"] == f"file://{tmp_path}/h+1/data/namenode"
    assert not [v for v in (core | site).values() if "0.0.0.0" in v]


@pytest.mark.skipif(recipe.java() is None, reason="Java is not installed: storelab install hdfs")
def test_every_daemon_has_ports_and_folders_of_its_own(tmp_path):
    s = store(tmp_path, servers=7)
    daemons = [s.daemon(n) for n in s.stages(["namenode-1"])[0]]
    assert [d.name for d in daemons] == ["namenode-1", *(f"datanode-{i}" for i in range(1, 8))]
    ports = [p for d in daemons for p in d.ports]
    assert len(set(ports)) == len(ports) == 23 and set(ports) <= set(range(21000, 21000 + HDFS.port_block))
    assert all(d.argv[1:] != e.argv[1:] for d in daemons for e in daemons if d is not e)
    other = store(tmp_path, servers=7, redundancy="none").daemon("datanode-1")
    assert other.argv != daemons[1].argv, "a daemon of other settings is not taken over"


@pytest.mark.parametrize(("servers", "redundancy"), [(1, "replica-2"), (2, "replica-3")])
def test_fewer_servers_than_copies(tmp_path, servers, redundancy):
    with pytest.raises(UserError, match=rf"stores\.h\.servers: {servers} DataNodes cannot hold {redundancy}"):
        store(tmp_path, servers=servers, redundancy=redundancy).require()


def test_paths_that_hadoop_does_not_bear(tmp_path):
    with pytest.raises(UserError, match=r"stores\.h: HDFS does not bear ' ' in a path"):
        store(tmp_path / "my data").up()


def test_not_installed(tmp_path, monkeypatch):
    monkeypatch.setenv("STORELAB_TOOLS", str(tmp_path / "tools"))
    with pytest.raises(UserError, match="storelab install hdfs"):
        store(tmp_path).up()
    assert not (tmp_path / "h").exists()
    status = store(tmp_path).status()
    assert status.state == "down" and status.version == ""
    parts = HDFS.recipe(tmp_path / "tools")
    assert [p.present() for p in parts[1:]] == [False, False] and not (tmp_path / "tools").exists()


def test_pins_are_of_one_version_and_name_no_host():
    pom, sums = ((recipe.PINS / name).read_text() for name in ("pom.xml", "SHA256SUMS"))
    assert f"<hadoop.version>{recipe.HADOOP}</hadoop.version>" in pom
    jars = [line.split()[1] for line in sums.splitlines()]
    assert {f"hadoop-{n}-{recipe.HADOOP}.jar" for n in ("common", "hdfs", "hdfs-client")} <= set(jars)
    assert all(re.fullmatch(r"[0-9a-f]{64}  [\w.+-]+\.jar", line) for line in sums.splitlines()) and jars == sorted(
        jars
    )
    assert "repository" not in pom and re.findall(r"https?://[^\s\"<]*", pom) == ["http://maven.apache.org/POM/4.0.0"]


def test_other_jars_than_pinned_are_refused(tmp_path):
    (tmp_path / "a.jar").write_bytes(b"a")
    sums = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb  a.jar\n"
    recipe.verify(tmp_path, sums)
    for name, body in ("a.jar", b"b"), ("b.jar", b"a"):
        (tmp_path / name).write_bytes(body)
        with pytest.raises(MeasurementFailed, match=f"1 of 1 jars are not those that are pinned, e.g. {name}"):
            recipe.verify(tmp_path, sums)
        (tmp_path / "a.jar").write_bytes(b"a")


def test_the_jar_that_names_all_others(tmp_path):
    sums = (recipe.PINS / "SHA256SUMS").read_text()
    recipe._name_all(tmp_path, sums)
    raw = zipfile.ZipFile(tmp_path / "hdfs.jar").read("META-INF/MANIFEST.MF")
    assert max(len(line) for line in raw.split(b"\r\n")) <= 70
    text = raw.decode().replace("\r\n ", "")
    assert [line.split()[1] for line in sums.splitlines()] == re.search(r"Class-Path: (.*)\r\n", text).group(1).split(
        " "
    )


def test_java_of_a_usable_version(tmp_path, monkeypatch):
    monkeypatch.setattr(recipe, "JVMS", tmp_path / "none")
    monkeypatch.setenv("PATH", str(tmp_path))
    for version in ("11.0.2", "25.0.3", "21.0.1+12"):
        program = tmp_path / version / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.touch(mode=0o755)
        (tmp_path / version / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\n')
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / version))
        assert recipe.java() == (program if version.startswith("21") else None)


def answer(status: int, body: str) -> requests.Response:
    out = requests.Response()
    out.status_code, out._content = status, body.encode()
    return out


@pytest.mark.parametrize(
    ("status", "exception", "raised"),
    [
        (404, "FileNotFoundException", FileNotFoundError),
        (403, "AccessControlException", PermissionError),
        (403, "SafeModeException", webhdfs.HdfsError),
        (502, None, webhdfs.HdfsError),
    ],
)
def test_errors_keep_their_status(status, exception, raised):
    body = f'{{"RemoteException": {{"exception": "{exception}", "message": "why\\nlong"}}}}' if exception else "<html>"
    with pytest.raises(raised, match=f"HTTP {status}") as caught:
        webhdfs.judged(answer(status, body))
    assert classify(caught.value) == (type(caught.value).__name__, status) and "long" not in str(caught.value)
    assert webhdfs.judged(answer(201, "")).status_code == 201
