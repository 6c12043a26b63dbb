"""One CNI plugin as the nodes of a cluster run it: executable, namespace, flat file, calls."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from benchmarks.shim.population import FEW, RANGES, SLICE_SIZE, SLICED, Population, node_name
from benchmarks.timing import Command
from hack.cluster.server import Cluster


class Plugin:
    """An executable on simulated nodes, each with a name, a flat file and hints of its own."""

    def __init__(
        self, name: str, executable: Path, cluster: Cluster, folder: Path, *, ours: bool = True
    ) -> None:
        self.name = name
        self.namespace = f"ipam-{name}"
        self.population = Population(cluster, self.namespace, ours=ours)
        self.kubeconfig = cluster.kubeconfig_for(namespace=self.namespace)
        self._executable = executable
        self._folder = folder / name
        for node in range(FEW):
            (self._folder / str(node)).mkdir(parents=True)
            flat = {
                "kubernetes": {"kubeconfig": str(self.kubeconfig)},
                "hints_dir": str(self._folder / str(node) / "hints"),
            }
            self._flat_file(node).write_text(json.dumps(flat))

    def call(self, verb: str, number: int, network: str = SLICED, node: int = 0) -> Command:
        """Return the call for the pod of this number on a node."""
        digest = hashlib.sha256(f"{self.name} {network} {number}".encode()).hexdigest()
        arguments = {
            "IgnoreUnknown": "1",
            "K8S_POD_NAMESPACE": "tenant",
            "K8S_POD_NAME": f"checkout-{digest[:10]}-{digest[10:15]}",
            "K8S_POD_INFRA_CONTAINER_ID": digest,
            "K8S_POD_UID": f"00000000-0000-4000-8000-{digest[:12]}",
        }
        environment = {
            "CNI_COMMAND": verb,
            "CNI_CONTAINERID": digest,
            "CNI_NETNS": "/var/run/netns/none",
            "CNI_IFNAME": "net1",
            "CNI_PATH": str(self._executable.parent),
            "CNI_ARGS": ";".join(f"{key}={value}" for key, value in arguments.items()),
            "NODENAME": node_name(node),
        }
        return Command([self._executable], environment, self._config(network, node))

    def _config(self, network: str, node: int) -> bytes:
        ipam = {
            "type": "whereabouts",
            "network_name": network,
            "range": RANGES[network],
            "configuration_path": str(self._flat_file(node)),
        }
        if network == SLICED:
            ipam["node_slice_size"] = f"/{SLICE_SIZE}"
        whole = {"cniVersion": "1.0.0", "name": network, "type": "macvlan", "master": "eth1"}
        return json.dumps({**whole, "ipam": ipam}).encode()

    def _flat_file(self, node: int) -> Path:
        return self._folder / str(node) / "whereabouts.conf"
