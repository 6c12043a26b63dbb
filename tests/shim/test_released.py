"""The plugin and the controller on pods that end without, before or long before their DEL."""

from __future__ import annotations

from pathlib import Path

from tests.integration.controller_process import POOLS, create_nad, create_node, nodes_of, running
from tests.integration.controller_process import holders as slices
from tests.integration.pods import (
    QUICK,
    create_pod,
    delete_pod,
    opened,
    record,
    recorded,
    set_ready,
    wait_recorded,
)
from tests.shim.world import World, config
from tests.shim.world import pod as call

POOL_1, POOL_2 = "blue-n1-10.40.0.0-26", "blue-n2-10.40.0.64-26"


def test_a_stateful_pod_moves_by_force_and_its_old_node_returns(
    world: World, tmp_path: Path
) -> None:
    """Case T26: the new address survives every step, and the old one is freed once."""
    api = world.api
    for name in ("n1", "n2"):
        create_node(api, name)
        set_ready(api, name, "True")
    create_nad(api)
    with running(world.cluster.kubeconfig, tmp_path, *QUICK) as controller:
        opened(api, POOL_1, POOL_2)
        old = call("sts-0", uid=create_pod(api, "sts-0"), container="old")
        first, second = world.node("n1"), world.node("n2")
        assert first.add(old, config()).address == "10.40.0.1"
        set_ready(api, "n1", "Unknown")
        delete_pod(api, "sts-0")
        new = call("sts-0", uid=create_pod(api, "sts-0"), container="new")
        assert second.add(new, config()).address == "10.40.0.64"
        wait_recorded(api, POOL_1, set())
        # The node is back; its kubelet ends what it still has, and calls twice.
        set_ready(api, "n1", "True")
        for _ in range(2):
            assert first.delete(old, config()).code == 0
        assert second.check(new, config(), second.add(new, config()).result).code == 0
        assert recorded(api, POOL_2) == {0}
        assert len(controller.entries("Released address")) == 1


def test_a_del_that_comes_late_frees_nothing_that_was_given_on(
    world: World, tmp_path: Path
) -> None:
    api = world.api
    create_node(api, "n1")
    create_nad(api, address_cooldown=0)
    asked = config(address_cooldown=0)
    with running(world.cluster.kubeconfig, tmp_path, *QUICK):
        opened(api, POOL_1)
        node = world.node("n1")
        gone = call("gone", uid=create_pod(api, "gone"))
        assert node.add(gone, asked).address == "10.40.0.1"
        delete_pod(api, "gone")
        wait_recorded(api, POOL_1, set())
        # The node's hint still says that it is taken; another node's would not.
        other = world.node("n1")
        next_one = call("next", uid=create_pod(api, "next"))
        assert other.add(next_one, asked).address == "10.40.0.1"
        assert node.delete(gone, asked).code == 0
        assert recorded(api, POOL_1) == {1}


def test_a_full_slice_whose_leaks_were_freed_needs_no_growth(world: World, tmp_path: Path) -> None:
    """Case U2: the hint says full; the pool is read before anything else is asked for."""
    api = world.api
    create_node(api, "n1")
    create_nad(api, range="10.40.0.0/28", node_slice_size="/30", node_slice_max=1)
    asked = config("10.40.0.0/28", "/30", node_slice_max=1)
    pool = "blue-n1-10.40.0.0-30"
    with running(world.cluster.kubeconfig, tmp_path, *QUICK):
        opened(api, pool)
        node = world.node("n1")
        for name in ("a", "b", "c"):
            assert node.add(call(name, uid=create_pod(api, name)), asked).code == 0
        for name in ("a", "b"):
            delete_pod(api, name)
        wait_recorded(api, pool, {3})
        assert node.add(call("d", uid=create_pod(api, "d")), asked).code == 0
        assert nodes_of(slices(api)) == {"n1": "10.40.0.0/30"}


def test_a_pool_that_is_deleted_in_use_comes_back_with_its_addresses(
    world: World, tmp_path: Path
) -> None:
    api = world.api
    create_node(api, "n1")
    create_nad(api)
    with running(world.cluster.kubeconfig, tmp_path, *QUICK):
        opened(api, POOL_1)
        node = world.node("n1")
        lives = call("lives", uid=create_pod(api, "lives"))
        given = node.add(lives, config())
        assert given.address == "10.40.0.1"
        record(api, POOL_1, 2, "gone", "u")
        before = api.get(world.pool_path(POOL_1))
        api.delete(world.pool_path(POOL_1))
        api.wait_for(
            POOLS,
            lambda items: any(
                not item["spec"].get("closed")
                and item["metadata"]["uid"] != before["metadata"]["uid"]
                for item in items
            ),
        )
        found = world.allocations(POOL_1)
        assert found["1"] == before["spec"]["allocations"]["1"]
        assert node.add(call("new", uid=create_pod(api, "new")), config()).address != given.address
        assert node.check(lives, config(), given.result).code == 0
        assert node.delete(lives, config()).code == 0
        # What leaked before it was deleted has leaked after.
        delete_pod(api, "new")
        wait_recorded(api, POOL_1, set())
