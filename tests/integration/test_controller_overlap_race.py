"""Pods that get addresses while a network comes whose range overlaps theirs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

from hack.cluster.api import Api, ApiError
from hack.cluster.server import Cluster
from tests.integration.controller_process import (
    GROUP,
    POOLS,
    create_nad,
    create_node,
    find,
    pools,
    running,
    wait_open,
)
from whereabouts_fast.ipam import address, naming, pool, ranges

RESERVATIONS = f"{GROUP}/namespaces/ipam-system/overlappingrangeipreservations"
SLICE, SHARED = "n1-10.40.0.0-26", "10.40.0.0-26"
WANTED = 15
SPACE = ranges.build("10.40.0.0/26")


def reserve(api: Api, offset: int, entry: pool.Entry) -> str:
    """Create the address's reservation and return its name, "" when it is somebody else's."""
    name = naming.reservation(address.text(4, SPACE.address(offset)))
    body = {
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
        "kind": "OverlappingRangeIPReservation",
        "metadata": {"name": name},
        "spec": {"podref": entry.podref, "containerid": entry.id, "ifname": entry.ifname},
    }
    try:
        api.create(RESERVATIONS, body)
    except ApiError as error:
        if error.status != 409:
            raise
        return ""
    return name


def attach(api: Api, name: str, entry: pool.Entry, stop: Event) -> int | None:
    """Take an address as the plugin does: what is known of the pool is as old as the patch."""
    refused: set[int] = set()
    while not stop.is_set():
        found = find(api, f"{POOLS}/{name}")
        if found is None or found["spec"].get("closed"):
            continue
        marked = bool(found["spec"].get("overlapping"))
        offset = pool.choose(SPACE, pool.offsets(found["spec"]["allocations"]) | refused)
        if offset is None:
            return None
        reservation = reserve(api, offset, entry) if marked else ""
        if marked and not reservation:
            refused.add(offset)
            continue
        try:
            api.patch(f"{POOLS}/{name}", pool.add_patch(offset, entry, marked))
        except ApiError as error:
            if error.status not in (409, 422):
                raise
            if reservation:
                api.delete(f"{RESERVATIONS}/{reservation}")
            continue
        return offset
    return None


def test_no_pod_shares_its_address_with_one_of_the_other_network(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    """Case U3, with pods at the same time on both sides, each taking the lowest address."""
    create_node(api, "n1")
    create_nad(api, "a", network_name=None)
    stop, begun = Event(), Event()

    def many(name: str, prefix: str) -> list[int]:
        got = []
        for number in range(WANTED):
            entry = pool.Entry(f"{prefix}{number}", f"tenant/{prefix}{number}", "net1")
            offset = attach(api, name, entry, stop)
            if offset is not None:
                got.append(offset)
            if number == WANTED // 4:
                begun.set()
        return got

    with running(cluster.kubeconfig, tmp_path), ThreadPoolExecutor(4) as threads:
        try:
            wait_open(api, {SLICE})
            jobs = [threads.submit(many, SLICE, prefix) for prefix in ("a", "b")]
            jobs += [threads.submit(many, SHARED, "c")]
            assert begun.wait(30)
            create_nad(api, "b", network_name=None, node_slice_size=None, range="10.40.0.0/26")
            given = [offset for job in jobs for offset in job.result(60)]
        finally:
            stop.set()
    assert len(given) == 3 * WANTED
    assert len(set(given)) == 3 * WANTED
    found = pools(api)
    assert all(found[name]["spec"]["overlapping"] for name in (SLICE, SHARED))
    reserved = {item["metadata"]["name"] for item in api.get(RESERVATIONS)["items"]}
    assert reserved == {naming.reservation(address.text(4, SPACE.address(n))) for n in given}
