"""What is read live before an address is released: its pod, its node, its virtual machine.

Only the API server's own "there is none of that name" counts as gone; whatever else goes wrong is
raised, and nothing is released.
"""

from __future__ import annotations

from typing import Any

from whereabouts_fast.controller.usage import Machine
from whereabouts_fast.ipam.leaks import Pod
from whereabouts_fast.kube.client import Client, Object
from whereabouts_fast.kube.errors import NotFound
from whereabouts_fast.kube.resource import CRDS, NODES, PODS, VMIS, Resource
from whereabouts_fast.resources.pods import decode_pod

_PAGE = 500
# What KubeVirt calls the pods of a machine, and where the server cuts a generated name off.
_LAUNCHER = "virt-launcher-"
_NAME_KEPT = 58


async def read_pod(client: Client, podref: str) -> Pod | None:
    """Return the pod of a name, finished or not; None when there is none. Raises ApiError."""
    namespace, _, name = podref.partition("/")
    raw = await _get(client, PODS, namespace, name)
    return None if raw is None else decode_pod(raw)


async def node_is_lost(client: Client, name: str) -> bool:
    """Return whether containers of a node may run unseen: it is gone, not ready, or not known.

    A node that has never said whether it is ready has never run any.
    """
    if not name:
        return True
    raw = await _get(client, NODES, None, name)
    if raw is None:
        return True
    conditions = (raw.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") != "True" for c in conditions)


async def node_is_gone(client: Client, name: str) -> bool:
    """Return whether there is no node of a name. Raises ApiError."""
    return await _get(client, NODES, None, name) is None


async def machine_exists(client: Client, podref: str, machine: Machine | None) -> bool:
    """Return whether the virtual machine of a pod exists that is itself gone or finished.

    Where nobody has seen the pod alive (`machine` is None) its name tells which one it may be of.
    """
    namespace, _, pod = podref.partition("/")
    if machine is not None:
        name, uid = machine
        found = await _machine(client, namespace, name)
        return found is not None and (not uid or found["metadata"].get("uid") == uid)
    if not pod.startswith(_LAUNCHER):
        return False
    whole = pod.rpartition("-")[0]
    name = whole.removeprefix(_LAUNCHER)
    if len(whole) + 1 < _NAME_KEPT:
        return await _machine(client, namespace, name) is not None
    return await _any_machine(client, namespace, name)


async def _machine(client: Client, namespace: str, name: str) -> Object | None:
    if not name:
        return None
    try:
        return await client.get(VMIS, namespace, name, metadata_only=True)
    except NotFound:
        await _require_served(client)
        return None


async def _any_machine(client: Client, namespace: str, prefix: str) -> bool:
    token: str | None = None
    while True:
        try:
            page = await client.list(
                VMIS, namespace, metadata_only=True, limit=_PAGE, continue_token=token
            )
        except NotFound:
            await _require_served(client)
            return False
        if any(item["metadata"]["name"].startswith(prefix) for item in page["items"]):
            return True
        token = page["metadata"].get("continue")
        if not token:
            return False


async def _require_served(client: Client) -> None:
    """Raise when the kind is defined and yet was not found: then it is not served just now.

    A server that has just started, or read a definition anew, answers so for a moment.
    """
    crd = await _get(client, CRDS, None, VMIS.full_name)
    if crd is None:
        return
    # Now that it is known to be defined, this answers only when it is served.
    await client.list(VMIS, None, metadata_only=True, limit=1)


async def _get(
    client: Client, resource: Resource, namespace: str | None, name: str
) -> dict[str, Any] | None:
    try:
        return await client.get(resource, namespace, name)
    except NotFound as error:
        if error.reason != "NotFound":
            raise  # a page of something on the way, not the API server's word
        return None
