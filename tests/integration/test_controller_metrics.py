"""What /metrics shows of a controller at work."""

from __future__ import annotations

from pathlib import Path

from hack.cluster.api import Api
from hack.cluster.commands import SYSTEM_NAMESPACE
from hack.cluster.server import Cluster
from tests.integration.controller_process import (
    NODES,
    POOLS,
    TABLES,
    Controller,
    create_nad,
    create_node,
    drop,
    fill,
    nad_path,
    running,
    wait_events,
    wait_gone,
    wait_open,
    wait_table,
)
from tests.integration.test_controller_process import fetch


def shown(controller: Controller) -> list[str]:
    status, text = fetch(controller, "/metrics")
    assert status == 200
    return text.splitlines()


def test_endpoints_and_metrics(cluster: Cluster, api: Api, tmp_path: Path) -> None:
    create_node(api, "n1")
    create_node(api, "n2")
    create_nad(api, range="10.40.0.0/26", exclude=["10.40.0.1-10.40.0.3"])
    with running(cluster.kubeconfig, tmp_path, "--node-addresses") as controller:
        wait_open(api, {"blue-n1-10.40.0.0-26"})
        pool = f"{POOLS}/blue-n1-10.40.0.0-26"
        entry = {"id": "c", "podref": "tenant/p"}
        api.patch(pool, [{"op": "add", "path": "/spec/allocations/5", "value": entry}])
        wanted = 'whereabouts_fast_addresses{network="blue",state="allocated"} 1.0'
        controller.wait(lambda: wanted in fetch(controller, "/metrics")[1], "the pool is counted")
        assert fetch(controller, "/healthz") == (200, "ok\n")
        assert fetch(controller, "/readyz") == (200, "ok\n")
        lines = fetch(controller, "/metrics")[1].splitlines()
    for line in (
        'whereabouts_fast_slices{network="blue",state="active"} 1.0',
        'whereabouts_fast_slices{network="blue",state="free"} 0.0',
        'whereabouts_fast_nodes_waiting{network="blue"} 1.0',
        'whereabouts_fast_addresses{network="blue",state="free"} 58.0',
        'whereabouts_fast_addresses{network="blue",state="reserved"} 2.0',
        'whereabouts_fast_addresses{network="blue",state="excluded"} 3.0',
        'whereabouts_fast_slice_assignments_total{network="blue",reason="dealt"} 1.0',
        'whereabouts_fast_slice_reclaims_total{network="blue",reason="node_gone"} 0.0',
        'leader_election_master_status{name="whereabouts-fast-controller"} 1.0',
        'whereabouts_fast_cache_synced{resource="ippools"} 1.0',
        'whereabouts_fast_cache_objects{resource="nodes"} 2.0',
        'whereabouts_fast_writes_total{kind="NodeSlicePool",result="ok"} 1.0',
        'whereabouts_fast_writes_total{kind="IPPool",result="ok"} 2.0',
        'whereabouts_fast_watch_restarts_total{reason="expired",resource="ippools"} 0.0',
        'whereabouts_fast_events_dropped_total{reason="NodeSlicesExhausted"} 0.0',
        'whereabouts_fast_node_addresses{network="blue",node="n1",state="allocated"} 1.0',
        'whereabouts_fast_node_addresses{network="blue",node="n1",state="reserved"} 2.0',
        'workqueue_depth{name="spaces"} 0.0',
    ):
        assert line in lines


def test_series_of_a_network_end_with_its_table(cluster: Cluster, api: Api, tmp_path: Path) -> None:
    create_node(api, "a")
    create_node(api, "b")
    create_nad(api, range="10.40.0.0/26", node_slice_cooldown=0.2)
    with running(cluster.kubeconfig, tmp_path) as controller:
        wait_open(api, {"blue-a-10.40.0.0-26"})
        api.delete(f"{NODES}/a")
        wait_table(api, lambda held: held == {"10.40.0.0/26": ("b", "Active")})
        reclaims = "whereabouts_fast_slice_reclaims_total"
        wanted = f'{reclaims}{{network="blue",reason="node_gone"}} 1.0'
        controller.wait(lambda: wanted in shown(controller), "the reclaim is counted")
        assert not any("node_addresses{" in line for line in shown(controller))
        fill(api, "blue-b-10.40.0.0-26", 5)
        api.delete(f"{nad_path()}/blue")
        wait_table(api, lambda held: held == {"10.40.0.0/26": ("b", "Draining")})
        # Its last pod is still there, and so are its series.
        assert any(line.startswith(reclaims) for line in shown(controller))
        api.patch(f"{POOLS}/blue-b-10.40.0.0-26", [{"op": "remove", "path": "/spec/allocations/5"}])
        wait_gone(api, TABLES, "blue")
        controller.wait(
            lambda: not [line for line in shown(controller) if 'network="blue"' in line],
            "its series are gone",
        )


def test_a_network_without_slices_has_its_addresses_counted(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_nad(api, range="10.40.0.0/28", node_slice_size=None, exclude=["10.40.0.3"])
    with running(cluster.kubeconfig, tmp_path) as controller:
        wait_open(api, {"blue-10.40.0.0-28"})
        fill(api, "blue-10.40.0.0-28", 1)
        series = 'whereabouts_fast_addresses{network="blue-10.40.0.0-28",state="%s"} %.1f'
        expected = {"allocated": 1, "free": 12, "reserved": 2, "excluded": 1}
        lines = {series % item for item in expected.items()}
        controller.wait(lambda: lines <= set(shown(controller)), "its addresses are counted")
        api.delete(f"{nad_path()}/blue")
        api.patch(f"{POOLS}/blue-10.40.0.0-28", [{"op": "remove", "path": "/spec/allocations/1"}])
        wait_gone(api, POOLS, "blue-10.40.0.0-28")
        controller.wait(
            lambda: not [line for line in shown(controller) if "blue" in line],
            "its series are gone",
        )


def test_a_shared_pool_that_is_full_is_told_once(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_nad(api, range="10.40.0.0/30", node_slice_size=None)
    pool = "blue-10.40.0.0-30"
    flags = ("--leak-grace", "300")
    with running(cluster.kubeconfig, tmp_path, *flags) as controller:
        wait_open(api, {pool})
        for offset in (1, 2):
            fill(api, pool, offset)
        (event,) = wait_events(api, "AddressesExhausted", 1, SYSTEM_NAMESPACE)
        assert event["regarding"]["name"] == pool
        assert event["note"].startswith("all 2 addresses of 10.40.0.0/30 are given")
        (entry,) = controller.entries("Ran out of addresses")
        assert entry["pool"] == pool
        free = f'whereabouts_fast_addresses{{network="{pool}",state="free"}} 0.0'
        assert free in shown(controller)
        assert controller.stop() == 0
    # Whoever leads next says so again, and when it is full anew.
    with running(cluster.kubeconfig, tmp_path, *flags) as controller:
        controller.wait(lambda: controller.entries("Ran out of addresses"), "it is told")
        free = f'whereabouts_fast_addresses{{network="{pool}",state="free"}} 2.0'
        for offset in (1, 2):
            drop(api, pool, offset)
        controller.wait(lambda: free in shown(controller), "all are free")
        for offset in (1, 2):
            fill(api, pool, offset)
        controller.wait(
            lambda: len(controller.entries("Ran out of addresses")) > 1, "it is news again"
        )
