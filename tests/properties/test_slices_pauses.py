"""Every place where a controller can be paused or killed, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

import pytest

from tests.properties.slices_model import COOLDOWN, Api, Controller, Network
from whereabouts_fast.ipam import ranges
from whereabouts_fast.ipam.holdings import ACTIVE, DRAINING

KINDS = ("network", "nodes", "pools", "table")
# More requests than any of the rounds below makes.
PAUSES = range(30)


def cluster(*nodes: str) -> Api:
    """Four slices."""
    api = Api(Network(ranges.build("10.0.0.0/28"), 30))
    for node in nodes:
        api.add_node(node)
    return api


def hear(controller: Controller, *kinds: str) -> None:
    for kind in kinds or KINDS:
        getattr(controller, f"refresh_{kind}")()


def lead(controller: Controller, *, minutes: int, kinds: tuple[str, ...] = KINDS) -> None:
    for _ in range(minutes):
        hear(controller, *kinds)
        while controller.step():
            check(controller.api)
        controller.api.now += COOLDOWN


def check(api: Api) -> None:
    """Nobody can write to a slice that another node holds."""
    for pool in api.pools.values():
        for held in api.table.held if api.table else ():
            overlap = held.base in pool.addresses or pool.base in range(
                held.base, held.base + (1 << (32 - held.prefix))
            )
            if overlap and (held.node, held.base, held.prefix) != pool.key:
                assert pool.closed, (pool, held)
                assert not pool.used, (pool, held)
    for one, other in combinations(api.pools.values(), 2):
        assert one.closed or other.closed or not set(one.addresses) & set(other.addresses)


def holders(api: Api) -> list[tuple[str, int, str]]:
    assert api.table is not None
    return [(h.node, h.base & 0xFF, h.state) for h in api.table.held]


def paused_at(pause: int, controller: Controller) -> None:
    hear(controller)
    for _ in range(pause):
        if not controller.step():
            break
        check(controller.api)


@pytest.mark.parametrize("pause", PAUSES)
def test_a_leader_paused_while_it_deals_cannot_open_what_was_dealt_on(pause: int) -> None:
    api = cluster("a", "b", "c")
    first, second = Controller(api), Controller(api)
    lead(first, minutes=2)
    api.add_node("d")
    paused_at(pause, first)
    del api.nodes["d"]
    api.add_node("e")
    lead(second, minutes=5)
    assert ("e", 12, ACTIVE) in holders(api)
    while first.step():
        check(api)
    for name in sorted(api.pools):
        if not api.pools[name].closed:
            api.add(name)
    check(api)
    lead(first, minutes=2)
    assert sorted(api.pools) == sorted(f"{n}-{0x0A000000 + b}-30" for n, b, _ in holders(api))
    assert all(not pool.closed for pool in api.pools.values())


@pytest.mark.parametrize("pause", PAUSES)
def test_a_leader_paused_while_it_drains_takes_nothing_from_a_node_that_returned(
    pause: int,
) -> None:
    api = cluster("a", "b")
    first, second = Controller(api), Controller(api)
    lead(first, minutes=2)
    hear(second)
    node = api.nodes.pop("a")
    paused_at(pause, first)
    api.nodes["a"] = node
    lead(second, minutes=2)
    assert ("a", 0, ACTIVE) in holders(api)
    api.add("a-167772160-30")
    while first.step():
        check(api)
    assert api.pools["a-167772160-30"].used
    lead(first, minutes=1)
    assert ("a", 0, ACTIVE) in holders(api)
    assert not api.pools["a-167772160-30"].closed


def test_a_slice_is_not_freed_while_the_pool_watch_is_behind() -> None:
    api = cluster()
    behind = Controller(api)
    api.add_node("a")
    lead(Controller(api), minutes=2)
    api.add("a-167772160-30")
    del api.nodes["a"]
    api.add_node("b")
    lead(behind, minutes=10, kinds=("nodes", "table"))
    assert holders(api) == [("a", 0, DRAINING), ("b", 4, ACTIVE)]
    assert api.pools["a-167772160-30"].used


def deal(api: Api) -> None:
    api.add_node("a")
    api.add_node("b")


def drain(api: Api) -> None:
    api.add("a-167772160-30")
    del api.nodes["a"]


def reclaim(api: Api) -> None:
    for name in ("c", "d", "e"):
        api.add_node(name)
    if api.pools["a-167772160-30"].used:
        api.remove("a-167772160-30", next(iter(api.pools["a-167772160-30"].used)))


def lose_table(api: Api) -> None:
    api.table = None


SCENES: list[Callable[[Api], None]] = [deal, drain, reclaim, lose_table]


def play(kill: int | None) -> tuple[list[list[tuple[str, int, str]]], int]:
    """Return the table after each scene, and how many requests there were."""
    api = cluster()
    requests = iter(range(1_000_000))
    tables: list[list[tuple[str, int, str]]] = []
    controller = Controller(api)
    count = 0

    def rounds() -> Iterator[Controller]:
        nonlocal controller
        for _ in range(5):
            hear(controller)
            yield controller
            api.now += COOLDOWN

    for scene in SCENES:
        scene(api)
        for _ in rounds():
            while controller.step():
                check(api)
                count = next(requests)
                if count == kill:
                    controller = Controller(api)
        tables.append(holders(api))
    return tables, count


UNDISTURBED, REQUESTS = play(None)


def test_the_undisturbed_play_goes_through_all_of_a_slices_life() -> None:
    assert UNDISTURBED == [
        [("a", 0, ACTIVE), ("b", 4, ACTIVE)],
        [("a", 0, DRAINING), ("b", 4, ACTIVE)],
        [("e", 0, ACTIVE), ("b", 4, ACTIVE), ("c", 8, ACTIVE), ("d", 12, ACTIVE)],
        [("e", 0, ACTIVE), ("b", 4, ACTIVE), ("c", 8, ACTIVE), ("d", 12, ACTIVE)],
    ]
    assert REQUESTS >= 20


@pytest.mark.parametrize("kill", range(REQUESTS))
def test_a_kill_before_any_request_ends_in_the_same_table(kill: int) -> None:
    assert play(kill)[0] == UNDISTURBED
