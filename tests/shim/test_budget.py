"""Requests per call, counted exactly by the API server's audit log."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.shim.world import World, config, pod

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
