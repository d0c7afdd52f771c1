"""The ports that tests and benchmarks give their servers."""

import ports
import pytest

from storelab.core import stores


@pytest.fixture
def blocks() -> list[range]:
    return [range(first, first + 100) for first in (ports.block(100) for _ in range(4))]


def test_blocks_do_not_overlap_and_none_is_where_a_store_stands_that_says_no_port(blocks):
    taken = set()
    for kind in filter(lambda kind: kind.port_block, map(stores.load, stores.KINDS)):
        first = kind.Settings.model_fields["port"].default
        for start in (first, first + kind.second_block):
            taken |= set(range(start, start + kind.port_block))
    for i, block in enumerate(blocks):
        both = {*block, *(port + 10000 for port in block)}
        assert not both & taken and max(both) < 32768
        assert not any({*other} & both for other in blocks[:i])


def test_what_is_given_back_is_given_again(blocks):
    before = ports.held()
    first = ports.block()
    more = ports.held() - before
    assert min(more) == first and len(more) == 4, "128 ports"
    ports.release(more)
    assert ports.held() == before and ports.block() == first


def test_every_store_has_room_for_two_deployments_of_its_own_beside_it():
    """The second of two lies behind the store's own block and the first one's."""
    beyond = [k for k in stores.KINDS if 3 * stores.load(k).port_block > ports.SIZE]
    assert beyond == ["ceph"], "its tests ask for as many as they deploy"


def test_the_ports_above_a_block_are_kept_from_stores_that_say_none_too():
    """gRPC listens at port + 10000: a block 10000 below versitygw's, or at it, is not given; the one before it is."""
    first = stores.load("versitygw").Settings.model_fields["port"].default
    for at in (first - 10000, first):
        assert ports._usual(at, 1) and ports._usual(at - 99, 100) and not ports._usual(at - 100, 100)
