"""Tables and pools that people edited or deleted by hand, as slice plans see them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.ipam.test_slices_rules import BASE, NOW, blue, held, pool
from whereabouts_fast.ipam import ranges
from whereabouts_fast.ipam.holdings import ACTIVE, COOLING, DRAINING, Close, Confirm, Create
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


def test_a_slice_that_exclusions_swallow_makes_way_for_another() -> None:
    """Its node could give no address at all, and would for ever ask in vain."""
    swallowed = ranges.build("10.40.0.0/24", exclude=["10.40.0.0/26", "10.40.0.64/27"])
    pools = (pool("n1", 0, empty=False), pool("n2", 1))
    table = (held("n1", 0), held("n2", 1))
    decided = plan(blue("n1", "n2", range=swallowed, table=table, pools=pools), NOW)
    assert decided.table == (held("n1", 0, DRAINING), held("n2", 1), held("n1", 2))
    assert decided.actions == (Close(pools[0]), Create("n1", BASE + 128, 26))
    # The edit is taken back while its pods live.
    back = replace(pools[0], closed=True)
    restored = plan(blue("n1", "n2", table=(*decided.table[:2],), pools=(back, pools[1])), NOW)
    assert restored.table == table


@pytest.mark.parametrize("state", [ACTIVE, DRAINING])
def test_a_pool_that_is_deleted_and_kept_by_a_finalizer_is_waited_for(state: str) -> None:
    leaving = replace(pool("n1", 0, closed=True), leaving=True)
    present = ["n1"] if state == ACTIVE else []
    seen = blue(*present, table=(held("n1", 0, state),), pools=(leaving,))
    decided = plan(seen, NOW)
    assert decided.table == seen.table
    assert decided.actions == ()
