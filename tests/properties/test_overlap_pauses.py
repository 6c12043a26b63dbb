"""Two controllers, one of them paused after any of its requests while the other works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from itertools import islice, product

import pytest

from tests.properties.overlap_model import RANGES, Controller, Plugin, Store, Tape

ROUND = 26  # requests in which the longest sync is done
GO_ON = b"\x01" * 10_000
SLICE = {"n1-low"}
BOTH = {"n1-low", "wide"}


class World:
    """A store, two controllers that think they lead, and as many pods as one likes."""

    def __init__(self) -> None:
        self.store = Store()
        self.controllers = [Controller(self.store, f"c{n}") for n in range(2)]
        self.running: list[Iterator[None]] = []
        self.pods = 0

    def begin(self, *wanted: set[str]) -> None:
        for controller, names in zip(self.controllers, wanted, strict=True):
            controller.wanted = set(names)
        self.running = [one.run(Tape(GO_ON)) for one in self.controllers]

    def work(self, who: int, steps: int) -> None:
        for _ in islice(self.running[who], steps):
            pass

    def add_everywhere(self, *choices: int) -> None:
        """Have a new pod ask for each of these addresses, counted from the range's, in each pool.

        Pods know the pools as they are.
        """
        for name, pool in list(self.store.pools.items()):
            base, prefix, _ = RANGES[name]
            for choice in choices:
                value = base + choice
                if choice < 1 << (32 - prefix) and not pool.closed and value not in pool.entries:
                    self.pods += 1
                    plugin = Plugin(self.store, f"pod{self.pods}")
                    list(plugin._add(name, deepcopy(pool), value))


def nothing_yet(world: World) -> None:
    """The first sync of both."""


def slices_in_use(world: World) -> None:
    """Slices were there, with addresses, before the other network came."""
    world.begin(SLICE, SLICE)
    world.work(0, ROUND)
    world.add_everywhere(0)


def overlap_has_ended(world: World) -> None:
    """The shared pool has gone again and has left marks behind."""
    world.begin(BOTH, BOTH)
    world.work(0, 2 * ROUND)
    assert world.store.pools["n1-low"].marked
    del world.store.pools["wide"]


def overlap_has_ended_over_pods(world: World) -> None:
    """The same, and an address that needs its reservation no longer has it still."""
    overlap_has_ended(world)
    world.add_everywhere(0)
    assert world.store.reservations.keys() == {0}


@pytest.mark.parametrize(
    "before", [nothing_yet, slices_in_use, overlap_has_ended, overlap_has_ended_over_pods]
)
@pytest.mark.parametrize("wanted", [(SLICE, BOTH), (BOTH, SLICE), (SLICE, {"wide"}), (BOTH, BOTH)])
def test_a_pause_after_any_request_gives_no_address_twice(
    before: Callable[[World], None], wanted: tuple[set[str], set[str]]
) -> None:
    for pauses in product(range(ROUND), range(0, ROUND, 2), (1, 2, 3, ROUND // 2)):
        first, second, third = pauses
        world = World()
        before(world)
        world.begin(*wanted)
        world.work(0, first)
        world.work(1, second)
        world.add_everywhere(0)
        world.work(0, third)
        world.add_everywhere(0, 1)
        assert world.store.duplicates() == {}, f"paused after so many requests: {pauses}"


def test_without_faults_every_pool_opens_and_marks_go_with_the_overlap() -> None:
    world = World()
    slices_in_use(world)
    world.begin(set(RANGES), set(RANGES))
    world.work(0, 3 * ROUND)
    assert world.store.pools.keys() == RANGES.keys()
    assert all(pool.marked and not pool.closed for pool in world.store.pools.values())
    # The address that was there before has its reservation now.
    assert world.store.reservations.keys() == {0}
    world.begin(SLICE, SLICE)
    world.work(0, 3 * ROUND)
    (pool,) = world.store.pools.values()
    assert (pool.marked, pool.closed, pool.lifting, pool.lifted) == (False, False, "", False)
    assert pool.entries.keys() == {0}
    assert world.store.reservations == {}
