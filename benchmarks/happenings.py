"""What happens in a cluster all the time, event by event."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from benchmarks import population
from benchmarks.population import NETWORKS, STRIP, SYSTEM, TENANT
from whereabouts_fast.ipam import naming
from whereabouts_fast.kube.client import Client
from whereabouts_fast.kube.resource import IPPOOLS, NADS, NODES, PODS

Jobs = list[Callable[[], Awaitable[object]]]

_OFFSET = 60
_LIMIT = 30.0


def kinds(client: Client, numbers: Sequence[int], edition: int) -> dict[str, Jobs]:
    """Return by kind what to do for one event on each of some nodes; each may be done once."""
    beat = [{"op": "add", "path": "/metadata/annotations", "value": {"beat": ""}}]
    names = [population.node_name(number) for number in numbers]
    return {
        "node_heartbeat": [partial(client.patch, NODES, None, name, beat) for name in names],
        "address_given": [partial(_patch, client, number, given(number)) for number in numbers],
        "address_freed": [partial(_patch, client, number, freed()) for number in numbers],
        "pod_changed": [
            partial(client.patch, PODS, TENANT, f"pod-{number:05d}-0", STRIP) for number in numbers
        ],
        "nad_edited": [partial(_edit, client, network, edition) for network in NETWORKS],
    }


def given(number: int) -> list[dict[str, Any]]:
    entry = {"id": "c", "podref": f"{TENANT}/pod-{number:05d}-0", "ifname": "net9"}
    return [{"op": "add", "path": f"/spec/allocations/{_OFFSET}", "value": entry}]


def freed() -> list[dict[str, Any]]:
    return [{"op": "remove", "path": f"/spec/allocations/{_OFFSET}"}]


async def want(client: Client, number: int) -> None:
    """Have a node ask for more addresses, and wait for the answer."""
    value = {naming.ANNOTATION_WANT: "tenant/pod/net1"}
    await _patch(client, number, [{"op": "add", "path": "/metadata/annotations", "value": value}])
    async with asyncio.timeout(_LIMIT):
        while True:
            found = await client.get(IPPOOLS, SYSTEM, _pool(number), metadata_only=True)
            if naming.ANNOTATION_WANT not in found["metadata"]["annotations"]:
                return
            await asyncio.sleep(0.01)


def _pool(number: int) -> str:
    return population.pool_name("red", population.node_name(number), number)


async def _patch(client: Client, number: int, patch: list[dict[str, Any]]) -> None:
    await client.patch(IPPOOLS, SYSTEM, _pool(number), patch)


async def _edit(client: Client, network: str, edition: int) -> None:
    """Change something of a network that is none of the controller's business."""
    body = population.attachment(network, master=f"eth{edition}")
    patch = [{"op": "replace", "path": "/spec", "value": body["spec"]}]
    await client.patch(NADS, TENANT, network, patch)
