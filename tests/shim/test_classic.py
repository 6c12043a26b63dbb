"""Classic mode: one pool for the cluster, lowest free address first, one read and one write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from hack.cluster.simnode import Outcome
from tests.shim.world import World, classic, config, pod

PATCHED = ("patch", "ippools", 200)
READ_POOL = ("get", "ippools", 200)
MISSED = ("get", "ippools", 404)
POOL = "blue-10.40.0.0-24"


@pytest.mark.parametrize("others", [0, 200])
def test_every_verb_keeps_to_its_budget(world: World, others: int) -> None:
    taken = {
        str(n): {"id": f"x{n}", "podref": "a/b", "ifname": "net1", "node": "other"}
        for n in range(1, others + 1)
    }
    name = world.shared(allocations=taken)
    asked = {**classic(), "cniVersion": "1.1.0"}
    node, one, two = world.node("n1"), pod(), pod()
    steps: list[tuple[str, Callable[[], Outcome], dict[tuple[str, str, int], int]]] = [
        ("cold ADD", lambda: node.add(pod(), asked), {READ_POOL: 1, PATCHED: 1}),
        ("steady ADD", lambda: node.add(one, asked), {READ_POOL: 1, PATCHED: 1}),
        ("repeated ADD", lambda: node.add(one, asked), {PATCHED: 1}),
        ("CHECK", lambda: node.check(one, asked, result), {PATCHED: 1}),
        ("fresh STATUS", lambda: node.status(asked), {}),
        ("steady DEL", lambda: node.delete(one, asked), {PATCHED: 1}),
        ("DEL of nothing", lambda: node.delete(one, asked), {READ_POOL: 1}),
        (
            "DEL without hint",
            lambda: world.node("n1").delete(two, asked),
            {READ_POOL: 1, PATCHED: 1},
        ),
    ]
    result: object = None
    for what, step, budget in steps:
        if what == "DEL without hint":
            node.add(two, asked)
        world.forget_requests()
        outcome = step()
        assert outcome.code == 0, (what, outcome.stdout)
        assert world.requests() == Counter(budget), what
        if what == "repeated ADD":
            result = outcome.result
            assert outcome.address == f"10.40.0.{others + 2}"
    (left,) = set(world.allocations(name)) - taken.keys()
    entry = world.allocations(name)[left]
    assert (left, entry["node"]) == (str(others + 1), "n1")
    assert entry["uid"].startswith("uid-")


def test_an_unnamed_network_has_the_pool_of_its_range_with_host_bits_removed(world: World) -> None:
    name = world.shared(network="")
    assert name == "10.40.0.0-24"
    assert world.node("n1").add(pod(), classic("10.40.0.7/24", "")).address == "10.40.0.1"


def test_nodes_share_the_pool_and_the_lowest_address_is_given_again_at_once(world: World) -> None:
    world.shared()
    first, second, one = world.node("n1"), world.node("n2"), pod()
    given = [first.add(one, classic()).address, second.add(pod(), classic()).address]
    assert first.delete(one, classic()).code == 0
    given += [second.add(pod(), classic()).address, first.add(pod(), classic()).address]
    assert given == ["10.40.0.1", "10.40.0.2", "10.40.0.1", "10.40.0.3"]


def test_16_processes_of_one_node_give_the_lowest_addresses_in_a_row(world: World) -> None:
    world.shared()
    node = world.node("n1")
    with ThreadPoolExecutor(16) as threads:
        given = list(
            threads.map(
                lambda one: node.add(one, classic()).address,
                [pod() for _ in range(16)],
            )
        )
    assert sorted(given) == sorted(f"10.40.0.{number}" for number in range(1, 17))


def test_a_pool_that_nobody_made_is_created_closed_after_the_wait_and_the_add_fails(
    world: World,
) -> None:
    outcome = world.node("n1", wait_seconds=0.3).add(pod(), classic())
    assert (outcome.code, outcome.result["code"]) == (1, 11)
    assert "has no pool" in outcome.result["msg"]
    made = world.api.get(world.pool_path(POOL))
    assert made["spec"] == {
        "range": "10.40.0.0/24",
        "allocations": {},
        "network": "blue",
        "closed": True,
    }
    again = world.node("n1", wait_seconds=0.3).add(pod(), classic())
    assert again.result["code"] == 11
    assert "not open yet" in again.result["msg"]


def test_an_add_waits_for_a_pool_that_is_opened_meanwhile(world: World) -> None:
    name = world.shared(closed=True)
    node, one = world.node("n1", wait_seconds=20), pod()
    process = node.start("ADD", one, classic())
    while world.requests()[READ_POOL] == 0:
        assert process.poll() is None
    world.api.patch(world.pool_path(name), [{"op": "remove", "path": "/spec/closed"}])
    out, _ = process.communicate(timeout=30)
    assert '"10.40.0.1/24"' in out


def test_without_a_controller_the_pool_is_created_open_and_marked(world: World) -> None:
    node, one = world.node("n1", standalone=True), pod()
    world.forget_requests()
    assert node.add(one, classic()).address == "10.40.0.1"
    assert world.requests() == Counter(
        {
            MISSED: 1,
            READ_POOL: 1,
            PATCHED: 1,
            ("create", "ippools", 201): 1,
            ("create", "overlappingrangeipreservations", 201): 1,
        }
    )
    assert world.api.get(world.pool_path(POOL))["spec"]["overlapping"] is True
    assert set(world.reservations()) == {"blue-10.40.0.1"}
    assert node.delete(one, classic()).code == 0
    assert (world.allocations(POOL), world.reservations()) == ({}, {})


def test_a_full_pool_is_error_101_with_the_figures(world: World) -> None:
    world.shared("10.40.0.0/30")
    node = world.node("n1")
    given = [node.add(pod(), classic("10.40.0.0/30")).address for _ in range(2)]
    outcome = node.add(pod(), classic("10.40.0.0/30"))
    assert given == ["10.40.0.1", "10.40.0.2"]
    assert outcome.result["code"] == 101
    assert "used 2, total 2" in outcome.result["msg"]
    assert node.status({**classic("10.40.0.0/30"), "cniVersion": "1.1.0"}).result["code"] == 50


def test_an_entry_of_the_same_pod_in_an_older_container_is_taken_over(world: World) -> None:
    name = world.shared()
    node, old = world.node("n1"), pod("p", uid="u1")
    new = pod("p", uid="u1")
    assert node.add(old, classic()).address == node.add(new, classic()).address == "10.40.0.1"
    assert node.delete(old, classic()).code == 0
    assert world.allocations(name)["1"]["id"] == new.container


def test_collection_leaves_entries_of_other_nodes_and_of_unknown_ones_alone(world: World) -> None:
    foreign = {
        "1": {"id": "x1", "podref": "a/b", "ifname": "net1", "node": "n2"},
        "2": {"id": "x2", "podref": "a/c", "ifname": "net1"},
        "3": {"id": "x3", "podref": "a/d", "ifname": "net1", "node": "n1"},
    }
    name = world.shared(allocations=foreign)
    node, dead, alive = world.node("n1"), pod(), pod()
    asked = {**classic(), "cniVersion": "1.1.0"}
    node.add(dead, asked)
    node.add(alive, asked)
    assert node.collect(asked, (alive.container, "net1")).code == 0
    assert set(world.allocations(name)) == {"1", "2", "5"}


def test_an_attachment_of_slice_mode_is_confirmed_and_freed_after_the_change_to_classic(
    world: World,
) -> None:
    (slice_pool,) = world.slices("n1")
    world.shared(allocations={})
    node, one = world.node("n1"), pod()
    node.add(pod(), config())
    first = node.add(one, config()).address
    assert node.add(pod(), classic()).code == 0
    assert node.add(one, classic()).address == first
    assert node.delete(one, classic()).code == 0
    assert set(world.allocations(slice_pool)) == {"1"}
