"""What tests of stores share that storelab starts itself: each is a check of one store, or what it takes to measure
with one.
"""

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ports
import psutil
import pyarrow.parquet as pq
import pytest
from laboratory import bucket_for

from storelab import install
from storelab.core import plan
from storelab.core.config import Config
from storelab.core.errors import UserError
from storelab.measure import point
from storelab.stores import all_stores
from storelab.stores.protocols import s3_clients
from storelab.workloads import WORKLOADS


def skip_without(kind: str, more: str = "") -> None:
    """Skip where the program of this kind is not installed."""
    try:
        install.program(kind, kind, "tests")
    except UserError:
        pytest.skip(f"{kind} is not installed: storelab install {kind}{more}")


def left_behind(store) -> list[str]:
    """Processes that name the store's folder."""
    folder = str(store.folder)
    return [str(p.pid) for p in psutil.process_iter(["cmdline"]) if folder in " ".join(p.info["cmdline"] or ())]


def listening(pids: Iterable[int]) -> set[tuple[str, int]]:
    """Addresses and ports that these processes listen on."""
    connections = [c for pid in pids for c in psutil.Process(pid).net_connections("inet")]
    return {tuple(c.laddr) for c in connections if c.status == "LISTEN"}


def sleeps_and_wakes(store, *up: int) -> None:
    """Suspended it takes no CPU; `resume` and `up` wake it, and its processes stay."""
    bucket, processes = bucket_for(store, "sleep"), [psutil.Process(p) for p in store.actors().values()]
    store.suspend()
    store.suspend()
    assert {p.status() for p in processes} == {psutil.STATUS_STOPPED}
    before = [p.cpu_times()[:2] for p in processes]
    time.sleep(0.3)
    assert [p.cpu_times()[:2] for p in processes] == before
    store.resume()
    store.access().write(bucket.name, "k", b"awake")
    store.suspend()
    store.up(*up)
    assert store.access().read(bucket.name, "k") == b"awake"
    assert [psutil.Process(p) for p in store.actors().values()] == processes


def outlives_a_restart(store, new: Callable[..., Any], front_ends: int = 1) -> tuple[Any, str]:
    """Data, accounts and keys; (the store, up again; a bucket of its account 0 with the object d/k1)."""
    store.up(front_ends, 2)
    mine = [bucket_for(store, "kept", i, account=i) for i in range(2)]
    keys = [store.credentials(i).access_key for i in range(2)]
    bodies = {f"d/k{i}": os.urandom(20_000 * i) for i in range(12)}
    for i, bucket in enumerate(mine):
        for key, body in bodies.items():
            store.access(i).write(bucket.name, key, body)
    pids = list(store.actors().values())
    assert sorted(store.down()) == sorted(pids)
    again = new(store.state, store.settings.port)
    again.up()
    assert again.accounts() == 2 and [again.credentials(i).access_key for i in range(2)] == keys
    for i, bucket in enumerate(mine):
        assert {k: again.access(i).read(bucket.name, k) for k in bodies} == bodies
    return again, mine[0].name


def is_encrypted(store, front_ends: int = 1, accounts: int = 1) -> None:
    """It answers by https alone, with a certificate that storelab knows and nobody else."""
    account = accounts - 1
    try:
        store.up(front_ends, accounts)
        end = store.endpoints(front_ends)[-1]
        assert end.url.startswith("https://") and store.deployment()["tls"]
        bucket = bucket_for(store, "tls", 0, account=account)
        store.access(account, 0).write(bucket.name, "k", b"secret")
        assert store.access(account, front_ends - 1).read(bucket.name, "k") == b"secret"
        stranger = s3_clients.client(type(end)(end.url), store.credentials(account))  # without our certificate
        with pytest.raises(Exception, match=r"CERTIFICATE_VERIFY_FAILED|SSL"):
            stranger.list_buckets()
    finally:
        store.down()


def told_elsewhere(store, secrets: Iterable[str], files: Iterable[str]) -> list[str]:
    """Secrets that stand in other files of the store than those, or in a command line.

    Those are of their owner alone.
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


def in_environment(store, secrets: Iterable[str]) -> list[str]:
    """Secrets that stand in the environment of a process: it is readable by the same user alone."""
    texts = [Path(f"/proc/{pid}/environ").read_bytes() for pid in store.actors().values()]
    return [secret for secret in secrets if any(secret.encode() in text for text in texts)]


@contextmanager
def measuring(
    folder: Path, kind: str, sweeps: dict[str, Any]
) -> Iterator[Callable[[str], tuple[list[dict], dict, Path]]]:
    """What measures the point of a sweep: (rows of operations, record, folder of the point)."""
    common = {"campaign": "lab", "name": "lab", "results": str(folder / "results"), "state": str(folder / "state")}
    common |= {"repetitions": 1, "calibrate": False, "use_stores": ["one"], "sweeps": sweeps}
    config = Config.model_validate(common | {"stores": {"one": {"kind": kind, "port": ports.block()}}})
    points = {p.sweep: p for p in plan.make(config, WORKLOADS)}

    def measured(sweep: str) -> tuple[list[dict], dict, Path]:
        record = point.point(config, list(points.values()), points[sweep].key)
        at = config.raw / points[sweep].key
        assert all(c["ok"] for c in record["checks"]), record["checks"]
        return [r for table in sorted(at.glob("ops.*.parquet")) for r in pq.read_table(table).to_pylist()], record, at

    yield measured
    all_stores(config)["one"].down()
