"""Several ranges in one configuration: one address of each, all of them or none."""

from __future__ import annotations

import fcntl
import json
import select
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.faults.actions import Gate, Hold, Request, refusal
from tests.faults.proxy import Proxy
from tests.shim.world import World, config, pod

RANGES = ("10.40.0.0/24", "10.45.0.0/24", "fd10::/112")
SLICES = ("10.40.0.0/26", "10.45.0.64/26", "fd10::40/122")
TABLES = ("blue", "blue-10.45.0.0-24", "blue-fd10---112")
PATCHED = ("patch", "ippools", 200)
READ_POOL = ("get", "ippools", 200)
READ_TABLE = ("get", "nodeslicepools", 200)


def ranged(*ranges: str, **ipam: Any) -> dict[str, Any]:
    """A configuration that has all its ranges in ipRanges."""
    asked = config(ipRanges=[{"range": text} for text in ranges], **ipam)
    del asked["ipam"]["range"]
    return asked


def dealt(world: World, node: str = "n1", *, slices: tuple[str, ...] = SLICES) -> list[str]:
    """Give a node a slice of each range; return the pools' names."""
    for range_, cidr, table in zip(RANGES, slices, TABLES, strict=False):
        world.table({cidr: node}, range_=range_, name=table)
    return [world.pool(node, cidr) for cidr in slices]


def addresses(result: dict[str, Any]) -> list[str]:
    return [one["address"] for one in result["ips"]]


def test_each_range_gives_one_address_in_order(world: World) -> None:
    """Case T19: three distinct addresses, one of each range, in order."""
    pools = dealt(world)
    node, one = world.node("n1"), pod()
    asked = ranged(*RANGES, gateway="10.45.0.1")
    outcome = node.add(one, asked)
    assert outcome.result["ips"] == [
        {"address": "10.40.0.1/24", "gateway": "10.45.0.1"},
        {"address": "10.45.0.64/24", "gateway": "10.45.0.1"},
        {"address": "fd10::40/112"},
    ]
    assert [len(world.allocations(name)) for name in pools] == [1, 1, 1]
    assert addresses(node.add(one, asked).result) == addresses(outcome.result)
    assert node.delete(one, asked).code == 0
    assert [world.allocations(name) for name in pools] == [{}, {}, {}]


def test_the_range_at_top_level_comes_first(world: World) -> None:
    dealt(world)
    asked = config(ipRanges=[{"range": text} for text in RANGES[1:]])
    given = addresses(world.node("n1").add(pod(), asked).result)
    assert given == ["10.40.0.1/24", "10.45.0.64/24", "fd10::40/112"]


def test_two_ranges_cost_two_requests(world: World) -> None:
    dealt(world)
    node, one, asked = world.node("n1"), pod(), ranged(*RANGES[:2])
    world.forget_requests()
    node.add(pod(), asked)
    # The table of the second range has the long name.
    assert world.requests() == Counter({READ_TABLE: 3, READ_POOL: 2, PATCHED: 2})
    for step in (node.add, node.add, node.delete):
        world.forget_requests()
        assert step(one, asked).code == 0
        assert world.requests() == Counter({PATCHED: 2})


@pytest.mark.parametrize("version", ["0.1.0", "0.2.0", "1.1.0"])
def test_dual_stack_is_one_address_of_each_family_in_every_version(
    world: World, version: str
) -> None:
    dealt(world)
    asked = ranged(RANGES[0], RANGES[2], routes=[{"dst": "::/0", "gw": "fd10::1"}])
    result = world.node("n1").add(pod(), {**asked, "cniVersion": version}).result
    if version == "1.1.0":
        assert addresses(result) == ["10.40.0.1/24", "fd10::40/112"]
        return
    assert result["ip4"] == {"ip": "10.40.0.1/24"}
    assert result["ip6"]["ip"] == "fd10::40/112"
    assert result["ip6"]["routes"] == [{"dst": "::/0", "gw": "fd10::1"}]


def test_a_full_later_range_gives_the_earlier_ones_back(world: World) -> None:
    """Case T19: the whole ADD fails, nothing is kept."""
    pools = dealt(world, slices=(*SLICES[:2], "fd10::40/128"))
    node, asked, first = world.node("n1", wait_seconds=0), ranged(*RANGES), pod()
    assert addresses(node.add(first, asked).result)[2] == "fd10::40/112"
    outcome = node.add(pod(), asked)
    assert outcome.result["code"] == 101
    assert "fd10::/112" in outcome.result["msg"]
    held = [[entry["id"] for entry in world.allocations(name).values()] for name in pools]
    assert held == [[first.container]] * 3


def test_what_an_earlier_add_was_answered_with_is_not_given_back(world: World) -> None:
    pools = dealt(world, slices=(*SLICES[:2], "fd10::40/128"))
    node, one = world.node("n1", wait_seconds=0), pod()
    assert node.add(one, ranged(*RANGES[:2])).code == 0
    assert node.add(pod(), ranged(*RANGES)).code == 0
    assert node.add(one, ranged(*RANGES)).result["code"] == 101
    assert [len(world.allocations(name)) for name in pools] == [2, 2, 1]


def test_a_server_that_fails_from_the_second_range_on_costs_nothing(
    world: World, proxy: Proxy
) -> None:
    pools = dealt(world)
    node = world.node("n1", kubeconfig=proxy.kubeconfig, wait_seconds=0.3)
    asked = ranged(*RANGES[:2])
    node.add(pod(), asked)

    def second(request: Request) -> bool:
        return request.method == "PATCH" and pools[1] in request.path

    proxy.inject(refusal(503, "ServiceUnavailable"), when=second)
    assert node.add(pod(), asked).result["code"] == 11
    assert [len(world.allocations(name)) for name in pools[:2]] == [1, 1]


def test_an_add_that_has_no_time_left_still_gives_the_earlier_ranges_back(world: World) -> None:
    pools = dealt(world)
    node = world.node("n1", add_deadline_seconds=2)
    asked = ranged(*RANGES[:2])
    node.add(pod(), asked)
    (lock,) = node.hints.glob("*10.45.0.0_24.lock")
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        outcome = node.add(pod(), asked)
    assert outcome.result["code"] == 11
    assert [len(world.allocations(name)) for name in pools[:2]] == [1, 1]


def test_a_del_that_comes_between_two_ranges_of_an_add_leaves_nothing(
    world: World, proxy: Proxy
) -> None:
    pools = dealt(world)
    node, one = world.node("n1", kubeconfig=proxy.kubeconfig), pod()
    asked = ranged(*RANGES[:2])
    node.add(pod(), asked)
    gate = Gate()

    def second(request: Request) -> bool:
        return request.method == "PATCH" and pools[1] in request.path

    proxy.inject(Hold(gate), when=second, times=1)
    with node.start("ADD", one, asked) as adding:
        gate.wait_until_reached()
        with node.start("DEL", one, asked) as deleting:
            while not list(node.hints.glob(f"del/{one.container}*net1")):
                assert deleting.poll() is None
                select.select([], [], [], 0.005)
            gate.open()
            out, _ = adding.communicate(timeout=60)
            assert deleting.wait(timeout=60) == 0
    assert json.loads(out)["code"] == 11
    assert [len(world.allocations(name)) for name in pools[:2]] == [1, 1]


def test_configurations_that_list_the_ranges_in_other_orders_never_wait_for_each_other(
    world: World,
) -> None:
    """Case U5: A,B and B,A, many ADDs on both at once: one lock at a time."""
    pools = dealt(world)
    node = world.node("n1")
    orders = [ranged(*RANGES[:2]), ranged(*reversed(RANGES[:2]))]
    pods = [pod() for _ in range(24)]

    def add(number: int) -> list[str]:
        return addresses(node.add(pods[number], orders[number % 2]).result)

    with ThreadPoolExecutor(8) as threads:
        given = list(threads.map(add, range(len(pods))))
    assert all(len(pair) == 2 for pair in given)
    assert len({address for pair in given for address in pair}) == 2 * len(pods)
    for number, pair in enumerate(given):
        assert pair[number % 2].startswith("10.40.")

    def delete(number: int) -> int:
        return node.delete(pods[number], orders[1 - number % 2]).code

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(delete, range(len(pods)))) == [0] * len(pods)
    assert [world.allocations(name) for name in pools[:2]] == [{}, {}]


def test_two_networks_of_one_pod_that_share_the_ranges_keep_apart(world: World) -> None:
    """Case T18: blue-a and blue-b, same network, one pod with net1 and net2."""
    pools = dealt(world)
    node, one = world.node("n1"), pod()
    asked = ranged(*RANGES[:2])
    first = addresses(node.add(one, {**asked, "name": "blue-a"}, ifname="net1").result)
    second = addresses(node.add(one, {**asked, "name": "blue-b"}, ifname="net2").result)
    assert all(text.endswith("/24") for text in first + second)
    assert not set(first) & set(second)
    assert node.delete(one, {**asked, "name": "blue-b"}, ifname="net2").code == 0
    for name in pools[:2]:
        assert [entry["ifname"] for entry in world.allocations(name).values()] == ["net1"]


@pytest.mark.parametrize("lost", [0, 1])
def test_a_del_finds_the_address_of_a_range_whose_hint_is_lost(world: World, lost: int) -> None:
    pools = dealt(world)
    node, one, asked = world.node("n1"), pod(), ranged(*RANGES[:2])
    node.add(one, asked)
    sorted(node.hints.glob("*.json"))[lost].unlink()
    assert node.delete(one, asked).code == 0
    assert [world.allocations(name) for name in pools[:2]] == [{}, {}]


def test_a_del_finds_both_addresses_when_one_range_was_changed_since(world: World) -> None:
    pools = dealt(world)
    node, one = world.node("n1"), pod()
    node.add(one, ranged(*RANGES[:2]))
    world.forget_requests()
    assert node.delete(one, ranged(RANGES[0], RANGES[2])).code == 0
    assert world.requests() == Counter({PATCHED: 2})
    assert [world.allocations(name) for name in pools[:2]] == [{}, {}]
