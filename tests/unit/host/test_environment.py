"""The environment of a record."""

import subprocess

from storelab.host import environment


def test_commit_of_a_checkout_of_another_user(tmp_path, monkeypatch):
    """Git refuses such a checkout as dubious without a message; the record had no commit."""
    for command in (
        ["init", "-q"],
        ["-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "--allow-empty", "-mx"],
    ):
        subprocess.run(["git", "-C", tmp_path, *command], check=True)
    started = tmp_path / "started"
    subprocess.run(["git", "-C", tmp_path, "config", "core.fsmonitor", f"touch {started}"], check=True)
    wanted = subprocess.run(["git", "-C", tmp_path, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    monkeypatch.setattr(environment, "__file__", str(tmp_path / "src" / "storelab" / "host" / "environment.py"))
    for other in ("0", "1"):
        monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", other)
        assert environment.git_commit() == wanted.stdout[:12]
    assert not started.exists()
