"""Capacity of this host's links: from token buckets and drivers of network cards."""

import json
import subprocess

import pytest

from storelab.host import environment

TBF = {"kind": "tbf", "root": True, "options": {"rate": 25_000_000}}
RULES = [
    *({**TBF, "dev": dev} for dev in ("veth1", "slow0", "lo")),
    {**TBF, "dev": "fast0", "options": {"rate": 10**12}},
    {**TBF, "dev": "old0", "options": {"rate": "200Mbit"}},
    {"kind": "tbf", "dev": "child0", "parent": "1:1", "options": {"rate": 1}},
    {"kind": "noqueue", "dev": "plain0", "root": True, "options": {}},
    "words",
]
ADDRESSES = [
    {"ifname": "lo", "addr_info": [{"local": "127.0.0.1"}, {}]},
    {"ifname": "veth1", "addr_info": [{"local": "10.99.0.241"}]},
    {"ifname": "bond0", "addr_info": [{"local": "192.0.2.7"}]},
    {"ifname": "down0"},
]


@pytest.fixture(autouse=True)
def host(tmp_path, monkeypatch):
    """Make interfaces as the kernel shows them, and let `tc` and `ip` answer."""
    drivers = {"slow0": ("device", "1000"), "fast0": ("device", "10000"), "bond0": ("bonding", "20000")}
    drivers |= {
        "veth0": ("", "10000"),
        "virtio0": ("device", "-1"),
        "broken0": ("device", "x"),
        "down0": ("device", ""),
    }
    for name, (kind, speed) in drivers.items():
        (tmp_path / name / kind).mkdir(parents=True)
        (tmp_path / name / "speed").write_text(f"{speed}\n")
    answers = {"qdisc": RULES, "addr": ADDRESSES}

    def ask(command, timeout_s):
        return subprocess.CompletedProcess(command, 0, json.dumps(answers[command[2]]), "")

    monkeypatch.setattr(environment, "INTERFACES", tmp_path)
    monkeypatch.setattr(environment, "run_command", ask)


def test_speed_is_that_of_the_bucket_or_the_card():
    shaped, cards = {"veth1": 200_000_000, "slow0": 200_000_000}, {"fast0": 10**10, "bond0": 2 * 10**10}
    assert environment.link_speeds() == shaped | cards, "a virtual interface and one that is down have no speed"


def test_front_ends_of_this_host_have_their_interface():
    hosts = ["10.99.0.241", "192.0.2.7", "127.0.0.1", "203.0.113.1", "no.such.host.invalid", ""]
    assert environment.link_speeds_of(hosts) == [200_000_000, 2 * 10**10, None, None, None, None]


@pytest.mark.parametrize("said", ["", "not JSON", "7", "null"])
def test_missing_programs_leave_the_cards(monkeypatch, said):
    monkeypatch.setattr(environment, "run_command", lambda *_: subprocess.CompletedProcess([], 127, said, ""))
    assert environment.link_speeds() == {"slow0": 10**9, "fast0": 10**10, "bond0": 2 * 10**10}
    assert environment.link_speeds_of(["10.99.0.241"]) == [None]
