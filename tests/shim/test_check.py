"""CHECK: record and prevResult agree, or the runtime is told what differs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from hack.cluster.simnode import Outcome
from tests.shim.test_several_ranges import RANGES, dealt, ranged
from tests.shim.world import World, config, pod

PATCHED = ("patch", "ippools", 200)


def failure(outcome: Outcome) -> dict[str, Any]:
    assert (outcome.code, outcome.stderr) == (1, "")
    return outcome.result


def test_a_record_that_agrees_costs_one_request_and_changes_nothing(world: World) -> None:
    (name,) = world.slices("n1")
    node, one = world.node("n1"), pod()
    result = node.add(one, config()).result
    before = world.api.get(world.pool_path(name))["metadata"]["resourceVersion"]
    world.forget_requests()
    assert node.check(one, config(), result).code == 0
    assert world.requests() == Counter({PATCHED: 1})
    assert world.api.get(world.pool_path(name))["metadata"]["resourceVersion"] == before


@pytest.mark.parametrize("version", ["0.4.0", "1.0.0", "1.1.0"])
def test_without_a_hint_the_record_is_read(world: World, version: str) -> None:
    world.slices("n1")
    one, asked = pod(), {**config(), "cniVersion": version}
    result = world.node("n1").add(one, asked).result
    assert world.node("n1").check(one, asked, result).code == 0


def test_the_result_of_the_whole_chain_holds_more_than_ours(world: World) -> None:
    world.slices("n1")
    node, one = world.node("n1"), pod()
    result = node.add(one, config()).result
    ips = [{**result["ips"][0], "interface": 0}, {"address": "192.0.2.9/24", "interface": 0}]
    whole = {**result, "interfaces": [{"name": "net1", "mac": "02:00:00:00:00:01"}], "ips": ips}
    assert node.check(one, config(), whole).code == 0


@pytest.mark.parametrize(
    "ips",
    [
        [],
        [{"address": "10.40.0.2/24"}],
        [{"address": "10.40.0.1/24"}, {"address": "10.40.0.2/24"}],
        [{"address": "192.0.2.9/24"}],
    ],
    ids=["nothing", "another", "one more of the range", "of another range"],
)
def test_a_result_that_differs_is_error_103(world: World, ips: list[dict[str, str]]) -> None:
    world.slices("n1")
    node, one = world.node("n1"), pod()
    result = node.add(one, config()).result
    error = failure(node.check(one, config(), {**result, "ips": ips}))
    assert error["code"] == 103
    assert "10.40.0.1" in error["msg"]


@pytest.mark.parametrize("hinted", [True, False])
def test_a_record_that_is_gone_is_error_103(world: World, hinted: bool) -> None:
    (name,) = world.slices("n1")
    node, one = world.node("n1"), pod()
    result = node.add(one, config()).result
    world.api.patch(world.pool_path(name), {"spec": {"allocations": {"1": None}}})
    caller = node if hinted else world.node("n1")
    error = failure(caller.check(one, config(), result))
    assert error["code"] == 103
    for part in ('network "blue"', one.container, 'node "n1"'):
        assert part in error["msg"]


def test_an_address_that_another_pod_has_by_now_is_error_103(world: World) -> None:
    (name,) = world.slices("n1")
    node, one = world.node("n1"), pod()
    result = node.add(one, config()).result
    theirs = {"id": "other", "podref": "tenant/other", "ifname": "net1", "uid": None}
    world.api.patch(world.pool_path(name), {"spec": {"allocations": {"1": theirs}}})
    assert failure(node.check(one, config(), result))["code"] == 103


@pytest.mark.parametrize(
    "result", [None, [], {"ips": [{"address": "x"}]}, {"ips": [7]}, {"ip4": {}}]
)
def test_a_previous_result_that_cannot_be_one_is_error_7(world: World, result: object) -> None:
    world.slices("n1")
    node, one = world.node("n1"), pod()
    node.add(one, config())
    error = failure(node.check(one, config(), result))
    assert (error["code"], "prevResult" in error["msg"]) in ((7, True), (103, True))


def test_fixed_addresses_of_the_configuration_are_looked_for_too(world: World) -> None:
    world.slices("n1")
    node, one = world.node("n1"), pod()
    asked = config(addresses=[{"address": "10.40.0.200/24"}, {"address": "192.0.2.7/24"}])
    result = node.add(one, asked).result
    assert len(result["ips"]) == 3
    assert node.check(one, asked, result).code == 0
    error = failure(node.check(one, asked, {**result, "ips": result["ips"][:2]}))
    assert "192.0.2.7" in error["msg"]


def test_every_range_is_checked(world: World) -> None:
    pools = dealt(world)
    node, one, asked = world.node("n1"), pod(), ranged(*RANGES)
    result = node.add(one, asked).result
    world.forget_requests()
    assert node.check(one, asked, result).code == 0
    assert world.requests() == Counter({PATCHED: 3})
    world.api.patch(world.pool_path(pools[2]), {"spec": {"allocations": {"0": None}}})
    error = failure(node.check(one, asked, result))
    assert (error["code"], RANGES[2] in error["msg"]) == (103, True)


def test_a_slice_that_drains_still_vouches_for_its_addresses(world: World) -> None:
    (name,) = world.slices("n1")
    node, one = world.node("n1"), pod()
    result = node.add(one, config()).result
    world.api.patch(world.pool_path(name), {"spec": {"closed": True}})
    assert node.check(one, config(), result).code == 0
