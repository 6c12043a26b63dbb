"""Networks that were shaped or reshaped: window, and a slice size changed under live pods."""

from __future__ import annotations

import pytest

from tests.shim.world import World, config, pod


def test_a_window_begins_and_ends_inside_the_slices(world: World) -> None:
    """Case T2: n1 begins at .10, the second slice gives .64 to .100."""
    world.slices("n1", "n2")
    asked = config(range_start="10.40.0.10", range_end="10.40.0.100")
    assert world.node("n1").add(pod(), asked).address == "10.40.0.10"
    second = world.node("n2")
    assert second.add(pod(), asked).address == "10.40.0.64"
    last = {**asked, "runtimeConfig": {"ips": ["10.40.0.100"]}}
    assert second.add(pod(), last).address == "10.40.0.100"
    beyond = {**asked, "runtimeConfig": {"ips": ["10.40.0.101"]}}
    assert second.add(pod(), beyond).result["code"] == 104


@pytest.mark.parametrize("hinted", [True, False])
def test_a_changed_slice_size_moves_nobody(world: World, hinted: bool) -> None:
    """Case T14: n1 keeps its /26; .50 is never given again while it lives; its DEL frees it."""
    (name,) = world.slices("n1")
    node, one = world.node("n1", address_cooldown=0, wait_seconds=0), pod()
    fixed = {**config(), "runtimeConfig": {"ips": ["10.40.0.50"]}}
    assert node.add(one, fixed).address == "10.40.0.50"
    smaller = config(size="/27")
    caller = node if hinted else world.node("n1", address_cooldown=0, wait_seconds=0)
    given = [caller.add(pod(), smaller).address for _ in range(62)]
    assert len(set(given)) == 62
    assert "10.40.0.50" not in given
    assert caller.add(pod(), smaller).result["code"] == 101
    assert caller.delete(one, smaller).code == 0
    assert "50" not in world.allocations(name)
    assert caller.add(pod(), smaller).address == "10.40.0.50"
