"""What users see is the same with slices and without: the cases, in both modes."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.faults.actions import Request
from tests.faults.proxy import Proxy
from tests.shim.test_several_ranges import RANGES, SLICES, TABLES, addresses, ranged
from tests.shim.test_status import grow_old
from tests.shim.world import World, classic, config, pod

SLICED, CLASSIC = "slices", "classic"


class Network:
    """A network whose pools are there: n1's slice of /26, or the pool of all nodes."""

    def __init__(self, world: World, mode: str) -> None:
        self.world = world
        self.sliced = mode == SLICED

    def asked(self, **ipam: Any) -> dict[str, Any]:
        """The configuration, as the newest runtimes send it."""
        made = config(**ipam) if self.sliced else classic(**ipam)
        return {**made, "cniVersion": "1.1.0"}

    def opened(self) -> str:
        """Open n1's slice, or the pool of the whole range; return its name."""
        return self.world.slices("n1")[0] if self.sliced else self.world.shared()

    def for_nodes(self, nodes: list[str]) -> list[str]:
        """Open a slice of /28 for each node, or the pool of the range; return the names."""
        if not self.sliced:
            return [self.world.shared()]
        cidrs = {f"10.40.0.{16 * number}/28": node for number, node in enumerate(nodes)}
        self.world.table(cidrs)
        return [self.world.pool(node, cidr) for cidr, node in cidrs.items()]

    def small(self) -> tuple[str, dict[str, Any]]:
        """Open a pool; return its name and a configuration that uses .1 and .2 of it."""
        return self.opened(), self.asked(range_end="10.40.0.2")

    def ranged(self, *ranges: str, last: str = "") -> tuple[list[str], dict[str, Any]]:
        """Open a pool of each range, the last one in a slice or range of its own if told so."""
        asked = ranged(*ranges)
        if self.sliced:
            cidrs = [*SLICES[: len(ranges) - 1], last or SLICES[len(ranges) - 1]]
            for range_, cidr, table in zip(ranges, cidrs, TABLES, strict=False):
                self.world.table({cidr: "n1"}, range_=range_, name=table)
            return [self.world.pool("n1", cidr) for cidr in cidrs], asked
        del asked["ipam"]["node_slice_size"]
        if last:
            asked["ipam"]["ipRanges"][-1] = {"range": last}
        texts = [one["range"] for one in asked["ipam"]["ipRanges"]]
        return [self.world.shared(text) for text in texts], asked


@pytest.fixture(params=[SLICED, CLASSIC])
def network(world: World, request: pytest.FixtureRequest) -> Network:
    return Network(world, request.param)


def held(world: World, name: str) -> set[tuple[str, str]]:
    return {(one["id"], one["ifname"]) for one in world.allocations(name).values()}


def test_exclusions_and_gateway_are_never_given(network: Network) -> None:
    """Case T1."""
    network.opened()
    asked = network.asked(
        exclude=["10.40.0.0/30", "10.40.0.8", "10.40.0.64/26"], gateway="10.40.0.10"
    )
    node = network.world.node("n1")
    results = [node.add(pod(), asked).result["ips"] for _ in range(6)]
    assert [ips[0]["address"] for ips in results] == [
        f"10.40.0.{last}/24" for last in (4, 5, 6, 7, 9, 11)
    ]
    assert {ips[0]["gateway"] for ips in results} == {"10.40.0.10"}


def test_a_window_begins_and_ends_where_it_says(network: Network) -> None:
    """Case T2."""
    network.opened()
    asked = network.asked(range_start="10.40.0.10", range_end="10.40.0.12")
    node = network.world.node("n1", wait_seconds=0)
    given = [node.add(pod(), asked).address for _ in range(3)]
    assert given == ["10.40.0.10", "10.40.0.11", "10.40.0.12"]
    error = node.add(pod(), asked).result
    assert error["code"] == 101
    assert "used 3, total 3" in error["msg"]


def test_both_names_of_a_node_stand_in_the_error_when_there_is_no_pool(network: Network) -> None:
    """Case T17: the node's name in the cluster may be another than that of its system."""
    asked = network.asked()
    error = network.world.node("n1.example.test", wait_seconds=0.1).add(pod(), asked).result
    assert error["code"] == 11
    assert (
        'node "n1.example.test" (from the environment variable NODENAME; host name'
        in (error["msg"])
    )


def test_only_the_interface_that_a_del_names_is_freed(network: Network) -> None:
    """Case T18: two configurations of one network, one pod with net1 and net2."""
    name = network.opened()
    node, one = network.world.node("n1"), pod()
    first, second = ({**network.asked(), "name": text} for text in ("blue-a", "blue-b"))
    given = [
        node.add(one, first, ifname="net1").result["ips"][0]["address"],
        node.add(one, second, ifname="net2").result["ips"][0]["address"],
    ]
    assert given == ["10.40.0.1/24", "10.40.0.2/24"]
    assert node.delete(one, second, ifname="net2").code == 0
    assert held(network.world, name) == {(one.container, "net1")}


def test_several_ranges_give_one_address_each_or_none(network: Network) -> None:
    """Case T19: in order; a later full range makes the whole ADD fail, and nothing is kept."""
    pools, asked = network.ranged(*RANGES, last="fd10::40/128" if network.sliced else "fd10::1/128")
    node, first = network.world.node("n1", wait_seconds=0), pod()
    given = addresses(node.add(first, asked).result)
    assert [text.partition("/")[0] for text in given] == (
        ["10.40.0.1", "10.45.0.64", "fd10::40"]
        if network.sliced
        else ["10.40.0.1", "10.45.0.1", "fd10::1"]
    )
    assert node.add(pod(), asked).result["code"] == 101
    assert [held(network.world, name) for name in pools] == [{(first.container, "net1")}] * 3


def test_an_address_cools_as_long_as_another_one_is_free(network: Network) -> None:
    """Case T30: then the one released longest ago."""
    _, asked = network.small()
    asked["ipam"]["address_cooldown"] = 3600
    node, first, second = network.world.node("n1"), pod(), pod()
    assert node.add(first, asked).address == "10.40.0.1"
    node.delete(first, asked)
    assert node.add(second, asked).address == "10.40.0.2"
    node.delete(second, asked)
    assert node.add(pod(), asked).address == "10.40.0.1"
    assert node.add(pod(), asked).address == "10.40.0.2"


@pytest.mark.parametrize(
    "change",
    [{"ipam": {"type": "whereabouts"}}, {"exclude": ["10.40.0.0/99"]}],
    ids=["only a type", "malformed exclude"],
)
def test_a_del_needs_no_valid_configuration(network: Network, change: dict[str, Any]) -> None:
    """Case T35: found by container id and interface."""
    name = network.opened()
    node, one, other = network.world.node("n1"), pod(), pod()
    for who in (one, other):
        assert node.add(who, network.asked()).code == 0
    asked = {**network.asked(), **change}
    if "exclude" in change:
        asked = network.asked(**change)
    outcome = node.delete(one, asked)
    assert (outcome.code, outcome.stdout) == (0, "")
    assert held(network.world, name) == {(other.container, "net1")}


def test_status_tells_what_stands_in_the_way(network: Network) -> None:
    """Case T44: the API server down, no pool, all fine."""
    world, asked = network.world, network.asked()
    assert world.node("n1", wait_seconds=0.1).status(asked).result["code"] == 50
    network.opened()
    node = world.node("n1")
    assert node.status(asked).code == 0
    grow_old(node)
    down = world.cluster.kubeconfig_for(server="https://127.0.0.1:1")
    flat = json.loads(node.flat_file.read_text())
    node.flat_file.write_text(json.dumps({**flat, "kubernetes": {"kubeconfig": str(down)}}))
    assert node.status(asked).result["code"] == 50


def test_gc_frees_what_this_node_holds_and_the_runtime_does_not_list(network: Network) -> None:
    """Case T44: two of three; other nodes untouched."""
    world, asked = network.world, network.asked()
    name = network.opened()
    neighbour, node, theirs = world.node("n2"), world.node("n1"), pod()
    if not network.sliced:
        assert neighbour.add(theirs, asked).code == 0
    pods = [pod() for _ in range(3)]
    for one in pods:
        assert node.add(one, asked).code == 0
    kept = {(one.container, "net1") for one in pods[:2]}
    assert node.collect(asked, *kept).code == 0
    expected = kept | (set() if network.sliced else {(theirs.container, "net1")})
    assert held(world, name) == expected


def test_addresses_freed_behind_the_hint_are_given_without_asking_for_more(
    network: Network, proxy: Proxy
) -> None:
    """Case U2: the hint says full, the controller has freed a leaked entry meanwhile."""
    name, asked = network.small()
    node = network.world.node("n1", kubeconfig=proxy.kubeconfig)
    for _ in range(2):
        assert node.add(pod(), asked).code == 0
    path = network.world.pool_path(name)
    network.world.api.patch(path, [{"op": "remove", "path": "/spec/allocations/2"}])
    assert node.add(pod(), asked).address == "10.40.0.2"
    assert not any(asks_for_more(one) for one in proxy.requests)


def asks_for_more(request: Request) -> bool:
    return b"whereabouts-fast.io" in request.body


def test_configurations_that_list_the_ranges_in_other_orders_share_them(network: Network) -> None:
    """Case U5: many ADDs on both at once; no deadlock, all succeed."""
    pools, asked = network.ranged(*RANGES[:2])
    mirrored = json.loads(json.dumps(asked))
    mirrored["ipam"]["ipRanges"].reverse()
    node, pods = network.world.node("n1"), [pod() for _ in range(16)]
    with ThreadPoolExecutor(8) as threads:
        outcomes = list(
            threads.map(
                lambda number: node.add(pods[number], (asked, mirrored)[number % 2]),
                range(len(pods)),
            )
        )
    given = [text for outcome in outcomes for text in addresses(outcome.result)]
    assert len(set(given)) == 2 * len(pods)
    assert [len(held(network.world, name)) for name in pools] == [len(pods)] * 2


def test_16_nodes_that_hammer_one_network_all_get_what_the_pools_record(network: Network) -> None:
    """Adds and deletions at once: all succeed, all that live are distinct."""
    # How long it takes is a matter of the machine: no call may fail for that.
    patient = {"add_deadline_seconds": 50, "del_deadline_seconds": 50}
    world, asked = network.world, network.asked(address_cooldown=0, **patient)
    names = [f"n{number}" for number in range(16)]
    pools = network.for_nodes(names)
    nodes = [world.node(name) for name in names]

    def live(number: int) -> dict[str, str]:
        """Two pods come to a node and the first of them goes: what is left, and its address."""
        node, first, second = nodes[number % 16], pod(), pod()
        assert node.add(first, asked).code == 0
        given = node.add(second, asked).address
        assert node.delete(first, asked).code == 0
        return {given: second.container}

    with ThreadPoolExecutor(16) as threads:
        left = list(threads.map(live, range(32)))
    recorded = {}
    for name in pools:
        found = world.api.get(world.pool_path(name))["spec"]
        base = int(found["range"].partition("/")[0].rpartition(".")[2])
        for offset, entry in found["allocations"].items():
            recorded[f"10.40.0.{base + int(offset)}"] = entry["id"]
    assert len(recorded) == 32
    assert recorded == {address: container for one in left for address, container in one.items()}
