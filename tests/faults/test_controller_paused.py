"""A leader stopped in the middle of its work wakes when another has led: it changes nothing."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hack.cluster.api import Api
from hack.cluster.server import Cluster
from tests.faults.actions import Hook, Request
from tests.faults.proxy import Proxy
from tests.integration.controller_process import (
    NODES,
    POOLS,
    TABLES,
    Controller,
    create_nad,
    create_node,
    fill,
    holders,
    pools,
    running,
    wait_gone,
    wait_open,
    wait_table,
)

FAST = ("--lease-duration", "3", "--renew-deadline", "2", "--retry-period", "0.3")
SLICE, POOL_A = "10.40.0.0/26", "blue-a-10.40.0.0-26"


@dataclass
class Sleeper:
    """Stops a controller when a request of its passes; `held` requests arrive when it wakes."""

    controller: Controller
    held: threading.Event = field(default_factory=threading.Event)
    asleep: threading.Event = field(default_factory=threading.Event)

    def sleep(self, *_: object) -> None:
        self.controller.process.send_signal(signal.SIGSTOP)
        self.asleep.set()

    def sleep_and_hold(self, *_: object) -> None:
        self.sleep()
        assert self.held.wait(60)

    def wake(self) -> None:
        self.held.set()
        self.controller.process.send_signal(signal.SIGCONT)
        self.controller.wait(lambda: self.controller.entries("Ceased to lead"), "it knows")


def creates(path: str) -> Callable[[Request], bool]:
    return lambda request: request.method == "POST" and request.path == path


def changes(path: str, method: str) -> Callable[[Request], bool]:
    return lambda request: request.method == method and request.path == path


POINTS: dict[str, tuple[Callable[[Request], bool], bool]] = {
    "table-stored": (creates(TABLES), False),
    "pool-created": (creates(POOLS), False),
    "creation-late": (creates(POOLS), True),
    "opening-late": (changes(f"{POOLS}/{POOL_A}", "PATCH"), True),
}


@pytest.mark.parametrize("point", POINTS)
def test_a_leader_that_slept_through_its_lease_opens_nothing(
    cluster: Cluster, api: Api, tmp_path: Path, point: str
) -> None:
    when, late = POINTS[point]
    create_node(api, "a")
    with (
        Proxy(cluster) as proxy,
        running(proxy.kubeconfig, tmp_path, "--identity", "one", *FAST) as one,
    ):
        one.wait(lambda: one.entries("Began to lead"), "it leads")
        sleeper = Sleeper(one)
        hook = Hook(before=sleeper.sleep_and_hold) if late else Hook(after=sleeper.sleep)
        proxy.inject(hook, when=when, times=1)
        with running(cluster.kubeconfig, tmp_path, "--identity", "two", *FAST) as two:
            create_nad(api, node_slice_cooldown=0.2)
            wait_table(api, lambda held: held == {SLICE: ("a", "Active")})
            two.wait(lambda: two.entries("Began to lead"), "the other leads")
            assert sleeper.asleep.is_set()
            wait_open(api, {POOL_A})
            api.delete(f"{NODES}/a")
            wait_table(api, lambda held: held == {})
            create_node(api, "z")
            wait_table(api, lambda held: held == {SLICE: ("z", "Active")})
            slept = api.get(POOLS)["metadata"]["resourceVersion"]
            sleeper.wake()
            wait_gone(api, POOLS, POOL_A)
            found = wait_open(api, {"blue-z-10.40.0.0-26"})
            assert found.keys() == {"blue-z-10.40.0.0-26"}
            assert two.stop() == 0
    never_open(api, POOL_A, since=slept)
    assert holders(api) == {SLICE: ("z", "Active")}


def never_open(api: Api, pool: str, *, since: str) -> None:
    """See in the history that a pool was never open."""
    watched = api.watch(POOLS, resourceVersion=since, seconds=2)
    try:
        for event in watched:
            item = event["object"]
            assert item["metadata"]["name"] != pool or item["spec"].get("closed"), event
    except TimeoutError:
        pass


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
def test_a_leader_that_slept_takes_nothing_back_from_a_node_that_returned(
    cluster: Cluster, api: Api, tmp_path: Path, method: str
) -> None:
    """Its closing or its deletion arrives when the slice is in use again."""
    create_node(api, "a")
    create_nad(api)
    with (
        Proxy(cluster) as proxy,
        running(proxy.kubeconfig, tmp_path, "--identity", "one", *FAST) as one,
    ):
        wait_open(api, {POOL_A})
        uid = pools(api)[POOL_A]["metadata"]["uid"]
        sleeper = Sleeper(one)
        proxy.inject(
            Hook(before=sleeper.sleep_and_hold),
            when=changes(f"{POOLS}/{POOL_A}", method),
            times=1,
        )
        with running(cluster.kubeconfig, tmp_path, "--identity", "two", *FAST) as two:
            api.delete(f"{NODES}/a")
            assert sleeper.asleep.wait(30)
            create_node(api, "a")
            two.wait(lambda: two.entries("Began to lead"), "the other leads")
            wait_table(api, lambda held: held == {SLICE: ("a", "Active")})
            wait_open(api, {POOL_A})
            fill(api, POOL_A, 5)
            sleeper.wake()
            wait_open(api, {POOL_A})
            found = pools(api)[POOL_A]
            assert found["metadata"]["uid"] == uid
            assert "5" in found["spec"]["allocations"]
            assert holders(api) == {SLICE: ("a", "Active")}
            assert two.stop() == 0


def test_the_other_goes_on_when_the_leader_is_killed_in_the_middle(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    names = [f"n{number}" for number in range(8)]
    for name in names:
        create_node(api, name)
    with (
        Proxy(cluster) as proxy,
        running(proxy.kubeconfig, tmp_path, "--identity", "one", *FAST) as one,
    ):
        one.wait(lambda: one.entries("Began to lead"), "it leads")
        # All slices are dealt, some pools exist, a few are open.
        proxy.inject(Hook(after=lambda *_: one.kill()), when=creates(POOLS), first=5, times=1)
        with running(cluster.kubeconfig, tmp_path, "--identity", "two", *FAST) as two:
            create_nad(api, node_slice_size="/28")
            dealt = wait_table(api, lambda held: len(held) == len(names))
            wait_open(api, {f"blue-{n}-{cidr.replace('/', '-')}" for cidr, (n, _) in dealt.items()})
            assert one.process.returncode is not None
            # Nobody's slice has moved for it, and it was not the lease's end that was waited for
            # but the lease itself: the other began once, after it.
            assert holders(api) == dealt
            assert len(two.entries("Began to lead")) == 1
            assert two.stop() == 0
