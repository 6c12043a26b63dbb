"""Nodes that run full, and the real controller that deals them more slices, or does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.integration.controller_process import (
    Controller,
    create_nad,
    create_node,
    events,
    holders,
    running,
    wait_events,
    wait_open,
)
from tests.shim.world import World, config, pod
from whereabouts_fast.ipam import naming

# The range's first slice has two usable addresses, .1 and .2, and each other one four.
SMALL: dict[str, Any] = {"size": "/30", "exclude": ["10.40.0.3"]}
FIRST = "blue-n1-10.40.0.0-30"
NODES = ("n1", "n2", "n3", "n4")


@contextmanager
def dealt(world: World, folder: Path, asked: dict[str, Any]) -> Iterator[Controller]:
    """Four nodes with a slice each."""
    for name in NODES:
        create_node(world.api, name)
    create_nad(world.api, text=json.dumps(asked))
    with running(world.cluster.kubeconfig, folder) as controller:
        wait_open(
            world.api,
            {f"blue-{name}-10.40.0.{4 * number}-30" for number, name in enumerate(NODES)},
        )
        yield controller


def held(world: World, node: str) -> list[str]:
    """The slices of a node in the table, lowest first."""
    found = [cidr for cidr, (name, _) in holders(world.api).items() if name == node]
    return sorted(found, key=lambda cidr: int(cidr.partition("/")[0].rpartition(".")[2]))


def test_the_add_that_finds_its_slice_full_is_served_while_other_nodes_are_idle(
    world: World, tmp_path: Path
) -> None:
    """Case T40: the third ADD, in the same call or the runtime's next."""
    asked = config(**SMALL)
    with dealt(world, tmp_path, asked):
        node = world.node("n1", wait_seconds=20)
        given = [node.add(pod(), asked).address for _ in range(3)]
    assert given == ["10.40.0.1", "10.40.0.2", "10.40.0.16"]
    assert held(world, "n1") == ["10.40.0.0/30", "10.40.0.16/30"]
    assert [len(held(world, name)) for name in NODES[1:]] == [1, 1, 1]


def test_an_add_that_waits_is_served_by_a_controller_that_comes_back(
    world: World, tmp_path: Path
) -> None:
    """Case T40, where the node fills up while nobody leads: its `want` is what is heard."""
    asked = config(**SMALL)
    with dealt(world, tmp_path, asked) as controller:
        assert controller.stop() == 0
    node = world.node("n1", wait_seconds=25)
    for _ in range(2):
        assert node.add(pod(), asked).code == 0
    waiting = [node.start("ADD", pod(), asked) for _ in range(3)]
    world.api.wait_for(
        world.pool_path("").rstrip("/"),
        lambda items: any(
            naming.ANNOTATION_WANT in item["metadata"].get("annotations", {}) for item in items
        ),
    )
    with running(world.cluster.kubeconfig, tmp_path):
        ends = [process.communicate(timeout=60) for process in waiting]
    assert [err for _, err in ends] == ["", "", ""]
    given = {json.loads(out)["ips"][0]["address"] for out, _ in ends}
    assert given == {f"10.40.0.{last}/24" for last in (16, 17, 18)}
    assert held(world, "n1") == ["10.40.0.0/30", "10.40.0.16/30"]


def test_a_node_that_may_hold_no_more_is_told_why_at_once_and_the_cluster_by_one_event(
    world: World, tmp_path: Path
) -> None:
    """Case T40 with node_slice_max 1: error 101 and one event."""
    asked = config(**SMALL, node_slice_max=1)
    with dealt(world, tmp_path, asked):
        node = world.node("n1", wait_seconds=25)
        first = pod()
        for one in (first, pod()):
            assert node.add(one, asked).code == 0
        for _ in range(3):
            outcome = node.add(pod(), asked)
            assert outcome.result["code"] == 101
            for part in (
                *('network "blue"', 'node "n1"', "10.40.0.0/30", "used 2", "total 2"),
                "node_slice_max is 1",
            ):
                assert part in outcome.result["msg"]
            assert outcome.seconds < 20
        wait_events(world.api, "AddressesExhausted", 1)
        # An address that comes free is given without asking anybody.
        assert node.delete(first, asked).code == 0
        assert node.add(pod(), asked).address == "10.40.0.1"
    assert len(events(world.api, "AddressesExhausted")) == 1
    assert held(world, "n1") == ["10.40.0.0/30"]
