"""Whose address it is: container and interface, entries of old versions, and what replaces what."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.shim.world import World, config, pod

PATCHED = ("patch", "ippools", 200)
READ_POOL = ("get", "ippools", 200)
READ_TABLE = ("get", "nodeslicepools", 200)


def old_entry(container: str, name: str = "a") -> dict[str, str]:
    """An entry as whereabouts wrote it before it knew interfaces."""
    return {"id": container, "podref": f"tenant/{name}"}


def pool_with(world: World, **allocations: Any) -> str:
    world.table({"10.40.0.0/26": "n1"})
    entries = {offset.removeprefix("_"): entry for offset, entry in allocations.items()}
    return world.pool("n1", "10.40.0.0/26", allocations=entries)


def test_an_entry_without_an_interface_is_confirmed_and_named(world: World) -> None:
    one = pod()
    name = pool_with(world, _7=old_entry(one.container, one.name))
    node = world.node("n1")
    assert node.add(one, config()).address == "10.40.0.7"
    entry = world.allocations(name)["7"]
    assert entry == {**old_entry(one.container, one.name), "ifname": "net1"}
    # The next interface of the container is not taken for the first one.
    assert node.add(one, config(), ifname="net2").address == "10.40.0.1"
    world.forget_requests()
    assert node.add(one, config()).address == "10.40.0.7"
    assert world.requests() == Counter({PATCHED: 1})


@pytest.mark.parametrize("hinted", [True, False])
def test_an_entry_without_an_interface_is_freed_by_its_container(
    world: World, hinted: bool
) -> None:
    one = pod()
    name = pool_with(world, _7=old_entry(one.container), _8=old_entry("other"))
    node = world.node("n1")
    if hinted:
        node.delete(pod(), config())  # reads the pools
    assert node.delete(one, config()).code == 0
    assert set(world.allocations(name)) == {"8"}


@pytest.mark.parametrize("verb", ["ADD", "DEL"])
def test_entries_without_an_interface_match_nothing_where_the_container_has_two(
    world: World, verb: str
) -> None:
    one = pod()
    entries = {"_7": old_entry(one.container), "_8": old_entry(one.container)}
    name = pool_with(world, **entries)
    outcome = world.node("n1").call(verb, one, config())
    assert outcome.code == 0
    assert set(world.allocations(name)) == {"7", "8"} | ({"1"} if verb == "ADD" else set())


def test_a_named_entry_beside_one_without_an_interface_is_the_one_that_is_meant(
    world: World,
) -> None:
    one = pod()
    named = {**old_entry(one.container), "ifname": "net1"}
    name = pool_with(world, _7=old_entry(one.container), _8=named)
    node = world.node("n1")
    assert node.add(one, config()).address == "10.40.0.8"
    assert node.delete(one, config()).code == 0
    assert set(world.allocations(name)) == {"7"}


def test_an_entry_without_an_interface_that_may_not_be_used_is_replaced(world: World) -> None:
    one = pod()
    name = pool_with(world, _7=old_entry(one.container, one.name))
    asked = config(exclude=["10.40.0.7"])
    assert world.node("n1").add(one, asked).address == "10.40.0.1"
    assert set(world.allocations(name)) == {"1"}


NARROWED: dict[str, dict[str, Any]] = {
    "excluded": {"exclude": ["10.40.0.0/29"]},
    "below the window": {"range_start": "10.40.0.8"},
    "the gateway": {"gateway": "10.40.0.1", "range_start": "10.40.0.1"},
}


@pytest.mark.parametrize("how", NARROWED)
@pytest.mark.parametrize("hinted", [True, False])
def test_a_recorded_address_that_the_configuration_rules_out_is_replaced(
    world: World, how: str, hinted: bool
) -> None:
    (name,) = world.slices("n1")
    node, one = world.node("n1"), pod()
    assert node.add(one, config()).address == "10.40.0.1"
    caller = node if hinted else world.node("n1")
    expected = "10.40.0.2" if how == "the gateway" else "10.40.0.8"
    assert caller.add(one, config(**NARROWED[how])).address == expected
    assert set(world.allocations(name)) == {expected.rpartition(".")[2]}


def test_another_container_of_a_pod_whose_uid_nobody_knows_gets_another_address(
    world: World,
) -> None:
    """Only known and equal uids make two containers the same pod."""
    first = pod("web-0")
    entry = {"id": first.container, "podref": "tenant/web-0", "ifname": "net1"}
    name = pool_with(world, _1=entry)
    assert world.node("n1").add(pod("web-0"), config()).address == "10.40.0.2"
    assert set(world.allocations(name)) == {"1", "2"}


def test_another_interface_of_the_same_pod_takes_nothing_over(world: World) -> None:
    (name,) = world.slices("n1")
    node, first = world.node("n1"), pod()
    node.add(first, config())
    again = pod(first.name, uid=first.uid)
    assert node.add(again, config(), ifname="net2").address == "10.40.0.2"
    assert node.add(again, config()).address == "10.40.0.1"
    assert {one["id"] for one in world.allocations(name).values()} == {again.container}


def test_an_address_of_the_pod_in_a_draining_slice_is_not_taken_over(world: World) -> None:
    slices = {"10.40.0.0/26": "n1", "10.40.0.64/26": "n1"}
    world.table(slices, states={"10.40.0.0/26": "Draining"})
    first = pod()
    entry = {"id": first.container, "podref": f"tenant/{first.name}", "ifname": "net1"}
    entry["uid"] = first.uid
    world.pool("n1", "10.40.0.0/26", allocations={"9": entry}, closed=True)
    world.pool("n1", "10.40.0.64/26")
    again = pod(first.name, uid=first.uid)
    assert world.node("n1").add(again, config()).address == "10.40.0.64"


def test_a_freed_address_rests_until_its_time_has_passed(world: World) -> None:
    """Case T30: cool-down, a pool of three; then none is left but those that rest."""
    world.table({"10.40.0.4/30": "n1"})
    world.pool("n1", "10.40.0.4/30")
    asked = config(exclude=["10.40.0.7"], address_cooldown=60)
    node = world.node("n1")
    a, b, c, d = (pod() for _ in range(4))
    assert node.add(a, asked).address == "10.40.0.4"
    node.delete(a, asked)
    assert node.add(b, asked).address == "10.40.0.5"
    assert node.add(c, asked).address == "10.40.0.6"
    node.delete(c, asked)
    # Both that are left rest: the one released longest ago, then the other.
    assert node.add(d, asked).address == "10.40.0.4"
    assert node.add(pod(), asked).address == "10.40.0.6"
    node.delete(d, asked)
    assert node.add(pod(), config(exclude=["10.40.0.7"], address_cooldown=0)).code == 0


@pytest.mark.parametrize("cooldown", [0, 3600])
def test_the_cool_down_is_a_setting(world: World, cooldown: int) -> None:
    world.slices("n1")
    node, one = world.node("n1", address_cooldown=cooldown), pod()
    node.add(one, config())
    node.delete(one, config())
    assert node.add(pod(), config()).address == ("10.40.0.2" if cooldown else "10.40.0.1")
