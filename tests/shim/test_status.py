"""STATUS: no request while the server's last answer is fresh, else one small one."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from hack.cluster.simnode import Outcome, SimulatedNode
from tests.faults.actions import CutBeforeSending, Gate, Hold, Request
from tests.faults.proxy import Proxy
from tests.shim.test_several_ranges import RANGES, dealt, ranged
from tests.shim.world import NAMESPACE, World, pod
from tests.shim.world import config as configured
from whereabouts_fast.kube.resource import NODESLICEPOOLS

READ_POOL = ("get", "ippools", 200)
READ_TABLE = ("get", "nodeslicepools", 200)


def config(**ipam: Any) -> dict[str, Any]:
    return {**configured(**ipam), "cniVersion": "1.1.0"}


def grow_old(node: SimulatedNode) -> None:
    """Move the last contact of each network a minute back."""
    for path in node.hints.glob("*.json"):
        data = json.loads(path.read_text())
        data[7] -= 60
        path.write_text(json.dumps(data))


def failure(outcome: Outcome) -> dict[str, Any]:
    assert (outcome.code, outcome.stderr) == (1, "")
    return outcome.result


def test_a_fresh_contact_answers_without_any_request(world: World) -> None:
    """Case T44: all fine."""
    world.slices("n1")
    node = world.node("n1")
    node.add(pod(), config())
    world.forget_requests()
    assert node.status(config()).code == 0
    assert world.requests() == Counter()
    grow_old(node)
    assert node.status(config()).code == 0
    assert world.requests() == Counter({READ_POOL: 1})
    assert node.status(config()).code == 0
    assert world.requests() == Counter({READ_POOL: 1})


def test_the_one_request_is_small_however_full_the_pool_is(world: World, proxy: Proxy) -> None:
    world.slices("n1")
    node = world.node("n1", kubeconfig=proxy.kubeconfig)
    node.add(pod(), config())
    grow_old(node)
    assert node.status(config()).code == 0
    assert "as=PartialObjectMetadata" in proxy.requests[-1].headers["accept"]


def test_the_first_call_reads_table_and_pools_and_the_next_nothing(world: World) -> None:
    world.slices("n1")
    node = world.node("n1")
    world.forget_requests()
    assert node.status(config()).code == 0
    assert world.requests() == Counter({READ_TABLE: 1, READ_POOL: 1})
    world.forget_requests()
    assert node.status(config()).code == 0
    assert world.requests() == Counter()


def test_several_ranges_share_one_contact(world: World) -> None:
    dealt(world)
    node, asked = world.node("n1"), {**ranged(*RANGES), "cniVersion": "1.1.0"}
    node.add(pod(), asked)
    grow_old(node)
    world.forget_requests()
    assert node.status(asked).code == 0
    assert world.requests() == Counter({READ_POOL: 1})


def test_an_api_server_that_is_down_is_error_50(world: World) -> None:
    """Case T44: API down."""
    world.slices("n1")
    down = world.cluster.kubeconfig_for(server="https://127.0.0.1:1")
    known = world.node("n1")
    known.add(pod(), config())
    grow_old(known)
    flat = json.loads(known.flat_file.read_text())
    known.flat_file.write_text(json.dumps({**flat, "kubernetes": {"kubeconfig": str(down)}}))
    for node in (known, world.node("n1", kubeconfig=down)):
        outcome = node.status(config())
        error = failure(outcome)
        assert error["code"] == 50
        assert "127.0.0.1 port 1" in error["msg"]
        assert "running" in error["details"]


def test_a_node_without_a_slice_is_error_50(world: World) -> None:
    """Case T44: no slice."""
    world.slices("n1")
    error = failure(world.node("n5").status(config()))
    assert error["code"] == 50
    assert 'node "n5"' in error["msg"]
    assert error["details"]


def test_a_full_network_counts_until_an_address_is_free(world: World) -> None:
    world.table({"10.40.0.4/31": "n1"})
    name = world.pool("n1", "10.40.0.4/31")
    node, first = world.node("n1"), pod()
    node.add(first, config())
    node.add(pod(), config())
    error = failure(node.status(config()))
    assert error["code"] == 50
    assert "used 2, total 2" in error["msg"]
    world.api.patch(world.pool_path(name), {"spec": {"allocations": {"0": None}}})
    assert node.status(config()).code == 0


def test_a_cooling_address_is_one_that_can_be_given(world: World) -> None:
    world.table({"10.40.0.4/32": "n1"})
    world.pool("n1", "10.40.0.4/32")
    node, one = world.node("n1", address_cooldown=3600), pod()
    node.add(one, config())
    node.delete(one, config())
    assert node.status(config()).code == 0


@pytest.mark.parametrize("live", [True, False])
def test_a_lost_slice_is_error_51_only_where_pods_have_its_addresses(
    world: World, live: bool
) -> None:
    (name,) = world.slices("n1")
    node, one = world.node("n1"), pod()
    node.add(one, config())
    if not live:
        node.delete(one, config())
    world.api.delete(world.pool_path(name))
    table = NODESLICEPOOLS.path(NAMESPACE, "blue")
    world.api.patch(table, {"status": {"allocations": []}})
    grow_old(node)
    error = failure(node.status(config()))
    assert error["code"] == (51 if live else 50)
    if live:
        assert "10.40.0.0/26" in error["msg"]
        assert "pods" in error["details"]


def test_a_pool_made_again_is_read_before_it_is_believed(world: World) -> None:
    (name,) = world.slices("n1")
    node = world.node("n1")
    node.add(pod(), config())
    world.api.delete(world.pool_path(name))
    world.pool("n1", "10.40.0.0/26", closed=True)
    grow_old(node)
    error = failure(node.status(config()))
    assert error["code"] == 50
    assert "not open yet" in error["msg"]


def test_a_refused_credential_is_error_50_naming_it(world: World) -> None:
    refused = world.cluster.kubeconfig_for(path=world.folder / "used", token="stale")
    error = failure(world.node("n1", kubeconfig=refused).status(config()))
    assert error["code"] == 50
    assert str(refused) in error["msg"]


def test_a_wrong_configuration_is_named_as_such(world: World) -> None:
    error = failure(world.node("n1").status(config(range_start="10.99.0.1")))
    assert error["code"] == 7
    assert "range_start" in error["msg"]


def test_a_fresh_answer_does_not_wait_for_an_add_that_holds_the_lock(
    world: World, proxy: Proxy
) -> None:
    world.slices("n1")
    node = world.node("n1", kubeconfig=proxy.kubeconfig)
    node.add(pod(), config())

    def patches(request: Request) -> bool:
        return request.method == "PATCH"

    gate = Gate()
    proxy.inject(Hold(gate), when=patches, times=1)
    with node.start("ADD", pod(), config()) as adding:
        gate.wait_until_reached()
        assert node.status(config()).code == 0
        gate.open()
        assert adding.wait(timeout=60) == 0


def test_a_connection_cut_once_is_opened_again(world: World, proxy: Proxy) -> None:
    world.slices("n1")
    node = world.node("n1", kubeconfig=proxy.kubeconfig)
    proxy.inject(CutBeforeSending(), times=1)
    assert node.status(config()).code == 0
