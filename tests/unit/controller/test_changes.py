"""What a write of a table changed."""

from __future__ import annotations

from whereabouts_fast.controller.changes import Changes, between
from whereabouts_fast.ipam.holdings import ACTIVE, COOLING, DRAINING, Held


def changed(before: list[Held] | None, after: list[Held], pools: bool = False) -> Changes:
    return between(before, after, lambda _: pools, lambda held: f"s{held.base}")


def test_each_way_to_a_slice_has_its_reason() -> None:
    active = Held("a", 1, 26)
    assert changed([], [active]).assigned == {"dealt": {"s1": "a"}}
    assert changed(None, [active]).assigned == {"dealt": {"s1": "a"}}
    assert changed(None, [active], pools=True).assigned == {"rebuilt": {"s1": "a"}}
    cooling = Held("a", 1, 26, COOLING, 5.0)
    assert changed([cooling], [active]).assigned == {"returned": {"s1": "a"}}
    assert changed([active], [Held("a", 1, 26, ACTIVE)]) == Changes()


def test_a_slice_that_changes_hands_is_reclaimed_and_assigned() -> None:
    done = changed([Held("a", 1, 26, COOLING, 5.0)], [Held("b", 1, 26)])
    assert done.assigned == {"dealt": {"s1": "b"}}
    assert done.reclaimed == {"s1": "a"}


def test_draining_is_told_once() -> None:
    active, draining = Held("a", 1, 26), Held("a", 1, 26, DRAINING, 5.0)
    assert changed([active], [draining]).drained == {"s1": "a"}
    assert changed([draining], [Held("a", 1, 26, COOLING, 9.0)]) == Changes()
