"""Hints that lie, processes that die, callers that are gone: slower perhaps, never wrong."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hack.cluster.simnode import SimulatedNode
from tests.faults.actions import CutReply, Gate, Hold, Hook, Request, refusal
from tests.faults.proxy import Proxy
from tests.shim.world import World, config, pod


def patches(request: Request) -> bool:
    return request.method == "PATCH"


def hint_file(node: SimulatedNode) -> Path:
    (path,) = node.hints.glob("*.json")
    return path


def rewrite(change: Callable[[list[Any]], object]) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        data = json.loads(path.read_text())
        change(data)
        path.write_text(json.dumps(data))

    return spoil


SPOILED: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_text(""),
    "truncated": lambda path: path.write_text(path.read_text()[:-30]),
    "not json": lambda path: path.write_bytes(b"\xff\xfe"),
    "another kind": lambda path: path.write_text("{}"),
    "a directory": lambda path: path.rename(path.with_suffix(".old")).with_suffix(".json").mkdir(),
    "another schema": rewrite(lambda data: data.__setitem__(0, 99)),
    "another boot": rewrite(lambda data: data.__setitem__(1, "boot")),
    "another network": rewrite(lambda data: data.__setitem__(2, "green")),
    "another node": rewrite(lambda data: data.__setitem__(4, "n2")),
    "stale: knows too little": rewrite(lambda data: data[6][0].__setitem__(4, {})),
    "stale: knows too much": rewrite(
        lambda data: data[6][0][4].update({"7": ["gone", "net1", "a/b", "u", 1, "", ""]})
    ),
    "no pools": rewrite(lambda data: data.__setitem__(6, [])),
    "broken record": rewrite(lambda data: data[6][0][4].update({"7": [1, 2, 3, 4, 5, 6, 7]})),
    "broken offset": rewrite(
        lambda data: data[6][0][4].update({"x": ["a", "b", "c", "d", 1, "", ""]})
    ),
}


@pytest.mark.parametrize("how", SPOILED)
def test_a_spoiled_hint_never_gives_an_address_twice_nor_loses_one(world: World, how: str) -> None:
    (name,) = world.slices("n1")
    node, one = world.node("n1", address_cooldown=0), pod()
    assert node.add(one, config()).address == "10.40.0.1"
    SPOILED[how](hint_file(node))
    assert node.add(pod(), config()).address == "10.40.0.2"
    assert node.add(one, config()).address == "10.40.0.1"
    SPOILED[how](hint_file(node)) if hint_file(node).is_file() else None
    assert node.delete(one, config()).code == 0
    assert set(world.allocations(name)) == {"2"}


def test_without_a_usable_hints_directory_every_call_is_a_cold_one(
    world: World, tmp_path: Path
) -> None:
    (name,) = world.slices("n1")
    for folder in ("/dev/null/hints", str(tmp_path / "open")):
        (tmp_path / "open").mkdir(mode=0o777, exist_ok=True)
        (tmp_path / "open").chmod(0o777)
        node, one = world.node("n1", hints_dir=folder), pod()
        address = node.add(one, config()).address
        assert node.add(one, config()).address == address
        assert node.delete(one, config()).code == 0
    assert world.allocations(name) == {}
    assert list((tmp_path / "open").iterdir()) == []


def test_a_full_disk_makes_calls_slower_and_not_wrong(world: World, tmp_path: Path) -> None:
    (name,) = world.slices("n1")
    limited = tmp_path / "limited"
    limited.write_text(f'#!/bin/sh\nulimit -f 0\nexec {world.shim} "$@"\n')
    limited.chmod(0o755)
    node, one = world.node("n1"), pod()
    node.add(pod(), config())
    node.shim = limited
    assert node.add(one, config()).address == "10.40.0.2"
    assert node.add(one, config()).address == "10.40.0.2"
    assert node.delete(one, config()).code == 0
    assert set(world.allocations(name)) == {"1"}


@pytest.mark.parametrize("usable", [True, False])
def test_two_adds_of_one_attachment_at_once_are_one_address(world: World, usable: bool) -> None:
    (name,) = world.slices("n1")
    node = world.node("n1", **({} if usable else {"hints_dir": "/dev/null/hints"}))
    one = pod()
    with ThreadPoolExecutor(4) as threads:
        given = list(threads.map(lambda _: node.add(one, config()).address, range(4)))
    assert given == ["10.40.0.1"] * 4
    assert len(world.allocations(name)) == 1


def test_16_writers_that_share_no_lock_all_get_distinct_addresses(world: World) -> None:
    (name,) = world.slices("n1")
    nodes = [world.node("n1") for _ in range(16)]
    with ThreadPoolExecutor(16) as threads:
        given = list(threads.map(lambda node: node.add(pod(), config()).address, nodes))
    assert len(set(given)) == 16
    assert len(world.allocations(name)) == 16


def test_conflicts_inside_the_server_are_retried(world: World, proxy: Proxy) -> None:
    (name,) = world.slices("n1")
    node, one = world.node("n1", kubeconfig=proxy.kubeconfig), pod()
    proxy.inject(refusal(409, "Conflict"), when=patches, times=5)
    assert node.add(one, config()).address == "10.40.0.1"
    proxy.inject(refusal(409, "Conflict"), when=patches, times=5)
    assert node.delete(one, config()).code == 0
    assert world.allocations(name) == {}


def test_a_policy_that_refuses_every_patch_is_told_from_a_failed_test(
    world: World, proxy: Proxy
) -> None:
    world.slices("n1")
    node = world.node("n1", kubeconfig=proxy.kubeconfig)
    proxy.inject(refusal(422, "Invalid", "denied by policy"), when=patches)
    outcome = node.add(pod(), config())
    assert outcome.result["code"] == 102
    assert "denied by policy" in outcome.result["msg"]


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("follows", ["DEL", "ADD of the next attempt", "ADD repeated"])
def test_an_add_killed_around_its_patch_leaves_nothing_twice(
    world: World, proxy: Proxy, stored: bool, follows: str
) -> None:
    (name,) = world.slices("n1")
    node = world.node("n1", kubeconfig=proxy.kubeconfig, address_cooldown=0)
    node.add(pod(), config())
    killed = pod()
    running: list[subprocess.Popen[str]] = []

    def kill(*_: object) -> None:
        running[0].kill()
        running[0].wait()

    gate = Gate()
    proxy.inject(Hold(gate), when=patches, times=1)
    if stored:
        proxy.inject(Hook(after=kill), when=patches, times=1)
    running.append(node.start("ADD", killed, config()))
    if not stored:
        gate.wait_until_reached()
        kill()
        proxy.cut(patches)
        gate.open()
    running[0].communicate()
    assert set(world.allocations(name)) == ({"1", "2"} if stored else {"1"})
    if follows == "DEL":
        assert node.delete(killed, config()).code == 0
        assert set(world.allocations(name)) == {"1"}
        return
    again = killed if follows == "ADD repeated" else pod(killed.name, uid=killed.uid)
    assert node.add(again, config()).address == "10.40.0.2"
    held = world.allocations(name)
    assert set(held) == {"1", "2"}
    assert held["2"]["id"] == again.container
    # The runtime's late DEL for the attempt that died frees nothing of the one that lives.
    if again is not killed:
        assert node.delete(killed, config()).code == 0
        assert world.allocations(name) == held


def test_an_unanswered_patch_is_repeated_with_the_same_offset(world: World, proxy: Proxy) -> None:
    (name,) = world.slices("n1")
    node = world.node("n1", kubeconfig=proxy.kubeconfig)
    node.add(pod(), config())
    proxy.inject(CutReply(), when=lambda r: r.method == "GET", times=1)
    proxy.inject(CutReply(), when=patches, times=1)
    assert node.add(pod(), config()).address == "10.40.0.2"
    assert len(world.allocations(name)) == 2


def test_an_add_after_a_del_of_the_same_attachment_is_a_new_one(world: World) -> None:
    (name,) = world.slices("n1")
    node, one = world.node("n1", address_cooldown=0), pod()
    for _ in range(2):
        assert node.add(one, config()).address == "10.40.0.1"
        assert node.delete(one, config()).code == 0
        assert node.delete(one, config()).code == 0
    assert world.allocations(name) == {}


def test_the_same_pod_under_another_container_takes_its_address_over(world: World) -> None:
    (name,) = world.slices("n1")
    node, first = world.node("n1"), pod()
    node.add(first, config())
    second = pod(first.name, uid=first.uid)
    assert node.add(second, config()).address == "10.40.0.1"
    assert node.delete(first, config()).code == 0
    assert [entry["id"] for entry in world.allocations(name).values()] == [second.container]


def test_a_pod_made_again_under_its_name_gets_another_address_while_there_is_one(
    world: World,
) -> None:
    world.table({"10.40.0.4/31": "n1"})
    name = world.pool("n1", "10.40.0.4/31")
    node = world.node("n1", wait_seconds=0.2)
    old = pod("sts-0")
    assert node.add(old, config()).address == "10.40.0.4"
    assert node.add(pod("sts-0"), config()).address == "10.40.0.5"
    # Nothing is free now: what is left of the first pod of that name is taken over, after a wait.
    last = pod("sts-0")
    assert node.add(last, config()).address == "10.40.0.4"
    assert node.delete(old, config()).code == 0
    assert world.allocations(name)["0"]["id"] == last.container
