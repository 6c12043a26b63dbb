"""The demo's stage: objects, controller and simulated nodes on one cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hack.cluster.server import Cluster
from hack.cluster.simnode import Pod, SimulatedNode
from hack.demo.screen import SliceRow
from whereabouts_fast.ipam import address, netconf, ranges

SYSTEM = "ipam-system"
TENANT = "tenant"
NODES = ("node-a", "node-b", "node-c", "node-d", "node-e")
WAIT_LIMIT = 30.0
SHIM_AGENT = "whereabouts-fast-shim"
POOLS = f"/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/{SYSTEM}/ippools"
TABLES = f"/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/{SYSTEM}/nodeslicepools"
NADS = f"/apis/k8s.cni.cncf.io/v1/namespaces/{TENANT}/network-attachment-definitions"
PODS = f"/api/v1/namespaces/{TENANT}/pods"


@dataclass(frozen=True)
class DemoNetwork:
    """One NAD of the demo; the first one has fewer slices than there are nodes."""

    name: str
    range: str
    slice_size: str


NETWORKS = (
    DemoNetwork("blue", "10.40.0.0/24", "/26"),
    DemoNetwork("green", "10.41.0.0/24", "/28"),
    DemoNetwork("violet", "fd10::/112", "/124"),
)


class Stage:
    """Everything the story acts on; `close` ends the controller it started."""

    def __init__(self, cluster: Cluster, folder: Path, shim: Path) -> None:
        self.cluster = cluster
        self.api = cluster.api
        self.folder = folder
        self.controller: subprocess.Popen[bytes] | None = None
        self.nodes = {
            name: SimulatedNode(name, folder / name, kubeconfig=cluster.kubeconfig, shim=shim)
            for name in NODES
        }
        self.pods = 0

    def start_controller(self) -> None:
        """Start the controller as a user would; its log goes to a file."""
        with (self.folder / "controller.log").open("wb") as log:
            self.controller = subprocess.Popen(
                [
                    *(sys.executable, "-m", "whereabouts_fast.cli.main", "controller"),
                    *("--kubeconfig", str(self.cluster.kubeconfig), "--namespace", SYSTEM),
                    *("--listen", "127.0.0.1:0"),
                ],
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )

    def close(self) -> None:
        """Stop the controller by SIGTERM, or by SIGKILL when it does not listen."""
        if self.controller is None:
            return
        self.controller.terminate()
        try:
            self.controller.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.controller.kill()
            self.controller.wait()

    def wait_until(self, what: str, condition: Callable[[], bool]) -> None:
        """Poll a condition; RuntimeError with the controller's last words after the limit."""
        limit = time.monotonic() + WAIT_LIMIT
        while not condition():
            ended = self.controller is not None and self.controller.poll() is not None
            if ended or time.monotonic() > limit:
                log = (self.folder / "controller.log").read_text(errors="replace")
                reason = "the controller ended" if ended else f"waited {WAIT_LIMIT:.0f} s"
                raise RuntimeError(f"not seen: {what} ({reason}); its log ends:\n{log[-3000:]}")
            time.sleep(0.05)

    def create_node(self, name: str) -> None:
        """Create one Node object."""
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        self.api.create("/api/v1/nodes", body)

    def delete_node(self, name: str) -> None:
        """Delete one Node object."""
        self.api.delete(f"/api/v1/nodes/{name}")

    def create_network(self, network: DemoNetwork) -> None:
        """Create the NAD of a network."""
        self.api.create(
            NADS,
            {
                "apiVersion": "k8s.cni.cncf.io/v1",
                "kind": "NetworkAttachmentDefinition",
                "metadata": {"name": network.name, "namespace": TENANT},
                "spec": {"config": json.dumps(self.config(network.name))},
            },
        )

    def config(self, network: str) -> dict[str, Any]:
        """The CNI configuration of a network; freed slices cool for 2 s only, to keep it short."""
        (found,) = (n for n in NETWORKS if n.name == network)
        return {
            "cniVersion": "1.0.0",
            "name": found.name,
            "type": "macvlan",
            "master": "eth1",
            "ipam": {
                "type": "whereabouts",
                "network_name": found.name,
                "range": found.range,
                "node_slice_size": found.slice_size,
                "node_slice_cooldown": 2,
            },
        }

    def create_pod(self, node: str) -> Pod:
        """Create a Pod object on a node, and the sandbox id that a runtime would choose."""
        self.pods += 1
        name = f"web-{self.pods:02d}"
        created = self.api.create(
            PODS,
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": TENANT},
                "spec": {"nodeName": node, "containers": [{"name": "web", "image": "web"}]},
            },
        )
        return Pod(name, created["metadata"]["uid"], uuid.uuid4().hex * 2, TENANT)

    def delete_pods(self, pods: list[Pod]) -> None:
        """Delete Pod objects at once, as nothing runs in them."""
        for pod in pods:
            self.api.delete(f"{PODS}/{pod.name}", grace=0)

    def node(self, name: str) -> SimulatedNode:
        """The simulated node of that name."""
        return self.nodes[name]

    def table(self, network: str) -> list[dict[str, Any]]:
        """The held slices in the table of a network; [] while there is no table."""
        tables = self.api.get(TABLES)["items"]
        found = [t for t in tables if t["metadata"]["name"] == network]
        rows: list[dict[str, Any]] = (
            found[0].get("status", {}).get("allocations", []) if found else []
        )
        return rows

    def pools(self, network: str) -> dict[tuple[str, str], dict[str, Any]]:
        """The pools of a network by (node, slice range)."""
        items = self.api.get(POOLS)["items"]
        return {
            (p["spec"]["node"], p["spec"]["range"]): p
            for p in items
            if p["spec"].get("network") == network
        }

    def serves(self, node: str, network: DemoNetwork) -> bool:
        """Whether a node holds a slice of a network and its pool is open."""
        pools = self.pools(network.name)
        return any(
            row["nodeName"] == node
            and row.get("state", "Active") == "Active"
            and not pools.get((node, row["sliceRange"]), {"spec": {"closed": True}})["spec"].get(
                "closed"
            )
            for row in self.table(network.name)
        )

    def waiting(self, network: DemoNetwork) -> list[str]:
        """The nodes that exist and hold no slice of a network."""
        served = {row["nodeName"] for row in self.table(network.name)}
        nodes = self.api.get("/api/v1/nodes")["items"]
        return [n["metadata"]["name"] for n in nodes if n["metadata"]["name"] not in served]

    def settled(self) -> bool:
        """Whether every slice that can be dealt is dealt and usable."""
        for network in NETWORKS:
            served = sum(self.serves(node, network) for node in NODES)
            prefix = int(network.slice_size[1:])
            if served < min(len(NODES), 2 ** (prefix - int(network.range.split("/")[1]))):
                return False
        return True

    def slice_rows(self, network: DemoNetwork) -> list[SliceRow]:
        """The held slices of a network in the order of the range, use counted in their pools."""
        whole = netconf.parse(self.config(network.name)).networks[0].range
        pools = self.pools(network.name)
        rows = []
        for row in self.table(network.name):
            _, base, prefix = address.parse_cidr(row["sliceRange"])
            pool = pools.get((row["nodeName"], row["sliceRange"]), {"spec": {"allocations": {}}})
            used = len(pool["spec"]["allocations"])
            state = row.get("state", "Active")
            size = whole.slice(base, prefix).size
            rows.append((base, SliceRow(row["nodeName"], row["sliceRange"], state, used, size)))
        return [row for _, row in sorted(rows)]

    def recorded(self) -> Counter[tuple[str, str]]:
        """How often each (network, address) stands in the pools."""
        counter: Counter[tuple[str, str]] = Counter()
        for network in NETWORKS:
            for (_, cidr), pool in self.pools(network.name).items():
                held = ranges.build(cidr)
                for offset in pool["spec"]["allocations"]:
                    text = address.text(held.version, held.address(int(offset)))
                    counter[network.name, text] += 1
        return counter

    def shim_requests(self, since: Any) -> int:
        """Requests by shims since a mark of the audit log."""
        counts = self.cluster.audit.counts(since)
        return sum(number for key, number in counts.items() if key[0] == SHIM_AGENT)
