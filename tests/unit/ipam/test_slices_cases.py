"""What users of comparable systems ran into, played through on a model of the API server."""

from __future__ import annotations

import json

import pytest

from tests.properties.slices_model import COOLDOWN, Api, Controller, Network, RefusedError
from whereabouts_fast.ipam import address, ranges
from whereabouts_fast.ipam.holdings import ACTIVE, DRAINING, NodeSeen, Observed
from whereabouts_fast.ipam.pool import choose
from whereabouts_fast.ipam.slices import plan
from whereabouts_fast.resources.nodes import decode_node
from whereabouts_fast.resources.tables import encode_table

N1 = "10.40.0.0/26"
N2 = "10.40.0.64/26"
N3 = "10.40.0.128/26"
N4 = "10.40.0.192/26"


class Play:
    """One controller that hears everything, and an API server."""

    def __init__(self, cidr: str, size: int, *nodes: str) -> None:
        self.api = Api(Network(ranges.build(cidr), size))
        self.controller = Controller(self.api)
        for node in nodes:
            self.api.add_node(node)
        self.settle()

    def settle(self) -> None:
        writes = -1
        while writes != self.api.writes:
            writes = self.api.writes
            for kind in ("network", "nodes", "pools", "table"):
                getattr(self.controller, f"refresh_{kind}")()
            self.controller.finish()

    def wait(self, seconds: float = COOLDOWN) -> None:
        self.api.now += seconds
        self.settle()

    @property
    def table(self) -> dict[str, tuple[str, str]]:
        """Slice to holder and state."""
        assert self.api.table is not None
        return {
            address.cidr_text(4, h.base, h.prefix): (h.node, h.state) for h in self.api.table.held
        }

    @property
    def waiting(self) -> list[str]:
        assert self.controller.last is not None
        return list(self.controller.last.waiting)

    def pool_of(self, node: str) -> str:
        (name,) = [pool.name for pool in self.api.pools.values() if pool.node == node]
        return name


@pytest.mark.parametrize(
    ("cidr", "size"), [("10.0.0.0/8", 27), ("10.0.0.0/12", 27), ("10.0.0.0/8", 24)]
)
def test_large_ranges_are_stored_sparsely(cidr: str, size: int) -> None:
    """Case T8 (sparse)."""
    whole = ranges.build(cidr)
    seen = Observed(
        network="blue",
        range=whole,
        size=size,
        wanted=True,
        cooldown=COOLDOWN,
        nodes=tuple(NodeSeen("1", f"n{number}") for number in range(3)),
        table=None,
    )
    decided = plan(seen, 0.0)
    assert decided.table is not None
    body = encode_table(
        None,
        namespace="ipam-system",
        name="blue",
        network="blue",
        network_name="blue",
        version=4,
        cidr=cidr,
        size=size,
        held=decided.table,
        figures=decided.figures,
        waiting=0,
        conditions=[],
        now=0.0,
    )
    assert [entry["nodeName"] for entry in body["status"]["allocations"]] == ["n0", "n1", "n2"]
    assert body["status"]["free"] == (1 << (size - whole.prefix)) - 3
    assert len(json.dumps(body)) < 1000


def test_ipv6_slices_follow_each_other() -> None:
    """Case T9."""
    whole = ranges.build("fd10::/112")
    seen = Observed(
        network="blue",
        range=whole,
        size=120,
        wanted=True,
        cooldown=COOLDOWN,
        nodes=(NodeSeen("1", "n1"), NodeSeen("2", "n2")),
        table=None,
    )
    table = plan(seen, 0.0).table
    assert table is not None
    assert [(h.node, address.cidr_text(6, h.base, h.prefix)) for h in table] == [
        ("n1", "fd10::/120"),
        ("n2", "fd10::100/120"),
    ]
    slices = [whole.slice(h.base, h.prefix) for h in table]
    first = [slice_.address(choose(slice_, {}) or 0) for slice_ in slices]
    assert [address.text(6, value) for value in first] == ["fd10::1", "fd10::100"]


def test_a_waiting_node_is_served_when_a_drained_slice_has_cooled() -> None:
    """Case T11."""
    play = Play("10.40.0.0/25", 26, "A", "B")
    play.api.add_node("C")
    play.settle()
    assert play.waiting == ["C"]
    del play.api.nodes["A"]
    play.settle()
    assert play.waiting == ["C"]
    assert play.controller.last is not None
    assert play.controller.last.again == COOLDOWN
    play.wait()
    assert play.table == {N1: ("C", ACTIVE), N2: ("B", ACTIVE)}
    assert play.waiting == []


def test_a_new_node_does_not_get_the_slice_of_a_deleted_node_with_live_pods() -> None:
    """Case T12."""
    play = Play("10.40.0.0/24", 26, "A", "B")
    pool = play.pool_of("A")
    play.api.add(pool)
    del play.api.nodes["A"]
    play.api.add_node("C")
    play.settle()
    expected = {N1: ("A", DRAINING), N2: ("B", ACTIVE), N3: ("C", ACTIVE)}
    assert play.table == expected
    play.wait(10 * COOLDOWN)
    assert play.table == expected
    with pytest.raises(RefusedError):
        play.api.add(pool)
    play.api.remove(pool, *play.api.pools[pool].used)
    play.settle()
    assert pool not in play.api.pools
    play.wait()
    assert play.table == {N2: ("B", ACTIVE), N3: ("C", ACTIVE)}


def test_a_node_created_again_under_its_name_keeps_its_slice_and_addresses() -> None:
    """Case T13."""
    play = Play("10.40.0.0/24", 26, "A", "B", "C", "D", "E")
    pool = play.pool_of("A")
    play.api.add(pool)
    used = play.api.pools[pool].used
    del play.api.nodes["A"]
    play.settle()
    assert play.table[N1] == ("A", DRAINING)
    # Now the youngest of all, and E has been waiting: the slice is A's all the same.
    play.api.add_node("A")
    play.settle()
    assert play.table[N1] == ("A", ACTIVE)
    assert play.waiting == ["E"]
    assert play.api.pools[pool].used == used
    assert not play.api.pools[pool].closed
    play.api.add(pool)
    assert len(play.api.pools[pool].used) == 2


def test_a_node_that_is_being_deleted_keeps_its_slice_while_it_is_listed() -> None:
    """Case T16."""
    play = Play("10.40.0.0/24", 26, "A")
    meta = {
        "name": "A",
        "creationTimestamp": play.api.nodes["A"].created,
        "deletionTimestamp": "2026-01-02T00:00:00Z",
        "finalizers": ["example.test/hold"],
    }
    play.api.nodes["A"] = decode_node({"metadata": meta}).seen()
    play.wait(1000 * COOLDOWN)
    assert play.table == {N1: ("A", ACTIVE)}
    del play.api.nodes["A"]
    play.settle()
    play.wait()
    assert play.table == {}


def test_a_changed_slice_size_frees_old_slices_for_new_ones_only_when_they_are_empty() -> None:
    """Case T14."""
    play = Play("10.40.0.0/24", 26, "n1", "n2", "n3", "n4")
    pool = play.pool_of("n1")
    play.api.add(pool)
    play.api.network = Network(play.api.network.range, 27)
    play.api.add_node("n5")
    play.settle()
    assert list(play.table) == [N1, N2, N3, N4]
    assert play.waiting == ["n5"]
    del play.api.nodes["n2"]
    play.settle()
    play.wait()
    assert play.table["10.40.0.64/27"] == ("n5", ACTIVE)
    play.api.remove(pool, *play.api.pools[pool].used)
