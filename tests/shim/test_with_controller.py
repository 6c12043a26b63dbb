"""The shim on slices that the real controller deals: both find the same tables and pools."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.integration.controller_process import create_nad, create_node, running, wait_open
from tests.shim.test_several_ranges import RANGES, TABLES, addresses, ranged
from tests.shim.world import World, pod
from whereabouts_fast.ipam import naming


def opened(world: World, nodes: tuple[str, ...], slices: dict[str, tuple[str, ...]]) -> None:
    """Wait until each node has its slice of each range; slices: range -> slices in order."""
    wait_open(
        world.api,
        {
            naming.ip_pool(dealt[number], "blue", node)
            for dealt in slices.values()
            for number, node in enumerate(nodes)
        },
    )


DEALT: dict[str, tuple[str, ...]] = {
    RANGES[0]: ("10.40.0.0/26", "10.40.0.64/26"),
    RANGES[1]: ("10.45.0.0/26", "10.45.0.64/26"),
    RANGES[2]: ("fd10::/122", "fd10::40/122"),
}


def test_each_range_of_one_configuration_has_a_table_that_the_shim_finds(
    world: World, tmp_path: Path
) -> None:
    """Case T19, with the controller that deals."""
    asked = ranged(*RANGES)
    for name in ("n1", "n2"):
        create_node(world.api, name)
    create_nad(world.api, text=json.dumps(asked))
    with running(world.cluster.kubeconfig, tmp_path):
        opened(world, ("n1", "n2"), DEALT)
        first = addresses(world.node("n1").add(pod(), asked).result)
        second = addresses(world.node("n2").add(pod(), asked).result)
    assert first == ["10.40.0.1/24", "10.45.0.1/24", "fd10::1/112"]
    assert second == ["10.40.0.64/24", "10.45.0.64/24", "fd10::40/112"]


def test_two_configurations_that_list_the_ranges_in_other_orders_share_the_tables(
    world: World, tmp_path: Path
) -> None:
    """Case U5, with the controller that deals: many ADDs on both at once, no deadlock."""
    orders = [ranged(*RANGES[:2]), ranged(*reversed(RANGES[:2]))]
    create_node(world.api, "n1")
    for number, asked in enumerate(orders):
        create_nad(world.api, f"nad{number}", text=json.dumps(asked))
    with running(world.cluster.kubeconfig, tmp_path):
        opened(world, ("n1",), {text: DEALT[text] for text in RANGES[:2]})
        node, pods = world.node("n1"), [pod() for _ in range(16)]
        with ThreadPoolExecutor(8) as threads:
            given = list(
                threads.map(
                    lambda number: addresses(node.add(pods[number], orders[number % 2]).result),
                    range(len(pods)),
                )
            )
    assert len({text for pair in given for text in pair}) == 2 * len(pods)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("pool", ["n1-10.41.0.0-26", "10.41.0.0-24"], ids=["slices", "classic"])
def test_a_member_of_a_list_finds_what_was_made_for_the_list(
    world: World, tmp_path: Path, first: bool, pool: str
) -> None:
    """Case T3: a list without a network_name, our user at its begin or its end."""
    ipam = {"type": "whereabouts", "range": "10.41.0.0/24"}
    if pool.startswith("n1"):
        ipam["node_slice_size"] = "/26"
    ours: dict[str, Any] = {"type": "ipvlan", "ipam": ipam}
    plugins = [ours, {"type": "sbr"}] if first else [{"type": "sbr"}, ours]
    whole = {"cniVersion": "1.0.0", "name": "green", "plugins": plugins}
    create_node(world.api, "n1")
    create_nad(world.api, "green", text=json.dumps(whole))
    flattened = {**ours, "cniVersion": "1.0.0", "name": "green"}
    with running(world.cluster.kubeconfig, tmp_path):
        wait_open(world.api, {pool})
        assert world.node("n1").add(pod(), flattened).address == "10.41.0.1"


def test_the_tables_of_several_ranges_have_the_names_that_are_promised(
    world: World, tmp_path: Path
) -> None:
    create_node(world.api, "n1")
    create_nad(world.api, text=json.dumps(ranged(*RANGES)))
    with running(world.cluster.kubeconfig, tmp_path):
        opened(world, ("n1",), DEALT)
    found = world.api.get("/apis/whereabouts.cni.cncf.io/v1alpha1/nodeslicepools")["items"]
    assert {one["metadata"]["name"] for one in found} == set(TABLES)
