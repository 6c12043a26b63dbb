"""Nodes whose share grows under real calls: the plugin asks, the controller deals."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.integration.controller_process import (
    create_nad,
    create_node,
    events,
    holders,
    running,
    wait_events,
    wait_open,
)
from tests.shim.test_slices import failure
from tests.shim.world import World, config, pod

BURST = 100
# Room for a machine that does many other things; what it costs is what benchmarks are for.
PATIENT: dict[str, Any] = {"wait_seconds": 25, "address_cooldown": 0}


def test_a_burst_on_one_node_grows_its_share_without_a_failed_add(
    world: World, tmp_path: Path
) -> None:
    """16 slices of /28, four nodes: 100 ADDs on one of them, in one call each."""
    nodes = ["n1", "n2", "n3", "n4"]
    for name in nodes:
        create_node(world.api, name)
    create_nad(world.api, node_slice_size="/28")
    first = {f"blue-{name}-10.40.0.{16 * at}-28" for at, name in enumerate(nodes)}
    with running(world.cluster.kubeconfig, tmp_path) as controller:
        wait_open(world.api, first)
        node = world.node("n1", **PATIENT)
        with ThreadPoolExecutor(8) as threads:
            outcomes = list(
                threads.map(lambda _: node.add(pod(), config(size="/28")), range(BURST))
            )
        assert [outcome.code for outcome in outcomes] == [0] * BURST
        assert len({outcome.address for outcome in outcomes}) == BURST
        assert controller.stop() == 0
    held = Counter(name for name, _ in holders(world.api).values())
    # With seven 11 of 111 addresses are free, less than a tenth.
    assert held == {"n1": 8, "n2": 1, "n3": 1, "n4": 1}
    assert events(world.api, "AddressesExhausted") == []


def test_an_add_without_room_is_served_by_the_same_call(world: World, tmp_path: Path) -> None:
    """Case T40: two addresses in a slice of /30, other nodes are idle."""
    for name in ("n1", "n2", "n3", "n4"):
        create_node(world.api, name)
    create_nad(world.api, node_slice_size="/30", range_start="10.40.0.2")
    asked = config(size="/30", range_start="10.40.0.2")
    with running(world.cluster.kubeconfig, tmp_path):
        wait_open(world.api, {f"blue-n{at + 1}-10.40.0.{4 * at}-30" for at in range(4)})
        node = world.node("n1", **PATIENT)
        given = [node.add(pod(), asked).address for _ in range(3)]
    assert given == ["10.40.0.2", "10.40.0.3", "10.40.0.16"]


def test_where_a_node_may_hold_one_slice_an_add_without_room_says_so_at_once(
    world: World, tmp_path: Path
) -> None:
    """Case T40 with node_slice_max 1: error 101, which names the limit, and one event."""
    create_node(world.api, "n1")
    one: dict[str, Any] = {"node_slice_max": 1, "range_start": "10.40.0.2"}
    create_nad(world.api, node_slice_size="/30", **one)
    asked = config(size="/30", **one)
    with running(world.cluster.kubeconfig, tmp_path) as controller:
        wait_open(world.api, {"blue-n1-10.40.0.0-30"})
        node = world.node("n1", **PATIENT)
        for _ in range(2):
            assert node.add(pod(), asked).code == 0
        for _ in range(3):
            error = failure(node.add(pod(), asked))
            assert error["code"] == 101
            for part in ('"n1"', '"blue"', "10.40.0.0/30", "used 2", "total 2", "node_slice_max"):
                assert part in error["msg"]
        wait_events(world.api, "AddressesExhausted", 1)
        assert controller.stop() == 0
    assert len(events(world.api, "AddressesExhausted")) == 1
