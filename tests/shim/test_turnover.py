"""Nodes go with their pods alive, and others come: who waits is served, and nobody shares."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hack.cluster.simnode import Pod
from tests.faults.history import History
from tests.faults.rules import Given, Replay
from tests.integration.controller_process import (
    NODES,
    POOLS,
    condition,
    create_nad,
    create_node,
    holders,
    pools,
    running,
    wait_open,
    wait_table,
)
from tests.integration.pods import create_pod, delete_pod
from tests.shim.world import CheckedNode, World, config
from whereabouts_fast.ipam import naming

OLD, NEW = [f"n{number}" for number in range(10)], [f"new{number}" for number in range(3)]
GOING = OLD[:3]
# Ten slices, one for each node.
ASKED = config(size="/28", exclude=["10.40.0.160/27", "10.40.0.192/26"], node_slice_cooldown=0.2)


class Cluster:
    """Nodes with plugins, and the pods that run on them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.nodes: dict[str, CheckedNode] = {}
        self.pods: dict[str, list[Pod]] = {}
        self.given: list[Given] = []

    def join(self, *names: str) -> None:
        for name in names:
            create_node(self.world.api, name)
            self.nodes[name] = self.world.node(name, address_cooldown=0)

    def run(self, node: str, count: int) -> None:
        for number in range(count):
            name = f"{node}-{number}"
            uid = create_pod(self.world.api, name, node=node)
            pod = Pod(name, uid, f"container-{name}")
            address = self.nodes[node].add(pod, ASKED).address
            self.given.append(Given(address, pod.container))
            self.pods.setdefault(node, []).append(pod)

    def end(self, node: str, *, told: bool) -> None:
        """Delete a node's pods; `told`: its plugin is called, as by a node that still runs."""
        for pod in self.pods.pop(node):
            delete_pod(self.world.api, pod.name)
            if told:
                assert self.nodes[node].delete(pod, ASKED).code == 0


def open_to(world: World, names: list[str]) -> dict[str, Any]:
    """Wait until these nodes, and no others, have one open pool each."""
    held = wait_table(
        world.api,
        lambda held: sorted(n for n, state in held.values() if state == "Active") == sorted(names),
    )
    active = {cidr: node for cidr, (node, state) in held.items() if state == "Active"}
    return wait_open(world.api, {naming.ip_pool(c, "blue", node) for c, node in active.items()})


def test_newcomers_get_the_slices_of_nodes_that_went_once_their_last_pods_have(
    world: World, tmp_path: Path
) -> None:
    api, cluster = world.api, Cluster(world)
    quick = ("--leak-grace", "0.2", "--leak-grace-lost", "0.5")
    with History(api) as history, running(world.cluster.kubeconfig, tmp_path, *quick):
        create_nad(api, text=json.dumps(ASKED))
        cluster.join(*OLD)
        open_to(world, OLD)
        for name in OLD:
            cluster.run(name, 2)
        first = holders(api)
        assert len(first) == len(OLD)
        for name in GOING:
            api.delete(f"{NODES}/{name}")
        cluster.join(*NEW)
        stay = [name for name in OLD if name not in GOING]
        open_to(world, stay)
        # Their pods still live, so their slices are nobody else's.
        api.wait_for(POOLS, lambda items: sum(bool(i["spec"].get("closed")) for i in items) == 3)
        wait_table(api, lambda held: first.keys() == held.keys())
        assert condition(api, "Exhausted")["status"] == "True"
        for told, name in zip((True, False, False), GOING, strict=True):
            cluster.end(name, told=told)
        open_to(world, stay + NEW)
        for name in NEW:
            cluster.run(name, 2)
        found = holders(api)
        assert found.keys() == first.keys()
        assert {found[cidr] for cidr, (node, _) in first.items() if node in GOING} == {
            (name, "Active") for name in NEW
        }
        assert all(found[cidr] == one for cidr, one in first.items() if one[0] in stay)
        assert pools(api).keys() == {naming.ip_pool(c, "blue", n) for c, (n, _) in found.items()}
        for name in sorted(cluster.pods):
            cluster.end(name, told=False)
        api.wait_for(POOLS, lambda items: not any(i["spec"]["allocations"] for i in items))
        assert holders(api) == found
        replay = Replay()
        replay.play(history.versions())
    replay.confirm(cluster.given)
    assert replay.seen["taken"] == replay.seen["freed"] == 2 * (len(OLD) + len(NEW))
    assert replay.seen["opened"] == len(OLD) + len(NEW)
    assert replay.seen["slices freed"] == len(GOING)
