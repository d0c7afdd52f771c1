"""Stores around a point: the managed store behind an endpoint, and what a run stops at its end."""

import socket
from types import SimpleNamespace

import pytest
from command_line import in_process
from small_plan import configured

from storelab.measure import deployment
from storelab.stores import all_stores
from storelab.stores.managed import base
from storelab.stores.managed.daemons import Daemons


@pytest.fixture
def stores(tmp_path, monkeypatch, port_block):
    """Return a configuration and its stores: two managed ones, of which `own` seems to run, and an endpoint."""
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "campaigns" / "c.yaml").write_text(
        "name: c\nstores_to_measure: [own]\ncalibrate: false\n"
        "sweeps: {s: {workload: put, duration: 1 s, warm_up: 100 ms, axes: {object_size: [1 kB]}}}\n"
    )
    stores = {
        "own": {"kind": "seaweedfs", "port": port_block},
        "other": {"kind": "seaweedfs", "port": port_block + 32},
        "mine": {"kind": "s3", "endpoint": f"http://localhost:{port_block}"},
    }
    (tmp_path / "config.yaml").write_text(
        f"campaign: c\nstores: {stores!r}\nstate: {tmp_path}/state\nscratch: {tmp_path}\n".replace("'", "")
    )
    config = configured(stores=stores, stores_to_measure=["mine"], state=str(tmp_path / "state"))
    for name in ("own", "other"):
        (tmp_path / "state" / name).mkdir(parents=True)
    records = {"s3-1": {"pid": 1, "host": "127.0.0.1", "ports": [port_block], "created": 0.0, "argv": [], "grace": 1.0}}
    monkeypatch.setattr(Daemons, "records", lambda self: records if self.folder.name == "own" else {})
    monkeypatch.setattr(Daemons, "process", lambda self, record: SimpleNamespace(pid=1))
    return config, all_stores(config)


def test_endpoint_of_a_managed_store_is_that_store(stores):
    config, made = stores
    assert [one.name for one in deployment.servers(config, made["mine"])] == ["own"]
    assert deployment.servers(config, made["own"]) == []
    port = made["own"].settings.port
    for url, same in {
        f"http://127.0.0.1:{port}": True,
        f"http://127.0.0.1:{port + 1}": False,
        f"http://192.0.2.1:{port}": False,
        f"http://no-such-host.invalid:{port}": False,
    }.items():
        assert made["own"].serves(url) == same, url


def test_addresses_of_this_machine_are_one_host(monkeypatch):
    assert base.network.same_host("localhost", "127.0.0.1")
    assert base.network.same_host("0.0.0.0", "127.0.0.1") and base.network.same_host("127.0.0.2", "0.0.0.0")
    assert not base.network.same_host("127.0.0.1", "127.0.0.2")
    assert not base.network.same_host("0.0.0.0", "192.0.2.1") and not base.network.same_host("", "127.0.0.1")
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: (_ for _ in ()).throw(socket.gaierror()))
    assert not base.network.same_host("a", "a")


def test_only_other_stores_are_suspended(stores, monkeypatch):
    config, made = stores
    done = []
    for act in ("suspend", "resume"):
        monkeypatch.setattr(base.Managed, act, lambda self, act=act: done.append((act, self.name)))
    monkeypatch.setattr(type(made["mine"]), "up", lambda self, *_: done.append(("up", self.name)))
    monkeypatch.setattr(deployment.choose, "require_running", lambda *_: None)
    monkeypatch.setattr(deployment, "second", lambda *_: None)
    point = SimpleNamespace(axes={}, fixed={"duration_ns": 10**9}, store="mine")
    deployment.bring_up(config, point, made["mine"])
    assert done == [("suspend", "other"), ("resume", "own"), ("up", "mine")]


def test_store_of_the_user_is_released_running(stores, monkeypatch):
    _, made = stores
    monkeypatch.setattr(base.Managed, "down", lambda self: [1])
    monkeypatch.setattr(base.Managed, "resume", lambda self: None)
    assert deployment.release(made["own"]) == [1]
    made["own"].keep()
    assert deployment.release(made["own"]) is None
    made["other"].keep()  # of a store that does not run any more
    assert deployment.release(made["other"]) == [1]


def test_down_planned_spares_what_the_run_did_not_start(stores, tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(base.Managed, "down", lambda self: done.append(("down", self.name)) or [1])
    monkeypatch.setattr(base.Managed, "resume", lambda self: done.append(("resume", self.name)))
    code, out, _ = in_process(tmp_path, "down", "--planned")
    assert code == 0 and done == [("down", "own"), ("resume", "other")] and out == "own: stopped 1 process\n"
    all_stores(stores[0])["own"].keep()
    done.clear()
    code, out, _ = in_process(tmp_path, "down", "--planned")
    assert code == 0 and "own: not stopped, because you started it" in out and ("down", "own") not in done


def test_down_prints_nothing_for_stores_that_do_not_run(stores, tmp_path, monkeypatch):
    monkeypatch.setattr(base.Managed, "down", lambda self: [])
    assert in_process(tmp_path, "down", "--all") == (0, "", "")
    assert in_process(tmp_path, "down", "other") == (0, "other: is not running\n", "")
