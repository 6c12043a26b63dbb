"""The controller as a process, and what tests read from the API server about its work."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from hack.cluster.api import Api, ApiError
from hack.cluster.commands import SYSTEM_NAMESPACE

T = TypeVar("T")
GROUP = "/apis/whereabouts.cni.cncf.io/v1alpha1"
POOLS = f"{GROUP}/namespaces/{SYSTEM_NAMESPACE}/ippools"
TABLES = f"{GROUP}/namespaces/{SYSTEM_NAMESPACE}/nodeslicepools"
NODES = "/api/v1/nodes"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/leases"
LIMIT = 30.0


class Controller:
    """One controller process; `log` is what it wrote."""

    def __init__(self, kubeconfig: Path, folder: Path, *flags: str) -> None:
        self.log_file = folder / f"controller-{time.monotonic_ns()}.log"
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "whereabouts_fast.cli.main", "controller"),
                    *("--kubeconfig", str(kubeconfig), "--namespace", SYSTEM_NAMESPACE),
                    *("--listen", "127.0.0.1:0", "--log-format", "json"),
                    # In most tests pods are names and nothing more: to the controller, leaks.
                    *("--leak-grace", "300"),
                    *flags,
                ],
                stdout=log,
                stderr=log,
                env={k: v for k, v in os.environ.items() if not k.startswith("WHEREABOUTS_")},
            )

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def entries(self, message: str | None = None) -> list[dict[str, Any]]:
        lines = [line for line in self.log.splitlines() if line.startswith("{")]
        found = [json.loads(line) for line in lines if line.endswith("}")]
        return [entry for entry in found if message is None or entry["msg"] == message]

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of its endpoints, once it serves."""
        (started,) = self.wait(lambda: self.entries("Started"), "the controller serves")
        host, _, port = str(started["listen"]).rpartition(":")
        return host, int(port)

    def wait(self, look: Callable[[], T], what: str, limit: float = LIMIT) -> T:
        """Poll until `look` returns something true; fails with the log when it does not."""
        deadline = time.monotonic() + limit
        while not (found := look()):
            code = self.process.poll()
            assert code is None, f"the controller ended with {code}:\n{self.log[-4000:]}"
            assert time.monotonic() < deadline, f"not seen: {what}; log:\n{self.log[-4000:]}"
            time.sleep(0.02)
        return found

    def wait_for_pools(self, api: Api) -> None:
        """Wait until the server serves pools, which it does not for a moment after a change."""
        self.wait(lambda: api.exchange("GET", POOLS).status == 200, "pools are served")

    def stop(self) -> int:
        """End it by SIGTERM and return its exit code."""
        self.process.terminate()
        return self.process.wait(timeout=LIMIT)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(timeout=LIMIT)

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()


@contextmanager
def running(kubeconfig: Path, folder: Path, *flags: str) -> Iterator[Controller]:
    controller = Controller(kubeconfig, folder, *flags)
    try:
        yield controller
    finally:
        controller.close()


def nad_path(namespace: str = "tenant") -> str:
    return f"/apis/k8s.cni.cncf.io/v1/namespaces/{namespace}/network-attachment-definitions"


def create_nad(
    api: Api,
    name: str = "blue",
    *,
    namespace: str = "tenant",
    text: str | None = None,
    cni_name: str | None = None,
    **ipam: object,
) -> dict[str, Any]:
    """Create a NAD like that of the cases, with `ipam` laid over it (None removes a key)."""
    section = {
        "type": "whereabouts",
        "network_name": name,
        "range": "10.40.0.0/24",
        "node_slice_size": "/26",
        **ipam,
    }
    config = {
        "cniVersion": "1.0.0",
        "name": cni_name or name,
        "type": "macvlan",
        "master": "eth1",
        "ipam": {key: value for key, value in section.items() if value is not None},
    }
    body = {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"config": json.dumps(config) if text is None else text},
    }
    return api.create(nad_path(namespace), body)


def create_node(api: Api, name: str, **metadata: object) -> dict[str, Any]:
    return api.create(
        NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, **metadata}}
    )


def find(api: Api, path: str) -> dict[str, Any] | None:
    try:
        return api.get(path)
    except ApiError as error:
        if error.status == 404:
            return None
        raise


def table(api: Api, name: str = "blue") -> dict[str, Any] | None:
    return find(api, f"{TABLES}/{name}")


Holders = dict[str, tuple[str, str]]


def holders_of(found: dict[str, Any] | None) -> Holders:
    """Slice -> (node, state), as a table object has it; empty without a table."""
    return {
        entry["sliceRange"]: (entry["nodeName"], entry.get("state", "Active"))
        for entry in (found or {}).get("status", {}).get("allocations", [])
    }


def holders(api: Api, name: str = "blue") -> Holders:
    return holders_of(table(api, name))


def nodes_of(held: Holders) -> dict[str, str]:
    """Node -> its active slice."""
    return {node: cidr for cidr, (node, state) in held.items() if state == "Active"}


def wait_table(
    api: Api, condition: Callable[[Holders], bool], name: str = "blue", seconds: float = LIMIT
) -> Holders:
    """Wait until the table's holders fulfil a condition; no table counts as no holders."""

    def of(items: list[dict[str, Any]]) -> Holders:
        return holders_of(next((i for i in items if i["metadata"]["name"] == name), None))

    return of(api.wait_for(TABLES, lambda items: condition(of(items)), seconds=seconds))


def wait_gone(api: Api, path: str, name: str) -> None:
    """Wait until an object is deleted."""
    api.wait_for(path, lambda items: not items, fieldSelector=f"metadata.name={name}")


def wait_open(api: Api, names: set[str], seconds: float = LIMIT) -> dict[str, dict[str, Any]]:
    """Wait until exactly these pools are open; returns all pools."""

    def is_open(item: dict[str, Any]) -> bool:
        return not item["spec"].get("closed")

    items = api.wait_for(
        POOLS,
        lambda found: {i["metadata"]["name"] for i in found if is_open(i)} == names,
        seconds=seconds,
    )
    return {item["metadata"]["name"]: item for item in items}


def wait_events(
    api: Api, reason: str, count: int, namespace: str = "tenant"
) -> list[dict[str, Any]]:
    """Wait until there are so many events of a reason."""
    path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"

    def of(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [item for item in items if item["reason"] == reason]

    return of(api.wait_for(path, lambda items: len(of(items)) >= count))


def pools(api: Api) -> dict[str, dict[str, Any]]:
    return {item["metadata"]["name"]: item for item in api.get(POOLS)["items"]}


def open_pools(api: Api) -> set[str]:
    return {name for name, pool in pools(api).items() if not pool["spec"].get("closed")}


def condition(api: Api, type_: str, name: str = "blue") -> dict[str, Any]:
    found = table(api, name) or {}
    conditions = found.get("status", {}).get("conditions", [])
    return next((c for c in conditions if c["type"] == type_), {})


def events(api: Api, reason: str, namespace: str = "tenant") -> list[dict[str, Any]]:
    items = api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")["items"]
    return [item for item in items if item["reason"] == reason]


def fill(api: Api, pool: str, offset: int, pod: str = "tenant/p1") -> None:
    """Record an address in a pool, as the plugin does."""
    entry = {"id": f"c-{offset}", "podref": pod, "ifname": "net1"}
    patch = [{"op": "add", "path": f"/spec/allocations/{offset}", "value": entry}]
    api.patch(f"{POOLS}/{pool}", patch)


def drop(api: Api, pool: str, offset: int) -> None:
    """Remove an address from a pool, as the plugin does."""
    api.patch(f"{POOLS}/{pool}", [{"op": "remove", "path": f"/spec/allocations/{offset}"}])
