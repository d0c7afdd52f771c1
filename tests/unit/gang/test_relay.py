"""An agent's requests, on a pipe and over HTTPS: files, clock, noise of a login shell, and how a connection ends."""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from storelab.core import clock
from storelab.gang import nodes, relay
from storelab.gang.relay import GangFiles, PipeFolder, PipeServer


@pytest.fixture
def pipes(tmp_path) -> Iterator[tuple[PipeFolder, PipeServer]]:
    """Return the two ends of a connection to the folder `gang`."""
    gang = tmp_path / "gang"
    gang.mkdir()
    (to_server, server_out), (server_in, to_agent) = os.pipe(), os.pipe()
    os.write(server_out, b"Welcome to node1\n*** maintenance on Monday ***\n")
    with open(to_server, "rb") as requests, open(to_agent, "wb") as replies:
        server = PipeServer(GangFiles(gang, ()), requests, replies, tmp_path / "noise")
        agent = PipeFolder(server_in, server_out)
        yield agent, server
        for pipe in (server_in, server_out):
            with contextlib.suppress(OSError):
                os.close(pipe)
        server.close()
        server.join(5)


def test_files_travel_over_a_pipe(pipes, tmp_path):
    agent, server = pipes
    assert agent.get("job.json") is None and agent.present("ready") == set()
    assert agent.put_once("ready.0", {"a": 1}) and agent.put_once("ready.0", {"a": 1})  # its answer was lost
    assert not agent.put_once("ready.0", {"a": 2}) and agent.get("ready.0") == {"a": 1}
    agent.put("ready.0", {"a": 3})
    assert agent.get("ready.0") == {"a": 3} and agent.present("ready") == {0}
    large = tmp_path / "ops.0.parquet"
    large.write_bytes(os.urandom(3_000_000))
    agent.put_file(large)
    assert (tmp_path / "gang/ops.0.parquet").read_bytes() == large.read_bytes()
    assert server.pid == os.getpid()
    assert (tmp_path / "noise").read_text() == "Welcome to node1\n*** maintenance on Monday ***\n"


def test_pipe_reaches_no_other_file(pipes, tmp_path):
    (tmp_path / "secret").write_text("{}")
    for name in ("../secret", ".hidden", ""):
        with pytest.raises(OSError, match="answered 400"):
            pipes[0].get(name)


def test_error_of_the_coordinator_reaches_the_agent(pipes, tmp_path):
    agent, _ = pipes
    (tmp_path / "gang").rename(tmp_path / "away")
    with pytest.raises(OSError, match=r"answered 500 to f/a \(.*No such file"):
        agent.put("a", {})
    (tmp_path / "away").rename(tmp_path / "gang")
    agent.put("a", {})


def test_clock_over_a_pipe(pipes, monkeypatch):
    offset = nodes.measure_offset([["192.0.2.1", 9]], pipes[0])
    assert offset.how == "asked" and abs(offset.ns) <= offset.error_ns < 5 * 10**8
    main = threading.current_thread()
    now = clock.now_ns
    wrong = lambda: now() + (10**9 if threading.current_thread() is not main else 0)  # noqa: E731
    monkeypatch.setattr(clock, "now_ns", wrong)
    offset = nodes.measure_offset([], pipes[0])
    assert abs(offset.ns - 10**9) <= offset.error_ns


def test_interrupted_request_is_completed_first(pipes):
    """A signal's handler raises while the agent waits for a reply; the next request must not get that reply."""
    agent, _ = pipes
    agent.put("a", {"of": "a"})
    wait, agent._wait = agent._wait, lambda pipe, event: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        agent.get("a")
    agent._wait = wait
    assert agent.get("missing") is None and agent.get("a") == {"of": "a"}


def test_ended_connection_stays_ended(pipes):
    agent, server = pipes
    server.close()
    for _ in range(2):
        with pytest.raises(OSError, match=r"connection to the coordinator has ended|Broken pipe"):
            agent.get("a")


def test_silent_coordinator_ends_the_agent(monkeypatch):
    monkeypatch.setattr(relay, "TIMEOUT_S", 0.2)
    (replies, held), (reader, requests) = os.pipe(), os.pipe()
    agent = PipeFolder(replies, requests)
    with pytest.raises(OSError, match=r"has not answered for 0\.2 s"):
        agent.get("a")
    os.write(held, b"200 2\n{}200 2\n{}")
    with pytest.raises(OSError, match="has not answered"):
        agent.put("b", {})  # the connection is not used again, although answers have arrived
    for pipe in (replies, held, reader, requests):
        os.close(pipe)


def test_incomplete_file_is_not_written(tmp_path: Path):
    """An agent was lost while it sent the second file."""
    to_server, agent = os.pipe()
    os.write(agent, b"storelab-agent 1\nPUT f/a 3\nabcPUT f/b 10\nabc")
    os.close(agent)
    with open(to_server, "rb") as requests, open(os.devnull, "wb") as replies:
        PipeServer(GangFiles(tmp_path, ()), requests, replies, tmp_path / "noise").join(5)
    assert (tmp_path / "a").read_bytes() == b"abc" and not (tmp_path / "b").exists()


def test_relay_server_needs_the_token(tmp_path: Path, monkeypatch):
    manifest, gang, node = tmp_path / "data/m.json", tmp_path / "gang", tmp_path / "node"
    for folder in (manifest.parent, gang, node):
        folder.mkdir()
    manifest.write_text(json.dumps({"root": {"sidecar": "m.parquet"}}))
    (manifest.parent / "m.parquet").write_bytes(b"baskets")
    server = relay.RelayServer(gang, [manifest], "localhost")
    try:
        access = tmp_path / "access"
        access.write_text(json.dumps(server.access()))
        monkeypatch.setenv(relay.TOKEN_FILE, str(access))
        agent = relay.uplink(server.url)
        assert not access.exists(), "no other program can read the token later"
        agent.put("ready.0", {"a": 1})
        assert agent.get("ready.0") == {"a": 1} and agent.present("ready") == {0}
        copy = agent.fetch(manifest, node)
        assert copy.read_text() == manifest.read_text() and (node / "m.parquet").read_bytes() == b"baskets"
        stranger = relay.HttpsFolder(server.url, server.access() | {"token": "guess"})
        for request in (lambda: stranger.get("ready.0"), lambda: stranger.put("ready.1", {})):
            with pytest.raises(OSError, match="answered 403"):
                request()
        assert agent.present("ready") == {0}
    finally:
        server.close()


PRINTS = """
import os, subprocess, sys
from storelab.gang import relay
place = relay.uplink("pipe:")
print("from Python", flush=True)
subprocess.run(["sh", "-c", "echo from a child; cat"])
place.put("done", {})
"""


def test_output_of_the_agent_does_not_disturb_the_pipe(tmp_path: Path):
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", PRINTS], stdin=pipe, stdout=pipe, stderr=pipe) as process:
        server = PipeServer(GangFiles(tmp_path, ()), process.stdout, process.stdin, tmp_path / "noise")
        server.join(20)
        assert process.stderr.read() == b"from Python\nfrom a child\n"
    assert (tmp_path / "done").exists() and not (tmp_path / "noise").read_bytes()
