"""When a node gets another slice, when one goes back, and what a pool that wants more is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.ipam.test_slices_rules import BASE, NOW, blue, held
from whereabouts_fast.ipam import ranges
from whereabouts_fast.ipam.dealing import ALL_TAKEN, DISPUTED, KEPT_BACK, TABLE_FULL
from whereabouts_fast.ipam.holdings import (
    ACTIVE,
    COOLING,
    DRAINING,
    Answer,
    Close,
    Create,
    Held,
    Observed,
    Open,
    PoolSeen,
)
from whereabouts_fast.ipam.slices import plan

LONG = NOW - 300


def used(node: str, slice_: int, count: int, **parts: Any) -> PoolSeen:
    """An open pool of one of the four /26 with so many addresses of it in use."""
    first = 1 if slice_ == 0 else 0
    taken = tuple(range(first, first + count))
    base = BASE + 64 * slice_
    seen = PoolSeen(f"blue-{node}-{slice_}", node, "blue", base, 26, False, not count, taken=taken)
    return replace(seen, **parts)


def share(*pools: PoolSeen, nodes: tuple[str, ...] = ("n1",), **parts: Any) -> Observed:
    """A network in which each pool has its active entry."""
    table = tuple(Held(p.node, p.base, p.prefix) for p in pools if p.node)
    table = tuple(sorted(table, key=lambda h: h.base))
    return blue(*nodes, **{"table": table, "pools": pools, **parts})


@pytest.mark.parametrize(("count", "grows"), [(57, False), (58, True), (64, True)])
def test_a_share_grows_when_less_than_a_tenth_of_it_is_free(count: int, grows: bool) -> None:
    """64 usable addresses: at 7 free, 10 % are, at 6 not."""
    seen = share(used("n1", 1, count))
    decided = plan(seen, NOW)
    assert (decided.actions == (Create("n1", BASE, 26),)) == grows
    assert (decided.table == (held("n1", 0), held("n1", 1))) == grows
    assert decided.stuck == {}


def test_a_share_of_few_addresses_grows_when_the_last_one_is_given() -> None:
    small = PoolSeen("p", "n1", "blue", BASE + 4, 30, False, False, taken=(0, 1, 2))
    seen = blue("n1", size=30, table=(Held("n1", BASE + 4, 30),), pools=(small,))
    assert plan(seen, NOW).actions == ()
    full = replace(small, taken=(0, 1, 2, 3))
    assert plan(replace(seen, pools=(full,)), NOW).actions == (Create("n1", BASE, 30),)


def test_what_a_node_does_not_use_in_one_slice_counts_for_the_others() -> None:
    seen = share(used("n1", 0, 63), used("n1", 1, 50))
    assert plan(seen, NOW).table == seen.table
    # A slice that is being opened counts as well.
    assert plan(share(used("n1", 0, 63), used("n1", 1, 0, closed=True)), NOW).actions == (
        Open(used("n1", 1, 0, closed=True)),
    )


def test_a_node_gets_as_many_slices_at_once_as_it_takes() -> None:
    full = PoolSeen("p", "n1", "blue", BASE, 25, False, False, taken=tuple(range(1, 128)))
    seen = blue("n1", size=29, table=(Held("n1", BASE, 25),), pools=(full,))
    decided = plan(seen, NOW)
    # 127 and 2 times 8: 16 of 143 are free.
    assert decided.table is not None
    assert [h.prefix for h in decided.table] == [25, 29, 29]


def test_node_slice_max_bounds_a_share_and_only_slices_of_use_count() -> None:
    """Case T40, the kernel's part of the refusal."""
    pool = used("n1", 1, 64, want=True)
    decided = plan(share(pool, slice_max=1), NOW)
    assert decided.table == (held("n1", 1),)
    reason = "the node holds 1 slices, and node_slice_max is 1"
    assert decided.actions == (Answer(pool, None, reason),)
    assert decided.stuck == {"n1": reason}
    assert decided.spent == {"n1"}


def test_growth_takes_nothing_from_nodes_that_wait() -> None:
    pools = (used("n1", 0, 63, want=True), used("n2", 1, 0), used("n3", 2, 0))
    seen = share(*pools, nodes=("n1", "n2", "n3", "n4"))
    decided = plan(seen, NOW)
    assert decided.table == (*(seen.table or ()), held("n4", 3))
    assert decided.actions == (Create("n4", BASE + 192, 26), Answer(pools[0], None, ALL_TAKEN))
    # One slice cools and could be n1's again; n5 waits for it.
    cooling = replace(seen, table=(*(seen.table or ()), held("n1", 3, COOLING)))
    decided = plan(cooling, NOW)
    assert decided.waiting == ("n4",)
    assert decided.stuck == {"n1": ALL_TAKEN}


def test_a_tenth_of_the_slices_is_kept_for_nodes_to_come() -> None:
    """Of nineteen slices one is kept: a tenth, rounded down."""
    whole = ranges.build("10.40.0.0/27", "10.40.0.0", "10.40.0.19")
    pools = tuple(
        PoolSeen(f"p{at}", "n1", "blue", BASE + at, 32, False, False, taken=(0,))
        for at in range(1, 18)
    )
    seen = share(*pools, range=whole, size=32, slice_max=100)
    decided = plan(seen, NOW)
    assert decided.figures.free == 1
    assert decided.table is not None
    assert len(decided.table) == 18
    full = (*pools, PoolSeen("p18", "n1", "blue", BASE + 18, 32, False, False, taken=(0,)))
    stuck = plan(share(*full, range=whole, size=32, slice_max=100), NOW)
    assert stuck.stuck == {"n1": KEPT_BACK}
    newcomer = share(*full, nodes=("n1", "n2"), range=whole, size=32, slice_max=100)
    assert plan(newcomer, NOW).figures.free == 0


def test_who_has_no_address_left_is_served_before_who_runs_low_and_few_slices_before_many() -> None:
    pools = (used("n1", 0, 60), used("n2", 1, 64))
    seen = share(*pools, nodes=("n1", "n2", "n3"), pools=(*pools, used("n3", 2, 0)))
    seen = replace(seen, table=(*(seen.table or ()), held("n3", 2)))
    decided = plan(seen, NOW)
    assert decided.table == (*(seen.table or ()), held("n2", 3))
    assert decided.stuck == {"n1": ALL_TAKEN}
    assert decided.spent == frozenset()


def test_a_want_is_answered_with_a_pool_that_has_room_and_nothing_is_dealt() -> None:
    full = used("n1", 0, 63, want=True)
    room = used("n1", 1, 10)
    decided = plan(share(full, room), NOW)
    assert decided.actions == (Answer(full, held("n1", 1)),)
    # Another has left an address since.
    same = used("n1", 0, 56, want=True)
    assert plan(share(same), NOW).actions == (Answer(same, held("n1", 0)),)


def test_a_want_is_answered_with_the_new_slice_in_the_plan_that_deals_it() -> None:
    full = used("n1", 0, 63, want=True)
    decided = plan(share(full), NOW)
    assert decided.actions == (Create("n1", BASE + 64, 26), Answer(full, held("n1", 1)))


def test_addresses_that_another_pool_gave_are_not_free() -> None:
    """The controller lays them over the pool's own entries where pools overlap."""
    crowded = used("n1", 0, 63, empty=True, want=True)
    assert Create("n1", BASE + 64, 26) in plan(share(crowded), NOW).actions


def test_addresses_that_were_excluded_after_they_were_given_take_no_room() -> None:
    whole = ranges.build("10.40.0.0/24", exclude=["10.40.0.64/27"])
    room = share(used("n1", 1, 32 + 28), range=whole)
    assert plan(room, NOW).table == room.table
    short = share(used("n1", 1, 32 + 29), range=whole)
    assert plan(short, NOW).table == (held("n1", 0), held("n1", 1))


def test_a_table_that_can_record_no_more_refuses_growth() -> None:
    full = used("n1", 0, 63, want=True)
    decided = plan(share(full, capped=True), NOW)
    assert decided.actions == (Answer(full, None, TABLE_FULL),)


def test_a_share_whose_slices_are_all_claimed_by_others_says_so() -> None:
    full = used("n1", 0, 63, want=True, leaving=True)
    assert plan(share(full), NOW).actions == (Answer(full, None, DISPUTED),)


def test_a_pool_that_drains_loses_its_want() -> None:
    leaving = used("n1", 0, 63, want=True)
    assert plan(share(leaving, nodes=()), NOW).actions == (Close(leaving),)
    closed = replace(leaving, closed=True)
    seen = share(closed, nodes=(), table=(held("n1", 0, DRAINING),))
    assert plan(seen, NOW).actions == (Close(closed),)
    assert plan(replace(seen, pools=(replace(closed, want=False),)), NOW).actions == ()


# Going back


def test_an_extra_slice_that_is_empty_for_long_drains_while_the_rest_leaves_room() -> None:
    pools = (used("n1", 0, 40), used("n1", 1, 0, idle=LONG))
    decided = plan(share(*pools), NOW)
    assert decided.table == (held("n1", 0), held("n1", 1, DRAINING))
    assert decided.actions == (Close(pools[1]),)
    # 12 of 63 are fewer than a fifth.
    tight = share(used("n1", 0, 51), pools[1])
    assert plan(tight, NOW).table == tight.table
    early = share(pools[0], replace(pools[1], idle=LONG + 20))
    decided = plan(early, NOW)
    assert decided.table == early.table
    assert decided.again == 20.0


def test_the_slice_that_has_been_empty_longest_goes_first_and_one_stays() -> None:
    pools = (
        used("n1", 0, 0, idle=LONG - 1),
        used("n1", 1, 0, idle=LONG - 3),
        used("n1", 2, 0, idle=LONG - 2),
    )
    decided = plan(share(*pools), NOW)
    assert decided.table == (held("n1", 0), held("n1", 1, DRAINING), held("n1", 2, DRAINING))
    young = (used("n1", 0, 40), pools[1], replace(pools[2], idle=NOW))
    assert plan(share(*young), NOW).table == (
        held("n1", 0),
        held("n1", 1, DRAINING),
        held("n1", 2),
    )


def test_a_node_never_gives_back_its_only_slice() -> None:
    seen = share(used("n1", 0, 0, idle=LONG))
    decided = plan(seen, NOW)
    assert decided.table == seen.table
    assert decided.again is None


def test_an_empty_slice_without_usable_addresses_goes_however_little_room_there_is() -> None:
    whole = ranges.build("10.40.0.0/25", exclude=["10.40.0.0/26"])
    seen = share(used("n1", 0, 0, idle=LONG), used("n1", 1, 63), range=whole)
    assert plan(seen, NOW).table == (held("n1", 0, DRAINING), held("n1", 1))


def test_a_node_that_runs_short_gets_its_own_draining_slice_before_a_new_one() -> None:
    draining = used("n1", 3, 0, closed=True)
    seen = share(used("n1", 1, 64), pools=(used("n1", 1, 64), draining))
    seen = replace(seen, table=(held("n1", 1), held("n1", 3, DRAINING)))
    decided = plan(seen, NOW)
    assert decided.table == (held("n1", 1), held("n1", 3))
    assert decided.actions == (Open(draining),)


def test_a_node_that_returns_gets_all_slices_back_on_which_its_pods_live() -> None:
    pools = (
        used("n1", 0, 10, closed=True),
        used("n1", 1, 20, closed=True),
        used("n1", 2, 0, closed=True),
    )
    table = tuple(held("n1", at, DRAINING) for at in range(3))
    back = plan(blue("n1", table=table, pools=pools), NOW)
    assert back.table == (held("n1", 0), held("n1", 1), table[2])
    assert [type(action).__name__ for action in back.actions] == ["Delete", "Open", "Open"]
    two = plan(blue("n1", table=table, pools=pools, slice_max=1), NOW)
    assert two.table == (held("n1", 0), *table[1:])
    # Where they do not suffice, the empty one comes back too.
    full = (used("n1", 0, 63, closed=True), used("n1", 1, 64, closed=True), pools[2])
    decided = plan(blue("n1", table=table, pools=full), NOW)
    assert decided.table is not None
    assert [h.state for h in decided.table] == [ACTIVE] * 3


def test_slices_that_another_table_gives_to_the_node_are_its_next_ones() -> None:
    elsewhere = ((BASE + 192, BASE + 255, "n1"), (BASE, BASE + 63, "n1"))
    seen = share(used("n1", 0, 63), elsewhere=elsewhere)
    assert plan(seen, NOW).table == (held("n1", 0), held("n1", 3))
