"""How long until 1,000 new nodes have slices and usable pools, beside a plain client's requests?

A plain client creates the same Nodes and pools and strips managedFields from the pools, 16 requests
in flight; the controller is given only the Nodes. Both run in turn against one API server. The
second question is the time from one Node's creation to its usable pool in a cluster of 100.
Writes build/bench/slices.json and prints it.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hack.cluster.server import Cluster
from whereabouts_fast.ipam import address, naming
from whereabouts_fast.kube.client import Client
from whereabouts_fast.kube.informer import Informer
from whereabouts_fast.kube.resource import IPPOOLS, NADS, NODES, NODESLICEPOOLS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

RESULT = Path("build/bench/slices.json")
SYSTEM, TENANT = "ipam-system", "tenant"
NODE_COUNT, SMALL_COUNT, IN_FLIGHT = 1000, 100, 16
ROUNDS, SINGLES = 3, 20
BASE, PREFIX = address.parse("10.40.0.0")[1], 26
STRIP = [{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]
LIMIT = 180.0


def node(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def pool(name: str, number: int) -> dict[str, Any]:
    """The pool that the controller makes for that node, but open from the start."""
    cidr = address.cidr_text(4, BASE + (number << (32 - PREFIX)), PREFIX)
    return {
        "apiVersion": f"{naming.GROUP}/{naming.VERSION}",
        "kind": "IPPool",
        "metadata": {
            "name": naming.ip_pool(cidr, "bench", name),
            "labels": {naming.LABEL_NODE: name, naming.LABEL_NETWORK: "bench"},
        },
        "spec": {"range": cidr, "allocations": {}, "node": name, "network": "bench"},
    }


def attachment() -> dict[str, Any]:
    ipam = {"type": "whereabouts", "network_name": "bench", "range": "10.40.0.0/16"}
    config = {
        "cniVersion": "1.0.0",
        "name": "bench",
        "type": "macvlan",
        "ipam": {**ipam, "node_slice_size": f"/{PREFIX}"},
    }
    return {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": "bench"},
        "spec": {"config": json.dumps(config)},
    }


async def spread(work: Iterable[Callable[[], Awaitable[object]]]) -> None:
    """Await all, IN_FLIGHT at a time."""
    left = iter(work)

    async def worker() -> None:
        for job in left:
            await job()

    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(worker())


class OpenPools:
    """Which nodes have an open pool now, as a watch tells."""

    def __init__(self, client: Client) -> None:
        self.open: set[str] = set()
        self.changed = asyncio.Event()
        self.informer: Informer[tuple[str, bool]] = Informer(
            client,
            IPPOOLS,
            namespace=SYSTEM,
            decode=lambda raw: (raw["spec"].get("node", ""), bool(raw["spec"].get("closed"))),
        )
        self.informer.add_handler(self.note)

    def note(self, old: tuple[str, bool] | None, new: tuple[str, bool] | None) -> None:
        """Take in one change of a pool: (node, closed) before and after."""
        if old:
            self.open.discard(old[0])
        if new and not new[1]:
            self.open.add(new[0])
        self.changed.set()

    async def wait_for(self, names: set[str]) -> None:
        """Return when all these nodes have an open pool; TimeoutError after LIMIT seconds."""
        async with asyncio.timeout(LIMIT):
            while not names <= self.open:
                self.changed.clear()
                await self.changed.wait()


@asynccontextmanager
async def controller(cluster: Cluster) -> AsyncIterator[None]:
    """Run the controller beside us; RuntimeError with its last words when it ends by itself."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(  # noqa: ASYNC220 - starting takes no time that we measure
            [
                *(sys.executable, "-m", "whereabouts_fast.cli.main", "controller"),
                *("--kubeconfig", str(cluster.kubeconfig), "--namespace", SYSTEM),
                *("--listen", "127.0.0.1:0"),
            ],
            stdout=log,
            stderr=log,
        )
        try:
            yield
            if process.poll() is not None:
                log.seek(0)
                raise RuntimeError(f"the controller ended: {log.read()[-2000:]!r}")
        finally:
            process.terminate()
            process.wait(timeout=20)


async def empty(client: Client) -> None:
    """Remove all nodes, pools and tables; the controller must not be running."""
    for resource, namespace in ((NODES, None), (IPPOOLS, SYSTEM), (NODESLICEPOOLS, SYSTEM)):
        found = (await client.list(resource, namespace))["items"]
        names = [item["metadata"]["name"] for item in found]
        await spread(partial(client.delete, resource, namespace, name) for name in names)


async def plain(client: Client, names: list[str]) -> float:
    """The requests that it takes at least, sent by a client that decides nothing."""
    begin = time.perf_counter()
    await spread(partial(client.create, NODES, None, node(name)) for name in names)
    pools = [pool(name, number) for number, name in enumerate(names)]
    await spread(partial(client.create, IPPOOLS, SYSTEM, body) for body in pools)
    titles = [p["metadata"]["name"] for p in pools]
    await spread(partial(client.patch, IPPOOLS, SYSTEM, title, STRIP) for title in titles)
    return time.perf_counter() - begin


async def dealt(client: Client, seen: OpenPools, names: list[str]) -> float:
    """The controller's time: from the first Node request to the last usable pool."""
    begin = time.perf_counter()
    await spread(partial(client.create, NODES, None, node(name)) for name in names)
    await seen.wait_for(set(names))
    return time.perf_counter() - begin


async def one_plain(client: Client, number: int) -> float:
    name = f"single-{number}"
    begin = time.perf_counter()
    await client.create(NODES, None, node(name))
    made = await client.create(IPPOOLS, SYSTEM, pool(name, 1020))
    await client.patch(IPPOOLS, SYSTEM, made["metadata"]["name"], STRIP)
    spent = time.perf_counter() - begin
    await client.delete(IPPOOLS, SYSTEM, made["metadata"]["name"])
    await client.delete(NODES, None, name)
    return spent


async def run(cluster: Cluster) -> dict[str, Any]:
    many: dict[str, list[float]] = {"controller": [], "plain": []}
    single: dict[str, list[float]] = {"controller": [], "plain": []}
    async with (
        Client.connect(str(cluster.kubeconfig), "whereabouts-fast-bench/1") as client,
        asyncio.TaskGroup() as group,
    ):
        seen = OpenPools(client)
        watching = group.create_task(seen.informer.run())
        await client.create(NADS, TENANT, attachment())
        for turn in range(ROUNDS):
            names = [f"bench-{turn}-{n:04d}" for n in range(NODE_COUNT)]
            many["plain"].append(await plain(client, names))
            await empty(client)
            async with controller(cluster):
                await warm(client, seen, f"warm-{turn}")
                many["controller"].append(await dealt(client, seen, names))
            await empty(client)
        async with controller(cluster):
            await dealt(client, seen, [f"small-{n:03d}" for n in range(SMALL_COUNT)])
        # The plain requests make Nodes too: a running controller would work on them meanwhile.
        for block in range(2):
            numbers = range(block * SINGLES // 2, (block + 1) * SINGLES // 2)
            single["plain"] += [await one_plain(client, number) for number in numbers]
            async with controller(cluster):
                await warm(client, seen, f"warm-single-{block}")
                for number in numbers:
                    single["controller"].append(await dealt(client, seen, [f"late-{number}"]))
        watching.cancel()
    return {
        "nodes_1000_seconds": median_and_ratio(many),
        "one_node_at_100_seconds": median_and_ratio(single),
    }


async def warm(client: Client, seen: OpenPools, name: str) -> None:
    """One node served means that the controller leads and its caches are full."""
    await client.create(NODES, None, node(name))
    await seen.wait_for({name})


def median_and_ratio(times: dict[str, list[float]]) -> dict[str, float]:
    ours, theirs = (statistics.median(times[key]) for key in ("controller", "plain"))
    ratios = [a / b for a, b in zip(times["controller"], times["plain"], strict=True)]
    return {
        "controller": round(ours, 4),
        "plain": round(theirs, 4),
        "ratio": round(statistics.median(ratios), 3),
    }


def main() -> None:
    with Cluster.start() as cluster:
        result = asyncio.run(run(cluster))
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print(RESULT.read_text(), end="")


if __name__ == "__main__":
    main()
