"""Networks of one address space whose ranges overlap, and networks that change their mode."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hack.cluster.api import Api
from hack.cluster.server import Cluster
from tests.integration.controller_process import (
    GROUP,
    POOLS,
    condition,
    create_nad,
    create_node,
    drop,
    events,
    fill,
    nad_path,
    pools,
    running,
    wait_events,
    wait_gone,
    wait_open,
)

AGENT = "whereabouts-fast-controller"
RESERVATIONS = f"{GROUP}/namespaces/ipam-system/overlappingrangeipreservations"


ALIVE = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "alive"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


def classic(api: Api, name: str, **ipam: Any) -> dict[str, Any]:
    return create_nad(api, name, **{"node_slice_size": None, "network_name": None, **ipam})


def sliced(api: Api, name: str, **ipam: Any) -> dict[str, Any]:
    return create_nad(api, name, **{"network_name": None, **ipam})


def marked(api: Api) -> set[str]:
    return {name for name, pool in pools(api).items() if pool["spec"].get("overlapping")}


def reservations(api: Api) -> dict[str, dict[str, str]]:
    return {i["metadata"]["name"]: i["spec"] for i in api.get(RESERVATIONS)["items"]}


def holder(offset: int, pod: str = "tenant/p1") -> dict[str, str]:
    """The reservation of what `fill` records."""
    return {"podref": pod, "containerid": f"c-{offset}", "ifname": "net1"}


def reservation(name: str, spec: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
        "kind": "OverlappingRangeIPReservation",
        "metadata": {"name": name},
        "spec": spec,
    }


def wait_marks(api: Api, names: set[str]) -> None:
    api.wait_for(
        POOLS,
        lambda items: (
            {i["metadata"]["name"] for i in items if i["spec"].get("overlapping")} == names
        ),
    )


def edit(api: Api, name: str, **ipam: object) -> None:
    """Change the configuration of a NAD; None removes a key."""
    path = f"{nad_path()}/{name}"
    config = json.loads(api.get(path)["spec"]["config"])
    section = {**config["ipam"], **ipam}
    config["ipam"] = {key: value for key, value in section.items() if value is not None}
    api.patch(path, {"spec": {"config": json.dumps(config)}})


def history(cluster: Cluster, mark: Any) -> list[tuple[str, str, str]]:
    """The controller's requests about pools and reservations: (verb, resource, name).

    In order of their arrival; a create has no name.
    """
    return [
        (entry.verb, entry.resource, entry.name)
        for entry in cluster.audit.entries(mark)
        if entry.agent == AGENT
        and entry.resource in ("ippools", "overlappingrangeipreservations")
        and entry.verb in ("create", "patch", "delete", "list")
    ]


def test_two_networks_that_come_at_one_moment_are_both_marked(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    """Case U3."""
    names = {"10.40.0.0-24", "10.40.0.0-16"}
    with running(cluster.kubeconfig, tmp_path) as controller:
        controller.wait(lambda: controller.entries("Began to lead"), "it leads")
        classic(api, "a")
        classic(api, "b", range="10.40.0.0/16")
        found = wait_open(api, names)
        assert all(pool["spec"]["overlapping"] is True for pool in found.values())
        (event,) = wait_events(api, "OverlappingRanges", 1)
        assert event["type"] == "Warning"
        for word in ("tenant/a", "tenant/b", "10.40.0.0/16", "10.40.0.0/24"):
            assert word in event["note"]
        classic(api, "c", range="10.50.0.0/24")
        wait_open(api, names | {"10.50.0.0-24"})
        assert marked(api) == names
        assert len(events(api, "OverlappingRanges")) == 1


def test_addresses_are_reserved_before_an_overlapping_pool_opens(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "n1")
    sliced(api, "a")
    with running(cluster.kubeconfig, tmp_path):
        wait_open(api, {"n1-10.40.0.0-26"})
        for offset in (1, 9):
            fill(api, "n1-10.40.0.0-26", offset)
        mark = cluster.audit.mark()
        classic(api, "b", range="10.40.0.0/16")
        wait_open(api, {"n1-10.40.0.0-26", "10.40.0.0-16"})
        assert marked(api) == {"n1-10.40.0.0-26", "10.40.0.0-16"}
        assert reservations(api) == {"10.40.0.1": holder(1), "10.40.0.9": holder(9)}
        assert condition(api, "Overlapping", "a")["status"] == "True"
    done = history(cluster, mark)
    verbs = [(verb, resource) for verb, resource, _ in done]
    # Shown before it looks; marked; read again; reserved; opened.
    read, marking = ("list", "ippools"), ("patch", "ippools")
    reserving = ("create", "overlappingrangeipreservations")
    assert verbs[0] == ("create", "ippools")
    at = verbs.index(marking)
    assert read in verbs[1:at]
    assert {name for _, _, name in done[at : at + 2]} == {"n1-10.40.0.0-26", "10.40.0.0-16"}
    assert verbs[at : at + 6] == [
        marking,
        marking,
        read,
        ("list", reserving[1]),
        reserving,
        reserving,
    ]
    assert done[at + 6] == ("patch", "ippools", "10.40.0.0-16")


def test_marks_go_once_the_other_side_is_gone(cluster: Cluster, api: Api, tmp_path: Path) -> None:
    create_node(api, "n1")
    sliced(api, "a")
    classic(api, "b", range="10.40.0.0/16")
    both = {"n1-10.40.0.0-26", "10.40.0.0-16"}
    with running(cluster.kubeconfig, tmp_path) as controller:
        wait_open(api, both)
        fill(api, "10.40.0.0-16", 300)
        api.delete(f"{nad_path()}/b")
        wait_open(api, {"n1-10.40.0.0-26"})
        controller.wait(lambda: controller.entries("Closed shared pool"), "it closes")
        # Closed is not gone: its pods live on, and the marks stay.
        assert marked(api) == both
        drop(api, "10.40.0.0-16", 300)
        wait_gone(api, POOLS, "10.40.0.0-16")
        wait_marks(api, set())
        wait_no_notes(api)


def wait_no_notes(api: Api) -> None:
    """Wait until no pool has an annotation."""
    api.wait_for(POOLS, lambda items: not any(i["metadata"].get("annotations") for i in items))


def test_reservations_go_with_the_overlap_that_they_were_for(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "n1")
    sliced(api, "a")
    with running(cluster.kubeconfig, tmp_path):
        wait_open(api, {"n1-10.40.0.0-26"})
        for offset in (1, 9):
            fill(api, "n1-10.40.0.0-26", offset)
        classic(api, "b", range="10.40.0.0/16")
        wait_open(api, {"n1-10.40.0.0-26", "10.40.0.0-16"})
        assert reservations(api).keys() == {"10.40.0.1", "10.40.0.9"}
        # One that is not of an address in use is none of this business, and neither is another's.
        api.create(RESERVATIONS, reservation("10.40.0.5", {"podref": "tenant/p1"}))
        api.delete(f"{RESERVATIONS}/10.40.0.9")
        api.create(RESERVATIONS, reservation("10.40.0.9", {"podref": "tenant/other"}))
        api.delete(f"{nad_path()}/b")
        wait_gone(api, POOLS, "10.40.0.0-16")
        wait_gone(api, RESERVATIONS, "10.40.0.1")
        wait_no_notes(api)
        assert reservations(api).keys() == {"10.40.0.5", "10.40.0.9"}
        assert pools(api)["n1-10.40.0.0-26"]["spec"]["allocations"].keys() == {"1", "9"}
        # The overlap comes back, and with it what keeps the addresses apart.
        api.delete(f"{RESERVATIONS}/10.40.0.9")
        classic(api, "b", range="10.40.0.0/16")
        wait_open(api, {"n1-10.40.0.0-26", "10.40.0.0-16"})
        assert reservations(api).keys() == {"10.40.0.1", "10.40.0.5", "10.40.0.9"}


def test_a_reservation_that_somebody_is_about_to_remove_is_kept_when_it_is_needed(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    """A controller was stopped between its announcement and the removal."""
    create_node(api, "n1")
    sliced(api, "a")
    note = {"whereabouts-fast.io/lifting": "theirs"}
    with running(cluster.kubeconfig, tmp_path):
        wait_open(api, {"n1-10.40.0.0-26"})
        fill(api, "n1-10.40.0.0-26", 1)
        body = reservation("10.40.0.1", holder(1))
        body["metadata"]["annotations"] = note
        announced = api.create(RESERVATIONS, body)
        classic(api, "b", range="10.40.0.0/16")
        wait_open(api, {"n1-10.40.0.0-26", "10.40.0.0-16"})
    kept = api.get(f"{RESERVATIONS}/10.40.0.1")
    assert kept["metadata"]["uid"] == announced["metadata"]["uid"]
    assert not kept["metadata"].get("annotations")
    assert kept["metadata"]["resourceVersion"] != announced["metadata"]["resourceVersion"]


def test_networks_that_do_not_want_the_check_do_not_pay(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "n1")
    sliced(api, "a", enable_overlapping_ranges=False)
    with running(cluster.kubeconfig, tmp_path):
        wait_open(api, {"n1-10.40.0.0-26"})
        fill(api, "n1-10.40.0.0-26", 1)
        classic(api, "b", range="10.40.0.0/16")
        wait_open(api, {"n1-10.40.0.0-26", "10.40.0.0-16"})
        assert marked(api) == set()
        assert reservations(api) == {}
        assert events(api, "OverlappingRanges") == []


def test_a_network_that_goes_to_slice_mode_keeps_its_addresses(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "n1")
    classic(api, "blue", network_name="blue", enable_overlapping_ranges=False)
    shared, slice_ = "blue-10.40.0.0-24", "blue-n1-10.40.0.0-26"
    with running(cluster.kubeconfig, tmp_path):
        wait_open(api, {shared})
        for offset in (1, 200):
            fill(api, shared, offset)
        edit(api, "blue", node_slice_size="/26")
        wait_open(api, {slice_})
        found = pools(api)
        assert found[shared]["spec"]["closed"] is True
        assert sorted(found[shared]["spec"]["allocations"]) == ["1", "200"]
        assert marked(api) == {shared, slice_}
        assert reservations(api) == {"blue-10.40.0.1": holder(1), "blue-10.40.0.200": holder(200)}
        for offset in (1, 200):
            drop(api, shared, offset)
        wait_gone(api, POOLS, shared)
        wait_marks(api, set())


def test_a_network_that_goes_to_classic_mode_keeps_its_addresses(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    for name in ("n1", "n2"):
        create_node(api, name)
    sliced(api, "blue", network_name="blue", node_slice_cooldown=0)
    shared, slice_ = "blue-10.40.0.0-24", "blue-n1-10.40.0.0-26"
    with running(cluster.kubeconfig, tmp_path):
        wait_open(api, {slice_, "blue-n2-10.40.0.64-26"})
        fill(api, slice_, 5)
        edit(api, "blue", node_slice_size=None)
        wait_open(api, {shared})
        assert pools(api)[slice_]["spec"]["closed"] is True
        assert marked(api) >= {shared, slice_}
        assert reservations(api)["blue-10.40.0.5"] == holder(5)
        drop(api, slice_, 5)
        wait_gone(api, POOLS, slice_)
        wait_marks(api, set())


def test_a_controller_that_died_between_the_writes_is_followed_by_one_that_finishes(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    """Marked is not reserved: whoever marked it may have come no further."""
    create_node(api, "n1")
    sliced(api, "a")
    with running(cluster.kubeconfig, tmp_path) as controller:
        wait_open(api, {"n1-10.40.0.0-26"})
        assert controller.stop() == 0
    for offset in (1, 2, 3):
        fill(api, "n1-10.40.0.0-26", offset)
    mark = [{"op": "add", "path": "/spec/overlapping", "value": True}]
    api.patch(f"{POOLS}/n1-10.40.0.0-26", mark)
    # One is reserved, one by somebody who is gone, one by an older container of the same pod.
    for name, spec in {
        "10.40.0.1": holder(1),
        "10.40.0.2": holder(7, "tenant/gone"),
        "10.40.0.3": holder(7),
    }.items():
        api.create(RESERVATIONS, reservation(name, spec))
    classic(api, "b", range="10.40.0.0/16")
    with running(cluster.kubeconfig, tmp_path):
        wait_open(api, {"n1-10.40.0.0-26", "10.40.0.0-16"})
    assert reservations(api) == {f"10.40.0.{n}": holder(n) for n in (1, 2, 3)}


def test_a_pool_stays_closed_while_a_live_pod_has_reserved_anothers_address(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "n1")
    sliced(api, "a")
    api.create("/api/v1/namespaces/tenant/pods", ALIVE)
    with running(cluster.kubeconfig, tmp_path) as controller:
        wait_open(api, {"n1-10.40.0.0-26"})
        fill(api, "n1-10.40.0.0-26", 1)
        api.create(RESERVATIONS, reservation("10.40.0.1", holder(9, "tenant/alive")))
        classic(api, "b", range="10.40.0.0/16")
        told: Callable[[], list[dict[str, Any]]] = lambda: controller.entries("Failed to settle")  # noqa: E731
        (entry, *_) = controller.wait(told, "it says why")
        for word in ("10.40.0.1", "tenant/alive", "tenant/p1"):
            assert word in entry["err"]
        assert pools(api)["10.40.0.0-16"]["spec"]["closed"] is True
        # Nobody else waits for it.
        classic(api, "c", range="10.50.0.0/24")
        wait_open(api, {"n1-10.40.0.0-26", "10.50.0.0-24"})
        # An ADD that was under way takes its reservation back when its patch fails.
        api.delete(f"{RESERVATIONS}/10.40.0.1")
        wait_open(api, {"n1-10.40.0.0-26", "10.50.0.0-24", "10.40.0.0-16"})
        assert reservations(api) == {"10.40.0.1": holder(1)}


def test_a_slice_that_cannot_open_yet_holds_nobody_else_up(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "n1")
    classic(api, "a")
    api.create("/api/v1/namespaces/tenant/pods", ALIVE)
    with running(cluster.kubeconfig, tmp_path) as controller:
        wait_open(api, {"10.40.0.0-24"})
        fill(api, "10.40.0.0-24", 1)
        api.create(RESERVATIONS, reservation("10.40.0.1", holder(9, "tenant/alive")))
        sliced(api, "b", range="10.40.0.0/24")
        controller.wait(lambda: controller.entries("Failed to settle"), "it is stuck")
        classic(api, "c", range="10.50.0.0/24")
        wait_open(api, {"10.40.0.0-24", "10.50.0.0-24"})
        api.delete(f"{RESERVATIONS}/10.40.0.1")
        wait_open(api, {"10.40.0.0-24", "10.50.0.0-24", "n1-10.40.0.0-26"})


def test_pools_that_others_opened_over_each_other_are_marked_and_reserved(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    for prefix, offset in ((24, 7), (16, 9)):
        body = {
            "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
            "kind": "IPPool",
            "metadata": {"name": f"10.40.0.0-{prefix}"},
            "spec": {"range": f"10.40.0.0/{prefix}", "allocations": {}},
        }
        api.create(POOLS, body)
        fill(api, f"10.40.0.0-{prefix}", offset)
    with running(cluster.kubeconfig, tmp_path):
        wait_marks(api, {"10.40.0.0-24", "10.40.0.0-16"})
        api.wait_for(RESERVATIONS, lambda items: len(items) == 2)
        assert reservations(api) == {"10.40.0.7": holder(7), "10.40.0.9": holder(9)}
