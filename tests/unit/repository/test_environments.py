"""Dependencies of package, locks and conda file agree; rules by which `make setup` builds again. No conda runs."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKED = re.compile(r"^([a-z0-9._-]+)==([^ ;]+)", re.MULTILINE)


def locked(name: str) -> dict[str, set[str]]:
    """Return package -> its versions (one for each range of Pythons) in a lock."""
    found: dict[str, set[str]] = {}
    for package, version in LOCKED.findall((ROOT / "envs" / name).read_text()):
        found.setdefault(package, set()).add(version)
    return found


def misfits(requirements: list[str], lock: dict[str, set[str]]) -> list[str]:
    """Return the requirements that a lock does not fulfil."""
    wanted = [Requirement(text) for text in requirements]
    return [str(w) for w in wanted if not lock.get(w.name) or not all(w.specifier.contains(v) for v in lock[w.name])]


def test_locks_fulfil_what_the_package_asks_for():
    groups, users, tools = PROJECT["dependency-groups"], locked("requirements.lock"), locked("dev.lock")
    project = PROJECT["project"]
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"], *extras["workflow"], *extras["measure"]]
    needed = [text for text in needed if not text.startswith(("readplan", "storelab["))]
    needed += tomllib.loads((ROOT / "src/readplan/pyproject.toml").read_text())["project"]["dependencies"]
    assert not misfits([*needed, *groups["notebooks"], *groups["setup"]], users)
    assert not misfits(groups["dev"], tools)
    assert all(users[package] == versions for package, versions in tools.items() if package in users)
    assert all("==" not in text for text in needed), "the package has ranges, the lock exact versions"


def test_users_install_no_tools_of_developers():
    """jsonschema also comes with Snakemake."""
    tools = {Requirement(text).name for text in PROJECT["dependency-groups"]["dev"]}
    assert tools & locked("requirements.lock").keys() == {"jsonschema"}


def test_conda_file_installs_all_packages():
    conda = (ROOT / "envs/conda.yaml").read_text()
    wanted = yaml.safe_load(conda)["dependencies"]
    (python,) = (d for d in wanted if str(d).startswith("python="))
    assert {"pip": ["-e ../src/readplan", "-e ..[measure,lab]"]} in wanted
    assert PROJECT["project"]["requires-python"] == f">={python.removeprefix('python=')}"
    assert "uv pip sync --require-hashes envs/requirements.lock" in conda


@pytest.mark.parametrize(
    ("says", "code", "words"),
    [
        ("", 0, "can be installed with Python 3.14"),
        ("error: Failed to fetch: x", 0, "no network"),
        ("No solution", 1, "No solution"),
    ],
)
def test_newer_python_is_checked_where_a_network_is(tmp_path, says, code, words):
    (tmp_path / ".venv/bin").mkdir(parents=True)
    for name in (".ci", "envs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / ".venv/bin/uv").write_text(f"#!/bin/sh\necho '{says}' >&2\n[ -z '{says}' ]\n")
    (tmp_path / ".venv/bin/uv").chmod(0o755)
    done = subprocess.run([tmp_path / ".ci/resolve", "3.14"], capture_output=True, text=True)
    assert done.returncode == code and words in done.stdout + done.stderr


def test_public_checks_are_parts_of_ours():
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    assert [[s["run"] for s in job["steps"] if "run" in s] for job in jobs.values()] == [
        [".ci/run lint"],
        [".ci/run test"],
    ]
    versions = [c.rpartition(" ")[2] for c in PROJECT["project"]["classifiers"] if "Python :: 3." in c]
    assert jobs["test"]["strategy"]["matrix"]["python"] == versions
    done = subprocess.run([ROOT / ".ci/run", "lnit"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "usage: .ci/run [lint|test|heavy]\n")


@pytest.mark.parametrize(
    ("part", "made"), [("lint", ["lint", "resolve 3.14"]), ("test", ["test PYTEST_OPTIONS=--minimum-passed 2600"])]
)
def test_part_of_the_checks_runs_nothing_else(part, made, tmp_path):
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    (tmp_path / "bin").mkdir()
    (tmp_path / ".ci/minimum").write_text("2600 1 1\n")
    for place, begin in (("bin/make", ""), (".ci/resolve", "resolve ")):
        (tmp_path / place).write_text(f'#!/bin/sh\necho "{begin}$*" >> {tmp_path}/asked\n')
        (tmp_path / place).chmod(0o755)
    environ = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    subprocess.run([tmp_path / ".ci/run", part], env=environ, check=True)
    assert (tmp_path / "asked").read_text().splitlines() == made


STORELAB = """#!/bin/bash
echo "$*" >> asked
case "$*" in
*--dry-run*) [ -e there ] && echo "[1/1] loadgen: it: already installed" || echo "[1/1] loadgen: it: 85 MB" ;;
*) [ -e broken ] && { echo "no network"; exit 1; } || touch there ;; esac
"""


@pytest.fixture
def checkout(tmp_path):
    """Return a checkout with an environment, whose `storelab` writes down its arguments."""
    for name in ("envs/setup.sh", "envs/idle.sh", "envs/requirements.lock", "envs/dev.lock", "pyproject.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for folder in ("loadgen", ".venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "loadgen/one.go").write_text("package one")
    pinned = (tmp_path / "envs/requirements.lock").read_bytes() + (tmp_path / "pyproject.toml").read_bytes()
    (tmp_path / ".venv/storelab-lock").write_text(f"{hashlib.sha256(pinned).hexdigest()[:32]}\n{tmp_path}/.venv\n")
    (tmp_path / ".venv/bin/storelab").write_text(STORELAB)
    (tmp_path / ".venv/bin/storelab").chmod(0o755)
    return tmp_path


def test_setup_builds_go_programs_of_this_checkout(checkout):
    """The tools folder may have programs of another checkout."""

    def setup() -> tuple[str, list[str]]:
        (checkout / "asked").write_text("")
        done = subprocess.run([checkout / "envs/setup.sh"], capture_output=True, text=True, check=True)
        return done.stderr, (checkout / "asked").read_text().splitlines()

    look, build = "install --dry-run loadgen", "install loadgen"
    assert setup() == ("", [look, build]) and setup() == ("", [look])
    (checkout / "there").unlink()
    (checkout / "broken").touch()
    found, asked = setup()
    assert asked == [look, build] and found.count("\n") == 1 and "no network" in found
    assert setup() == ("", [look]), "a failed build is not repeated at each `make`"
    (checkout / "broken").unlink()
    (checkout / "loadgen/one.go").write_text("package two")
    assert setup() == ("", [look, build])


def test_environment_is_not_changed_during_a_measurement(checkout):
    """After a pull, `make paper` in a second terminal would replace the packages of a running measurement."""
    (checkout / ".venv/bin/python").symlink_to("/bin/true")
    (checkout / "envs/requirements.lock").write_text("uv==1\n")
    (checkout / ".storelab").mkdir()
    with (checkout / ".storelab/measuring.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run([checkout / "envs/setup.sh", "environment"], capture_output=True, text=True)
    message = (
        "storelab: .storelab/measuring.lock is locked: a measurement is running; call `make setup` after its end\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)


def test_tools_of_developers_are_installed_on_request(checkout):
    uv = checkout / ".venv/bin/uv"
    uv.write_text('#!/bin/sh\necho "$*" >> asked\n')
    uv.chmod(0o755)

    def setup(*parts: str) -> list[str]:
        (checkout / "asked").write_text("")
        subprocess.run([checkout / "envs/setup.sh", *parts], capture_output=True, check=True)
        return (checkout / "asked").read_text().splitlines()

    assert setup("environment") == []
    (asked,) = setup("environment", "dev")
    assert "pip install" in asked and "-r envs/dev.lock" in asked
    assert setup("environment", "dev") == []
    (checkout / "envs/dev.lock").write_text("ruff==1")
    assert len(setup("environment", "dev")) == 1


PYTHON = """#!/bin/sh
case "$*" in
"-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python && cp "$0" .venv/bin/uv ;; esac
"""


def test_moved_checkout_gets_a_new_environment(checkout):
    """Programs in `.venv/bin` contain the path of the environment."""
    (checkout / "python").write_text(PYTHON)
    (checkout / "python").chmod(0o755)
    environ = os.environ | {"PYTHON": str(checkout / "python")}

    def setup(folder: Path) -> str:
        command = [folder / "envs/setup.sh", "environment"]
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout

    (link := checkout.with_name("link")).symlink_to(checkout)
    assert (setup(checkout), setup(link)) == ("", ""), "a link to the checkout is another path to the same .venv"
    moved = checkout.rename(checkout.with_name("moved one"))
    environ["PYTHON"] = str(moved / "python")
    assert setup(moved).startswith("setup: the checkout was moved or copied; .venv is made again\n")
    assert not (moved / ".venv/bin/storelab").exists() and setup(moved) == ""
    copied = Path(shutil.copytree(moved, checkout.with_name("copied")))
    assert "moved or copied" in setup(copied) and setup(copied) == "" and setup(moved) == ""
    (copied / ".venv/storelab-lock").write_text((moved / ".venv/storelab-lock").read_text().splitlines()[0])
    assert "moved" not in setup(copied) and setup(copied) == "", "the path was not noted before version 0.2"


def test_letters_in_path_of_checkout_need_no_locale(checkout):
    """`make setup` links Python to the package without the checkout's name, which some locales cannot encode."""
    folder = checkout.rename(checkout.with_name("clön ü'x"))
    stamp = folder / ".venv/storelab-lock"
    stamp.write_text(stamp.read_text().replace(str(checkout), str(folder)))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / ".venv"], check=True)
    (folder / "src").symlink_to(ROOT / "src")
    (places,) = (folder / ".venv/lib").glob("python3*/site-packages")
    (places / "packages.pth").write_text(sysconfig.get_path("purelib"))
    (places / "_editable_impl_storelab.pth").write_text(str(folder / "src"), encoding="utf-8")

    def run(locale: str) -> subprocess.CompletedProcess:
        command = [folder / ".venv/bin/python", "-m", "storelab", "--help"]
        environ = {"PATH": os.environ["PATH"], "LC_ALL": locale}
        return subprocess.run(command, env=environ, capture_output=True, text=True, cwd=folder)

    assert "UnicodeDecodeError" in run("C").stderr, "as installers leave it"
    subprocess.run([folder / "envs/setup.sh", "environment"], check=True)
    for locale in ("C", "POSIX", "C.UTF-8"):
        done = run(locale)
        assert done.returncode == 0 and "Usage" in done.stdout, (locale, done.stderr)


def test_setup_does_not_write_in_a_complete_environment(checkout):
    """The checkout may belong to another user."""
    link = checkout / ".venv/lib/python3.11/site-packages/_editable_impl_storelab.pth"
    link.parent.mkdir(parents=True)
    for text in ("../../../../src\n", str(checkout / "src")):
        link.write_text(text)
        os.utime(link, (100, 100))
        subprocess.run([checkout / "envs/setup.sh", "environment"], check=True)
        assert link.read_text() == "../../../../src\n"
        assert (link.stat().st_mtime == 100) == text.startswith("..")


def debian_has_python() -> bool:
    """Return whether Debian's Python is new enough and can make environments."""
    ask = ["/usr/bin/python3", "-c", "import ensurepip, sys; sys.exit(sys.version_info < (3, 11))"]
    return Path(ask[0]).exists() and subprocess.run(ask, capture_output=True).returncode == 0


def test_python_of_debian_comes_first(checkout):
    """It is a seventh faster than others. Another one is used if the user names it."""
    (other := checkout / "bin/python3").parent.mkdir()
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)

    def setup(**named: str) -> subprocess.CompletedProcess:
        environ = {k: v for k, v in os.environ.items() if k != "PYTHON"} | named
        environ["PATH"] = f"{other.parent}:{environ['PATH']}"
        command = [checkout / "envs/setup.sh", "environment"]
        return subprocess.run(command, env=environ, capture_output=True, text=True)

    assert setup().returncode == (0 if debian_has_python() else 2)
    done = setup(PYTHON=str(other))
    assert done.returncode == 2 and done.stderr.startswith(f"storelab: {other} ")


def test_clean_leaves_only_what_was_measured(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "envs").mkdir()
    shutil.copy(ROOT / "envs/idle.sh", tmp_path / "envs")
    kept = {"results/mine/raw/plan.json", "results/mine/links.yaml", "config.yaml", "results/mine/notes.md"}
    kept |= {f"results/{name}/plan.json" for name in ("mine/raw.measured", "mine/raw.sealing", "mine/.raw/x")}
    kept |= {"results/of-the-user.txt", "results/papers/a+b/mine.txt", "results/papers/notes"}
    made = [f"results/mine/{name}" for name in ("tables/a.csv", "status/plan", "work/x/job.json", "mine.crate.zip")]
    for name in (*kept, *made, "results/papers/a+b/paper.pdf", ".snakemake/x", ".storelab/measuring.lock"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    def clean() -> tuple[int, set[str]]:
        done = subprocess.run(["make", "clean"], cwd=tmp_path, capture_output=True, text=True)
        found = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
        return done.returncode, found - {"Makefile", "envs/idle.sh", ".storelab/measuring.lock"}

    (user := tmp_path / ".storelab/sw.users/1").parent.mkdir()
    user.touch()
    kept.add(".storelab/sw.users/1")
    for place in (".storelab/measuring.lock", ".storelab/sw.users/1", "results/mine"):
        lock = os.open(tmp_path / place, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, found = clean()
        os.close(lock)
        assert code and len(found) == len(kept) + len(made) + 2, f"not while {place} is locked"
    assert clean() == (0, kept)
    shutil.rmtree(tmp_path / "results")
    assert clean()[0] == 0
