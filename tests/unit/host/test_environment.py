"""The environment of a record: the commit of the code and its uncommitted changes."""

import hashlib
import subprocess

import pytest

from storelab.core.redaction import conceal
from storelab.host import environment

PLACE = "src/storelab/host/environment.py"


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """Return a function that runs git in a checkout of code, and the state that `environment` reads there."""
    root = tmp_path / "checkout"

    def git(*words, **more):
        named = ["-c", "user.name=x", "-c", "user.email=x@x", "-c", "protocol.file.allow=always"]
        return subprocess.run(["git", "-C", root, *named, *words], check=True, capture_output=True, **more).stdout

    for name in (PLACE, "src/storelab/module.py", "rules/measure.smk", "docs/page.md", "config.yaml", ".gitignore"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{name}\n" if name != ".gitignore" else "__pycache__/\n")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qmx")
    monkeypatch.setattr(environment, "__file__", str(root / PLACE))
    return root, git


def state():
    environment._checkout.cache_clear()
    return environment.checkout()


def test_commit_of_a_checkout_of_another_user(checkout, tmp_path, monkeypatch):
    """Git refuses such a checkout as dubious without a message; the record had no commit."""
    root, git = checkout
    started = tmp_path / "started"
    (root / "src/storelab/module.py").write_text("changed\n")
    (root / "src/storelab/new.py").write_text("new\n")
    (root / ".git/info/attributes").write_text("*.py diff=x\n")
    for name in ("core.fsmonitor", "diff.external", "diff.x.textconv", "diff.x.command"):
        git("config", name, f"touch {started}")
    commit = git("rev-parse", "HEAD").decode()[:12]
    for other in ("0", "1"):
        monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", other)
        found = state()
        assert found.commit == f"{commit}-dirty" and "+new" in found.changes
    assert not started.exists()


def test_only_changes_of_code_are_dirty(checkout):
    """Users edit config.yaml, which `plan.json` has; documentation and caches measure nothing."""
    root, git = checkout
    commit = git("rev-parse", "HEAD").decode()[:12]
    for name in ("docs/page.md", "config.yaml", "notes.txt", "src/storelab/__pycache__/module.pyc"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("changed\n")
    assert state() == environment.Checkout(commit) and state().to_json() == {"git_commit": commit}
    for name in ("src/storelab/new.py", "rules/measure.smk", "Snakefile"):
        before = (root / name).read_text() if (root / name).exists() else None
        (root / name).write_text("changed\n")
        found = state()
        assert found.commit == f"{commit}-dirty" and f"b/{name}\n" in found.changes
        assert found.to_json()["git_changes"] == {"sha256": hashlib.sha256(found.changes.encode()).hexdigest()}
        (root / name).write_text(before) if before else (root / name).unlink()
    assert state().commit == commit


def test_kept_changes_restore_the_code(checkout):
    root, git = checkout
    (root / "src/storelab/module.py").write_text("changed\r\nä\n")
    (root / "src/a new.py").write_text("new\n")
    (root / "rules/measure.smk").unlink()
    (root / "src/empty.py").touch()
    git("add", "src/storelab/module.py")
    changes = state().changes
    git("stash", "-qu")
    git("apply", "-", input=changes.encode())
    assert (root / "src/storelab/module.py").read_bytes() == "changed\r\nä\n".encode()
    assert (root / "src/a new.py").read_text() == "new\n" and (root / "src/empty.py").exists()
    assert not (root / "rules/measure.smk").exists()


def test_new_folders_are_kept(checkout):
    """The user's git may not list them, or only their names."""
    root, git = checkout
    (root / "src/new").mkdir()
    (root / "src/new/module.py").write_text("new\n")
    for listed in ("no", "normal"):
        git("config", "status.showUntrackedFiles", listed)
        assert "+new" in state().changes


def test_large_changes_are_only_hashed(checkout):
    root, _ = checkout
    (root / "src/large.py").write_text("a line of code\n" * 100_000)
    found = state()
    assert found.changes == "" and len(found.sha256) == 64
    assert found.problem == "they have 1.6 MB, more than 1 MB"
    assert found.to_json()["git_changes"] == {"sha256": found.sha256, "not_kept": found.problem}


def test_changes_have_no_keys(checkout):
    root, _ = checkout
    conceal("a-key-of-this-test-only")
    (root / "src/new.py").write_text('KEYS = ("a-key-of-this-test-only", "AKIAABCDEFGHIJKLMNOP")\n')
    assert "test-only" not in state().changes and "AKIA" not in state().changes and "KEYS" in state().changes


def test_slow_git_leaves_the_reason(checkout, monkeypatch):
    root, _ = checkout
    (root / "src/new.py").write_text("new\n")
    git, commit = environment._git, state().commit
    for name in ("diff", "status"):
        monkeypatch.setattr(
            environment,
            "_git",
            lambda root, *words, name=name, **more: None if name in words else git(root, *words),
        )
        reason = {"not_kept": f"`git {name}` failed or took too long"}
        assert state().to_json() == {"git_commit": commit, "git_changes": reason}


def test_unknown_commits_are_found(checkout, tmp_path, monkeypatch):
    root, git = checkout
    commit, other = git("rev-parse", "HEAD").decode()[:12], "0123456789ab"
    git("commit", "-q", "--allow-empty", "-mx")
    recorded = [commit, f"{commit}-dirty", f"{other}-dirty", other, ""]
    assert environment.unknown_commits(recorded) == [other] and environment.unknown_commits([""]) == []
    shallow = tmp_path / "shallow"
    git("clone", "-q", "--depth", "1", f"file://{root}", shallow)
    with monkeypatch.context() as here:
        here.setenv("PATH", "")
        assert environment.unknown_commits(recorded) == [], "no git"
    monkeypatch.setattr(environment, "__file__", str(shallow / PLACE))
    assert environment.unknown_commits(recorded) == [], "an older commit is not in a shallow clone"
    monkeypatch.setattr(environment, "__file__", str(tmp_path / PLACE))
    assert environment.unknown_commits(recorded) == [], "no repository"
