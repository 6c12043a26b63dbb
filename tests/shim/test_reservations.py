"""Addresses of pools that overlap: one reservation for each, made before and removed after."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hack.cluster.simnode import Pod
from tests.integration.controller_process import create_nad, create_node, running, wait_open
from tests.shim.world import NAMESPACE, World, classic, config, pod

KIND = "overlappingrangeipreservations"
PATCHED = ("patch", "ippools", 200)
READ_POOL = ("get", "ippools", 200)
MADE = ("create", KIND, 201)
TAKEN = ("create", KIND, 409)
READ = ("get", KIND, 200)
REMOVED = ("delete", KIND, 200)

SLICED, CLASSIC = "slices", "classic"
MODES = pytest.mark.parametrize("mode", [SLICED, CLASSIC])


def network(world: World, mode: str, **spec: Any) -> tuple[str, dict[str, Any], Counter[Any]]:
    """A marked pool, its configuration, and what an ADD reads of it when the hint is there."""
    spec = {"overlapping": True, **spec}
    if mode == CLASSIC:
        return world.shared(**spec), classic(), Counter({READ_POOL: 1})
    world.table({"10.40.0.0/26": "n1"})
    return world.pool("n1", "10.40.0.0/26", **spec), config(), Counter()


def reserve(world: World, address: str, podref: str = "x/y", **spec: str) -> None:
    body = {
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
        "kind": "OverlappingRangeIPReservation",
        "metadata": {"name": f"blue-{address}", "namespace": NAMESPACE},
        "spec": {"podref": podref, **spec},
    }
    world.api.create(PATH, body)


PATH = f"/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/{NAMESPACE}/{KIND}"


@MODES
def test_a_reservation_costs_one_request_more_each_when_the_hint_knows_it(
    world: World, mode: str
) -> None:
    name, asked, read = network(world, mode)
    node, one = world.node("n1"), pod()
    node.add(pod(), asked)
    world.forget_requests()
    assert node.add(one, asked).address == "10.40.0.2"
    assert world.requests() == read + Counter({MADE: 1, PATCHED: 1})
    assert world.reservations()["blue-10.40.0.2"] == {
        "podref": f"tenant/{one.name}",
        "containerid": one.container,
        "ifname": "net1",
    }
    world.forget_requests()
    assert node.add(one, asked).address == "10.40.0.2"
    assert world.requests() == Counter({PATCHED: 1})
    world.forget_requests()
    assert node.delete(one, asked).code == 0
    assert world.requests() == Counter({PATCHED: 1, REMOVED: 1})
    assert set(world.reservations()) == {"blue-10.40.0.1"}
    assert set(world.allocations(name)) == {"1"}


@MODES
def test_a_del_without_hint_reads_the_reservation_before_it_removes_it(
    world: World, mode: str
) -> None:
    _, asked, _ = network(world, mode)
    one = pod()
    world.node("n1").add(one, asked)
    world.forget_requests()
    assert world.node("n1").delete(one, asked).code == 0
    budget = {READ_POOL: 1, PATCHED: 1, READ: 1, REMOVED: 1}
    if mode == SLICED:
        budget["get", "nodeslicepools", 200] = 1
    assert world.requests() == Counter(budget)
    assert world.reservations() == {}


@MODES
def test_a_reservation_of_somebody_else_is_never_removed(world: World, mode: str) -> None:
    name, asked, _ = network(world, mode, overlapping=None)
    one = pod()
    assert world.node("n1").add(one, asked).address == "10.40.0.1"
    world.api.patch(
        world.pool_path(name), [{"op": "add", "path": "/spec/overlapping", "value": True}]
    )
    reserve(world, "10.40.0.1", f"tenant/{one.name}", containerid="another")
    assert world.node("n1").delete(one, asked).code == 0
    assert set(world.reservations()) == {"blue-10.40.0.1"}
    assert world.allocations(name) == {}


@MODES
def test_the_reservation_that_the_controller_made_later_goes_with_the_entry(
    world: World, mode: str
) -> None:
    name, asked, _ = network(world, mode, overlapping=None)
    node, one = world.node("n1"), pod()
    node.add(one, asked)
    world.api.patch(
        world.pool_path(name), [{"op": "add", "path": "/spec/overlapping", "value": True}]
    )
    reserve(world, "10.40.0.1", f"tenant/{one.name}", containerid=one.container, ifname="net1")
    assert node.delete(one, asked).code == 0
    assert (world.allocations(name), world.reservations()) == ({}, {})


@MODES
def test_an_add_that_did_not_know_of_the_mark_makes_the_reservation_then(
    world: World, mode: str
) -> None:
    name, asked, _ = network(world, mode, overlapping=None)
    node = world.node("n1")
    node.add(pod(), asked)
    world.api.patch(
        world.pool_path(name), [{"op": "add", "path": "/spec/overlapping", "value": True}]
    )
    assert node.add(pod(), asked).address == "10.40.0.2"
    assert set(world.reservations()) == {"blue-10.40.0.2"}


@MODES
def test_an_address_that_is_reserved_elsewhere_is_passed_over(world: World, mode: str) -> None:
    name, asked, _ = network(world, mode)
    for last in (1, 2, 3):
        reserve(world, f"10.40.0.{last}")
    node = world.node("n1")
    given = [node.add(pod(), asked).address for _ in range(3)]
    assert not set(given) & {"10.40.0.1", "10.40.0.2", "10.40.0.3"}
    assert len(set(given)) == 3
    assert set(world.allocations(name)) == {text.rpartition(".")[2] for text in given}
    assert len(world.reservations()) == 6


@MODES
def test_all_reserved_elsewhere_is_error_101_and_nothing_is_kept(world: World, mode: str) -> None:
    name, asked, _ = network(world, mode)
    asked["ipam"]["range_end"] = "10.40.0.4"
    for last in (1, 2, 3, 4):
        reserve(world, f"10.40.0.{last}")
    outcome = world.node("n1", wait_seconds=0).add(pod(), asked)
    assert outcome.result["code"] == 101
    assert "4 more in overlapping networks" in outcome.result["msg"]
    assert (world.allocations(name), len(world.reservations())) == ({}, 4)


@MODES
def test_an_address_that_was_asked_for_and_is_reserved_elsewhere_is_refused(
    world: World, mode: str
) -> None:
    _, asked, _ = network(world, mode)
    reserve(world, "10.40.0.9")
    asked["runtimeConfig"] = {"ips": ["10.40.0.9"]}
    outcome = world.node("n1").add(pod(), asked)
    assert outcome.result["code"] == 104
    assert "reserved" in outcome.result["msg"]


@MODES
def test_a_taken_over_address_keeps_its_reservation_under_the_new_container(
    world: World, mode: str
) -> None:
    name, asked, _ = network(world, mode)
    node, old, new = world.node("n1"), pod("p", uid="u1"), pod("p", uid="u1")
    assert node.add(old, asked).address == node.add(new, asked).address == "10.40.0.1"
    assert world.reservations()["blue-10.40.0.1"]["containerid"] == new.container
    assert node.delete(old, asked).code == 0
    assert set(world.reservations()) == {"blue-10.40.0.1"}
    assert node.delete(new, asked).code == 0
    assert (world.allocations(name), world.reservations()) == ({}, {})


@MODES
def test_always_reserves_in_pools_without_the_mark(world: World, mode: str) -> None:
    name, asked, read = network(world, mode, overlapping=None)
    node, one = world.node("n1", overlap_reservations="always"), pod()
    node.add(pod(), asked)
    world.forget_requests()
    assert node.add(one, asked).code == 0
    assert world.requests() == read + Counter({MADE: 1, PATCHED: 1})
    assert node.delete(one, asked).code == 0
    assert set(world.reservations()) == {"blue-10.40.0.1"}
    assert set(world.allocations(name)) == {"1"}


def test_collection_removes_the_reservation_too(world: World) -> None:
    name, asked, _ = network(world, SLICED)
    asked["cniVersion"] = "1.1.0"
    node = world.node("n1")
    node.add(pod(), asked)
    assert node.collect(asked).code == 0
    assert (world.allocations(name), world.reservations()) == ({}, {})


def test_what_a_failed_later_range_gives_back_is_not_reserved_either(world: World) -> None:
    world.table({"10.40.0.0/26": "n1"})
    name = world.pool("n1", "10.40.0.0/26", overlapping=True)
    world.table({"10.45.0.0/32": "n1"}, range_="10.45.0.0/24", name="blue-10.45.0.0-24")
    world.pool("n1", "10.45.0.0/32")
    node = world.node("n1", wait_seconds=0)
    outcome = node.add(pod(), config(ipRanges=[{"range": "10.45.0.0/24"}]))
    assert outcome.result["code"] == 101
    assert (world.allocations(name), world.reservations()) == ({}, {})


@MODES
def test_two_networks_that_overlap_never_give_an_address_twice(
    world: World, tmp_path: Path, mode: str
) -> None:
    """Case U3, with the controller that marks: unnamed networks, many ADDs on both at once."""
    sizes = {"node_slice_size": "/28"} if mode == SLICED else {}
    asked = [classic("10.40.0.0/26", "", **sizes), classic("10.40.0.0/25", "", **sizes)]
    for number, one in enumerate(asked):
        one["name"] = f"net{number}"
    create_node(world.api, "n1")
    create_node(world.api, "n2")
    for number, one in enumerate(asked):
        create_nad(world.api, f"nad{number}", text=json.dumps(one))
    nodes = [world.node("n1"), world.node("n2")]
    pods = [pod() for _ in range(24)]

    def add(number: int) -> str:
        return nodes[number % 2].add(pods[number], asked[number // 2 % 2]).address

    with running(world.cluster.kubeconfig, tmp_path):
        if mode == CLASSIC:
            wait_open(world.api, {"10.40.0.0-26", "10.40.0.0-25"})
        with ThreadPoolExecutor(8) as threads:
            given = list(threads.map(add, range(len(pods))))
    assert len(set(given)) == len(pods)
    if mode == CLASSIC:
        assert {text.replace(":", "-") for text in given} == set(world.reservations())
    for number, who in enumerate(pods):
        assert nodes[number % 2].delete(who, asked[number // 2 % 2]).code == 0
    assert world.reservations() == {}


def test_a_network_in_slices_and_one_without_never_give_an_address_twice(
    world: World, tmp_path: Path
) -> None:
    """With the controller: the second network comes while the first one gives addresses."""
    asked = [classic("10.40.0.0/26", ""), classic("10.40.0.0/25", "", node_slice_size="/28")]
    asked[1]["name"] = "sliced"
    create_node(world.api, "n1")
    nodes = [world.node("n1", wait_seconds=20), world.node("n2", wait_seconds=20)]
    pods = [pod() for _ in range(24)]

    def add(number: int) -> str:
        if number == 6:
            create_nad(world.api, "second", text=json.dumps(asked[1]))
        which = number % 2 if number >= 6 else 0
        return nodes[0 if which else number // 2 % 2].add(pods[number], asked[which]).address

    with running(world.cluster.kubeconfig, tmp_path):
        create_nad(world.api, "first", text=json.dumps(asked[0]))
        wait_open(world.api, {"10.40.0.0-26"})
        with ThreadPoolExecutor(4) as threads:
            given = list(threads.map(add, range(len(pods))))
    assert len(set(given)) == len(pods)
    assert set(world.reservations()) == set(given)


def test_a_crash_between_reservation_and_entry_is_repaired_by_the_next_add_or_del(
    world: World,
) -> None:
    """What the hint of a process that died says: an intent, and a reservation of its own."""
    name, asked, _ = network(world, SLICED)
    node = world.node("n1")
    node.add(pod(), asked)
    (path,) = node.hints.glob("*.json")
    for verb in (node.add, node.delete):
        one: Pod = pod()
        data = json.loads(path.read_text())
        data[6][0][4]["7"] = [one.container, "net1", f"tenant/{one.name}", one.uid, 0, "blue", ""]
        path.write_text(json.dumps(data))
        reserve(world, "10.40.0.7", f"tenant/{one.name}", containerid=one.container, ifname="net1")
        outcome = verb(one, asked)
        assert outcome.code == 0, outcome.stdout
        if verb == node.add:
            assert outcome.address == "10.40.0.7"
            assert node.delete(one, asked).code == 0
        assert set(world.reservations()) == {"blue-10.40.0.1"}
        assert set(world.allocations(name)) == {"1"}
