"""Addresses whose pods are gone are released, and no others."""

from __future__ import annotations

from pathlib import Path

from hack.cluster.api import Api
from hack.cluster.server import Cluster
from tests.integration.controller_process import (
    NODES,
    POOLS,
    Controller,
    create_nad,
    nad_path,
    running,
    table,
    wait_events,
    wait_gone,
)
from tests.integration.pods import (
    PATIENT,
    QUICK,
    create_pod,
    deal,
    delete_pod,
    finish,
    name_addresses,
    opened,
    record,
    recorded,
    set_ready,
    wait_recorded,
)
from tests.integration.test_controller_process import fetch

POOL_A, POOL_B = "blue-a-10.40.0.0-26", "blue-b-10.40.0.64-26"


def released(controller: Controller) -> list[tuple[str, str]]:
    return [(e["address"], e["reason"]) for e in controller.entries("Released address")]


def test_a_deleted_pod_loses_its_address_and_a_live_one_keeps_it(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    """Case T33: the event of the deletion is enough, without any DEL."""
    deal(api, "a")
    with running(cluster.kubeconfig, tmp_path, *QUICK) as controller:
        opened(api, POOL_A)
        record(api, POOL_A, 5, "p1", create_pod(api, "p1"))
        record(api, POOL_A, 6, "p2", create_pod(api, "p2"))
        delete_pod(api, "p1")
        wait_recorded(api, POOL_A, {6})
        (entry,) = controller.wait(lambda: controller.entries("Released address"), "it says so")
        told = {key: entry[key] for key in ("address", "pod", "pool", "node", "network", "reason")}
        assert told == {
            "address": "10.40.0.5",
            "pod": "tenant/p1",
            "pool": POOL_A,
            "node": "a",
            "network": "blue",
            "reason": "gone",
        }
        (event,) = wait_events(api, "LeakedAddressReleased", 1, "ipam-system")
        assert event["regarding"]["name"] == POOL_A
        assert event["note"] == "Released address 10.40.0.5 of tenant/p1 (gone)"
        _, metrics = fetch(controller, "/metrics")
        assert 'whereabouts_fast_leaks_released_total{reason="gone"} 1.0' in metrics
        assert 'whereabouts_fast_leaks_candidates{reason="gone"} 0.0' in metrics


def test_what_leaked_while_no_controller_ran_is_released_after_its_start(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    """Case T32, with the defaults: within 30 s of the start, no period needed."""
    deal(api, "a")
    with running(cluster.kubeconfig, tmp_path) as controller:
        opened(api, POOL_A)
        controller.stop()
    record(api, POOL_A, 5, "never-was", "u")
    record(api, POOL_A, 6, "lives", create_pod(api, "lives"))
    uid = create_pod(api, "went")
    record(api, POOL_A, 7, "went", uid)
    delete_pod(api, "went")
    with running(cluster.kubeconfig, tmp_path, "--leak-grace", "15"):
        wait_recorded(api, POOL_A, {6}, seconds=30)


def test_a_finished_pod_loses_its_address_although_its_object_stays(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    """Case T31: a graceful shutdown leaves failed pods, whose annotation is old."""
    deal(api, "a")
    with running(cluster.kubeconfig, tmp_path, *QUICK) as controller:
        opened(api, POOL_A)
        for offset, name in enumerate(("failed", "done"), 5):
            uid = create_pod(api, name, addresses=[f"10.40.0.{offset}"], node="a")
            record(api, POOL_A, offset, name, uid)
        finish(api, "failed")
        finish(api, "done", "Succeeded", "")
        wait_recorded(api, POOL_A, set())
        controller.wait(lambda: len(released(controller)) == 2, "it says so")
        assert {why for _, why in released(controller)} == {"finished"}


def test_network_status_keeps_an_address_whatever_else_does_not_fit(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    """Case T21: one entry, of the default network and another interface, names the address."""
    deal(api, "a")
    with running(cluster.kubeconfig, tmp_path, *QUICK):
        opened(api, POOL_A)
        create_pod(api, "named", addresses=["10.40.0.7"])
        record(api, POOL_A, 7, "named", "of-somebody-else", ifname="net9")
        create_pod(api, "bare", addresses=["10.40.0.8"])
        record(api, POOL_A, 8, "bare", ifname="")
        create_pod(api, "unnamed")
        record(api, POOL_A, 9, "unnamed", "of-somebody-else")
        wait_recorded(api, POOL_A, {7, 8})


def test_a_static_pod_keeps_its_address_under_its_kubelets_uid(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    """Case U1."""
    deal(api, "a")
    with running(cluster.kubeconfig, tmp_path, *QUICK):
        opened(api, POOL_A)
        create_pod(api, "static", annotations={"kubernetes.io/config.hash": "1f2e"})
        record(api, POOL_A, 5, "static", "1f2e")
        record(api, POOL_A, 6, "static", "an-older-hash", ifname="net2")
        wait_recorded(api, POOL_A, {5})


def test_the_pod_that_took_the_name_keeps_its_own_address(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    """Case T26, the controller's part: a stateful pod by force on another node."""
    deal(api, "a", "b")
    with running(cluster.kubeconfig, tmp_path, *PATIENT) as controller:
        opened(api, POOL_A, POOL_B)
        record(api, POOL_A, 5, "sts-0", create_pod(api, "sts-0", node="a"))
        record(api, POOL_B, 1, "other", "u")
        set_ready(api, "a", "Unknown")
        delete_pod(api, "sts-0")
        record(api, POOL_B, 6, "sts-0", create_pod(api, "sts-0", node="b"))
        # Node b is ready, so what leaked there goes; on node a the container may still run.
        wait_recorded(api, POOL_B, {6})
        assert recorded(api, POOL_A) == {5}
        controller.stop()
    set_ready(api, "a", "True")
    with running(cluster.kubeconfig, tmp_path, *PATIENT) as controller:
        wait_recorded(api, POOL_A, set())
        assert recorded(api, POOL_B) == {6}
        controller.wait(lambda: released(controller), "it says so")
        assert released(controller) == [("10.40.0.5", "recreated")]


def test_addresses_of_a_deleted_node_wait_for_the_longer_grace(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    deal(api, "a", "b")
    with running(cluster.kubeconfig, tmp_path, *PATIENT) as controller:
        opened(api, POOL_A, POOL_B)
        for pool in (POOL_A, POOL_B):
            record(api, pool, 5, f"of-{pool[5]}", "u")
        api.delete(f"{NODES}/a")
        wait_recorded(api, POOL_B, set())
        assert recorded(api, POOL_A) == {5}
        controller.stop()
    with running(cluster.kubeconfig, tmp_path, *QUICK):
        # And then the node's slice is nobody's any more.
        wait_gone(api, POOLS, POOL_A)


def test_of_two_addresses_for_one_interface_the_one_in_use_stays(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    deal(api, "a")
    with running(cluster.kubeconfig, tmp_path, *QUICK) as controller:
        opened(api, POOL_A)
        uid = create_pod(api, "twice")
        record(api, POOL_A, 5, "twice", uid)
        record(api, POOL_A, 6, "twice", uid)
        record(api, POOL_A, 7, "twice", uid, ifname="net2")
        record(api, POOL_A, 8, "witness", "u")
        # Nothing says yet which one is in use: an ADD may be under way.
        wait_recorded(api, POOL_A, {5, 6, 7})
        name_addresses(api, "twice", "10.40.0.6")
        wait_recorded(api, POOL_A, {6, 7})
        controller.wait(lambda: len(released(controller)) == 2, "it says so")
        assert released(controller)[-1] == ("10.40.0.5", "superseded")


def test_pools_that_all_nodes_share_are_looked_after_too(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    pool = "blue-10.40.0.0-24"
    deal(api, "a", node_slice_size=None)
    with running(cluster.kubeconfig, tmp_path, *PATIENT) as controller:
        opened(api, pool)
        record(api, pool, 5, "lives", create_pod(api, "lives"), node="a")
        record(api, pool, 6, "gone", "u", node="a")
        # Of entries that whereabouts wrote nothing says on which node they are.
        record(api, pool, 7, "gone", ifname="")
        record(api, pool, 8, "lives", ifname="")
        record(api, pool, 9, "gone", "u", node="lost")
        wait_recorded(api, pool, {5, 7, 8, 9})
        controller.stop()
    with running(cluster.kubeconfig, tmp_path, *QUICK):
        wait_recorded(api, pool, {5, 8})


def test_pools_of_a_network_that_is_gone_are_emptied_and_go(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    deal(api, "a", node_slice_cooldown=0.1)
    with running(cluster.kubeconfig, tmp_path, *QUICK) as controller:
        opened(api, POOL_A)
        record(api, POOL_A, 5, "p1", create_pod(api, "p1"))
        api.delete(f"{nad_path()}/blue")
        opened(api)
        assert recorded(api, POOL_A) == {5}
        delete_pod(api, "p1")
        wait_gone(api, POOLS, POOL_A)
        controller.wait(lambda: table(api) is None, "the table is gone")


def test_entries_that_name_no_pod_are_left_alone(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    deal(api, "a")
    with running(cluster.kubeconfig, tmp_path, *QUICK):
        opened(api, POOL_A)
        path = f"{POOLS}/{POOL_A}"
        for offset, podref in enumerate(("", "/", "tenant", "tenant/", "a/b/c"), 5):
            value = {"id": "c", "podref": podref}
            api.patch(path, [{"op": "add", "path": f"/spec/allocations/{offset}", "value": value}])
        value = {"id": "c", "podref": "tenant/gone"}
        for key in ("07", "x", "20"):
            api.patch(path, [{"op": "add", "path": f"/spec/allocations/{key}", "value": value}])
        create_nad(api, "red", range="10.41.0.0/24")
        opened(api, POOL_A, "red-a-10.41.0.0-26")
        record(api, "red-a-10.41.0.0-26", 1, "witness", "u")
        wait_recorded(api, "red-a-10.41.0.0-26", set())
        left = set(api.get(path)["spec"]["allocations"])
        assert left == {"5", "6", "7", "8", "9", "07", "x"}
