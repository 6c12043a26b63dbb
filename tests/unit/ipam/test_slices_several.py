"""The cases of slices where nodes hold several of them, on a model of the API server."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.properties.slices_model import COOLDOWN, IDLE, Network, RefusedError
from tests.unit.ipam.test_slices_cases import N1, N2, N3, N4, Play
from whereabouts_fast.ipam import ranges
from whereabouts_fast.ipam.holdings import ACTIVE, DRAINING

FIRST, SECOND = "A-170393600-26", "A-170393664-26"


def fill(play: Play, pool: str, count: int) -> None:
    for _ in range(count):
        play.api.add(pool)


def empty(play: Play, pool: str) -> None:
    for address in play.api.pools[pool].used:
        play.api.remove(pool, address)


def two_slices(play: Play) -> None:
    """Have A hold two slices, with pods on both."""
    fill(play, FIRST, 63)
    play.settle()
    fill(play, SECOND, 20)
    play.settle()
    assert play.table[N2] == ("A", ACTIVE)


def test_a_node_takes_the_second_half_of_a_window_and_gives_it_back_for_who_waits() -> None:
    """Case T2."""
    play = Play("10.40.0.0/24", 26, "A")
    play.api.network = Network(ranges.build("10.40.0.0/24", "10.40.0.10", "10.40.0.100"), 26)
    play.settle()
    fill(play, FIRST, 54)
    play.settle()
    assert play.table == {N1: ("A", ACTIVE), N2: ("A", ACTIVE)}
    fill(play, SECOND, 37)
    play.api.add(SECOND)
    play.api.add_node("B")
    play.settle()
    assert play.waiting == ["B"]
    assert play.api.pools[SECOND].refused == "all slices are taken"
    assert not play.api.pools[SECOND].want
    empty(play, SECOND)
    for address in sorted(play.api.pools[FIRST].used)[:30]:
        play.api.remove(FIRST, address)
    play.settle()
    play.wait(IDLE)
    play.wait()
    assert play.table == {N1: ("A", ACTIVE), N2: ("B", ACTIVE)}


def test_who_waits_gets_a_slice_of_a_deleted_node_that_held_them_all() -> None:
    """Case T11."""
    play = Play("10.40.0.0/25", 26, "A")
    two_slices(play)
    play.api.add_node("B")
    play.settle()
    assert play.waiting == ["B"]
    del play.api.nodes["A"]
    play.settle()
    assert play.table == {N1: ("A", DRAINING), N2: ("A", DRAINING)}
    empty(play, SECOND)
    play.settle()
    play.wait()
    assert play.table == {N1: ("A", DRAINING), N2: ("B", ACTIVE)}
    assert play.waiting == []


def test_no_slice_of_a_deleted_node_is_dealt_while_a_pod_lives_on_it() -> None:
    """Case T12."""
    play = Play("10.40.0.0/24", 26, "A")
    two_slices(play)
    del play.api.nodes["A"]
    play.api.add_node("C")
    play.settle()
    gone = {N1: ("A", DRAINING), N2: ("A", DRAINING), N3: ("C", ACTIVE)}
    assert play.table == gone
    for pool in (FIRST, SECOND):
        with pytest.raises(RefusedError):
            play.api.add(pool)
    empty(play, FIRST)
    play.settle()
    play.wait()
    assert play.table == {N2: ("A", DRAINING), N3: ("C", ACTIVE)}
    # What C needs more it gets from what is free, and A's last slice is not.
    fill(play, "C-170393728-26", 64)
    play.settle()
    assert play.table == {N1: ("C", ACTIVE), N2: ("A", DRAINING), N3: ("C", ACTIVE)}


def test_a_node_that_returns_among_others_that_grow_finds_its_own_slices() -> None:
    """Case T13."""
    play = Play("10.40.0.0/24", 26, "A", "D")
    fill(play, FIRST, 63)
    play.settle()
    second = "A-170393728-26"
    fill(play, second, 5)
    del play.api.nodes["A"]
    play.settle()
    fill(play, "D-170393664-26", 64)
    with suppress(RefusedError):
        play.api.add("D-170393664-26")
    play.settle()
    assert play.table[N4] == ("D", ACTIVE)
    play.api.add_node("A")
    play.settle()
    assert play.table == {
        N1: ("A", ACTIVE),
        N2: ("D", ACTIVE),
        N3: ("A", ACTIVE),
        N4: ("D", ACTIVE),
    }
    assert len(play.api.pools[second].used) == 5


def test_a_share_shrinks_to_new_sizes_without_moving_a_pod() -> None:
    """Case T14."""
    play = Play("10.40.0.0/24", 26, "A")
    two_slices(play)
    play.api.network = Network(play.api.network.range, 27)
    fill(play, SECOND, 44)
    play.settle()
    assert play.table["10.40.0.128/27"] == ("A", ACTIVE)
    third = "A-170393728-27"
    fill(play, third, 3)
    empty(play, SECOND)
    for address in sorted(play.api.pools[FIRST].used)[:30]:
        play.api.remove(FIRST, address)
    play.settle()
    play.wait(IDLE)
    play.wait(COOLDOWN)
    assert play.table == {N1: ("A", ACTIVE), "10.40.0.128/27": ("A", ACTIVE)}
    assert len(play.api.pools[third].used) == 3


def test_a_grown_range_moves_nothing_and_a_cut_one_replaces_what_it_lost() -> None:
    """Case T15."""
    play = Play("10.40.0.0/25", 26, "A")
    two_slices(play)
    fill(play, SECOND, 44)
    play.settle()
    play.api.network = Network(ranges.build("10.40.0.0/24"), 26)
    play.settle()
    assert play.table == {N1: ("A", ACTIVE), N2: ("A", ACTIVE), N3: ("A", ACTIVE)}
    third = "A-170393728-26"
    fill(play, third, 4)
    play.api.network = Network(ranges.build("10.40.0.0/25"), 26)
    play.settle()
    assert play.table == {N1: ("A", ACTIVE), N2: ("A", ACTIVE), N3: ("A", DRAINING)}
    empty(play, third)
    play.settle()
    play.wait()
    assert play.table == {N1: ("A", ACTIVE), N2: ("A", ACTIVE)}
