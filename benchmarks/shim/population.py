"""Networks as a busy cluster has them: one in slices, and one whose pool all nodes share.

Each plugin has them in a namespace of its own, alike but for what its own side leaves in a pool:
whereabouts managedFields, our controller the fields that it adds. Left out, for no call lists them:
the reservation that whereabouts holds for each entry.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hack.cluster.server import Cluster
from whereabouts_fast.ipam import address, naming
from whereabouts_fast.kube.resource import IPPOOLS, NODESLICEPOOLS

SLICED, SHARED = "blue", "green"
RANGES = {SLICED: "10.64.0.0/10", SHARED: "10.32.0.0/16"}
SLICE_SIZE = 24
FEW, MANY = 10, 1000  # nodes
PODS_PER_NODE = 30

_API_VERSION = f"{naming.GROUP}/{naming.VERSION}"
_STRIP = [{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]


def node_name(index: int) -> str:
    """Return the name of a node."""
    return f"node-{index:04d}.example"


def pool_name(network: str, index: int) -> str:
    """Return the name of the pool that a node takes its addresses from."""
    if network == SHARED:
        return naming.ip_pool(RANGES[SHARED], SHARED)
    return naming.ip_pool(_slice(index), network, node_name(index))


class Population:
    """What one namespace holds for one plugin; `ours` tells whose controller made it."""

    def __init__(self, cluster: Cluster, namespace: str, *, ours: bool) -> None:
        self._api = cluster.api
        self._namespace = namespace
        self._ours = ours
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        self._api.create("/api/v1/namespaces", body)
        table = {
            "apiVersion": _API_VERSION,
            "kind": "NodeSlicePool",
            "metadata": {"name": SLICED},
            "spec": {"range": RANGES[SLICED], "sliceSize": f"/{SLICE_SIZE}"},
            "status": {"allocations": _dealt(FEW)},
        }
        self._api.create(NODESLICEPOOLS.path(namespace), table)
        self._deal(0, FEW)
        self._share()

    def grow(self) -> None:
        """Add nodes with their slices and pools until there are many."""
        self._deal(FEW, MANY)
        allocations = {"op": "replace", "path": "/status/allocations", "value": _dealt(MANY)}
        self._api.patch(NODESLICEPOOLS.path(self._namespace, SLICED), [allocations])

    def _deal(self, first: int, last: int) -> None:
        def create(index: int) -> None:
            held = {offset: self._entry(index, offset) for offset in range(1, PODS_PER_NODE + 1)}
            self._create(SLICED, index, _slice(index), held)

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(create, range(first, last)))

    def _share(self) -> None:
        held = {}
        for index in range(FEW):
            for offset in range(1, PODS_PER_NODE + 1):
                entry = self._entry(index, offset)
                if self._ours:
                    entry["node"] = node_name(index)
                held[index * PODS_PER_NODE + offset] = entry
        self._create(SHARED, 0, RANGES[SHARED], held)

    def _entry(self, index: int, offset: int) -> dict[str, str]:
        digest = hashlib.sha256(f"{index} {offset}".encode()).hexdigest()
        podref = f"tenant/checkout-{digest[:10]}-{digest[10:15]}"
        entry = {"id": digest, "podref": podref, "ifname": "net1"}
        if self._ours:
            entry["uid"] = f"00000000-0000-4000-8000-{digest[:12]}"
        return entry

    def _create(self, network: str, index: int, cidr: str, held: dict[int, dict[str, str]]) -> None:
        metadata: dict[str, Any] = {"name": pool_name(network, index)}
        allocations = {str(offset): entry for offset, entry in held.items()}
        spec: dict[str, Any] = {"range": cidr, "allocations": allocations}
        if self._ours:
            metadata["labels"] = {naming.LABEL_NETWORK: network}
            spec["network"] = network
            if network == SLICED:
                metadata["labels"][naming.LABEL_NODE] = spec["node"] = node_name(index)
        body = {"apiVersion": _API_VERSION, "kind": "IPPool", "metadata": metadata, "spec": spec}
        self._api.create(IPPOOLS.path(self._namespace), body)
        if self._ours and index < FEW:  # nobody of ours looks at the others
            self._api.patch(IPPOOLS.path(self._namespace, metadata["name"]), _STRIP)


def _slice(index: int) -> str:
    _, base, _ = address.parse_cidr(RANGES[SLICED])
    return address.cidr_text(4, base + (index << 32 - SLICE_SIZE), SLICE_SIZE)


def _dealt(count: int) -> list[dict[str, str]]:
    return [{"nodeName": node_name(i), "sliceRange": _slice(i)} for i in range(count)]
