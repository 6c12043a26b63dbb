"""SIGKILL at any request of deal, drain and reclaim: a restart ends in the same table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hack.cluster.api import Api
from hack.cluster.server import Cluster
from tests.faults.actions import Hook, Request
from tests.faults.proxy import Proxy
from tests.integration.controller_process import (
    GROUP,
    NODES,
    Controller,
    Holders,
    create_nad,
    create_node,
    fill,
    holders,
    pools,
    wait_open,
    wait_table,
)

A, B, C, D = "10.40.0.0/26", "10.40.0.64/26", "10.40.0.128/26", "10.40.0.192/26"
FULL = {A: ("a", "Active"), B: ("b", "Active"), C: ("c", "Active"), D: ("d", "Active")}
# a's pod still runs; b was empty, and its slice went to e, which waited.
RECLAIMED = {**FULL, A: ("a", "Draining"), B: ("e", "Active")}


@dataclass(frozen=True)
class Point:
    """The n-th request of a sort in a phase; `stored`: the server has done it before the kill."""

    phase: str
    sort: str
    n: int
    stored: bool

    def __str__(self) -> str:
        return f"{self.phase}-{'after' if self.stored else 'before'}-{self.sort}-{self.n}"

    def matches(self, request: Request) -> bool:
        ours = request.path.startswith(GROUP) and not request.is_watch
        single = request.path.count("/") == GROUP.count("/") + 4
        return ours and (
            request.is_write if self.sort == "write" else single and not request.is_write
        )


# Deal: the table, four pools, four openings. Reclaim: draining, two closings, a deletion, cooling,
# free and dealt again in one, a pool and its opening.
POINTS = [
    *(Point("deal", "write", n, stored=True) for n in range(1, 10)),
    *(Point("deal", "write", n, stored=False) for n in (1, 2, 6, 9)),
    *(Point("deal", "read", n, stored=True) for n in (1,)),
    *(Point("reclaim", "write", n, stored=True) for n in range(1, 9)),
    *(Point("reclaim", "write", n, stored=False) for n in (1, 2, 4, 5, 6, 7, 8)),
    *(Point("reclaim", "read", n, stored=True) for n in (1, 2)),
]


class Scene:
    """A controller behind the proxy that dies at one point, and its successor."""

    def __init__(self, proxy: Proxy, folder: Path) -> None:
        self._proxy = proxy
        self._folder = folder
        self.controller = self.start()
        self.died = False

    def start(self) -> Controller:
        return Controller(self._proxy.kubeconfig, self._folder, "--identity", "k")

    def kill_at(self, point: Point) -> None:
        victim = self.controller

        def kill(*_: object) -> None:
            victim.kill()
            self.died = True

        hook = Hook(after=kill) if point.stored else Hook(before=kill)
        self._proxy.inject(hook, when=point.matches, first=point.n, times=1)

    def restart_when_dead(self) -> None:
        self.controller.process.wait(timeout=30)
        self._proxy.clear()
        self.controller = self.start()


@pytest.fixture
def scene(cluster: Cluster, api: Api, tmp_path: Path) -> Iterator[Scene]:
    assert pools(api) == {}
    with Proxy(cluster) as proxy:
        scene = Scene(proxy, tmp_path)
        try:
            yield scene
        finally:
            scene.controller.close()


def prepare(api: Api) -> None:
    for name in ("a", "b", "c", "d", "e"):
        create_node(api, name)
    create_nad(api, node_slice_cooldown=0.2)


def dealt(api: Api) -> Holders:
    held = wait_table(api, lambda held: len(held) == 4)
    wait_open(api, {f"blue-{name}-{cidr.replace('/', '-')}" for cidr, (name, _) in FULL.items()})
    return held


def reclaimed(api: Api) -> Holders:
    held = wait_table(api, lambda held: held.get(B) == ("e", "Active") and held[A][1] != "Active")
    wait_open(api, {f"blue-{n}-{s.replace('/', '-')}" for n, s in (("e", B), ("c", C), ("d", D))})
    return held


@pytest.mark.parametrize("point", POINTS, ids=str)
def test_a_killed_controller_ends_in_the_same_table(api: Api, scene: Scene, point: Point) -> None:
    if point.phase == "deal":
        scene.kill_at(point)
        prepare(api)
        scene.restart_when_dead()
    else:
        prepare(api)
    assert dealt(api) == FULL
    fill(api, "blue-a-10.40.0.0-26", 5)
    if point.phase == "reclaim":
        scene.kill_at(point)
    for name in ("a", "b"):
        api.delete(f"{NODES}/{name}")
    if point.phase == "reclaim":
        scene.restart_when_dead()
    assert reclaimed(api) == RECLAIMED
    assert scene.died
    found = pools(api)
    assert found.keys() == {f"blue-{n}-{s.replace('/', '-')}" for s, (n, _) in RECLAIMED.items()}
    assert found["blue-a-10.40.0.0-26"]["spec"]["closed"] is True
    assert "5" in found["blue-a-10.40.0.0-26"]["spec"]["allocations"]
    assert holders(api) == RECLAIMED
