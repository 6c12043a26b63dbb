"""Objects that disagree: what lasts is told, and live pods are left alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hack.cluster.api import Api
from hack.cluster.commands import SYSTEM_NAMESPACE
from hack.cluster.server import Cluster
from tests.integration.controller_process import (
    POOLS,
    TABLES,
    Controller,
    condition,
    create_nad,
    create_node,
    drop,
    events,
    holders,
    pools,
    running,
    table,
    wait_events,
    wait_open,
)
from tests.integration.pods import create_pod, record, recorded
from tests.integration.test_controller_metrics import shown
from whereabouts_fast.kube.resource import RESERVATIONS

POOL, SHARED = "blue-a-10.40.0.0-26", "blue-10.40.0.0-25"
QUICK = ("--inconsistency-grace", "0.5")


def wait_consistent(api: Api, status: str) -> dict[str, Any]:
    """Wait until the table of blue says so, and return the condition."""

    def of(items: list[dict[str, Any]]) -> dict[str, Any]:
        found = [one for item in items for one in item.get("status", {}).get("conditions", [])]
        return next((one for one in found if one["type"] == "Consistent"), {})

    return of(
        api.wait_for(
            TABLES,
            lambda items: of(items).get("status") == status,
            fieldSelector="metadata.name=blue",
        )
    )


def counted(controller: Controller, reason: str, network: str = "blue") -> str:
    """The value of the metric for a reason."""
    series = f'whereabouts_fast_inconsistencies{{network="{network}",reason="{reason}"}} '
    found = [line for line in shown(controller) if line.startswith(series)]
    return found[0].removeprefix(series) if found else ""


def test_an_allocation_outside_its_range_is_told_while_it_lasts(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "a")
    create_nad(api)
    create_pod(api, "p", node="a")
    with running(cluster.kubeconfig, tmp_path, *QUICK) as controller:
        wait_open(api, {POOL})
        assert wait_consistent(api, "True")["reason"] == "NothingFound"
        assert counted(controller, "AllocationOutsideRange") == "0.0"
        record(api, POOL, 300, "p")
        said = wait_consistent(api, "False")
        assert said["reason"] == "Inconsistent"
        assert said["observedGeneration"] >= 1
        for word in (POOL, "allocations 300 are outside of 10.40.0.0/26", "spec.allocations"):
            assert word in said["message"]
        (event,) = wait_events(api, "Inconsistent", 1, SYSTEM_NAMESPACE)
        assert event["type"] == "Warning"
        assert event["regarding"]["name"] == "blue"
        assert "allocations 300" in event["note"]
        assert counted(controller, "AllocationOutsideRange") == "1.0"
        # Other networks have nothing to do with it, and its pod keeps what it has.
        assert recorded(api, POOL) == {300}
        drop(api, POOL, 300)
        wait_consistent(api, "True")
        wait_events(api, "Consistent", 1, SYSTEM_NAMESPACE)
        assert counted(controller, "AllocationOutsideRange") == "0.0"


def test_what_was_wrong_before_the_start_is_found(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "a")
    create_nad(api)
    create_pod(api, "p", node="a")
    with running(cluster.kubeconfig, tmp_path) as controller:
        wait_open(api, {POOL})
        assert controller.stop() == 0
    record(api, POOL, 300, "p")
    with running(cluster.kubeconfig, tmp_path, *QUICK):
        assert POOL in wait_consistent(api, "False")["message"]


def test_an_address_of_two_live_pods_is_told_and_left_alone(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "a")
    create_nad(api, range="10.40.0.0/26")
    create_nad(api, "red", network_name="blue", range="10.40.0.0/25", node_slice_size=None)
    for name in ("p", "q"):
        create_pod(api, name, node="a")
    with running(cluster.kubeconfig, tmp_path, *QUICK) as controller:
        wait_open(api, {POOL, SHARED})
        assert wait_consistent(api, "True")
        record(api, POOL, 5, "p")
        record(api, SHARED, 5, "q")
        text = wait_consistent(api, "False")["message"]
        assert f"10.40.0.5 of pod tenant/p is also in IPPool {SHARED}, of pod tenant/q" in text
        (about,) = [
            one
            for one in wait_events(api, "Inconsistent", 2, SYSTEM_NAMESPACE)
            if one["regarding"]["kind"] == "IPPool"
        ]
        assert about["regarding"]["name"] == SHARED
        assert counted(controller, "AddressTwice", SHARED) == "1.0"
        assert recorded(api, POOL) == recorded(api, SHARED) == {5}
        drop(api, SHARED, 5)
        controller.wait(
            lambda: not counted(controller, "AddressTwice", SHARED), "it is not shown any more"
        )


def test_a_reservation_of_a_live_pod_without_allocation_is_told(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "a")
    create_nad(api)
    create_pod(api, "p", node="a")
    body = {
        "apiVersion": RESERVATIONS.api_version,
        "kind": RESERVATIONS.kind,
        "metadata": {"name": "blue-10.40.0.9", "namespace": SYSTEM_NAMESPACE},
        "spec": {"podref": "tenant/p", "containerid": "c", "ifname": "net1"},
    }
    with running(cluster.kubeconfig, tmp_path, *QUICK) as controller:
        wait_open(api, {POOL})
        api.create(RESERVATIONS.path(SYSTEM_NAMESPACE), body)
        (event,) = wait_events(api, "Inconsistent", 1, SYSTEM_NAMESPACE)
        assert event["regarding"]["name"] == "blue-10.40.0.9"
        assert counted(controller, "ReservationWithoutAllocation", "") == "1.0"
        # Now it is what it was made for.
        record(api, POOL, 9, "p", id="c")
        wait_events(api, "Consistent", 1, SYSTEM_NAMESPACE)
        assert counted(controller, "ReservationWithoutAllocation", "") == ""
        assert api.exists(RESERVATIONS.path(SYSTEM_NAMESPACE, "blue-10.40.0.9"))


def test_what_is_safe_is_put_right_and_never_told(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        create_node(api, name)
    create_nad(api)
    second = "blue-b-10.40.0.64-26"
    with running(cluster.kubeconfig, tmp_path, "--inconsistency-grace", "5") as controller:
        before = wait_open(api, {POOL, second})
        entry = {"nodeName": "a", "sliceRange": "10.40.0.0/26", "state": "Active"}
        path = f"{TABLES}/blue"
        # The same slice twice, an entry missing, and a pool missing.
        api.patch(path, [{"op": "add", "path": "/status/allocations/-", "value": entry}])
        controller.wait(
            lambda: len((table(api) or {})["status"]["allocations"]) == 2, "the second is dropped"
        )
        api.patch(path, [{"op": "remove", "path": "/status/allocations/0"}])
        controller.wait(lambda: "10.40.0.0/26" in holders(api), "the pool is entered")
        api.delete(f"{POOLS}/{second}")
        controller.wait(
            lambda: (
                second in (found := pools(api))
                and found[second]["metadata"]["uid"] != before[second]["metadata"]["uid"]
                and not found[second]["spec"].get("closed")
            ),
            "the pool is made anew",
        )
        assert holders(api) == {"10.40.0.0/26": ("a", "Active"), "10.40.0.64/26": ("b", "Active")}
        assert pools(api)[POOL]["metadata"]["uid"] == before[POOL]["metadata"]["uid"]
        assert condition(api, "Consistent")["status"] == "True"
        assert events(api, "Inconsistent", SYSTEM_NAMESPACE) == []


def test_a_table_that_cannot_be_read_says_so_and_is_left_alone(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "a")
    create_nad(api)
    with running(cluster.kubeconfig, tmp_path):
        wait_open(api, {POOL})
        path = f"{TABLES}/blue"
        odd = "/status/allocations/0/sliceRange"
        api.patch(path, [{"op": "replace", "path": odd, "value": "10.40.0.0/260"}])
        said = wait_consistent(api, "False")
        assert "10.40.0.0/260" in said["message"]
        assert condition(api, "Ready")["reason"] == "Unreadable"
        assert list(holders(api)) == ["10.40.0.0/260"]
        api.patch(path, [{"op": "replace", "path": odd, "value": "10.40.0.0/26"}])
        wait_consistent(api, "True")
        assert condition(api, "Ready")["reason"] == "AllNodesServed"
