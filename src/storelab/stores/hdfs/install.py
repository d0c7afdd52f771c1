"""Installation of HDFS, whose Java programs are downloaded from Maven's repository.

`envs/hdfs` pins the version and the SHA-256 of every jar; Maven only downloads them. The jars are in one folder below
the tools folder, which appears in one step. It also has an archive of the classes that HDFS loads, which halves Java's
start time.
"""

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from storelab.core.errors import MeasurementFailed, UserError
from storelab.host.processes import run_command
from storelab.install import Part, Progress, debian, project
from storelab.install.running import command_output

HADOOP = "3.4.1"
PINS = project.shipped("envs/hdfs")  # pom.xml and SHA256SUMS
OLDEST, NEWEST = 17, 23  # Hadoop 3.4 needs the security manager, which Java 24 and later do not have
JVMS = Path("/usr/lib/jvm")  # folder of Java installations in Debian


def java() -> Path | None:
    """Return a Java program that can run Hadoop, from JAVA_HOME, PATH or Debian's folder; None if there is none."""
    home, found = os.environ.get("JAVA_HOME"), shutil.which("java")
    candidates = [Path(home, "bin", "java")] if home else []
    candidates += [Path(found)] if found else []
    candidates += sorted(JVMS.glob("*/bin/java"))
    return next((c.resolve() for c in candidates if c.exists() and OLDEST <= major(java_version(c)) <= NEWEST), None)


def java_version(program: Path) -> str:
    """Return the version of a Java program, e.g. `17.0.15+6`; '' if it is unknown.

    The version is read from a file of the JDK if possible, because running the program is slow.
    """
    with contextlib.suppress(OSError):
        text = (program.resolve().parents[1] / "release").read_text(errors="replace")
        if found := re.search(r'^JAVA_(?:RUNTIME_)?VERSION="([\w.+]+)', text, re.MULTILINE):
            return found.group(1)
    found = re.search(r'version "([\w.+]+)', run_command([program, "-version"], 30).stderr)
    return found.group(1) if found else ""


def major(version: str) -> int:
    """Return the major version, or 0 if the text does not start with a number."""
    digits = re.match(r"\d+", version)
    return int(digits.group()) if digits else 0


def hdfs_folder(tools: Path) -> Path:
    """Return the folder of the jars."""
    return tools / f"hdfs-{HADOOP}"


def class_path(tools: Path) -> Path:
    """Return the path of the jar that only lists all other jars."""
    return hdfs_folder(tools) / "hdfs.jar"


def class_archive(tools: Path, program: Path) -> Path:
    """Return the path of the class archive for this Java version. Java ignores archives of other versions."""
    return hdfs_folder(tools) / f"classes-{java_version(program)}.jsa"


def parts(tools: Path, trial: type[Any]) -> list[Part]:
    """Return the parts to install. `trial` is the class of the store, which is started once to record its classes."""
    return [
        Part(
            f"Java {OLDEST} to {NEWEST}",
            "Debian package openjdk-17-jre-headless, 45 MB to download, 190 MB on disk; root or sudo",
            lambda: java() is not None,
            lambda progress: debian.install(["openjdk-17-jre-headless"], progress),
        ),
        Part(
            f"Hadoop {HADOOP} (HDFS)",
            (
                "118 jars, 64 MB, with Maven (82 MB to download; without mvn, the Debian package maven is installed, "
                "which needs root or sudo)"
            ),
            lambda: _complete(tools),
            lambda progress: _get(tools, progress),
        ),
        Part(
            f"archive of Hadoop's classes for {java_version(java() or Path('java')) or 'this Java'}",
            "nothing to download; starts HDFS once, about 30 s, 90 MB on disk",
            lambda: (program := java()) is not None and class_archive(tools, program).exists(),
            lambda progress: _archive(tools, trial, progress),
        ),
    ]


def _pins() -> str:
    try:
        return (PINS / "SHA256SUMS").read_text()
    except OSError:
        raise UserError(
            "install", f"{PINS} is missing", "install a wheel of storelab with this folder, or run it from a checkout"
        ) from None


def _complete(tools: Path) -> bool:
    """Return whether the installed folder is complete: it was verified with the pinned checksums."""
    noted = hdfs_folder(tools) / "SHA256SUMS"
    return noted.exists() and class_path(tools).exists() and noted.read_text() == _pins()


def _temporary(tools: Path) -> "tempfile.TemporaryDirectory[str]":
    """Return a temporary folder next to the final folder, so that it can be renamed on the same file system."""
    tools.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(prefix=".hdfs-", dir=tools, ignore_cleanup_errors=True)


def _get(tools: Path, progress: Progress) -> None:
    pins = _pins()
    if not (mvn := shutil.which("mvn")):
        debian.install(["maven"], progress)
        mvn = shutil.which("mvn") or "/usr/bin/mvn"
    with _temporary(tools) as temporary:
        work = Path(temporary)
        jars = work / "jars"
        progress(f"downloading Hadoop {HADOOP} and its dependencies")
        # Maven keeps all downloads below the temporary folder, so that nothing stays in the home folder.
        command = [mvn, "-B", "-q", "-f", f"{PINS}/pom.xml", f"-Dmaven.repo.local={work}/repository"]
        command += ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
        command_output(command, "Maven", 1200)
        progress("comparing the jars with their pinned checksums")
        verify(jars, pins)
        _name_all(jars, pins)
        (jars / "SHA256SUMS").write_text(pins)
        jars.chmod(0o755)
        final = hdfs_folder(tools)
        if final.exists():  # installed with other pins; programs that use it keep its files open
            final.rename(work / "old")
        jars.rename(final)


def verify(folder: Path, sums: str) -> None:
    """Raise MeasurementFailed if the files of `folder` do not match `sums`, the output of sha256sum."""
    wanted = {name: digest for digest, name in (line.split(maxsplit=1) for line in sums.splitlines() if line)}
    have = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}
    if wrong := sorted(name for name in wanted.keys() | have.keys() if wanted.get(name) != have.get(name)):
        raise MeasurementFailed(
            f"install: {len(wrong)} of {len(wanted)} jars do not match their pinned checksums, e.g. {wrong[0]}"
        )


def _name_all(jars: Path, sums: str) -> None:
    """Write the jar that lists all other jars in the order of the checksum file.

    The order must be fixed, because a class archive is valid for only one order.
    """
    entry = "Class-Path: " + " ".join(line.split(maxsplit=1)[1] for line in sums.splitlines() if line)
    lines = [entry[:70], *(f" {entry[i : i + 69]}" for i in range(70, len(entry), 69))]  # 72 bytes with the line ending
    with zipfile.ZipFile(jars / "hdfs.jar", "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "\r\n".join(("Manifest-Version: 1.0", *lines, "", "")))


def _archive(tools: Path, trial: type[Any], progress: Progress) -> None:
    """Start a small HDFS, record the classes that its daemons load, and write Java's class archive.

    This also tests whether HDFS runs.
    """
    program = java()
    if program is None:
        raise UserError("install", f"there is no Java {OLDEST} to {NEWEST}", "install Java, or set JAVA_HOME")
    final = class_archive(tools, program)
    with _temporary(tools) as temporary:
        work = Path(temporary)
        progress("starting HDFS once")
        _trial(tools, trial, work)
        lines = {line for path in work.glob("*.classes") for line in path.read_text().splitlines()}
        classes = {line for line in lines if not line.startswith("#")}
        (work / "classes").write_text("\n".join(sorted(classes)))
        progress(f"archiving {len(classes)} classes")
        options = [
            "-Xshare:dump",
            "-XX:-UsePerfData",
            "-XX:+UseSerialGC",
            f"-XX:SharedClassListFile={work}/classes",
            f"-XX:SharedArchiveFile={work}/jsa",
        ]
        output = command_output(
            [str(program), *options, "-cp", str(class_path(tools))], "Java's archive of classes", 600
        )
        if not (work / "jsa").exists():
            raise MeasurementFailed(f"install: Java did not write a class archive: {output.strip()[-300:]}")
        (work / "jsa").chmod(0o644)
        (work / "jsa").replace(final)


def _trial(tools: Path, trial: type[Any], work: Path) -> None:
    """Run a small HDFS in the folder `work`: write, read, append, list and remove a file.

    Each daemon writes its loaded classes to `<daemon>.classes`. Raises UserError or MeasurementFailed if it does not
    work.
    """
    from storelab.stores.managed import network
    from storelab.stores.managed.base import LOOPBACK
    from storelab.stores.protocols import filesystems

    first = next(
        (b for b in range(21000, 32000, trial.port_block) if all(network.free(LOOPBACK, p) for p in range(b, b + 8))),
        None,
    )
    if first is None:
        raise UserError(
            "install",
            "there are no 8 free ports in a row between 21000 and 32000",
            "stop programs that listen on these ports",
        )
    store = trial("trial", trial.Settings(kind="hdfs", port=first, servers=1, redundancy="none"), work / "state")
    store.tools = tools
    store.java_options = (f"-XX:DumpLoadedClassList={work}/%s.classes",)
    try:
        store.up()
        way, (endpoint,) = store.access(), store.endpoints()
        way.make_bucket("trial")
        way.write("trial", "a/b", b"first")
        with filesystems.data(endpoint, {}, 1).open("/trial/a/b", "ab") as f:
            f.write(b" second")
        if way.read("trial", "a/b") != b"first second" or [k for k, _ in way.keys("trial")] != ["a/b"]:
            raise MeasurementFailed("install: data read from HDFS differ from what was written")
        way.delete("trial", ["a/b"])
        way.drop_bucket("trial")
    finally:
        store.down()
