"""Checks and fixtures for tests of stores that storelab starts."""

import itertools
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import ports
import psutil
import pyarrow.parquet as pq
import pytest
from laboratory import bucket_for, configured, gone

from storelab import stores
from storelab.core.campaign.faults import Act, resolved
from storelab.core.errors import UserError
from storelab.measure import point
from storelab.stores import all_stores, make
from storelab.stores.protocols import s3_clients

S = 10**9
# Parts of messages of `require` about a missing privilege or kernel feature, not a missing program.
PRIVILEGES = ("needs root", "/dev/fuse", "cannot be created here")
_SUBNETS = (f"10.{200 + i // 16384 % 50}.{i // 64 % 256}.{i % 64 * 4}/30" for i in itertools.count(os.getpid() * 64))


def subnet() -> str:
    """Return a network with four addresses that no other test uses."""
    return next(_SUBNETS)


def settings_of(kind: str, **more: Any) -> dict[str, Any]:
    """Return the settings of a store with unused ports or an unused subnet."""
    fields = stores.load(kind).Settings.model_fields
    place = {"subnet": subnet()} if "subnet" in fields else {"port": ports.block()}
    return {"kind": kind, **place, **more}


def created(name: str, settings: dict[str, Any], state: Path) -> Any:
    """Create a store, without starting it."""
    return make(name, stores.load(settings["kind"]).Settings.model_validate(settings), state)


def made(name: str, settings: dict[str, Any], state: Path) -> Any:
    """Create a store, without starting it. Skip the test if the store cannot run here."""
    store = created(name, settings, state)
    skip_unless_usable(store)
    return store


def skip_unless_usable(store: Any) -> None:
    """Skip the test if the store cannot run here.

    The reason names the missing privilege or the command to install it.
    """
    try:
        store.require()
    except UserError as error:
        missing = any(words in str(error) for words in PRIVILEGES)
        pytest.skip(f"privilege: {error}" if missing else str(error))


def again(store: Any) -> Any:
    """Return the same store as created by another storelab process, with no state except its folder."""
    return type(store)(store.name, store.settings, store.state)


def until(done: Callable[[], Any], seconds: float = 60.0, every: float = 0.02) -> Any:
    """Call `done` until it returns a true value, and return this value. Fail after a time that only a hang reaches."""
    end = time.monotonic() + seconds
    while not (found := done()):
        assert time.monotonic() < end, f"nothing happened in {seconds} s"
        time.sleep(every)
    return found


def kill(store: Any, *names: str) -> None:
    """Send SIGKILL to daemons, and wait until they have ended."""
    pids = {name: store.actors()[name] for name in names}
    for pid in pids.values():
        os.kill(pid, signal.SIGKILL)
    until(lambda: all(store.actors().get(name) != pid for name, pid in pids.items()))


def left_behind(store: Any) -> list[str]:
    """Return the remains of a stopped store: processes, sockets, mounts, namespaces and links."""
    folder, out = str(store.folder), []
    for process in psutil.process_iter(["cmdline", "status"]):
        if process.pid == os.getpid() or process.info["status"] == psutil.STATUS_ZOMBIE:
            continue
        with suppress(psutil.Error):
            if folder in " ".join(process.info["cmdline"] or ()) or process.cwd() == folder:
                out.append(f"{process.pid} {' '.join(process.info['cmdline'] or ())}"[:200])
    out += [line for line in Path("/proc/mounts").read_text().splitlines() if folder in line or str(store.data) in line]
    if store.protocol != "file":  # the data of file servers can contain sockets
        out += [str(p) for p in store.folder.rglob("*") if p.is_socket() or p.is_fifo()]
    if namespace := getattr(store, "namespace", None):
        places = [Path("/run/netns") / namespace.name, Path("/sys/class/net") / namespace.name]
        out += [str(place) for place in places if place.exists()]
        out += namespace.spaces() if hasattr(namespace, "spaces") else []
    return out


def listening(pids: Iterable[int]) -> set[tuple[str, int]]:
    """Return the addresses and ports on which these processes listen."""
    connections = [c for pid in pids for c in psutil.Process(pid).net_connections("inet")]
    return {tuple(c.laddr) for c in connections if c.status == "LISTEN"}


def sleeps_and_wakes(store: Any, *up: int, seconds: float = 0.3) -> None:
    """Check that a suspended store uses no CPU time, and that `resume` and `up` continue the same processes."""
    bucket, processes = bucket_for(store, "sleep"), [psutil.Process(p) for p in store.actors().values()]
    store.suspend()
    store.suspend()
    states = {p.status() for p in processes}
    assert psutil.STATUS_STOPPED in states and states <= {psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE}
    before = [p.cpu_times()[:2] for p in processes]
    time.sleep(seconds)
    assert [p.cpu_times()[:2] for p in processes] == before
    store.resume()
    store.access().write(bucket.name, "k", b"awake")
    store.suspend()
    store.up(*up)
    assert store.access().read(bucket.name, "k") == b"awake"
    assert [psutil.Process(p) for p in store.actors().values()] == processes


def is_encrypted(store: Any, front_ends: int = 1, accounts: int = 1) -> None:
    """Check that a store answers only by https, and that only clients with storelab's CA accept its certificate."""
    account = accounts - 1
    try:
        store.up(front_ends, accounts)
        end = store.endpoints(front_ends)[-1]
        assert end.url.startswith("https://") and store.deployment()["tls"]
        bucket = bucket_for(store, "tls", 0, account=account)
        store.access(account, 0).write(bucket.name, "k", b"secret")
        assert store.access(account, front_ends - 1).read(bucket.name, "k") == b"secret"
        stranger = s3_clients.client(type(end)(end.url), store.credentials(account))  # without storelab's CA
        with pytest.raises(Exception, match=r"CERTIFICATE_VERIFY_FAILED|SSL"):
            stranger.list_buckets()
        keys = [p for p in store.folder.rglob("*.key") if p.is_file()]
        assert keys and all(stat.S_IMODE(p.stat().st_mode) & 0o077 == 0 for p in keys)
    finally:
        store.down()


def leaked_secrets(store: Any, secrets: Iterable[str], files: Iterable[str]) -> list[str]:
    """Return the secrets that are in a command line, or in a file of the store except `files`.

    Check that only the owner can read `files`.
    """
    texts, only = [], set(files)
    for path in (p for p in store.folder.rglob("*") if p.is_file() and store.data not in p.parents):
        if path.name in only:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        else:
            texts.append(path.read_bytes())
    texts += [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in store.actors().values()]
    assert len(texts) > 3
    return [secret for secret in secrets if any(secret.encode() in text for text in texts)]


def in_environment(store: Any, secrets: Iterable[str]) -> list[str]:
    """Return the secrets that are in the environment of a process of the store. Only the same user can read these."""
    texts = [Path(f"/proc/{pid}/environ").read_bytes() for pid in store.actors().values()]
    return [secret for secret in secrets if any(secret.encode() in text for text in texts)]


def refuses_a_taken_port(store: Any, port: int, daemon: str, front_ends: int = 1) -> None:
    """Check that `up` reports a port in use and leaves nothing behind, and that it works when the port is free."""
    with socket.create_server(("127.0.0.1", port)), pytest.raises(UserError) as caught:
        store.up(front_ends)
    assert f"port {port} of {daemon} is in use" in str(caught.value) and "\n" not in str(caught.value)
    assert f"{store.place}.port" in str(caught.value)
    assert store.actors() == {} and left_behind(store) == []
    store.up(front_ends)


def spoil_certificates(store: Any) -> None:
    """Replace the certificates of a store by other text."""
    (store.folder / "tls").mkdir(parents=True)
    for name in ("ca.pem", "server.pem", "server.key"):
        (store.folder / "tls" / name).write_text("no certificate")


KILLED = """
import json, os, sys
from pathlib import Path
from storelab import stores
from storelab.stores import make
given, name, state, victim = json.loads(sys.argv[1])
store = make(name, stores.load(given["kind"]).Settings.model_validate(given), Path(state))
record = store.daemons._record
store.daemons._record = lambda one, process: os.kill(os.getpid(), 9) if one.name == victim else record(one, process)
store.up()
"""


def begun_in_background(store: Any, settings: dict[str, Any]) -> "subprocess.Popen[bytes]":
    """Start the store with another storelab process, without waiting for it."""
    given = json.dumps([settings, store.name, str(store.state), ""])
    return subprocess.Popen([sys.executable, "-c", KILLED, given])


def kill_in_up(store: Any, settings: dict[str, Any], victim: str) -> None:
    """Start the store with a storelab process that is killed before it records the daemon `victim`."""
    given = json.dumps([settings, store.name, str(store.state), victim])
    assert subprocess.run([sys.executable, "-c", KILLED, given], check=False).returncode == -signal.SIGKILL


def acts(*given: dict[str, Any], name: str = "f") -> list[dict[str, Any]]:
    """Return the acts of a fault in a point of five minutes."""
    return resolved([Act.model_validate(act) for act in given], 300 * S, 1.0, f"faults.{name}")


def states(runner: Any) -> list[str]:
    """Return the reported states of the store in the order of time."""
    return [e["state"] for e in runner.events if e["kind"] == "state"]


def stopped(store: Any) -> set[str]:
    """Return the actors whose process is stopped by a signal."""
    return {n for n, pid in store.actors().items() if psutil.Process(pid).status() == psutil.STATUS_STOPPED}


def never_up(name: str, kind: str, **settings: Any) -> Any:
    """Return a fixture: a new store, which is stopped at the end."""

    @pytest.fixture
    def fresh(tmp_path: Path) -> Iterator[Any]:
        with running(made(name, settings_of(kind, **settings), tmp_path)) as store:
            yield store

    return fresh


def kept_up(name: str, kind: str, *up: int, **settings: Any) -> Any:
    """Return a module fixture: a running store with `up` front-ends and accounts."""

    @pytest.fixture(scope="module")
    def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
        with running(made(name, settings_of(kind, **settings), tmp_path_factory.mktemp(name))) as store:
            store.up(*up)
            yield store

    return kept


def filled(store: Any, campaign: str, largest: int = 200_000, front_end: int = 0) -> tuple[str, dict[str, bytes]]:
    """Write objects into a bucket of the campaign. Return (name of the bucket, key -> body)."""
    bucket, way = bucket_for(store, campaign), store.access(front_end=front_end)
    bodies = {f"d/k{i}": os.urandom(largest * i // 8) for i in range(9)}
    for key, body in bodies.items():
        way.write(bucket.name, key, body)
    return bucket.name, bodies


def intact(store: Any, bucket: str, bodies: dict[str, bytes], front_end: int = 0) -> bool:
    """Return True if all objects are listed and have the written content."""
    way = store.access(front_end=front_end)
    listed = {key: size for key, size in way.keys(bucket) if key in bodies}
    return listed == {k: len(b) for k, b in bodies.items()} and all(way.read(bucket, k) == b for k, b in bodies.items())


class Lab:
    """A campaign that measures points on a store.

    store: the deployment that the campaign uses; called: its name; more: other keys of the campaign.
    """

    def __init__(
        self, folder: Path, settings: dict[str, Any], sweeps: dict[str, Any], called: str = "one", **more: Any
    ):
        self.settings = settings
        self.config, points = configured(folder, {called: settings}, sweeps, **more)
        self.points = {p.sweep: p for p in points}
        self.store: Any = all_stores(self.config)[called]

    def measured(self, sweep: str) -> tuple[list[dict], dict, Path]:
        """Measure the point of a sweep. Return (rows of operations, record, folder of the point)."""
        record = point.point(self.config, list(self.points.values()), self.points[sweep].key, again=True).to_json()
        at = self.config.raw / self.points[sweep].key
        assert all(c["ok"] for c in record["checks"]), record["checks"]
        return rows_of(at, "ops"), record, at


def rows_of(at: Path, table: str) -> list[dict[str, Any]]:
    """Return the rows of all clients of a point in a table."""
    return [row for path in sorted(at.glob(f"{table}.*.parquet")) for row in pq.read_table(path).to_pylist()]


@contextmanager
def running(store: Any) -> Iterator[Any]:
    """Stop the store at the end, and check that nothing remains."""
    try:
        yield store
    finally:
        pids = store.actors().values()
        store.down()
        assert gone(pids) and left_behind(store) == []
