"""Faults between the controller and the API server: slower, never wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from hack.cluster.api import Api
from hack.cluster.server import Cluster
from tests.faults.actions import (
    Action,
    CutBeforeSending,
    CutReply,
    DelayStream,
    Forward,
    Gate,
    Request,
    refusal,
)
from tests.faults.proxy import Proxy
from tests.integration.controller_process import (
    GROUP,
    NODES,
    POOLS,
    create_nad,
    create_node,
    drop,
    fill,
    holders,
    nodes_of,
    pools,
    running,
    wait_events,
    wait_open,
    wait_table,
)

FIRST, SECOND = "10.40.0.0/26", "10.40.0.64/26"
POOL_A, POOL_B = "blue-a-10.40.0.0-26", "blue-b-10.40.0.64-26"


def watches(path: str) -> Callable[[Request], bool]:
    return lambda request: request.is_watch and request.path == path


def test_an_address_given_unseen_by_the_pool_watch_is_not_lost(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "a")
    create_nad(api, node_slice_cooldown=0.2)
    gate = Gate(closed=False)
    with Proxy(cluster) as proxy:
        proxy.inject(DelayStream(gate), when=watches(POOLS))
        with running(proxy.kubeconfig, tmp_path):
            wait_open(api, {POOL_A})
            gate.close()
            fill(api, POOL_A, 5)
            api.delete(f"{NODES}/a")
            wait_open(api, set())
            # A second network makes sure that the controller came through this one again.
            create_nad(api, "red", range="10.41.0.0/24")
            create_node(api, "b")
            wait_open(api, {POOL_B, "red-b-10.41.0.0-26"})
            assert holders(api)[FIRST] == ("a", "Draining")
            assert "5" in pools(api)[POOL_A]["spec"]["allocations"]
            drop(api, POOL_A, 5)
            gate.open()
            wait_table(api, lambda held: FIRST not in held)
        gate.open()


def test_a_slice_is_not_freed_on_the_word_of_a_late_watch(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "a")
    create_nad(api, node_slice_cooldown=0.2)
    with running(cluster.kubeconfig, tmp_path) as controller:
        wait_open(api, {POOL_A})
        controller.stop()
    api.delete(f"{POOLS}/{POOL_A}")
    gate = Gate()
    with Proxy(cluster) as proxy:
        # Everything of pools comes late, so that the cache has none while one is there.
        proxy.inject(DelayStream(gate, events=1), when=watches(POOLS))
        with running(proxy.kubeconfig, tmp_path):
            wait_open(api, {POOL_A})
            fill(api, POOL_A, 5)
            api.delete(f"{NODES}/a")
            wait_table(api, lambda held: held[FIRST][1] == "Draining")
            wait_open(api, set())
            assert "5" in pools(api)[POOL_A]["spec"]["allocations"]
            assert holders(api) == {FIRST: ("a", "Draining")}
            gate.open()


def test_a_table_is_rebuilt_from_pools_that_the_watch_has_not_shown(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    gate = Gate(closed=False)
    with Proxy(cluster) as proxy:
        proxy.inject(DelayStream(gate), when=watches(POOLS))
        with running(proxy.kubeconfig, tmp_path) as controller:
            controller.wait(lambda: controller.entries("Began to lead"), "it leads")
            gate.close()
            body = {
                "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
                "kind": "IPPool",
                "metadata": {
                    "name": POOL_A,
                    "labels": {"whereabouts-fast.io/network": "blue"},
                },
                "spec": {
                    "range": FIRST,
                    "node": "a",
                    "network": "blue",
                    "allocations": {"5": {"id": "c", "podref": "tenant/p"}},
                },
            }
            api.create(POOLS, body)
            create_node(api, "0-before-a")
            create_node(api, "a")
            create_nad(api)
            held = wait_table(api, lambda held: len(nodes_of(held)) == 2)
            assert nodes_of(held) == {"a": FIRST, "0-before-a": SECOND}
            gate.open()


FAILURES: dict[str, Action] = {
    "cut-before": CutBeforeSending(),
    "cut-after": CutReply(),
    "conflict": refusal(409, "Conflict"),
    "overload": refusal(429, "TooManyRequests", Retry_After="1"),
    "broken": refusal(503, "ServiceUnavailable"),
    "page": refusal(500, "InternalError"),
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_each_write_may_fail_once(
    cluster: Cluster, api: Api, tmp_path: Path, failure: Action
) -> None:
    seen: set[tuple[str, str]] = set()
    lock = threading.Lock()

    def once(request: Request) -> Action:
        with lock:
            first = (request.method, request.path) not in seen
            seen.add((request.method, request.path))
        return failure if first else Forward()

    for name in ("a", "b", "c"):
        create_node(api, name)
    with Proxy(cluster) as proxy:
        proxy.inject(once, when=lambda r: r.is_write and r.path.startswith(GROUP))
        with running(proxy.kubeconfig, tmp_path):
            create_nad(api, range="10.40.0.0/25", node_slice_cooldown=0.2)
            wait_open(api, {POOL_A, POOL_B})
            api.delete(f"{NODES}/a")
            wait_table(api, lambda held: held.get(FIRST) == ("c", "Active"))
            found = wait_open(api, {"blue-c-10.40.0.0-26", POOL_B})
            assert len(found) == 2
    assert len(seen) >= 7


def test_a_server_that_restarts_costs_a_leader_nothing_but_time(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    api = own_cluster.api
    create_node(api, "a")
    create_nad(api)
    # However slow the restart is, it is shorter than this lease.
    patient = ("--lease-duration", "240", "--renew-deadline", "200")
    with running(own_cluster.kubeconfig, tmp_path, *patient) as controller:
        wait_open(api, {POOL_A})
        own_cluster.stop_server()
        own_cluster.start_server()
        controller.wait_for_pools(api)
        create_node(api, "b")
        wait_open(api, {POOL_A, POOL_B}, seconds=60)
        assert controller.stop() == 0
        assert len(controller.entries("Began to lead")) == 1


def test_changes_that_no_watch_can_tell_any_more_are_found(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    """Nodes came and went while the controller was cut off, and etcd has forgotten when (410)."""
    api = own_cluster.api
    create_node(api, "a")
    create_nad(api, range="10.40.0.0/26", node_slice_cooldown=0.2)
    with (
        Proxy(own_cluster) as proxy,
        running(proxy.kubeconfig, tmp_path) as controller,
    ):
        wait_open(api, {POOL_A})
        proxy.inject(CutBeforeSending())
        proxy.cut()
        api.delete(f"{NODES}/a")
        create_node(api, "b")
        own_cluster.stop_server()
        own_cluster.compact()
        own_cluster.start_server()
        controller.wait_for_pools(api)
        proxy.clear()
        wait_table(api, lambda held: held == {FIRST: ("b", "Active")}, seconds=90)
        wait_open(api, {"blue-b-10.40.0.0-26"})
        expired = [e for e in controller.entries("Lost watch") if e["reason"] == "expired"]
        assert "nodes" in {entry["resource"] for entry in expired}
        assert controller.stop() == 0


def test_a_server_that_goes_away_and_returns_is_waited_for(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    api = own_cluster.api
    create_node(api, "a")
    create_nad(api)
    fast = ("--lease-duration", "3", "--renew-deadline", "2", "--retry-period", "0.3")
    with running(own_cluster.kubeconfig, tmp_path, "--identity", "one", *fast) as controller:
        wait_open(api, {POOL_A})
        own_cluster.stop_server()
        controller.wait(lambda: controller.entries("Ceased to lead"), "the lease is lost")
        own_cluster.start_server()
        controller.wait_for_pools(api)
        create_node(api, "b")
        wait_open(api, {POOL_A, POOL_B}, seconds=60)
        assert wait_events(api, "NodeSliceAssigned", 1, "ipam-system")
        assert controller.stop() == 0
