"""The capacity of links, from records and from declarations."""

import pytest

from storelab.analysis.records import links
from storelab.core.errors import UserError

M = 10**6


def network(moved: int, bits: int | None, name: str = "eth0") -> dict:
    counters = {"lo": {"rx_bytes": 5, "tx_bytes": 5}, name: {"rx_bytes": moved, "tx_bytes": 1}}
    return {n: c | {"link_bits_per_s": bits if n == name else None} for n, c in counters.items()}


def run(nodes=(200 * M,), ends=("a",), front_ends=(300 * M, 300 * M), per_node=1, moved=10 * M, **change) -> dict:
    """Return a record of two seconds: a link for each node, the endpoint of each client in turn."""
    count = len(nodes) * per_node
    clients = [{"client": i, "endpoint": f"http://{ends[i % len(ends)]}", "bytes": M} for i in range(count)]
    watched = [{"seconds": 2.0, "network": network(moved, bits)} for bits in nodes]
    return {
        **{"point": {"store": "alpha+r3", "axes": {"front_ends": 2}}, "clients": clients, "host": watched[0]},
        "nodes": [
            {"ranks": list(range(i * per_node, (i + 1) * per_node)), "watched": w} for i, w in enumerate(watched)
        ],
        "store": {"deployment": {"link_bits_per_s": list(front_ends)}},
        "start_ns": 0,
        "deadline_ns": 2 * 10**9,
    } | change


FOUR, TWO = (200 * M,) * 4, ("a", "b")
CASES = {  # name: (record, Mbit/s that pass, whose links are the limit)
    "one client": (run(), 200, "clients"),
    "all front-ends full": (run(FOUR, TWO), 600, "front-ends"),
    "all clients full": (run((100 * M,) * 4, TWO), 400, "clients"),
    "one front-end used": (run(FOUR), 300, "front-ends"),
    "three clients at two front-ends": (run(FOUR[:3], TWO), 500, "clients and front-ends"),
    "both full": (run((300 * M,) * 2, TWO), 600, "clients and front-ends"),
    "two clients share a node": (run((200 * M,), TWO, per_node=2), 200, "clients"),
    "unequal front-ends": (run(FOUR, TWO, (300 * M, 100 * M)), 400, "front-ends"),
    "clients use all front-ends": (
        run(FOUR, ("a",), point={"store": "alpha", "axes": {"front_ends": 2, "balance": "operation"}}),
        600,
        "front-ends",
    ),
    "front-ends not known": (run(FOUR, TWO, ()), 800, "clients"),
    "clients not known": (run((200 * M, None), TWO), 600, "front-ends"),
    "neither": (run((None,), TWO, (None, None)), None, None),
    "over loopback": (run(moved=1), None, None),
    "clients of this host": (run(nodes=(200 * M,)) | {"nodes": []}, 200, "clients"),
    "link that storelab made": (
        run(host={"network": network(10 * M, 10**10, "sl-0a1b")}, nodes=(1,)) | {"nodes": [], "store": {}},
        None,
        None,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_limit_of_run_is_what_its_links_let_pass(name):
    record, mbit, of = CASES[name]
    found = links.links_of_run(record)
    assert (found and found.bits_per_s / M, found and found.of) == (mbit, of)


def test_ignored_side_is_no_limit():
    assert links.links_of_run(run(FOUR, TWO), ["front-ends"]).of == "clients"
    assert links.links_of_run(run(FOUR, TWO), ["front-ends", "clients"]) is None


def test_declared_links_fill_gaps_only(tmp_path):
    (tmp_path / "sealed" / "raw").mkdir(parents=True)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "raw").symlink_to(tmp_path / "sealed" / "raw")
    (tmp_path / "sealed" / "links.yaml").write_text("clients: 200 Mbit/s\nstores: {alpha: 300 Mbit/s}\nsource: tc\n")
    known = links.declared(tmp_path / "here")
    assert known == links.Declared(200 * M, {"alpha": 300 * M}, "tc")
    for record, mbit in ((run((None,) * 4, TWO, ()), 600), (run((10 * M,) * 4, TWO, ()), 40)):
        links.complete([record], known)
        assert links.links_of_run(record).bits_per_s == mbit * M
    null_server = run((None,) * 4, TWO, (), point={"store": "nullserver", "axes": {}})
    links.complete([null_server], known)
    assert links.links_of_run(null_server).front_ends is None, "declared for another store"
    assert links.declared(tmp_path) is None


REFUSED = {  # text: what the message has
    "- 200 Mbit/s": "is not a mapping of links",
    "stores: 300 Mbit/s": "is not a mapping of links",
    "client: 200 Mbit/s": "key 'client' is not known",
    "clients: 200": "is not a rate with a unit",
    "clients: 0 Mbit/s": "is 0",
    "stores: {alpha: fast}": "stores.alpha",
}


@pytest.mark.parametrize("text", REFUSED)
def test_wrong_declaration_is_refused(tmp_path, text):
    (tmp_path / "links.yaml").write_text(text)
    with pytest.raises(UserError) as error:
        links.declared(tmp_path)
    assert REFUSED[text] in str(error.value) and "links.yaml" in str(error.value)


def test_links_in_words():
    cases = {(300e6, 300e6): "2 × 300 Mbit/s", (1e9,): "1 Gbit/s", (1e8, 2.5e9, 1e8): "2.5 Gbit/s + 2 × 100 Mbit/s"}
    assert {given: links.in_words(given) for given in cases} == cases


def test_demand_is_the_clients_capacity_over_that_of_the_front_ends():
    """Eight clients of 150 Mbit/s have three times the capacity of two front-ends of 200 Mbit/s."""
    clients, front_ends = links.Side((150e6,) * 8, None), links.Side((200e6,) * 2, None)
    assert links.Links(clients, front_ends, 400e6, links.FRONT_ENDS).demand == 3
    for one, other in ((clients, None), (None, front_ends)):
        assert links.Links(one, other, 400e6, links.CLIENTS).demand is None
