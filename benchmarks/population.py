"""A cluster of any size as it is when the controller and the plugin have worked in it for long."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

from whereabouts_fast.ipam import address, naming
from whereabouts_fast.ipam.holdings import Figures, Held
from whereabouts_fast.ipam.pool import Entry
from whereabouts_fast.kube.client import Client
from whereabouts_fast.kube.errors import NotFound
from whereabouts_fast.kube.resource import IPPOOLS, NADS, NODES, NODESLICEPOOLS, PODS, Resource
from whereabouts_fast.resources.pools import encode_pool
from whereabouts_fast.resources.tables import decode_table, encode_table

SYSTEM, TENANT = "ipam-system", "tenant"
# network_name -> range; 8,192 slices each.
NETWORKS = {
    name: f"10.{64 + 8 * at}.0.0/13" for at, name in enumerate(("red", "green", "blue", "grey"))
}
SIZE, PODS_PER_NODE, IN_FLIGHT = 26, 10, 16
STRIP = [{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]
# What of each kind the controller watches: resource, namespace, metadata only.
WATCHED: tuple[tuple[Resource, str | None, bool], ...] = (
    (NODES, None, True),
    (NADS, None, False),
    (NODESLICEPOOLS, SYSTEM, False),
    (IPPOOLS, SYSTEM, False),
    (PODS, None, True),
)


async def spread(work: Iterable[Callable[[], Awaitable[object]]]) -> None:
    """Await all, IN_FLIGHT at a time."""
    left = iter(work)

    async def worker() -> None:
        for job in left:
            await job()

    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(worker())


def node_name(number: int) -> str:
    return f"node-{number:05d}"


def node(name: str) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def attachment(network: str, master: str = "eth0") -> dict[str, Any]:
    ipam = {"type": "whereabouts", "network_name": network, "range": NETWORKS[network]}
    config = {
        "cniVersion": "1.0.0",
        "name": network,
        "type": "macvlan",
        "master": master,
        "ipam": {**ipam, "node_slice_size": f"/{SIZE}"},
    }
    return {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": network},
        "spec": {"config": json.dumps(config)},
    }


def slice_base(network: str, number: int) -> int:
    _, base, _ = address.parse_cidr(NETWORKS[network])
    return base + (number << (32 - SIZE))


def pod(number: int, at: int) -> tuple[str, int, dict[str, Any]]:
    """Return the `at`-th pod of a node with its network and the offset of its address."""
    network, offset = list(NETWORKS)[at % len(NETWORKS)], 1 + at // len(NETWORKS)
    ip = address.text(4, slice_base(network, number) + offset)
    status = [
        {"name": "cbr0", "interface": "eth0", "ips": [f"10.{at}.0.7"], "default": True, "dns": {}},
        {"name": f"{TENANT}/{network}", "interface": "net1", "ips": [ip], "dns": {}},
    ]
    metadata = {
        "name": f"pod-{number:05d}-{at}",
        "labels": {"app": "bench", "pod-template-hash": "5f7b9c6d8"},
        "annotations": {
            "k8s.v1.cni.cncf.io/networks": network,
            "k8s.v1.cni.cncf.io/network-status": json.dumps(status, indent=4),
        },
    }
    spec = {
        "nodeName": node_name(number),
        "automountServiceAccountToken": False,
        "containers": [{"name": "main", "image": "bench"}],
    }
    return network, offset, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def grow(client: Client, first: int, last: int, pods: int = PODS_PER_NODE) -> None:
    """Add the nodes from `first` up to `last`, with their slices, pools and so many pods each."""
    numbers = range(first, last)
    if not first:
        for network in NETWORKS:
            await client.create(NADS, TENANT, attachment(network))
    await spread(partial(client.create, NODES, None, node(node_name(n))) for n in numbers)
    await asyncio.gather(*(_deal(client, network, last) for network in NETWORKS))
    await spread(partial(_fill, client, number, pods) for number in numbers)


async def _fill(client: Client, number: int, pods: int) -> None:
    """Create a node's pods, and its pools with their addresses."""
    entries: dict[str, dict[str, Any]] = {network: {} for network in NETWORKS}
    for at in range(pods):
        network, offset, body = pod(number, at)
        made = (await client.create(PODS, TENANT, body))["metadata"]
        entry = Entry(uuid.uuid4().hex * 2, f"{TENANT}/{made['name']}", "net1", made["uid"])
        entries[network][str(offset)] = entry.encode()
    for network in NETWORKS:
        body = pool(network, node_name(number), number)
        body["spec"]["allocations"] = entries[network]
        made = await client.create(IPPOOLS, SYSTEM, body)
        await client.patch(IPPOOLS, SYSTEM, made["metadata"]["name"], STRIP, metadata_only=True)


def pool(network: str, name: str, number: int) -> dict[str, Any]:
    return encode_pool(
        namespace=SYSTEM,
        cidr=address.cidr_text(4, slice_base(network, number), SIZE),
        node=name,
        network=network,
        network_name=network,
        closed=False,
    )


async def _deal(client: Client, network: str, count: int) -> None:
    try:
        existing = decode_table(await client.get(NODESLICEPOOLS, SYSTEM, network))
    except NotFound:
        existing = None
    body = encode_table(
        existing,
        namespace=SYSTEM,
        name=network,
        network=network,
        network_name=network,
        version=4,
        cidr=NETWORKS[network],
        size=SIZE,
        held=[Held(node_name(n), slice_base(network, n), SIZE) for n in range(count)],
        figures=Figures(count, 0, 0, (1 << 13) - count),
        waiting=0,
        conditions=(),
        now=0.0,
    )
    if existing is None:
        await client.create(NODESLICEPOOLS, SYSTEM, body)
    else:
        await client.replace(NODESLICEPOOLS, SYSTEM, network, body)


async def list_plainly(client: Client, page: int = 500) -> int:
    """List everything the controller watches, page after page; return the number of objects."""
    count = 0
    for resource, namespace, metadata_only in WATCHED:
        token: str | None = None
        while True:
            found = await client.list(
                resource, namespace, metadata_only=metadata_only, limit=page, continue_token=token
            )
            count += len(found["items"])
            token = found["metadata"].get("continue")
            if not token:
                break
    return count


def pool_name(network: str, name: str, number: int) -> str:
    cidr = address.cidr_text(4, slice_base(network, number), SIZE)
    return naming.ip_pool(cidr, network, name)
