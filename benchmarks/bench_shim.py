"""How fast is one call of the shim, beside its own bare interpreter and beside whereabouts?

Steady ADDs and DELs in slice mode and VERSION, as processes against a real API server, in turns
with the interpreter that does nothing, with the static form where `make shim-static` has built it,
and with the binary that WHEREABOUTS_BIN names. Writes build/bench/shim.json and prints it: medians
in ms, ratios, requests; null where nothing was run.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.timing import Turn, interleaved, process_seconds, ratio
from cni.build import build, interpreter
from cni.version import VERSION
from hack.cluster.server import Cluster
from whereabouts_fast.ipam import naming
from whereabouts_fast.kube.resource import IPPOOLS, NODESLICEPOOLS

RESULT = Path("build/bench/shim.json")
STATIC = Path("build/shim-static/whereabouts")
SYSTEM = "ipam-system"
API_VERSION = f"{naming.GROUP}/{naming.VERSION}"
FEW, MANY = 10, 1000
ROUNDS, ROUNDS_AMONG_MANY = 60, 30
NODE = "n0"


class Plugin:
    """One executable with the network, node name and flat file it works with."""

    def __init__(self, name: str, executable: Path, cluster: Cluster, folder: Path) -> None:
        self.name = name
        self.executable = executable
        folder.mkdir(parents=True)
        flat = {
            "kubernetes": {"kubeconfig": str(cluster.kubeconfig)},
            "hints_dir": str(folder / "hints"),
        }
        (folder / "whereabouts.conf").write_text(json.dumps(flat))
        (folder / "nodename").write_text(NODE)
        self.config = json.dumps(
            {
                "cniVersion": "1.0.0",
                "name": name,
                "type": "macvlan",
                "ipam": {
                    "type": "whereabouts",
                    "network_name": name,
                    "range": "10.40.0.0/16",
                    "node_slice_size": "/26",
                    "configuration_path": str(folder / "whereabouts.conf"),
                },
            }
        ).encode()

    def call(self, verb: str, number: int) -> float:
        """Run one call and return its seconds."""
        arguments = {
            "IgnoreUnknown": "1",
            "K8S_POD_NAMESPACE": "default",
            "K8S_POD_NAME": f"pod{number}",
            "K8S_POD_UID": f"00000000-0000-4000-8000-{number & 0xFFFFFFFFFFFF:012x}",
        }
        environment = {
            "CNI_COMMAND": verb,
            "CNI_CONTAINERID": f"{self.name}{number & 0xFFFFFFFF:08x}",
            "CNI_NETNS": "/var/run/netns/none",
            "CNI_IFNAME": "net1",
            "CNI_PATH": str(self.executable.parent),
            "CNI_ARGS": ";".join(f"{key}={value}" for key, value in arguments.items()),
            "NODENAME": NODE,
        }
        return process_seconds([self.executable], environment, self.config)

    def turn(self, number: int) -> Mapping[str, float]:
        """Time VERSION, an ADD and its DEL."""
        return {f"{self.name}_{verb.lower()}": self.call(verb, number) for verb in _VERBS}


_VERBS = ("VERSION", "ADD", "DEL")


def bare(_: int) -> Mapping[str, float]:
    """Time the interpreter that the shim starts, doing nothing."""
    return {"bare": process_seconds([interpreter(), "-I", "-S", "-E", "-c", "pass"], {})}


def slices(count: int) -> list[tuple[str, str]]:
    """Return (node, slice) for each node."""
    return [(f"n{index}", f"10.40.{index >> 2}.{(index & 3) << 6}/26") for index in range(count)]


def create_table(cluster: Cluster, network: str, count: int) -> None:
    """Deal a slice to each node, in the table only."""
    allocations = [{"nodeName": node, "sliceRange": cidr} for node, cidr in slices(count)]
    body = {
        "apiVersion": API_VERSION,
        "kind": "NodeSlicePool",
        "metadata": {"name": network},
        "spec": {"range": "10.40.0.0/16", "sliceSize": "/26"},
        "status": {"allocations": allocations},
    }
    cluster.api.create(NODESLICEPOOLS.path(SYSTEM), body)


def create_pools(cluster: Cluster, network: str, first: int, last: int) -> None:
    """Make the open pools of the nodes from `first` up to `last`."""

    def create(one: tuple[str, str]) -> None:
        node, cidr = one
        metadata: dict[str, Any] = {
            "name": naming.ip_pool(cidr, network, node),
            "labels": {naming.LABEL_NODE: node, naming.LABEL_NETWORK: network},
        }
        spec = {"range": cidr, "allocations": {}, "node": node, "network": network}
        body = {"apiVersion": API_VERSION, "kind": "IPPool", "metadata": metadata, "spec": spec}
        made = cluster.api.create(IPPOOLS.path(SYSTEM), body)
        path = IPPOOLS.path(SYSTEM, made["metadata"]["name"])
        strip = {"op": "replace", "path": "/metadata/managedFields", "value": [{}]}
        cluster.api.patch(path, [strip])

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(create, slices(last)[first:]))


def measure(cluster: Cluster, folder: Path, binary: Path | None) -> dict[str, Any]:
    """Run everything once."""
    shim = Plugin("shim", build(folder / "built"), cluster, folder / "shim")
    plugins = [shim]
    for name, executable in (("static", _static()), ("whereabouts", binary)):
        if executable is not None:
            plugins.append(Plugin(name, executable, cluster, folder / name))
    for plugin in plugins:
        create_table(cluster, plugin.name, FEW)
        if plugin.name != "whereabouts":  # which makes its own
            create_pools(cluster, plugin.name, 0, FEW)
    subjects: list[Turn] = [bare, *(plugin.turn for plugin in plugins)]
    medians: dict[str, float | None] = dict(interleaved(subjects, ROUNDS))
    since = cluster.audit.mark()
    shim.call("ADD", ROUNDS)
    between = cluster.audit.mark()
    shim.call("DEL", ROUNDS)
    requests = {
        "shim_add": _requests(cluster, since, between),
        "shim_del": _requests(cluster, between, cluster.audit.mark()),
    }
    create_pools(cluster, "shim", FEW, MANY)
    among_many = interleaved(subjects, ROUNDS_AMONG_MANY)
    medians.update({f"{name}_{MANY}_pools": value for name, value in among_many.items()})
    for name in ("static", "whereabouts"):
        for verb in _VERBS:
            for suffix in ("", f"_{MANY}_pools"):
                medians.setdefault(f"{name}_{verb.lower()}{suffix}", None)
    return {"medians_ms": medians, "ratios": _ratios(medians), "requests": requests}


def _static() -> Path | None:
    return STATIC.resolve() if STATIC.exists() else None


def _requests(cluster: Cluster, since: int, until: int) -> dict[str, int]:
    found: Counter[str] = Counter()
    for (agent, verb, resource, _), count in cluster.audit.counts(since, until).items():
        if agent == "whereabouts-fast-shim":
            found[f"{verb} {resource}"] += count
    return dict(found)


def _ratios(medians: Mapping[str, float | None]) -> dict[str, float | None]:
    ratios = {}
    for suffix in ("", f"_{MANY}_pools"):
        for verb in _VERBS:
            call = f"{verb.lower()}{suffix}"
            theirs = medians[f"whereabouts_{call}"]
            for form in ("shim", "static"):
                ours = medians[f"{form}_{call}"]
                ratios[f"{form}_{call}/bare"] = ratio(ours, medians[f"bare{suffix}"])
                ratios[f"whereabouts_{call}/{form}"] = ratio(theirs, ours)
    return ratios


def main() -> None:
    """Measure, write the result down and print it."""
    named = os.environ.get("WHEREABOUTS_BIN")
    binary = Path(named).resolve() if named else None
    with Cluster.start() as cluster, tempfile.TemporaryDirectory() as folder:
        result = measure(cluster, Path(folder), binary)
    machine = {"cpus": os.cpu_count(), "python": platform.python_version(), "shim": VERSION}
    text = json.dumps({"machine": machine, "rounds": ROUNDS, **result}, indent=2)
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
