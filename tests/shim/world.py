"""Networks, slices and nodes made by hand, for tests of the shim without a controller."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

from hack.cluster.api import Api
from hack.cluster.server import Cluster
from hack.cluster.simnode import Outcome, Pod, SimulatedNode
from tests.shim import schemas
from whereabouts_fast.ipam import naming
from whereabouts_fast.kube.resource import IPPOOLS, NODESLICEPOOLS

NAMESPACE = "ipam-system"
API_VERSION = "whereabouts.cni.cncf.io/v1alpha1"
AGENT = "whereabouts-fast-shim"

_numbers = itertools.count(1)


def config(
    range_: str = "10.40.0.0/24", size: str = "/26", network: str = "blue", **ipam: Any
) -> dict[str, Any]:
    """A configuration as the runtime hands it over; empty network: none is named."""
    named = {"network_name": network} if network else {}
    return {
        "cniVersion": "1.0.0",
        "name": network or "net",
        "type": "macvlan",
        "master": "eth1",
        "ipam": {
            "type": "whereabouts",
            **named,
            "range": range_,
            "node_slice_size": size,
            **ipam,
        },
    }


def classic(range_: str = "10.40.0.0/24", network: str = "blue", **ipam: Any) -> dict[str, Any]:
    """A configuration without slices."""
    asked = config(range_, network=network, **ipam)
    del asked["ipam"]["node_slice_size"]
    return asked


def pod(name: str = "", *, uid: str = "", container: str = "") -> Pod:
    """A pod that no other test has."""
    number = next(_numbers)
    name = name or f"p{number}"
    return Pod(name, uid or f"uid-{name}-{number}", container or f"c{number:012d}")


class CheckedNode(SimulatedNode):
    """A node that holds every output of the shim against the official shapes."""

    def call(
        self, verb: str, pod: Pod | None, config: dict[str, Any], *, ifname: str = "net1"
    ) -> Outcome:
        """Run one call to its end."""
        outcome = super().call(verb, pod, config, ifname=ifname)
        if outcome.code in (0, 1) and (outcome.code == 0 or outcome.stdout):
            schemas.hold(verb, config.get("cniVersion"), outcome.code, outcome.stdout)
        return outcome

    def check(
        self, pod: Pod, config: dict[str, Any], result: object, *, ifname: str = "net1"
    ) -> Outcome:
        """CHECK: is what was answered recorded?"""
        asked = config if result is None else {**config, "prevResult": result}
        return self.call("CHECK", pod, asked, ifname=ifname)

    def collect(self, config: dict[str, Any], *alive: tuple[str, str]) -> Outcome:
        """GC: free what is not among these (container id, interface)."""
        listed = [{"containerID": container, "ifname": ifname} for container, ifname in alive]
        return self.call("GC", None, {**config, "cni.dev/valid-attachments": listed})

    def status(self, config: dict[str, Any]) -> Outcome:
        """STATUS: could an ADD be served?"""
        return self.call("STATUS", None, config)


class World:
    """The objects of networks, and the nodes that use them."""

    def __init__(self, cluster: Cluster, api: Api, shim: Path, folder: Path) -> None:
        self.cluster = cluster
        self.api = api
        self.shim = shim
        self.folder = folder
        self._audit_from = cluster.audit.mark()

    def node(self, name: str = "n1", **settings: Any) -> CheckedNode:
        """A node with a flat file and hints of its own; kubeconfig may be among the settings."""
        kubeconfig = settings.pop("kubeconfig", self.cluster.kubeconfig)
        folder = self.folder / f"{name}-{next(_numbers)}"
        return CheckedNode(name, folder, kubeconfig=kubeconfig, shim=self.shim, settings=settings)

    def table(
        self,
        slices: dict[str, str],
        *,
        range_: str = "10.40.0.0/24",
        network: str = "blue",
        name: str = "",
        states: dict[str, str] | None = None,
        conditions: list[dict[str, Any]] | None = None,
    ) -> None:
        """Create a NodeSlicePool: slices maps CIDR -> node, states CIDR -> state."""
        allocations = [
            {"nodeName": node, "sliceRange": cidr, "state": (states or {}).get(cidr, "Active")}
            for cidr, node in slices.items()
        ]
        status: dict[str, Any] = {"allocations": allocations}
        if conditions:
            status["conditions"] = conditions
        self.api.create(
            NODESLICEPOOLS.path(NAMESPACE),
            {
                "apiVersion": API_VERSION,
                "kind": "NodeSlicePool",
                "metadata": {"name": name or network, "namespace": NAMESPACE},
                "spec": {"range": range_, "sliceSize": "/26"},
                "status": status,
            },
        )

    def pool(
        self,
        node: str,
        cidr: str,
        *,
        network: str = "blue",
        allocations: dict[str, Any] | None = None,
        **spec: Any,
    ) -> str:
        """Create one node's open IPPool of a slice; return its name."""
        name = naming.ip_pool(cidr, network, node)
        self.api.create(
            IPPOOLS.path(NAMESPACE),
            {
                "apiVersion": API_VERSION,
                "kind": "IPPool",
                "metadata": {
                    "name": name,
                    "namespace": NAMESPACE,
                    "labels": {
                        naming.LABEL_NODE: naming.label_value(node),
                        naming.LABEL_NETWORK: naming.label_value(network),
                    },
                },
                "spec": {
                    "range": cidr,
                    "allocations": allocations or {},
                    "node": node,
                    "network": network,
                    **spec,
                },
            },
        )
        return name

    def shared(self, cidr: str = "10.40.0.0/24", *, network: str = "blue", **more: Any) -> str:
        """Create the open IPPool that all nodes share, in classic mode; return its name."""
        return self.pool("", cidr, network=network, **more)

    def reservations(self) -> dict[str, Any]:
        """All reservations: name -> spec."""
        path = f"/apis/{API_VERSION}/namespaces/{NAMESPACE}/overlappingrangeipreservations"
        return {one["metadata"]["name"]: one["spec"] for one in self.api.get(path)["items"]}

    def slices(self, *nodes: str, network: str = "blue") -> list[str]:
        """Give each node one /26 of 10.40.0.0/24, table and pools; return the pools' names."""
        cidrs = {f"10.40.0.{64 * index}/26": node for index, node in enumerate(nodes)}
        self.table(cidrs, network=network)
        return [self.pool(node, cidr, network=network) for cidr, node in cidrs.items()]

    def pool_path(self, name: str) -> str:
        """The path of one pool."""
        return IPPOOLS.path(NAMESPACE, name)

    def allocations(self, name: str) -> dict[str, Any]:
        """What a pool's object holds now: offset -> entry."""
        found: dict[str, Any] = self.api.get(self.pool_path(name))["spec"]["allocations"]
        return found

    def forget_requests(self) -> None:
        """Count from here on."""
        self._audit_from = self.cluster.audit.mark()

    def requests(self) -> Counter[tuple[str, str, int]]:
        """The shim's requests since the last `forget_requests`: (verb, resource, code) -> count."""
        counted: Counter[tuple[str, str, int]] = Counter()
        for (agent, *rest), count in self.cluster.audit.counts(self._audit_from).items():
            if agent == AGENT:
                verb, resource, code = rest
                counted[str(verb), str(resource), int(str(code))] += count
        return counted
