"""Requests per call, counted exactly by the API server's audit log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from hack.cluster.simnode import Pod
from tests.shim.relay import Relay
from tests.shim.world import CheckedNode, World, config, pod
from whereabouts_fast.ipam import naming

NODES = ("n1", "n2", "n3", "n4")
PATCHED = ("patch", "ippools", 200)
READ_POOL = ("get", "ippools", 200)
READ_TABLE = ("get", "nodeslicepools", 200)


def test_the_first_add_reads_the_table_and_each_slice_and_the_next_only_writes(
    world: World,
) -> None:
    world.slices("n1")
    node = world.node("n1")
    world.forget_requests()
    assert node.add(pod(), config()).address == "10.40.0.1"
    assert world.requests() == Counter({READ_TABLE: 1, READ_POOL: 1, PATCHED: 1})
    world.forget_requests()
    assert node.add(pod(), config()).address == "10.40.0.2"
    assert world.requests() == Counter({PATCHED: 1})


CROWD_RANGE = "10.0.0.0/8"


def crowded(world: World, others: int) -> dict[str, Any]:
    """Two slices for n1 and n2 each among those of many nodes; return the configuration."""
    cidrs = [f"10.{64 + i // 1024}.{i // 4 % 256}.{i % 4 * 64}/26" for i in range(others + 4)]
    holders = ["n1", "n2", "n1", "n2", *(f"other{number}" for number in range(others))]
    slices = dict(zip(cidrs, holders, strict=True))
    world.table(slices, range_=CROWD_RANGE)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda cidr: world.pool(slices[cidr], cidr), cidrs))
    return {**config(CROWD_RANGE), "cniVersion": "1.1.0"}


@pytest.mark.parametrize("others", [10, 1000])
def test_every_verb_keeps_to_its_budget_whatever_the_size_of_the_cluster(
    world: World, others: int
) -> None:
    """Cases T38, T44: the whole table, for a node that holds two slices."""
    asked = crowded(world, others)
    node, neighbour, one = world.node("n1"), world.node("n2"), pod()
    result: dict[str, Any] = {}

    def add(caller: CheckedNode, whom: Pod) -> int:
        outcome = caller.add(whom, asked)
        result.update(outcome.result)
        return outcome.code

    cold = {READ_TABLE: 1, READ_POOL: 2, PATCHED: 1}
    steps: list[tuple[str, Callable[[], int], dict[tuple[str, str, int], int]]] = [
        ("cold ADD", lambda: add(node, pod()), cold),
        ("steady ADD", lambda: add(node, one), {PATCHED: 1}),
        ("repeated ADD", lambda: add(node, one), {PATCHED: 1}),
        ("CHECK", lambda: node.check(one, asked, result).code, {PATCHED: 1}),
        ("fresh STATUS", lambda: node.status(asked).code, {}),
        ("first STATUS", lambda: neighbour.status(asked).code, {READ_TABLE: 1, READ_POOL: 2}),
        ("ADD after STATUS", lambda: add(neighbour, pod()), {PATCHED: 1}),
        ("steady DEL", lambda: node.delete(one, asked).code, {PATCHED: 1}),
        ("DEL of nothing", lambda: node.delete(one, asked).code, {READ_TABLE: 1, READ_POOL: 2}),
        ("GC of one", lambda: node.collect(asked).code, cold),
    ]
    for what, step, budget in steps:
        world.forget_requests()
        assert step() == 0, what
        assert world.requests() == Counter(budget), what


@pytest.mark.parametrize("others", [10, 1000])
def test_a_steady_add_or_del_moves_less_than_8_kb_handshake_and_all(
    world: World, others: int
) -> None:
    """Case T38: counted on the wire, into a pool that is nearly full."""
    asked = crowded(world, others)
    strip = [{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]
    for cidr in ("10.64.0.0/26", "10.64.0.128/26"):  # as the controller does when it opens one
        world.api.patch(world.pool_path(naming.ip_pool(cidr, "blue", "n1")), strip)
    with Relay(world.cluster.server) as relay:
        node = world.node("n1", kubeconfig=world.cluster.kubeconfig_for(server=relay.url))
        taken = {str(n): {"id": f"c{n}", "podref": "a/b", "ifname": "net1"} for n in range(1, 60)}
        name = naming.ip_pool("10.64.0.0/26", "blue", "n1")
        world.api.patch(world.pool_path(name), {"spec": {"allocations": taken}})
        node.add(pod(), asked)
        for _ in range(2):
            one = pod()
            for step in (node.add, node.delete):
                relay.taken()
                assert step(one, asked).code == 0
                assert 1000 < relay.taken() < 8000


def test_a_table_with_the_long_name_costs_the_first_add_one_request_more(world: World) -> None:
    world.table({}, range_="10.99.0.0/24")
    world.table({"10.40.0.0/26": "n1"}, name="blue-10.40.0.0-24")
    world.pool("n1", "10.40.0.0/26")
    node = world.node("n1")
    world.forget_requests()
    assert node.add(pod(), config()).address == "10.40.0.1"
    assert world.requests() == Counter({READ_TABLE: 2, READ_POOL: 1, PATCHED: 1})


@pytest.mark.parametrize("others", [0, 1000])
def test_200_steady_adds_and_dels_on_4_nodes_are_200_requests_each(
    world: World, others: int
) -> None:
    def crowd(number: int) -> None:
        world.pool(f"other{number}", f"10.{100 + number // 250}.{number % 250}.0/26", network="x")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(crowd, range(others)))
    world.slices(*NODES)
    nodes = [world.node(name) for name in NODES]
    for node in nodes:
        node.add(pod(), config())
    pods = [(nodes[number % 4], pod()) for number in range(200)]
    world.forget_requests()
    with ThreadPoolExecutor(4) as threads:
        given = list(threads.map(lambda one: one[0].add(one[1], config()).address, pods))
    assert world.requests() == Counter({PATCHED: 200})
    assert len(set(given)) == 200
    world.forget_requests()
    with ThreadPoolExecutor(4) as threads:
        freed = list(threads.map(lambda one: one[0].delete(one[1], config()), pods))
    assert world.requests() == Counter({PATCHED: 200})
    assert [(one.code, one.stdout) for one in freed] == [(0, "")] * 200


def test_an_add_repeated_for_the_same_attachment_is_confirmed_in_one_request(
    world: World,
) -> None:
    world.slices("n1")
    node, one = world.node("n1"), pod()
    first = node.add(one, config()).address
    world.forget_requests()
    assert node.add(one, config()).address == first
    assert world.requests() == Counter({PATCHED: 1})


def test_a_del_of_nothing_reads_the_table_and_each_slice(world: World) -> None:
    world.slices("n1")
    node = world.node("n1")
    node.add(pod(), config())
    world.forget_requests()
    assert node.delete(pod(), config()).code == 0
    assert world.requests() == Counter({READ_TABLE: 1, READ_POOL: 1})


def test_a_del_that_neither_hint_nor_table_can_place_lists_once(world: World) -> None:
    (name,) = world.slices("n1")
    one = pod()
    world.node("n1").add(one, config())
    stranger = world.node("n1")
    world.forget_requests()
    broken = {**config(), "ipam": {"type": "whereabouts"}}
    assert stranger.delete(one, broken).code == 0
    assert world.requests() == Counter({("list", "ippools", 200): 1, PATCHED: 1})
    assert world.allocations(name) == {}
