"""Pods as their owners make them, and the entries that a plugin records for them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from hack.cluster.api import Api
from tests.integration.controller_process import LIMIT, POOLS, create_nad, create_node, wait_open
from whereabouts_fast.kube.resource import PODS

STATUS = "k8s.v1.cni.cncf.io/network-status"
QUICK = ("--leak-grace", "0.2", "--leak-grace-lost", "0.2")
# The lost grace never ends.
PATIENT = ("--leak-grace", "0.2", "--leak-grace-lost", "3600")


def create_pod(
    api: Api, name: str, *, addresses: Iterable[str] = (), node: str = "", **metadata: Any
) -> str:
    """Create a pod and return its uid; `addresses` are those of its network-status."""
    notes = dict(metadata.pop("annotations", {}))
    if named := list(addresses):
        # One network, the default one, with an interface name of its own: evidence all the same.
        notes[STATUS] = json.dumps([{"name": "other", "interface": "x", "ips": named}])
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": notes, **metadata},
        "spec": {
            "containers": [{"name": "c", "image": "none"}],
            **({"nodeName": node} if node else {}),
        },
    }
    return str(api.create(PODS.path("tenant"), body)["metadata"]["uid"])


def name_addresses(api: Api, name: str, *addresses: str) -> None:
    """Write the network-status of a pod, as the meta plugin does after its ADDs."""
    text = json.dumps([{"name": "tenant/blue", "interface": "net1", "ips": list(addresses)}])
    api.patch(PODS.path("tenant", name), {"metadata": {"annotations": {STATUS: text}}})


def finish(api: Api, name: str, phase: str = "Failed", reason: str = "Shutdown") -> None:
    """Let a pod end without being deleted, as a node that shuts down in order does."""
    patch = {"status": {"phase": phase, "reason": reason}}
    api.patch(PODS.path("tenant", name) + "/status", patch)


def delete_pod(api: Api, name: str) -> None:
    """Delete a pod at once, by force."""
    api.delete(PODS.path("tenant", name), grace=0)


def set_ready(api: Api, node: str, status: str) -> None:
    """Have a node's kubelet, or the lack of one, say whether it is ready."""
    condition = {"type": "Ready", "status": status, "reason": "Test", "message": ""}
    api.patch(f"/api/v1/nodes/{node}/status", {"status": {"conditions": [condition]}})


def record(api: Api, pool: str, offset: int, pod: str, uid: str = "", **more: str) -> None:
    """Record an address for a pod of the tenant; an empty value leaves a key out."""
    entry = {"id": f"c-{offset}", "podref": f"tenant/{pod}", "ifname": "net1", "uid": uid, **more}
    value = {key: text for key, text in entry.items() if text}
    path = f"/spec/allocations/{offset}"
    api.patch(f"{POOLS}/{pool}", [{"op": "add", "path": path, "value": value}])


def recorded(api: Api, pool: str) -> set[int]:
    """The offsets that are taken in a pool."""
    return {int(key) for key in api.get(f"{POOLS}/{pool}")["spec"]["allocations"]}


def wait_recorded(api: Api, pool: str, expected: set[int], seconds: float = LIMIT) -> None:
    """Wait until exactly these offsets are taken in a pool."""

    def taken(items: list[dict[str, Any]]) -> set[int]:
        return {int(key) for item in items for key in item["spec"]["allocations"]}

    api.wait_for(
        POOLS,
        lambda items: taken(items) == expected,
        seconds=seconds,
        fieldSelector=f"metadata.name={pool}",
    )


def deal(api: Api, *nodes: str, **ipam: object) -> None:
    """Create nodes and the network blue; a controller that runs opens its pools."""
    for node in nodes:
        create_node(api, node)
    create_nad(api, **ipam)  # type: ignore[arg-type]


def opened(api: Api, *names: str) -> None:
    """Wait until exactly these pools are open."""
    wait_open(api, set(names))
