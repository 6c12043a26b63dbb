"""Reservations without allocations, and allocations without reservations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hack.cluster.api import Api
from hack.cluster.server import Cluster
from tests.integration.controller_process import GROUP, POOLS, create_nad, create_node, running
from tests.integration.pods import (
    QUICK,
    create_pod,
    delete_pod,
    finish,
    opened,
    record,
    wait_recorded,
)
from tests.integration.test_controller_overlaps import history
from whereabouts_fast.controller.pairs import _names, _older
from whereabouts_fast.ipam.leaks import Pod
from whereabouts_fast.ipam.overlap import Holder
from whereabouts_fast.resources.reservations import ReservationView

RESERVATIONS = f"{GROUP}/namespaces/ipam-system/overlappingrangeipreservations"
WIDE, SLICE = "10.40.0.0-16", "n1-10.40.0.0-26"


def reserve(api: Api, name: str, pod: str, container: str, ifname: str = "net1") -> None:
    body = {
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
        "kind": "OverlappingRangeIPReservation",
        "metadata": {"name": name},
        "spec": {"podref": f"tenant/{pod}", "containerid": container, "ifname": ifname},
    }
    api.create(RESERVATIONS, body)


def wait_reserved(api: Api, expected: dict[str, str]) -> None:
    """Wait until there are just these reservations: name -> pod."""

    def found(items: list[dict[str, Any]]) -> dict[str, str]:
        return {i["metadata"]["name"]: i["spec"]["podref"] for i in items}

    wanted = {name: f"tenant/{pod}" for name, pod in expected.items()}
    api.wait_for(RESERVATIONS, lambda items: found(items) == wanted)


def test_a_reservation_without_allocation_goes_when_its_pod_is_gone(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    for name in ("lives", "ends", "goes"):
        create_pod(api, name)
    reserve(api, "10.40.0.1", "lives", "c1")
    reserve(api, "10.40.0.2", "goes", "c2")
    reserve(api, "blue-10.40.0.3", "ends", "c3")
    reserve(api, "10.40.0.4", "never-was", "c4")
    with running(cluster.kubeconfig, tmp_path, *QUICK) as controller:
        wait_reserved(api, {"10.40.0.1": "lives", "10.40.0.2": "goes", "blue-10.40.0.3": "ends"})
        delete_pod(api, "goes")
        finish(api, "ends")
        wait_reserved(api, {"10.40.0.1": "lives"})
        controller.wait(lambda: len(controller.entries("Released reservation")) == 3, "it says so")
        lines = controller.entries("Released reservation")
        assert {line["pod"] for line in lines} == {
            "tenant/never-was",
            "tenant/goes",
            "tenant/ends",
        }


def test_of_a_leak_the_entry_goes_first_and_then_its_reservation(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "n1")
    create_nad(api, "wide", network_name=None, range="10.40.0.0/16", node_slice_size=None)
    create_nad(api, "narrow", network_name=None)
    with running(cluster.kubeconfig, tmp_path, *QUICK):
        opened(api, WIDE, SLICE)
        reserve(api, "10.40.0.5", "goes", "c-5")
        record(api, SLICE, 5, "goes", create_pod(api, "goes"))
        # Reserved by a pod that lives, and recorded by one that is gone: not that one's to take.
        reserve(api, "10.40.0.6", "lives", "c-x")
        create_pod(api, "lives")
        record(api, SLICE, 6, "goes", "u")
        mark = cluster.audit.mark()
        delete_pod(api, "goes")
        wait_recorded(api, SLICE, set())
        wait_reserved(api, {"10.40.0.6": "lives"})
    writes = [(verb, resource) for verb, resource, _ in history(cluster, mark) if verb != "list"]
    patch, delete = ("patch", "ippools"), ("delete", "overlappingrangeipreservations")
    assert writes[0] == patch
    assert sorted(writes) == [delete, patch, patch]


def test_an_allocation_in_a_marked_pool_gets_the_reservation_it_lacks(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "n1")
    create_nad(api, "wide", network_name=None, range="10.40.0.0/16", node_slice_size=None)
    create_nad(api, "narrow", network_name=None)
    with running(cluster.kubeconfig, tmp_path, *QUICK):
        opened(api, WIDE, SLICE)
        record(api, SLICE, 5, "p1", create_pod(api, "p1"))
        record(api, WIDE, 6, "p1", create_pod(api, "p2"), podref="tenant/p2")
        wait_reserved(api, {"10.40.0.5": "p1", "10.40.0.6": "p2"})
        (spec,) = (
            item["spec"]
            for item in api.get(RESERVATIONS)["items"]
            if item["metadata"]["name"] == "10.40.0.5"
        )
        assert (spec["containerid"], spec["ifname"]) == ("c-5", "net1")
        # A DEL that died between the two leaves what goes with the pod.
        api.patch(f"{POOLS}/{SLICE}", [{"op": "remove", "path": "/spec/allocations/5"}])
        delete_pod(api, "p1")
        wait_reserved(api, {"10.40.0.6": "p2"})


def test_a_reservation_older_than_its_pod_was_made_for_an_earlier_one() -> None:
    holder = Holder("tenant/sts-0", "c")
    pod = Pod("tenant/sts-0", "u", created=1000.0, addresses=(0x0A280005,))
    assert _older(ReservationView("10.40.0.6", "r", holder, created=900.0), pod)
    # Clocks of API servers differ, and an ADD that is under way is always younger.
    for created in (941.0, 1000.0, 1001.0, None):
        assert not _older(ReservationView("10.40.0.6", "r", holder, created=created), pod)
    assert _names(ReservationView("10.40.0.5", "r", holder), pod)
    assert _names(ReservationView("blue-10.40.0.5", "r", holder), pod)
    assert not _names(ReservationView("110.40.0.5", "r", holder), pod)
