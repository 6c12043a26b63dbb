"""The shim killed at any line: at worst a leaked entry, never an address given twice."""

from __future__ import annotations

from typing import Any

import pytest

from hack.cluster.simnode import Pod, SimulatedNode
from tests.shim.instruments import Traced
from tests.shim.world import World, config, pod

POINTS = 24


class Killer:
    """Runs a call of a node and kills it."""

    def __init__(
        self, node: SimulatedNode, traced: Traced, asked: dict[str, Any] | None = None
    ) -> None:
        self._node = node
        self._asked = asked or config()
        self._traced = traced

    def run(self, verb: str, one: Pod, line: int) -> int:
        """Run a call and kill it at a line; return its exit code."""
        shim = self._node.shim
        self._traced.die_at(line)
        self._node.shim = self._traced.executable
        code = self._node.call(verb, one, self._asked).code
        self._node.shim = shim
        return code

    def lines(self, verb: str, one: Pod) -> int:
        """Run a call to its end and return how many lines it executed."""
        assert self.run(verb, one, 0) == 0
        count = self._traced.passed()
        assert count > 500, "the trace did not see the shim"
        return count


def holders(world: World, name: str) -> dict[str, str]:
    return {offset: entry["id"] for offset, entry in world.allocations(name).items()}


@pytest.fixture
def node(world: World) -> SimulatedNode:
    world.slices("n1")
    return world.node("n1", address_cooldown=0)


NAME = "blue-n1-10.40.0.0-26"


def points(total: int) -> list[int]:
    """Lines spread over a call; the last third, where all writes are, has half of them."""
    early = [1 + index * total * 2 // 3 // (POINTS // 2) for index in range(POINTS // 2)]
    late = [total - index * total // 3 // (POINTS // 2) - 1 for index in range(POINTS // 2)]
    return sorted({*early, *late})


def test_an_add_killed_at_any_line_is_made_good_by_the_next_attempt(
    world: World, node: SimulatedNode, traced: Traced
) -> None:
    kept, first = pod(), pod()
    node.add(kept, config())
    killer = Killer(node, traced)
    total = killer.lines("ADD", first)
    node.delete(first, config())
    for line in points(total):
        killed = pod()
        code = killer.run("ADD", killed, line)
        again = pod(killed.name, uid=killed.uid)
        other = pod()
        mine = node.add(again, config()).address
        theirs = node.add(other, config()).address
        held = holders(world, NAME)
        assert held[mine.rpartition(".")[2]] == again.container, (line, code)
        assert held[theirs.rpartition(".")[2]] == other.container, (line, code)
        assert held["1"] == kept.container
        assert len(held) == 3, (line, code, held)
        for gone in (killed, again, other, killed):
            assert node.delete(gone, config()).code == 0
        assert holders(world, NAME) == {"1": kept.container}, (line, code)


def test_a_del_killed_at_any_line_is_finished_by_the_next_one(
    world: World, node: SimulatedNode, traced: Traced
) -> None:
    kept, first = pod(), pod()
    node.add(kept, config())
    node.add(first, config())
    killer = Killer(node, traced)
    total = killer.lines("DEL", first)
    for line in points(total):
        killed, other = pod(), pod()
        node.add(killed, config())
        code = killer.run("DEL", killed, line)
        theirs = node.add(other, config()).address
        held = holders(world, NAME)
        assert held[theirs.rpartition(".")[2]] == other.container, (line, code)
        assert node.delete(killed, config()).code == 0
        held = {"1": kept.container, theirs.rpartition(".")[2]: other.container}
        assert holders(world, NAME) == held, (line, code)
        assert node.delete(other, config()).code == 0
