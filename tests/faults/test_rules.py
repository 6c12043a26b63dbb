"""The rules for histories find what breaks them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tests.faults.history import Version
from tests.faults.rules import BrokenError, Given, Replay

FIRST, SECOND = "10.40.0.0/28", "10.40.0.16/28"
ENTRY = {"id": "c1", "podref": "tenant/p1", "ifname": "net1", "uid": "u1"}
OTHER = {"id": "c2", "podref": "tenant/p2", "ifname": "net1", "uid": "u2"}


class Play:
    """Versions one after the other."""

    def __init__(self) -> None:
        self.versions: list[Version] = []
        self._numbers: Iterator[int] = count(1)

    def add(self, kind: str, name: str, *, deleted: bool = False, **parts: Any) -> None:
        item = {"metadata": {"name": name, "uid": parts.pop("uid", name)}, **parts}
        self.versions.append(Version(next(self._numbers), kind, item, deleted))

    def pod(self, uid: str, phase: str = "Running", *, deleted: bool = False) -> None:
        self.add("pods", f"pod-{uid}", uid=uid, deleted=deleted, status={"phase": phase})

    def table(self, *held: tuple[str, str], name: str = "blue") -> None:
        entries = [{"nodeName": node, "sliceRange": cidr} for node, cidr in held]
        self.add("nodeslicepools", name, status={"allocations": entries})

    def pool(
        self, name: str, cidr: str, *, deleted: bool = False, node: str = "n1", **entries: Any
    ) -> None:
        closed = {"closed": True} if entries.pop("closed", False) else {}
        held = {offset.removeprefix("at"): entry for offset, entry in entries.items()}
        spec = {"range": cidr, "node": node, "allocations": held, **closed}
        self.add("ippools", name, deleted=deleted, spec=spec)


@pytest.fixture
def play() -> Play:
    """A slice in which a pod that lives holds an address."""
    play = Play()
    play.pod("u1")
    play.table(("n1", FIRST))
    play.pool("a", FIRST, closed=True)
    play.pool("a", FIRST)
    play.pool("a", FIRST, at1=ENTRY)
    return play


def breaks(play: Play, words: str, *given_up: str) -> None:
    with pytest.raises(BrokenError, match=words):
        Replay(given_up).play(play.versions)


def test_a_life_by_the_rules_passes(play: Play) -> None:
    play.pod("u1", "Failed")
    play.pool("a", FIRST, closed=True, at1=ENTRY)
    play.pool("a", FIRST, closed=True)
    play.pool("a", FIRST, closed=True, deleted=True)
    play.table()
    replay = Replay()
    replay.play(play.versions)
    replay.confirm([Given("10.40.0.1", "c1")])
    assert replay.seen["taken"] == replay.seen["freed"] == replay.seen["opened"] == 1
    assert replay.seen["slices freed"] == 1


def test_an_address_in_two_pools_is_found(play: Play) -> None:
    play.pool("b", "10.40.0.0/24", node="", at1=OTHER)
    breaks(play, "0xa280001 is taken")


def test_an_address_that_passes_from_pod_to_pod_in_one_write_is_of_the_pod_that_lives(
    play: Play,
) -> None:
    play.pool("a", FIRST, at1=OTHER)
    breaks(play, "is freed, and its pod lives")


@pytest.mark.parametrize("deleted", [False, True])
def test_a_live_pods_address_that_is_freed_is_found(play: Play, deleted: bool) -> None:
    if deleted:
        play.pool("a", FIRST, deleted=True, at1=ENTRY)
    else:
        play.pool("a", FIRST)
    breaks(play, "is freed, and its pod lives")
    Replay(["c1"]).play(play.versions)


def test_a_slice_that_leaves_the_table_while_somebody_lives_in_it_is_found(play: Play) -> None:
    play.pool("a", FIRST, closed=True, at1=ENTRY)
    play.table()
    breaks(play, "no table gives its slice")


def test_a_pool_that_opens_without_its_slice_is_found(play: Play) -> None:
    play.pool("b", SECOND, closed=True, node="n2")
    play.pool("b", SECOND, node="n2")
    breaks(play, "no table gives its slice")


def test_a_slice_that_is_dealt_twice_is_found(play: Play) -> None:
    play.table(("n1", FIRST), ("n2", FIRST))
    breaks(play, "are both held")


def test_a_slice_that_is_dealt_on_while_the_old_pool_is_open_is_found(play: Play) -> None:
    play.table(("n2", FIRST))
    breaks(play, "no table gives its slice")


def test_an_address_that_was_reported_and_never_recorded_is_found(play: Play) -> None:
    replay = Replay()
    replay.play(play.versions)
    with pytest.raises(BrokenError, match="never recorded"):
        replay.confirm([Given("10.40.0.2", "c1")])
