"""Addresses that somebody asks for: recorded where they are ours, passed through where not."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from hack.cluster.simnode import Outcome
from tests.shim.test_several_ranges import RANGES, dealt, ranged
from tests.shim.world import CheckedNode, World, config, pod


def runtime(*texts: Any, **ipam: Any) -> dict[str, Any]:
    """A configuration with addresses asked for by the capability ips."""
    return {**config(**ipam), "runtimeConfig": {"ips": list(texts)}}


def addresses(outcome: Outcome) -> list[str]:
    assert outcome.code == 0, outcome
    return [one["address"] for one in outcome.result["ips"]]


def failure(outcome: Outcome) -> dict[str, Any]:
    assert (outcome.code, outcome.stderr) == (1, "")
    return outcome.result


def with_args(node: CheckedNode, arguments: str, world: World) -> CheckedNode:
    """The node's shim, called with more CNI_ARGS."""
    wrapper = world.folder / "with-args"
    wrapper.write_text(f'#!/bin/sh\nCNI_ARGS="$CNI_ARGS;{arguments}" exec {world.shim}\n')
    wrapper.chmod(0o755)
    node.shim = wrapper
    return node


def test_addresses_of_the_configuration_are_passed_through_after_ours(world: World) -> None:
    (name,) = world.slices("n1")
    fixed = [{"address": "192.0.2.9/24", "gateway": "192.0.2.1"}, {"address": "fd00::9/64"}]
    outcome = world.node("n1").add(pod(), config(addresses=fixed))
    assert outcome.result["ips"] == [{"address": "10.40.0.1/24"}, *fixed]
    assert set(world.allocations(name)) == {"1"}


@pytest.mark.parametrize("how", ["runtimeConfig", "args", "CNI_ARGS"])
@pytest.mark.parametrize("text", ["10.40.0.9", "10.40.0.9/24", "10.40.0.9/32"])
def test_an_address_inside_a_range_is_recorded_like_any_other(
    world: World, how: str, text: str
) -> None:
    (name,) = world.slices("n1")
    node, one, asked = world.node("n1"), pod(), config()
    if how == "CNI_ARGS":
        node = with_args(node, f"IP={text}", world)
    elif how == "args":
        asked["args"] = {"cni": {"ips": [text]}}
    else:
        asked["runtimeConfig"] = {"ips": [text]}
    assert addresses(node.add(one, asked)) == ["10.40.0.9/24"]
    assert world.allocations(name)["9"]["id"] == one.container
    assert addresses(node.add(one, asked)) == ["10.40.0.9/24"]
    assert node.check(one, asked, node.add(one, asked).result).code == 0
    assert node.delete(one, asked).code == 0
    assert "9" not in world.allocations(name)


def test_an_address_that_is_taken_is_refused_naming_the_holder(world: World) -> None:
    (name,) = world.slices("n1")
    node, holder = world.node("n1"), pod()
    assert addresses(node.add(holder, runtime("10.40.0.9"))) == ["10.40.0.9/24"]
    for caller in (node, world.node("n1")):
        error = failure(caller.add(pod(), runtime("10.40.0.9")))
        assert error["code"] == 104
        for part in ("10.40.0.9", f"tenant/{holder.name}", 'network "blue"', 'node "n1"'):
            assert part in error["msg"]
    assert set(world.allocations(name)) == {"9"}


def test_an_address_outside_this_nodes_slices_is_refused_naming_them(world: World) -> None:
    world.slices("n1", "n2")
    error = failure(world.node("n1").add(pod(), runtime("10.40.0.70")))
    assert error["code"] == 104
    assert "outside this node's slices, 10.40.0.0/26" in error["msg"]
    assert addresses(world.node("n2").add(pod(), runtime("10.40.0.70"))) == ["10.40.0.70/24"]


def test_an_address_of_a_slice_that_drains_is_refused(world: World) -> None:
    slices = {"10.40.0.0/26": "n1", "10.40.0.64/26": "n1"}
    world.table(slices, states={"10.40.0.0/26": "Draining"})
    world.pool("n1", "10.40.0.0/26", closed=True)
    world.pool("n1", "10.40.0.64/26")
    error = failure(world.node("n1").add(pod(), runtime("10.40.0.9")))
    assert (error["code"], "drains" in error["msg"]) == (104, True)


@pytest.mark.parametrize(
    ("text", "ipam"),
    [
        ("10.40.0.0", {}),
        ("10.40.0.255", {}),
        ("10.40.0.9", {"exclude": ["10.40.0.8/30"]}),
        ("10.40.0.9", {"range_start": "10.40.0.10"}),
        ("10.40.0.9", {"gateway": "10.40.0.9"}),
    ],
)
def test_an_address_that_nobody_gets_is_refused_before_any_request(
    world: World, text: str, ipam: dict[str, Any]
) -> None:
    (name,) = world.slices("n1")
    world.forget_requests()
    error = failure(world.node("n1").add(pod(), runtime(text, **ipam)))
    assert error["code"] == 104
    assert text in error["msg"]
    assert not world.requests()
    assert world.allocations(name) == {}


def test_without_a_slice_the_wait_is_the_same_as_ever(world: World) -> None:
    world.table({})
    error = failure(world.node("n1", wait_seconds=0.2).add(pod(), runtime("10.40.0.9")))
    assert error["code"] == 11


def test_each_range_gives_what_is_asked_of_it_and_the_others_what_is_free(world: World) -> None:
    pools = dealt(world)
    asked = {**ranged(*RANGES), "runtimeConfig": {"ips": ["fd10::50", "10.40.0.9"]}}
    outcome = world.node("n1").add(pod(), asked)
    assert addresses(outcome) == ["10.40.0.9/24", "10.45.0.64/24", "fd10::50/112"]
    assert [set(world.allocations(name)) for name in pools] == [{"9"}, {"0"}, {"16"}]


def test_a_later_address_that_is_refused_gives_the_earlier_ones_back(world: World) -> None:
    pools = dealt(world)
    asked = {**ranged(*RANGES), "runtimeConfig": {"ips": ["10.40.0.9", "fd10::fff"]}}
    assert failure(world.node("n1").add(pod(), asked))["code"] == 104
    assert [world.allocations(name) for name in pools] == [{}, {}, {}]


def test_addresses_outside_all_ranges_are_passed_through(world: World) -> None:
    (name,) = world.slices("n1")
    node = with_args(
        world.node("n1"), "IP=192.0.2.9/24, fd00::9/64,10.40.0.9;GATEWAY=192.0.2.1", world
    )
    outcome = node.add(pod(), config(addresses=[{"address": "fd00::9/64"}]))
    assert outcome.result["ips"] == [
        {"address": "10.40.0.9/24"},
        {"address": "fd00::9/64"},
        {"address": "192.0.2.9/24", "gateway": "192.0.2.1"},
    ]
    assert set(world.allocations(name)) == {"9"}


def test_what_was_passed_through_is_checked_against_the_previous_result(world: World) -> None:
    world.slices("n1")
    node, one, asked = world.node("n1"), pod(), runtime("192.0.2.9/24")
    result = node.add(one, asked).result
    assert node.check(one, asked, result).code == 0
    error = failure(node.check(one, asked, {**result, "ips": result["ips"][:1]}))
    assert (error["code"], "192.0.2.9" in error["msg"]) == (103, True)


def test_the_runtimes_own_word_goes_before_the_arguments(world: World) -> None:
    world.slices("n1")
    asked = {**runtime("10.40.0.11"), "args": {"cni": {"ips": ["10.40.0.10"]}}}
    node = with_args(world.node("n1"), "IP=10.40.0.9", world)
    assert addresses(node.add(pod(), asked)) == ["10.40.0.11/24"]
    del asked["runtimeConfig"]
    assert addresses(node.add(pod(), asked)) == ["10.40.0.10/24"]
    assert addresses(node.add(pod(), {**asked, "args": {"cni": {}}})) == ["10.40.0.9/24"]


@pytest.mark.parametrize(
    ("texts", "named"),
    [
        (["10.40.0.999"], '"10.40.0.999"'),
        (["192.0.2.9"], "no prefix length"),
        ([7], '"7"'),
        ([None], '"None"'),
        (["10.40.0.9", "10.40.0.10"], "second one"),
        (["10.40.0.9/99"], "10.40.0.9/99"),
    ],
)
def test_what_cannot_be_asked_for_is_error_7_naming_it(
    world: World, texts: list[Any], named: str
) -> None:
    world.forget_requests()
    error = failure(world.node("n1").add(pod(), runtime(*texts)))
    assert error["code"] == 7
    assert "runtimeConfig.ips" in error["msg"]
    assert named in error["msg"]
    assert not world.requests()


def test_two_of_a_family_are_refused_in_old_versions(world: World) -> None:
    asked = {**runtime("192.0.2.9/24"), "cniVersion": "0.2.0"}
    assert failure(world.node("n1").add(pod(), asked))["code"] == 7


def test_an_attachment_that_asks_for_another_address_than_it_has_gets_that(world: World) -> None:
    (name,) = world.slices("n1")
    node, one = world.node("n1"), pod()
    assert addresses(node.add(one, config())) == ["10.40.0.1/24"]
    assert addresses(node.add(one, runtime("10.40.0.9"))) == ["10.40.0.9/24"]
    assert set(world.allocations(name)) == {"9"}


@pytest.mark.parametrize("same_uid", [True, False])
def test_what_an_earlier_container_of_the_pod_holds_is_taken_over(
    world: World, same_uid: bool
) -> None:
    (name,) = world.slices("n1")
    node, first = world.node("n1", wait_seconds=0.2), pod("sts-0")
    node.add(first, runtime("10.40.0.9"))
    again = pod("sts-0", uid=first.uid if same_uid else "")
    assert addresses(node.add(again, runtime("10.40.0.9"))) == ["10.40.0.9/24"]
    assert node.delete(first, config()).code == 0
    assert [entry["id"] for entry in world.allocations(name).values()] == [again.container]


def test_a_fixed_address_is_one_request_and_ignores_the_cool_down(world: World) -> None:
    world.slices("n1")
    node, one = world.node("n1", address_cooldown=3600), pod()
    node.add(one, runtime("10.40.0.9"))
    node.delete(one, config())
    world.forget_requests()
    assert addresses(node.add(pod(), runtime("10.40.0.9"))) == ["10.40.0.9/24"]
    assert sum(world.requests().values()) == 1


def test_of_two_that_ask_for_one_address_at_once_one_gets_it(world: World) -> None:
    (name,) = world.slices("n1")
    nodes = [world.node("n1") for _ in range(4)]  # which share no lock
    running: list[subprocess.Popen[str]] = [
        node.start("ADD", pod(), runtime("10.40.0.9")) for node in nodes
    ]
    for process in running:
        process.communicate(timeout=60)
    assert sorted(process.returncode for process in running) == [0, 1, 1, 1]
    assert set(world.allocations(name)) == {"9"}
