"""SIGKILL at any write while a pool opens over another, and while it goes again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.cluster.api import Api
from hack.cluster.server import Cluster
from tests.faults.proxy import Proxy
from tests.faults.test_controller_kill import Point, Scene
from tests.integration.controller_process import (
    GROUP,
    POOLS,
    create_nad,
    create_node,
    drop,
    fill,
    nad_path,
    pools,
    wait_gone,
    wait_open,
)

RESERVATIONS = f"{GROUP}/namespaces/ipam-system/overlappingrangeipreservations"
SLICE, SHARED = "n1-10.40.0.0-26", "10.40.0.0-16"
# The table's condition, the pool, two marks, two reservations, the opening.
OPENING = [
    *(Point("open", "write", n, stored=True) for n in range(1, 8)),
    *(Point("open", "write", n, stored=False) for n in (2, 4, 6, 7)),
]
# After the pool's last address: deletion, the token, the mark.
GOING = [Point("go", "write", n, stored=True) for n in range(1, 4)]


def marks(api: Api) -> set[str]:
    return {name for name, pool in pools(api).items() if pool["spec"].get("overlapping")}


def reservations(api: Api) -> dict[str, dict[str, str]]:
    return {i["metadata"]["name"]: i["spec"] for i in api.get(RESERVATIONS)["items"]}


@pytest.fixture
def scene(cluster: Cluster, api: Api, tmp_path: Path) -> Iterator[Scene]:
    """A controller, and a slice with two addresses."""
    with Proxy(cluster) as proxy:
        scene = Scene(proxy, tmp_path)
        try:
            create_node(api, "n1")
            create_nad(api, "a", network_name=None)
            wait_open(api, {SLICE})
            for offset in (1, 9):
                fill(api, SLICE, offset)
            yield scene
        finally:
            scene.controller.close()


def overlap(api: Api) -> None:
    create_nad(api, "b", network_name=None, node_slice_size=None, range="10.40.0.0/16")


@pytest.mark.parametrize("point", OPENING, ids=str)
def test_a_killed_controller_leaves_nothing_open_over_what_is_not_reserved(
    api: Api, scene: Scene, point: Point
) -> None:
    scene.kill_at(point)
    overlap(api)
    scene.controller.process.wait(timeout=30)
    found = pools(api)
    if SHARED in found and not found[SHARED]["spec"].get("closed"):
        assert len(reservations(api)) == 2
    scene.restart_when_dead()
    wait_open(api, {SLICE, SHARED})
    assert marks(api) == {SLICE, SHARED}
    assert reservations(api) == {
        f"10.40.0.{n}": {"podref": "tenant/p1", "containerid": f"c-{n}", "ifname": "net1"}
        for n in (1, 9)
    }
    assert scene.died


@pytest.mark.parametrize("point", GOING, ids=str)
def test_a_killed_controller_leaves_no_mark_behind(api: Api, scene: Scene, point: Point) -> None:
    overlap(api)
    wait_open(api, {SLICE, SHARED})
    fill(api, SHARED, 300)
    api.delete(f"{nad_path()}/b")
    wait_open(api, {SLICE})
    scene.kill_at(point)
    drop(api, SHARED, 300)
    scene.restart_when_dead()
    wait_gone(api, POOLS, SHARED)
    api.wait_for(POOLS, lambda items: not any(i["spec"].get("overlapping") for i in items))
    assert scene.died
