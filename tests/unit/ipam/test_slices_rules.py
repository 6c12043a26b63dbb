"""The rules of a slice's life, one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from whereabouts_fast.ipam import ranges
from whereabouts_fast.ipam.holdings import (
    ACTIVE,
    COOLING,
    DRAINING,
    Close,
    Confirm,
    Create,
    Delete,
    Figures,
    Held,
    NodeSeen,
    Observed,
    Open,
    PoolSeen,
)
from whereabouts_fast.ipam.ranges import Range
from whereabouts_fast.ipam.slices import gives, plan

BASE = 0x0A280000
NOW = 1_700_000_000.0


def nodes(*names: str) -> tuple[NodeSeen, ...]:
    """Nodes in the order in which they were created."""
    return tuple(NodeSeen(f"2026-01-01T00:00:{at:02d}Z", name) for at, name in enumerate(names))


def held(node: str, slice_: int, state: str = ACTIVE, since: float | None = None) -> Held:
    """The entry of one of the four /26 of 10.40.0.0/24."""
    if state != ACTIVE and since is None:
        since = NOW
    return Held(node, BASE + 64 * slice_, 26, state, since)


def pool(node: str, slice_: int, *, closed: bool = False, empty: bool = True) -> PoolSeen:
    base = BASE + 64 * slice_
    return PoolSeen(f"blue-{node}-{slice_}", node, "blue", base, 26, closed, empty)


def blue(*names: str, **parts: Any) -> Observed:
    observed = Observed(
        network="blue",
        range=ranges.build("10.40.0.0/24"),
        size=26,
        wanted=True,
        cooldown=60.0,
        nodes=nodes(*names),
        table=(),
    )
    return replace(observed, **parts)


def test_nodes_are_dealt_to_in_the_order_of_creation_and_name() -> None:
    seen = (NodeSeen("2", "a"), NodeSeen("1", "c"), NodeSeen("1", "b"))
    decided = plan(blue(nodes=seen), NOW)
    assert decided.table == (held("b", 0), held("c", 1), held("a", 2))
    assert decided.actions == (
        Create("b", BASE, 26),
        Create("c", BASE + 64, 26),
        Create("a", BASE + 128, 26),
    )


def test_more_nodes_than_slices_wait_in_order() -> None:
    decided = plan(blue("n1", "n2", "n3", "n4", "n6", "n5"), NOW)
    assert decided.waiting == ("n6", "n5")
    assert decided.figures == Figures(active=4, draining=0, cooling=0, free=0)


def test_a_network_without_nodes_has_an_empty_table_at_once() -> None:
    decided = plan(blue(table=None), NOW)
    assert decided.table == ()
    assert decided.figures.free == 4


def test_a_settled_network_needs_nothing() -> None:
    settled = blue("n1", "n2", table=(held("n1", 0), held("n2", 1)))
    settled = replace(settled, pools=(pool("n1", 0), pool("n2", 1, empty=False)))
    decided = plan(settled, NOW)
    assert decided.table == settled.table
    assert decided.actions == ()
    assert decided.again is None


def test_a_closed_pool_of_an_active_slice_is_opened() -> None:
    decided = plan(blue("n1", table=(held("n1", 0),), pools=(pool("n1", 0, closed=True),)), NOW)
    assert decided.actions == (Open(pool("n1", 0, closed=True)),)


def test_a_slice_drains_when_its_node_is_gone() -> None:
    decided = plan(blue(table=(held("n1", 0),), pools=(pool("n1", 0),)), NOW)
    assert decided.table == (held("n1", 0, DRAINING),)
    assert decided.actions == (Close(pool("n1", 0)),)


@pytest.mark.parametrize(
    ("seen", "actions"),
    [
        (pool("n1", 0, empty=False), [Close(pool("n1", 0, empty=False))]),
        (pool("n1", 0, closed=True, empty=False), []),
        (pool("n1", 0, closed=True), [Delete(pool("n1", 0, closed=True))]),
        (None, [Confirm(held("n1", 0, DRAINING))]),
    ],
)
def test_a_draining_slice_is_closed_then_emptied_then_deleted_then_confirmed(
    seen: PoolSeen | None, actions: list[object]
) -> None:
    table = (held("n1", 0, DRAINING),)
    decided = plan(blue(table=table, pools=(seen,) if seen else ()), NOW)
    assert decided.table == table
    assert list(decided.actions) == actions


def test_only_a_confirmed_end_of_the_pool_lets_a_slice_cool() -> None:
    drained = held("n1", 0, DRAINING, NOW - 5)
    seen = blue(table=(drained,))
    assert plan(seen, NOW).table == (drained,)
    # Another drain of the same slice, confirmed earlier, says nothing about this one.
    earlier = replace(drained, since=NOW - 500)
    assert plan(replace(seen, gone=frozenset({earlier})), NOW).table == (drained,)
    decided = plan(replace(seen, gone=frozenset({drained})), NOW)
    assert decided.table == (held("n1", 0, COOLING),)
    assert decided.again == 60.0


def test_a_cooled_slice_is_free_and_dealt_in_the_same_plan() -> None:
    cooling = held("n1", 0, COOLING, NOW - 59)
    full = (cooling, held("n2", 1), held("n3", 2), held("n4", 3))
    seen = blue(
        "n2", "n3", "n4", "n5", table=full, pools=(pool("n2", 1), pool("n3", 2), pool("n4", 3))
    )
    waiting = plan(seen, NOW)
    assert waiting.waiting == ("n5",)
    assert waiting.again == 1.0
    decided = plan(seen, NOW + 1)
    assert decided.table == (held("n5", 0), *full[1:])
    assert decided.actions == (Create("n5", BASE, 26),)


def test_a_cooled_slice_is_not_free_while_a_pool_of_it_exists() -> None:
    cooling = held("n1", 0, COOLING, NOW - 100)
    late = pool("n1", 0, closed=True)
    decided = plan(blue("n2", table=(cooling,), pools=(late,)), NOW)
    assert decided.table == (cooling, held("n2", 1))
    assert decided.actions == (Delete(late), Create("n2", BASE + 64, 26))
    assert decided.again is None


@pytest.mark.parametrize("since", [None, NOW + 3600])
def test_a_clock_that_jumped_back_does_not_make_a_slice_cool_for_hours(
    since: float | None,
) -> None:
    cooling = Held("n1", BASE, 26, COOLING, since)
    decided = plan(blue(table=(cooling,)), NOW)
    assert decided.table == (held("n1", 0, COOLING),)
    assert decided.again == 60.0


@pytest.mark.parametrize("state", [DRAINING, COOLING])
def test_a_node_that_returns_gets_its_own_slice_before_anybody_else(state: str) -> None:
    # Cooled long ago, and n0 has waited longer; but it was not free yet.
    own = held("n1", 0, state, NOW - 1000)
    full = (own, held("n2", 1), held("n3", 2), held("n4", 3))
    decided = plan(blue("n0", "n1", "n2", "n3", "n4", table=full), NOW)
    assert decided.table is not None
    assert decided.table[0] == held("n1", 0)
    assert decided.waiting == ("n0",)


def test_of_several_slices_of_its_own_a_node_gets_the_one_with_live_addresses() -> None:
    table = (held("n1", 0, COOLING), held("n1", 1, DRAINING), held("n1", 2, DRAINING))
    live = pool("n1", 2, closed=True, empty=False)
    decided = plan(blue("n1", table=table, pools=(live,)), NOW)
    assert decided.table == (*table[:2], held("n1", 2))
    assert Open(live) in decided.actions


def test_a_slice_without_a_usable_address_is_not_given_back() -> None:
    whole = ranges.build("10.40.0.0/24", exclude=["10.40.0.0/26"])
    decided = plan(blue("n1", range=whole, table=(held("n1", 0, DRAINING),)), NOW)
    assert decided.table == (held("n1", 0, DRAINING), held("n1", 1))


def test_wholly_excluded_slices_are_never_dealt_and_not_counted_as_free() -> None:
    """Case T1."""
    whole = ranges.build(
        "10.40.0.0/24", exclude=["10.40.0.0/30", "10.40.0.64/26"], reserved=["10.40.0.129"]
    )
    decided = plan(blue("n1", "n2", range=whole), NOW)
    assert decided.table == (held("n1", 0), held("n2", 2))
    assert decided.figures.free == 1


def test_slices_outside_the_window_are_not_dealt() -> None:
    """Case T2."""
    whole = ranges.build("10.40.0.0/24", "10.40.0.10", "10.40.0.100")
    decided = plan(blue("n1", "n2", "n3", range=whole), NOW)
    assert decided.table == (held("n1", 0), held("n2", 1))
    assert decided.waiting == ("n3",)


@pytest.mark.parametrize("size", [31, 32])
def test_the_smallest_slices_are_dealt_where_they_hold_a_usable_address(size: int) -> None:
    decided = plan(blue("n1", size=size), NOW)
    assert decided.table == (Held("n1", BASE + (0 if size == 31 else 1), size),)
    assert decided.figures.free == (127 if size == 31 else 253)


def test_a_slice_size_larger_than_the_range_deals_nothing() -> None:
    decided = plan(blue("n1", size=23), NOW)
    assert decided.table == ()
    assert decided.waiting == ("n1",)


def test_a_changed_size_moves_nobody_and_deals_new_slices_from_free_space() -> None:
    """Case T14."""
    table = (held("n1", 0), held("n2", 1), held("n4", 3))
    decided = plan(blue("n1", "n2", "n4", "n5", table=table, size=27), NOW)
    assert decided.table == (table[0], table[1], Held("n5", BASE + 128, 27), table[2])
    full = (*table[:2], held("n3", 2), table[2])
    crowded = plan(blue("n1", "n2", "n3", "n4", "n5", table=full, size=27), NOW)
    assert crowded.table == full
    assert crowded.waiting == ("n5",)


def test_a_grown_range_keeps_every_holder() -> None:
    """Case T15."""
    table = (held("n1", 0), held("n2", 1))
    small = blue("n1", "n2", "n3", table=table, range=ranges.build("10.40.0.0/25"))
    assert plan(small, NOW).waiting == ("n3",)
    grown = plan(replace(small, range=ranges.build("10.40.0.0/24")), NOW)
    assert grown.table == (*table, held("n3", 2))


def test_slices_outside_a_cut_range_drain_and_their_nodes_get_others() -> None:
    table = (held("n2", 1), held("n3", 2))
    cut = ranges.build("10.40.0.0/25")
    decided = plan(blue("n2", "n3", table=table, range=cut, pools=(pool("n3", 2),)), NOW)
    assert decided.table == (held("n3", 0), held("n2", 1), held("n3", 2, DRAINING))
    assert Close(pool("n3", 2)) in decided.actions


def test_pools_of_others_take_their_space() -> None:
    shared = PoolSeen("10.40.0.0-25", "", "red", BASE, 25, closed=False, empty=True)
    decided = plan(blue("n1", pools=(shared,)), NOW)
    assert decided.table == (held("n1", 2),)
    assert decided.figures.free == 1
    assert decided.actions == (Create("n1", BASE + 128, 26),)


def test_a_pool_that_overlaps_anything_else_stays_shut() -> None:
    mine = pool("n1", 0, closed=True)
    theirs = PoolSeen("blue-n9", "n9", "red", BASE + 32, 27, closed=True, empty=True)
    table = (held("n1", 0),)
    decided = plan(blue("n1", table=table, pools=(mine, theirs)), NOW)
    assert decided.actions == ()
    assert decided.disputed == table
    # Neither is it created while something else is in its place.
    absent = plan(blue("n1", table=table, pools=(theirs,)), NOW)
    assert absent.actions == ()
    assert absent.disputed == table


def test_what_another_table_gives_to_a_node_is_dealt_only_to_that_node() -> None:
    elsewhere = ((BASE, BASE + 63, "n2"), (BASE + 64, BASE + 127, ""))
    decided = plan(blue("n1", "n2", "n3", elsewhere=elsewhere), NOW)
    assert decided.table == (held("n2", 0), held("n1", 2), held("n3", 3))
    assert decided.figures.free == 0


def test_a_slice_shared_with_another_table_lives_on_there() -> None:
    table, shared = (held("n1", 0),), pool("n1", 0, empty=False)
    seen = blue("n1", table=table, pools=(shared,), elsewhere=((BASE, BASE + 63, "n1"),))
    decided = plan(replace(seen, wanted=False), NOW)
    assert decided.actions == ()
    # A node would take an empty table that is left under the plain name for its own.
    assert decided.table is None


def test_a_network_nobody_wants_drains_and_its_table_goes_last() -> None:
    seen = blue("n1", wanted=False, table=(held("n1", 0),), pools=(pool("n1", 0, empty=False),))
    first = plan(seen, NOW)
    assert first.table == (held("n1", 0, DRAINING),)
    assert first.waiting == ()
    cooling = plan(replace(seen, table=(held("n1", 0, COOLING),), pools=()), NOW + 59)
    assert cooling.table == (held("n1", 0, COOLING),)
    assert plan(replace(seen, table=cooling.table, pools=()), NOW + 60).table is None
    stray = pool("n2", 1, closed=True)
    last = plan(replace(seen, table=(), pools=(stray,)), NOW)
    assert last.table == ()
    assert last.actions == (Delete(stray),)


def test_a_missing_table_is_rebuilt_from_the_pools_before_anything_is_dealt() -> None:
    pools = (
        pool("n3", 0, empty=False),
        pool("n2", 1),
        pool("gone", 2, closed=True, empty=False),
        pool("n1", 3, closed=True),
    )
    decided = plan(blue("n1", "n2", "n3", "n4", table=None, pools=pools), NOW)
    assert decided.table == (
        held("n3", 0),
        held("n2", 1),
        held("gone", 2, DRAINING),
        held("n1", 3),
    )
    assert decided.waiting == ("n4",)
    assert decided.actions == (Open(pools[3]),)


def test_pools_of_another_network_or_range_are_not_adopted() -> None:
    others = (
        replace(pool("n1", 0), network="red"),
        replace(pool("n1", 1), base=BASE + 0x10000),
        replace(pool("n1", 2), node=""),
    )
    decided = plan(blue(table=None, pools=others), NOW)
    assert decided.table == ()
    assert decided.actions == ()


def test_an_unlisted_pool_is_adopted_when_it_may_be_in_use_and_else_deleted() -> None:
    strays = (pool("n1", 0, closed=True, empty=False), pool("n9", 1), pool("n2", 2, closed=True))
    decided = plan(blue("n1", pools=strays), NOW)
    assert decided.table == (held("n1", 0), held("n9", 1, DRAINING))
    assert decided.actions == (Close(strays[1]), Delete(strays[2]), Open(strays[0]))


def test_an_unlisted_pool_in_a_slice_of_somebody_else_is_closed() -> None:
    table, stray = (held("n1", 0),), pool("n2", 0, empty=False)
    decided = plan(blue("n1", table=table, pools=(pool("n1", 0), stray)), NOW)
    assert decided.table == table
    assert decided.actions == (Close(stray),)


def test_open_pools_that_the_table_lost_are_their_nodes_again_as_far_as_they_may_hold() -> None:
    seen = blue("n1", table=(held("n1", 0),), pools=(pool("n1", 0), pool("n1", 1)))
    assert plan(seen, NOW).table == (held("n1", 0), held("n1", 1))
    rebuilt = plan(replace(seen, table=None), NOW)
    assert rebuilt.table == (held("n1", 0), held("n1", 1))
    assert rebuilt.actions == ()
    decided = plan(replace(seen, slice_max=1), NOW)
    assert decided.table == (held("n1", 0), held("n1", 1, DRAINING))


def test_only_an_active_entry_gives_a_slice() -> None:
    table = (held("n1", 0), held("n2", 1, DRAINING))
    assert gives(table, "n1", BASE, 26)
    assert not gives(table, "n2", BASE + 64, 26)
    assert not gives(table, "n2", BASE, 26)
    assert not gives(table, "n1", BASE, 27)


class Counting(Range):
    """A range that counts how often it is asked for an address."""

    __slots__ = ("asked",)

    def next_usable(self, value: int) -> int | None:
        self.asked: int = getattr(self, "asked", 0) + 1
        return super().next_usable(value)


@pytest.mark.parametrize(("cidr", "size"), [("10.0.0.0/8", 27), ("fd10::/64", 120)])
def test_planning_asks_the_range_once_per_dealt_slice_however_large_it_is(
    cidr: str, size: int
) -> None:
    whole = ranges.build(cidr)
    counting = Counting(whole.version, whole.base, whole.prefix, whole.first, whole.last)
    many = tuple(NodeSeen("1", f"n{number:04d}") for number in range(1000))
    decided = plan(blue(range=counting, size=size, nodes=many), NOW)
    assert decided.figures.active == 1000
    assert counting.asked == 1000


def test_slices_inside_shared_pools_are_dealt_last() -> None:
    half = (BASE, BASE + 127)
    found = plan(blue("a", "b", "c", "d", "e", shared=(half,)), NOW)
    assert found.table is not None
    assert {h.node: (h.base - BASE) // 64 for h in found.table} == {"a": 2, "b": 3, "c": 0, "d": 1}
    assert found.waiting == ("e",)
    assert found.figures.free == 0
    # Who has one keeps it, wherever a shared pool comes to be.
    settled = plan(blue("a", table=(held("a", 0),), shared=(half,)), NOW)
    assert settled.table == (held("a", 0),)
    assert settled.figures.free == 3
    whole = plan(blue("a", shared=((BASE, BASE + 255),)), NOW)
    assert whole.table == (held("a", 0),)
