"""Which address an attachment gets out of its node's slices, and what the runtime is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hack.cluster.simnode import Outcome
from tests.shim.world import NAMESPACE, World, config, pod
from whereabouts_fast.kube.resource import NODESLICEPOOLS


def failure(outcome: Outcome) -> dict[str, Any]:
    assert outcome.code == 1
    assert outcome.stderr == ""
    error: dict[str, Any] = json.loads(outcome.stdout)
    return error


def test_a_node_without_a_slice_is_error_11_naming_node_and_network(world: World) -> None:
    """Case T4: code 11 after the wait limit."""
    world.slices("n1", "n2", "n3", "n4")
    node = world.node("n5", wait_seconds=0.5)
    world.forget_requests()
    error = failure(node.add(pod(), config()))
    assert error["code"] == 11
    assert 'node "n5"' in error["msg"]
    assert 'network "blue"' in error["msg"]
    assert set(world.requests()) == {("get", "nodeslicepools", 200)}


def test_a_node_without_a_slice_of_an_exhausted_network_is_error_101_at_once(
    world: World,
) -> None:
    """Case T4: code 101 at once when the table says so."""
    exhausted = {"type": "Exhausted", "status": "True", "reason": "NodesWaiting", "message": "1"}
    world.table({"10.40.0.0/26": "n1"}, conditions=[exhausted])
    world.forget_requests()
    error = failure(world.node("n5", wait_seconds=3600).add(pod(), config()))
    assert error["code"] == 101
    assert 'node "n5"' in error["msg"]
    assert sum(world.requests().values()) == 1


def test_a_slice_dealt_while_the_add_waits_is_used(world: World) -> None:
    world.table({})
    node = world.node("n1", wait_seconds=30)
    one = pod()
    adding = node.start("ADD", one, config())
    name = world.pool("n1", "10.40.0.0/26", closed=True)
    allocations = [{"nodeName": "n1", "sliceRange": "10.40.0.0/26", "state": "Active"}]
    table = NODESLICEPOOLS.path(NAMESPACE, "blue")
    world.api.patch(table, {"status": {"allocations": allocations}})
    world.api.patch(world.pool_path(name), {"spec": {"closed": None}})
    out, _ = adding.communicate(timeout=60)
    assert json.loads(out)["ips"] == [{"address": "10.40.0.1/24"}]


def test_a_pool_that_is_not_open_yet_is_waited_for_then_error_11(world: World) -> None:
    world.table({"10.40.0.0/26": "n1"})
    world.pool("n1", "10.40.0.0/26", closed=True)
    error = failure(world.node("n1", wait_seconds=0.3).add(pod(), config()))
    assert error["code"] == 11
    assert "10.40.0.0/26" in error["msg"]


def test_a_full_node_is_error_101_naming_slices_used_and_total(world: World) -> None:
    world.table({"10.40.0.4/30": "n1"})
    world.pool("n1", "10.40.0.4/30")
    node = world.node("n1", address_cooldown=0, wait_seconds=0)
    first = pod()
    given = [node.add(one, config()).address for one in (first, pod(), pod(), pod())]
    # Only the range's own network and broadcast addresses are unusable, not the slice's.
    assert given == ["10.40.0.4", "10.40.0.5", "10.40.0.6", "10.40.0.7"]
    world.forget_requests()
    error = failure(node.add(pod(), config()))
    assert error["code"] == 101
    for part in ('network "blue"', 'node "n1"', "10.40.0.4/30", "used 4", "total 4"):
        assert part in error["msg"]
    assert sum(world.requests().values()) == 3  # table and pool were read, and more asked for
    assert node.delete(first, config()).code == 0
    assert node.add(pod(), config()).address == "10.40.0.4"


def test_addresses_freed_behind_the_hint_are_found_before_an_add_is_refused(
    world: World,
) -> None:
    """Case U2: the hint says full, the controller has freed a leaked entry meanwhile."""
    world.table({"10.40.0.4/31": "n1"})
    name = world.pool("n1", "10.40.0.4/31")
    node = world.node("n1")
    for _ in range(2):
        node.add(pod(), config())
    world.api.patch(world.pool_path(name), {"spec": {"allocations": {"1": None}}})
    assert node.add(pod(), config()).address == "10.40.0.5"


def test_a_freed_address_rests_and_is_used_again_when_nothing_else_is_left(world: World) -> None:
    """Case T30: the second address while the first one cools; then the oldest cooling one."""
    world.table({"10.40.0.4/30": "n1"})
    world.pool("n1", "10.40.0.4/30")
    node = world.node("n1", address_cooldown=3600)
    pods = [pod() for _ in range(4)]
    assert node.add(pods[0], config()).address == "10.40.0.4"
    node.delete(pods[0], config())
    assert [node.add(one, config()).address for one in pods[1:]] == [
        "10.40.0.5",
        "10.40.0.6",
        "10.40.0.7",
    ]
    node.delete(pods[3], config())
    assert node.add(pod(), config()).address == "10.40.0.4"
    assert node.add(pod(), config()).address == "10.40.0.7"


def test_ipv6_slices_give_addresses_with_the_prefix_length_of_the_range(world: World) -> None:
    """Case T9: fd10::/112 by /120."""
    wide = config("fd10::/112", "/120", "six")
    slices = {"fd10::/120": "n1", "fd10::100/120": "n2"}
    world.table(slices, range_="fd10::/112", network="six")
    for cidr, name in slices.items():
        world.pool(name, cidr, network="six")
    first = world.node("n1").add(pod(), wide)
    assert first.result["ips"] == [{"address": "fd10::1/112"}]
    assert world.node("n2").add(pod(), wide).address == "fd10::100"


def test_window_exclusions_and_gateway_are_cut_into_the_slices(world: World) -> None:
    """Case T1: exclusions and gateway of the range are those of each slice."""
    world.slices("n1", "n2", "n3")
    shaped = config(exclude=["10.40.0.0/30", "10.40.0.8", "10.40.0.64/32"], gateway="10.40.0.129")
    node = world.node("n1")
    given = [node.add(pod(), shaped).address for _ in range(5)]
    assert given == [f"10.40.0.{last}" for last in (4, 5, 6, 7, 9)]
    assert world.node("n2").add(pod(), shaped).address == "10.40.0.65"
    third = world.node("n3")
    assert third.add(pod(), shaped).result["ips"] == [
        {"address": "10.40.0.128/24", "gateway": "10.40.0.129"}
    ]
    assert third.add(pod(), shaped).address == "10.40.0.130"


def test_a_del_frees_when_network_and_table_are_gone(world: World) -> None:
    """Case T5: with the hint, and without it."""
    (name,) = world.slices("n1")
    node, one, other = world.node("n1"), pod(), pod()
    node.add(one, config())
    node.add(other, config())
    world.api.delete(NODESLICEPOOLS.path(NAMESPACE, "blue"))
    assert node.delete(one, config()).code == 0
    assert set(world.allocations(name)) == {"2"}
    assert world.node("n1").delete(other, config()).code == 0
    assert world.allocations(name) == {}


def test_a_del_finds_the_address_when_the_configuration_was_changed_since(world: World) -> None:
    (name,) = world.slices("n1")
    node, one = world.node("n1"), pod()
    node.add(one, config())
    world.forget_requests()
    assert node.delete(one, config("10.50.0.0/24")).code == 0
    assert world.allocations(name) == {}
    assert world.requests() == {("patch", "ippools", 200): 1}


@pytest.mark.parametrize(
    "ipam",
    [{"type": "whereabouts"}, {**config()["ipam"], "exclude": ["10.40.0.0/99"]}],
    ids=["only a type", "malformed exclude"],
)
@pytest.mark.parametrize("hinted", [True, False])
def test_a_del_needs_no_valid_configuration(
    world: World, ipam: dict[str, Any], hinted: bool
) -> None:
    """Case T35: found by container id and interface among this node's pools."""
    (name,) = world.slices("n1")
    node, one = world.node("n1"), pod()
    node.add(one, config())
    caller = node if hinted else world.node("n1")
    outcome = caller.delete(one, {**config(), "ipam": ipam})
    assert (outcome.code, outcome.stdout) == (0, "")
    assert world.allocations(name) == {}


def test_a_del_removes_only_the_interface_it_names(world: World) -> None:
    """Case T18: one pod, two interfaces, one network."""
    (name,) = world.slices("n1")
    node, one = world.node("n1"), pod()
    for ifname in ("net1", "net2"):
        assert node.add(one, config(), ifname=ifname).result["ips"][0]["address"].endswith("/24")
    node.delete(one, config(), ifname="net2")
    assert [entry["ifname"] for entry in world.allocations(name).values()] == ["net1"]


def test_a_recorded_address_that_may_not_be_used_any_more_is_replaced(world: World) -> None:
    (name,) = world.slices("n1")
    node, one = world.node("n1"), pod()
    assert node.add(one, config()).address == "10.40.0.1"
    assert node.add(one, config(exclude=["10.40.0.1"])).address == "10.40.0.2"
    assert set(world.allocations(name)) == {"2"}


def test_draining_slices_give_nothing_new_but_keep_what_they_gave(world: World) -> None:
    world.table({"10.40.0.0/26": "n1", "10.40.0.64/26": "n1"}, states={"10.40.0.0/26": "Draining"})
    known = pod()
    entry = {"id": known.container, "podref": f"tenant/{known.name}", "ifname": "net1"}
    old = world.pool("n1", "10.40.0.0/26", allocations={"9": entry}, closed=True)
    world.pool("n1", "10.40.0.64/26")
    node = world.node("n1")
    assert node.add(pod(), config()).address == "10.40.0.64"
    assert node.add(known, config()).address == "10.40.0.9"
    assert node.delete(known, config()).code == 0
    assert world.allocations(old) == {}


def test_a_slice_that_was_lost_is_noticed_by_its_missing_pool(world: World) -> None:
    (name,) = world.slices("n1")
    node, one = world.node("n1", wait_seconds=0.3), pod()
    node.add(one, config())
    world.api.delete(world.pool_path(name))
    world.api.patch(
        NODESLICEPOOLS.path(NAMESPACE, "blue"),
        {"status": {"allocations": [{"nodeName": "n2", "sliceRange": "10.40.0.0/26"}]}},
    )
    theirs = world.pool("n2", "10.40.0.0/26")
    assert world.node("n2").add(pod(), config()).address == "10.40.0.1"
    assert failure(node.add(pod(), config()))["code"] == 11
    assert node.delete(one, config()).code == 0
    assert len(world.allocations(theirs)) == 1


def test_a_pool_deleted_and_made_again_is_looked_at_anew(world: World) -> None:
    (name,) = world.slices("n1")
    node = world.node("n1", address_cooldown=0)
    node.add(pod(), config())
    world.api.delete(world.pool_path(name))
    kept = {"id": "other", "podref": "tenant/other", "ifname": "net1"}
    world.pool("n1", "10.40.0.0/26", allocations={"3": kept})
    assert [node.add(pod(), config()).address for _ in range(3)] == [
        "10.40.0.2",  # written unseen, and free in the new pool too
        "10.40.0.1",
        "10.40.0.4",
    ]


def test_both_names_of_a_node_stand_in_the_error_when_neither_has_a_slice(world: World) -> None:
    """Case T17: a node whose name in the cluster is not that of its system."""
    world.table({"10.40.0.0/26": "n1.example.test"})
    world.pool("n1.example.test", "10.40.0.0/26")
    assert world.node("n1.example.test").add(pod(), config()).address == "10.40.0.1"
    error = failure(world.node("n1", wait_seconds=0.2).add(pod(), config()))
    assert 'node "n1"' in error["msg"]
    assert "host name" in error["msg"]


def test_keys_without_effect_and_failures_are_logged_where_the_configuration_says(
    world: World, tmp_path: Path
) -> None:
    world.slices("n1")
    log = tmp_path / "log"
    logging = config(log_file=str(log), rangeStart="10.40.0.9", sleep_for_race=1)
    node = world.node("n1", wait_seconds=0.1)
    node.add(pod(), logging)
    node.add(pod(), logging)
    lines = log.read_text().splitlines()
    assert len(lines) == 2  # once, not for each call
    assert "sleep_for_race" in lines[0]
    assert "rangeStart" in lines[1]
    failure(world.node("n9", wait_seconds=0.1).add(pod(), logging))
    assert "[error]" in log.read_text().splitlines()[2]
