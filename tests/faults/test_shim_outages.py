"""A server that is away for long, a node that is cut off and loses its slice, clocks that jump."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hack.cluster.server import Cluster
from tests.faults.actions import CutBeforeSending
from tests.faults.proxy import Proxy
from tests.faults.test_shim_callers import MODES, opened
from tests.integration import controller_process as control
from tests.shim.world import CheckedNode, World, config, pod

DEADLINE = 2
SLACK = 3  # seconds that a busy machine may take for starting a process and ending it


@contextmanager
def stopped(cluster: Cluster) -> Iterator[None]:
    cluster.stop_server()
    yield
    cluster.start_server()


@contextmanager
def paused(cluster: Cluster) -> Iterator[None]:
    """The server takes connections and says nothing."""
    os.kill(cluster.pids["kube-apiserver"], signal.SIGSTOP)
    yield
    os.kill(cluster.pids["kube-apiserver"], signal.SIGCONT)


@pytest.mark.parametrize("away", [stopped, paused])
def test_while_the_api_server_is_away_calls_fail_with_11_in_time_and_afterwards_all_is_well(
    own_cluster: Cluster, shim: Path, tmp_path: Path, away: Any
) -> None:
    world = World(own_cluster, own_cluster.api, shim, tmp_path)
    (sliced,), shared = world.slices("n1"), world.shared("10.50.0.0/24", network="green")
    green = {**config("10.50.0.0/24", network="green"), "cniVersion": "1.1.0"}
    del green["ipam"]["node_slice_size"]
    limits = {"add_deadline_seconds": DEADLINE, "del_deadline_seconds": DEADLINE}
    node, stranger = (world.node("n1", wait_seconds=1, **limits) for _ in range(2))
    kept, gone, new = pod(), pod(), pod()
    for asked in (config(), green):
        assert (node.add(kept, asked).code, node.add(gone, asked).code) == (0, 0)
    with away(own_cluster):
        for asked, caller in ((config(), node), (green, node), (config(), stranger)):
            for outcome in (caller.add(new, asked), caller.delete(gone, asked)):
                assert outcome.result["code"] == 11
                assert "gives no answer" in outcome.result["msg"]
                assert outcome.seconds < DEADLINE + SLACK
    for name, asked in ((sliced, config()), (shared, green)):
        assert node.delete(gone, asked).code == 0
        assert node.add(new, asked).code == 0
        found = {entry["id"] for entry in world.allocations(name).values()}
        assert found == {kept.container, new.container}


def test_a_node_that_was_cut_off_takes_and_frees_nothing_in_a_slice_that_is_anothers_by_now(
    world: World, proxy: Proxy, tmp_path: Path
) -> None:
    """Cut off, deleted, its only slice dealt on; then it returns with all that it remembers."""
    api = world.api
    control.create_node(api, "n1")
    control.create_nad(api, range="10.40.0.0/26", node_slice_cooldown=0)
    asked = config("10.40.0.0/26")
    lost = "blue-n1-10.40.0.0-26"
    node = world.node("n1", kubeconfig=proxy.kubeconfig, wait_seconds=0.5, address_cooldown=0)
    old, late = pod(), pod()
    with control.running(world.cluster.kubeconfig, tmp_path) as controller:
        control.wait_open(api, {lost})
        assert node.add(old, asked).address == "10.40.0.1"
        proxy.inject(CutBeforeSending())
        assert node.add(late, asked).result["code"] == 11
        api.delete(f"{control.NODES}/n1")
        control.create_node(api, "n2")
        control.drop(api, lost, 1)  # what becomes of a pod whose node is gone for good
        theirs = "blue-n2-10.40.0.0-26"
        control.wait_open(api, {theirs})
        other = world.node("n2")
        assert other.add(pod(), asked).address == "10.40.0.1"
        held = world.allocations(theirs)
        assert node.delete(old, asked).code == 1  # still cut off
        proxy.clear()
        world.forget_requests()
        assert node.add(late, asked).result["code"] in (11, 101)
        assert ("patch", "ippools", 200) not in world.requests()
        for one in (old, late):
            assert node.delete(one, asked).code == 0
        assert world.allocations(theirs) == held
        # Back among the nodes, it is served as soon as there is room.
        control.create_node(api, "n1")
        api.delete(f"{control.NODES}/n2")
        control.drop(api, theirs, 1)
        control.wait_open(api, {lost})
        assert node.add(late, asked).address == "10.40.0.1"
        assert controller.process.poll() is None
    assert {entry["id"] for entry in world.allocations(lost).values()} == {late.container}


HOUR = 3600.0


def shift(node: CheckedNode, seconds: float) -> None:
    """Write all that a node remembers as if its clock had been another then."""
    for path in node.hints.glob("*.json"):
        data = json.loads(path.read_text())
        for known in data[6]:
            known[5] = {offset: at + seconds for offset, at in known[5].items()}
        data[7] += seconds
        path.write_text(json.dumps(data))
    for path in node.hints.glob("del/*"):
        stamp = path.stat().st_mtime_ns + int(seconds * 1e9)
        os.utime(path, ns=(stamp, stamp))


@MODES
@pytest.mark.parametrize("jump", [HOUR, -HOUR], ids=["forward", "back"])
def test_moments_of_another_clock_cost_no_address_and_hold_nothing_up(
    world: World, mode: str, jump: float
) -> None:
    name, asked = opened(world, mode)
    asked = {**asked, "cniVersion": "1.1.0"}
    asked["ipam"]["address_cooldown"] = 60
    node = world.node("n1", wait_seconds=1)
    kept, gone = pod(), pod()
    assert [node.add(one, asked).address for one in (kept, gone)] == ["10.40.0.1", "10.40.0.2"]
    assert node.delete(gone, asked).code == 0
    shift(node, jump)
    # A mark of then is not taken for a DEL of now; a live address is nobody else's.
    assert node.add(kept, asked).address == "10.40.0.1"
    again = node.add(gone, asked).address
    # Released at a moment that is yet to come: it cools from now on; long ago: it has cooled.
    assert again == ("10.40.0.3" if jump > 0 else "10.40.0.2")
    for one in (kept, gone):
        assert node.delete(one, asked).code == 0
    assert world.allocations(name) == {}


@pytest.mark.parametrize("jump", [HOUR, -HOUR], ids=["forward", "back"])
def test_a_contact_of_another_clock_is_none(world: World, jump: float) -> None:
    world.slices("n1")
    asked = {**config(), "cniVersion": "1.1.0"}
    node = world.node("n1")
    assert node.add(pod(), asked).code == 0
    shift(node, jump)
    world.forget_requests()
    assert node.status(asked).code == 0
    assert sum(world.requests().values()) == 1


def test_an_address_released_in_the_future_cools_no_longer_than_any_other(world: World) -> None:
    world.slices("n1")
    asked = config(address_cooldown=2)
    node, gone = world.node("n1"), pod()
    assert node.add(gone, asked).address == "10.40.0.1"
    assert node.delete(gone, asked).code == 0
    shift(node, HOUR)
    assert node.add(pod(), asked).address == "10.40.0.2"
    begin = time.monotonic()
    given = ""
    while given != "10.40.0.1":
        assert time.monotonic() < begin + 30
        given = node.add(pod(), asked).address
