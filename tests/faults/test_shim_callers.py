"""ADDs whose caller has given up, was killed, or does not listen: nothing is kept for them."""

from __future__ import annotations

import json
import os
import select
import signal
from pathlib import Path
from typing import Any

import pytest

from hack.cluster.simnode import Pod, SimulatedNode
from tests.faults.actions import Gate, Hold
from tests.faults.proxy import Proxy
from tests.faults.test_shim_state import patches
from tests.shim.world import World, classic, config, pod

MODES = pytest.mark.parametrize("mode", ["slices", "classic"])


def opened(world: World, mode: str) -> tuple[str, dict[str, Any]]:
    """A pool that n1 may use, and the configuration for it."""
    if mode == "classic":
        return world.shared(), classic()
    return world.slices("n1")[0], config()


def test_an_add_that_a_del_overtakes_gives_its_address_back_and_fails(
    world: World, proxy: Proxy
) -> None:
    (name,) = world.slices("n1")
    node = world.node("n1", kubeconfig=proxy.kubeconfig)
    node.add(pod(), config())
    gate = Gate()
    proxy.inject(Hold(gate, after_reply=True), when=patches, times=1)
    one = pod()
    adding = node.start("ADD", one, config())
    gate.wait_until_reached()
    deleting = node.start("DEL", one, config())
    while not list(node.hints.glob(f"del/{one.container}*net1")):
        assert deleting.poll() is None
        select.select([], [], [], 0.005)
    gate.open()
    out, err = adding.communicate(timeout=60)
    assert (adding.returncode, err) == (1, "")
    assert json.loads(out)["code"] == 11
    assert deleting.communicate(timeout=60)[0] == ""
    assert deleting.returncode == 0
    assert set(world.allocations(name)) == {"1"}


class Caller:
    """A delegating plugin: it starts the shim, and is killed alone."""

    def __init__(self, node: SimulatedNode, folder: Path) -> None:
        self._node = node
        self._out, self._number = folder / "out", folder / "pid"
        self._script = folder / "caller"
        self._script.write_text(
            f"#!/bin/sh\nexec 3<&0\n{node.shim} <&3 >{self._out} 2>&1 3<&- &\n"
            f"echo $! >{self._number}\nwait\n"
        )
        self._script.chmod(0o755)

    def add(self, one: Pod, asked: dict[str, Any]) -> None:
        """Begin an ADD."""
        shim, self._node.shim = self._node.shim, self._script
        self._process = self._node.start("ADD", one, asked)
        self._node.shim = shim

    def kill(self) -> None:
        """Kill the caller and nothing else."""
        self._shim = os.pidfd_open(int(self._number.read_text()))
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def result(self) -> dict[str, Any]:
        """Wait for the orphaned shim's end and return what it had to say."""
        assert select.select([self._shim], [], [], 60)[0]
        os.close(self._shim)
        self._process.communicate()
        answer: dict[str, Any] = json.loads(self._out.read_text())
        return answer


@MODES
@pytest.mark.parametrize("answered", [True, False])
@pytest.mark.parametrize("deleted", [True, False])
def test_an_add_whose_caller_was_killed_gives_its_address_back(
    world: World, proxy: Proxy, tmp_path: Path, mode: str, answered: bool, deleted: bool
) -> None:
    """Case U4: address given back, ADD fails; also when the patch's answer was lost besides."""
    name, asked = opened(world, mode)
    node, kept = world.node("n1", kubeconfig=proxy.kubeconfig), pod()
    node.add(kept, asked)
    gate = Gate()
    proxy.inject(Hold(gate, after_reply=True), when=patches, times=1)
    one, caller = pod(), Caller(node, tmp_path)
    caller.add(one, asked)
    gate.wait_until_reached()
    caller.kill()
    if not answered:
        proxy.cut(patches)
    deleting = [node.start("DEL", one, asked)] if deleted else []
    gate.open()
    assert caller.result()["code"] == 11
    assert [process.communicate(timeout=60) for process in deleting] == [("", "")] * deleted
    assert [entry["id"] for entry in world.allocations(name).values()] == [kept.container]


def test_an_address_that_another_call_was_answered_with_is_not_given_back(
    world: World, proxy: Proxy, tmp_path: Path
) -> None:
    (name,) = world.slices("n1")
    node = world.node("n1", kubeconfig=proxy.kubeconfig)
    node.add(pod(), config())
    gate = Gate()
    proxy.inject(Hold(gate, after_reply=True), when=patches, times=1)
    one, caller = pod(), Caller(node, tmp_path)
    caller.add(one, config())
    gate.wait_until_reached()
    caller.kill()
    with node.start("ADD", one, config()) as second:
        gate.open()
        assert caller.result()["code"] == 11
        out, _ = second.communicate(timeout=60)
    offset = json.loads(out)["ips"][0]["address"].removeprefix("10.40.0.").removesuffix("/24")
    held = {key: entry["id"] for key, entry in world.allocations(name).items()}
    assert held[offset] == one.container
    assert len(held) == 2


def test_an_answer_that_nobody_reads_is_given_back(world: World, proxy: Proxy) -> None:
    (name,) = world.slices("n1")
    node = world.node("n1", kubeconfig=proxy.kubeconfig)
    node.add(pod(), config())
    gate = Gate()
    proxy.inject(Hold(gate), when=patches, times=1)
    with node.start("ADD", pod(), config()) as adding:
        gate.wait_until_reached()
        assert adding.stdout is not None
        adding.stdout.close()
        gate.open()
        assert adding.wait(timeout=60) == 1
    assert set(world.allocations(name)) == {"1"}


def test_a_shim_without_standard_output_takes_nothing(world: World, tmp_path: Path) -> None:
    (name,) = world.slices("n1")
    closed = tmp_path / "closed"
    closed.write_text(f"#!/bin/sh\nexec {world.shim} >&-\n")
    closed.chmod(0o755)
    node = world.node("n1")
    node.shim = closed
    assert node.add(pod(), config()).code == 1
    assert world.allocations(name) == {}
