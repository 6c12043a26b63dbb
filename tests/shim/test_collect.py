"""GC frees exactly this node's and this network's entries that the runtime does not list."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.faults.actions import CutReply, Request, refusal
from tests.faults.proxy import Proxy
from tests.shim.test_several_ranges import RANGES, dealt, ranged
from tests.shim.world import NAMESPACE, World, pod
from tests.shim.world import config as configured
from whereabouts_fast.kube.resource import NODESLICEPOOLS

PATCHED = ("patch", "ippools", 200)
READ_POOL = ("get", "ippools", 200)
READ_TABLE = ("get", "nodeslicepools", 200)


def config(network: str = "blue", **ipam: Any) -> dict[str, Any]:
    return {**configured(network=network, **ipam), "cniVersion": "1.1.0"}


def held(world: World, name: str) -> set[tuple[str, str]]:
    return {(one["id"], one.get("ifname", "")) for one in world.allocations(name).values()}


@pytest.mark.parametrize("hinted", [True, False])
def test_exactly_what_is_not_listed_is_freed(world: World, hinted: bool) -> None:
    """Case T44: two of three listed; other nodes and networks untouched."""
    ours, neighbours = world.slices("n1", "n2")
    (green,) = world.slices("n1", network="green")
    node, pods = world.node("n1"), [pod() for _ in range(3)]
    for one in pods:
        node.add(one, config())
        node.add(one, config("green"))
    world.node("n2").add(pods[0], config())
    caller = node if hinted else world.node("n1")
    alive = [(one.container, "net1") for one in pods[:2]]
    world.forget_requests()
    outcome = caller.collect(config(), *alive)
    assert (outcome.code, outcome.stdout) == (0, "")
    assert world.requests() == Counter({READ_TABLE: 1, READ_POOL: 1, PATCHED: 1})
    assert held(world, ours) == set(alive)
    assert len(held(world, neighbours)) == 1
    assert len(held(world, green)) == 3


def test_interfaces_of_one_container_are_told_apart(world: World) -> None:
    (name,) = world.slices("n1")
    node, one = world.node("n1"), pod()
    node.add(one, config(), ifname="net1")
    node.add(one, config(), ifname="net2")
    assert node.collect(config(), (one.container, "net2")).code == 0
    assert held(world, name) == {(one.container, "net2")}


def test_an_empty_list_frees_everything_and_an_absent_one_nothing(world: World) -> None:
    (name,) = world.slices("n1")
    node = world.node("n1")
    node.add(pod(), config())
    error = node.call("GC", None, config()).result
    assert error["code"] == 7
    assert "cni.dev/valid-attachments" in error["msg"]
    assert len(held(world, name)) == 1
    assert node.collect(config()).code == 0
    assert held(world, name) == set()


def test_the_older_key_counts_where_the_newer_is_absent(world: World) -> None:
    (name,) = world.slices("n1")
    node, one = world.node("n1"), pod()
    node.add(one, config())
    node.add(pod(), config())
    listed = [{"containerID": one.container, "ifname": "net1"}]
    assert node.call("GC", None, {**config(), "cni.dev/attachments": listed}).code == 0
    assert held(world, name) == {(one.container, "net1")}


@pytest.mark.parametrize(
    "listed",
    [{}, "x", 7, [7], [{}], [{"containerID": "c1"}], [{"containerID": "../x", "ifname": "net1"}]],
)
def test_a_list_that_cannot_be_right_frees_nothing(world: World, listed: object) -> None:
    (name,) = world.slices("n1")
    node = world.node("n1")
    node.add(pod(), config())
    error = node.call("GC", None, {**config(), "cni.dev/valid-attachments": listed}).result
    assert error["code"] == 7
    assert "nothing was freed" in error["msg"]
    assert len(held(world, name)) == 1


def test_entries_without_an_interface_live_with_their_container(world: World) -> None:
    world.table({"10.40.0.0/26": "n1"})
    entries = {
        "1": {"id": "old1", "podref": "tenant/a"},
        "2": {"id": "old2", "podref": "tenant/b"},
        "3": {"id": "", "podref": ""},
    }
    name = world.pool("n1", "10.40.0.0/26", allocations=entries)
    assert world.node("n1").collect(config(), ("old1", "net1")).code == 0
    assert set(world.allocations(name)) == {"1", "3"}  # what cannot be told is not freed


def test_what_came_by_another_configuration_of_a_shared_network_is_its_own_business(
    world: World,
) -> None:
    (name,) = world.slices("n1")
    node, one, other = world.node("n1"), pod(), pod()
    node.add(one, {**config(), "name": "blue-a"})
    node.add(other, {**config(), "name": "blue-b"})
    assert node.collect({**config(), "name": "blue-a"}).code == 0
    assert held(world, name) == {(other.container, "net1")}
    assert node.collect({**config(), "name": "blue-b"}).code == 0
    assert held(world, name) == set()


def test_every_range_is_collected(world: World) -> None:
    pools = dealt(world)
    node, one, asked = world.node("n1"), pod(), {**ranged(*RANGES), "cniVersion": "1.1.0"}
    node.add(one, asked)
    node.add(pod(), asked)
    assert node.collect(asked, (one.container, "net1")).code == 0
    assert [held(world, name) for name in pools] == [{(one.container, "net1")}] * 3


def test_a_failure_is_gone_past_and_reported_at_the_end(world: World, proxy: Proxy) -> None:
    (name,) = world.slices("n1")
    node = world.node("n1", kubeconfig=proxy.kubeconfig, wait_seconds=0.1)
    pods = [pod() for _ in range(3)]
    for one in pods:
        node.add(one, config())

    def first(request: Request) -> bool:
        return request.method == "PATCH" and pods[0].container in request.body.decode()

    proxy.inject(refusal(503, "ServiceUnavailable", "injected fault"), when=first)
    error = node.collect(config()).result
    assert error["code"] == 11
    assert "injected fault" in error["msg"]
    assert held(world, name) == {(pods[0].container, "net1")}
    proxy.clear()
    assert node.collect(config()).code == 0
    assert held(world, name) == set()


def test_a_range_that_fails_does_not_stop_the_others(world: World, proxy: Proxy) -> None:
    pools = dealt(world)
    node = world.node("n1", kubeconfig=proxy.kubeconfig, wait_seconds=0.1)
    asked = {**ranged(*RANGES[:2]), "cniVersion": "1.1.0"}
    node.add(pod(), asked)

    def first(request: Request) -> bool:
        return request.path.endswith("/nodeslicepools/blue")

    proxy.inject(refusal(403, "Forbidden"), when=first, times=1)
    assert node.collect(asked).result["code"] == 102
    assert [len(held(world, name)) for name in pools[:2]] == [1, 0]


def test_a_lost_answer_frees_once(world: World, proxy: Proxy) -> None:
    (name,) = world.slices("n1")
    node = world.node("n1", kubeconfig=proxy.kubeconfig)
    node.add(pod(), config())
    proxy.inject(CutReply(), when=lambda request: request.method == "PATCH", times=1)
    assert node.collect(config()).code == 0
    assert held(world, name) == set()


def test_an_address_that_was_given_on_meanwhile_is_not_freed(world: World, proxy: Proxy) -> None:
    (name,) = world.slices("n1")
    node = world.node("n1")
    node.add(pod(), config())
    world.forget_requests()
    theirs = {"id": "new", "podref": "tenant/new", "ifname": "net1", "uid": None}
    world.api.patch(world.pool_path(name), {"spec": {"allocations": {"1": theirs}}})
    assert node.collect(config(), ("new", "net1")).code == 0
    assert held(world, name) == {("new", "net1")}


@pytest.mark.parametrize("hinted", [True, False])
def test_without_a_table_this_nodes_pools_of_the_network_are_listed_once(
    world: World, hinted: bool
) -> None:
    (name,) = world.slices("n1")
    (green,) = world.slices("n1", network="green")
    node, one = world.node("n1"), pod()
    node.add(one, config())
    node.add(pod(), config())
    node.add(pod(), config("green"))
    world.api.delete(NODESLICEPOOLS.path(NAMESPACE, "blue"))
    world.forget_requests()
    caller = node if hinted else world.node("n1")
    assert caller.collect(config(), (one.container, "net1")).code == 0
    requests = world.requests()
    assert requests[("list", "ippools", 200)] == 1
    assert requests[PATCHED] == 1
    assert held(world, name) == {(one.container, "net1")}
    assert len(held(world, green)) == 1


def test_without_a_hints_directory_it_works_the_same(world: World) -> None:
    (name,) = world.slices("n1")
    node, one = world.node("n1", hints_dir="/dev/null/hints"), pod()
    node.add(one, config())
    node.add(pod(), config())
    assert node.collect(config(), (one.container, "net1")).code == 0
    assert held(world, name) == {(one.container, "net1")}
