"""Tables and pools that people edited or deleted by hand, as slice plans see them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.ipam.test_slices_rules import BASE, NOW, blue, held, pool
from whereabouts_fast.ipam import ranges
from whereabouts_fast.ipam.dealing import ALL_TAKEN
from whereabouts_fast.ipam.holdings import (
    ACTIVE,
    COOLING,
    DRAINING,
    Answer,
    Confirm,
    Create,
)
from whereabouts_fast.ipam.slices import plan


def test_of_entries_that_overlap_those_without_a_pool_give_way() -> None:
    twice = (held("n1", 0), held("n2", 0))
    seen = blue("n1", "n2", table=twice, pools=(pool("n1", 0, empty=False),))
    first = plan(seen, NOW)
    assert first.table == (held("n1", 0), held("n2", 0, DRAINING), held("n2", 1))
    assert first.actions == (Confirm(held("n2", 0, DRAINING)), Create("n2", BASE + 64, 26))
    assert first.disputed == ()
    # Its node is there, but what it claimed is not given back to it.
    cooling = (held("n1", 0), held("n2", 0, COOLING), held("n2", 1))
    both = (*seen.pools, pool("n2", 1))
    assert plan(replace(seen, table=cooling, pools=both), NOW).table == cooling
    assert plan(replace(seen, table=twice, pools=()), NOW).table == first.table


def test_of_overlapping_entries_with_pools_none_is_decided_on() -> None:
    twice = (held("n1", 0), held("n2", 0))
    pools = (pool("n1", 0, empty=False), pool("n2", 0, closed=True))
    decided = plan(blue("n1", "n2", table=twice, pools=pools), NOW)
    assert decided.table == twice
    assert decided.actions == ()
    assert decided.disputed == (held("n2", 0),)


def test_a_node_whose_slice_exclusions_swallow_keeps_it_and_gets_another() -> None:
    """An exclusion stops new allocations and nothing else; without room its node gets more."""
    swallowed = ranges.build("10.40.0.0/24", exclude=["10.40.0.0/26", "10.40.0.64/27"])
    pools = (pool("n1", 0, empty=False), pool("n2", 1))
    table = (held("n1", 0), held("n2", 1))
    seen = blue("n1", "n2", range=swallowed, table=table, pools=pools)
    decided = plan(seen, NOW)
    assert decided.table == (held("n1", 0), held("n2", 1), held("n1", 2))
    assert decided.actions == (Create("n1", BASE + 128, 26),)
    # What is swallowed counts for nothing where a node may hold a single slice.
    assert plan(replace(seen, slice_max=1), NOW).table == decided.table
    # The edit is taken back: nothing moves, until the new slice has been empty for long.
    back = replace(seen, range=blue().range, table=decided.table, slice_max=1)
    back = replace(back, pools=(*pools, pool("n1", 2)))
    assert plan(back, NOW).table == decided.table


def test_a_node_whose_only_slice_is_swallowed_waits_in_line_for_another() -> None:
    swallowed = ranges.build("10.40.0.0/25", exclude=["10.40.0.0/26"])
    pools = (pool("n1", 0, empty=False), pool("n2", 1))
    table = (held("n1", 0), held("n2", 1))
    decided = plan(blue("n1", "n2", range=swallowed, table=table, pools=pools), NOW)
    assert decided.table == table
    assert decided.waiting == ("n1",)
    asked = (replace(pools[0], want=True), pools[1])
    refused = plan(blue("n1", "n2", range=swallowed, table=table, pools=asked), NOW)
    assert refused.actions == (Answer(asked[0], None, ALL_TAKEN),)


@pytest.mark.parametrize("state", [ACTIVE, DRAINING])
def test_a_pool_that_is_deleted_and_kept_by_a_finalizer_is_waited_for(state: str) -> None:
    leaving = replace(pool("n1", 0, closed=True), leaving=True)
    present = ["n1"] if state == ACTIVE else []
    seen = blue(*present, table=(held("n1", 0, state),), pools=(leaving,))
    decided = plan(seen, NOW)
    assert decided.table == seen.table
    assert decided.actions == ()
