"""What does it cost to find 1,000 leaks among 20,000 pods in 2,000 pools?

A real API server that lists page by page; the controller as a process. It starts after the leaks
were made. The time from its start to the last release, without the grace, stands beside a plain
client that reads the same lists page by page and then makes the same reads and writes. Resident
memory has a fixed cap: 120 MB, and 1 kB for each pod and 3 kB for each pool. Writes
build/bench/leaks.json and prints it; fails above the cap.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import population
from benchmarks.population import NETWORKS, SYSTEM, TENANT, grow, list_plainly, node_name, spread
from benchmarks.subject import running
from benchmarks.timing import ratio
from hack.cluster.api import Api
from hack.cluster.server import Cluster
from whereabouts_fast.kube.client import Client
from whereabouts_fast.kube.errors import NotFound
from whereabouts_fast.kube.resource import IPPOOLS, PODS
from whereabouts_fast.resources.poolpatches import release_patch
from whereabouts_fast.resources.pools import decode_pool

RESULT = Path("build/bench/leaks.json")
NODE_COUNT, PODS_PER_NODE, EACH = 500, 40, 20
PODS_IN_ALL, POOLS_IN_ALL = NODE_COUNT * PODS_PER_NODE, NODE_COUNT * len(NETWORKS)
CAP_MB = 120 + PODS_IN_ALL / 1000 + POOLS_IN_ALL * 3 / 1000
GRACE, PAUSE = 1.0, 1.0  # the second is the controller's own, before it first looks
LIMIT = 600.0


def names() -> list[str]:
    """The pods that go without a DEL: two of each node, in different networks."""
    return [
        f"pod-{number:05d}-{at + number % 7}"
        for number in range(NODE_COUNT)
        for at in range(0, PODS_PER_NODE, EACH)
    ]


async def taken(client: Client) -> int:
    """Count the entries of all pools."""
    count, token = 0, None
    while True:
        page = await client.list(IPPOOLS, SYSTEM, limit=500, continue_token=token)
        count += sum(len(item["spec"]["allocations"]) for item in page["items"])
        token = page["metadata"].get("continue")
        if not token:
            return count


async def drained(client: Client, left: int) -> None:
    """Return when only so many entries are left. Raises TimeoutError after LIMIT seconds."""
    async with asyncio.timeout(LIMIT):
        while True:
            if await taken(client) <= left:
                return
            await asyncio.sleep(0.5)


def leak(api: Api) -> None:
    """Delete the pods by force, as their nodes run no kubelet that would let them go."""
    for name in names():
        api.delete(PODS.path(TENANT, name), grace=0)


async def plainly(client: Client) -> float:
    """Make the reads and writes of all releases, and the lists before; return the seconds."""
    began = time.perf_counter()
    await list_plainly(client)
    gone = {f"{TENANT}/{name}" for name in names()}
    pools, token = [], None
    while True:
        page = await client.list(IPPOOLS, SYSTEM, limit=500, continue_token=token)
        pools += [decode_pool(item) for item in page["items"]]
        token = page["metadata"].get("continue")
        if not token:
            break

    async def release(number: int, entry: int) -> None:
        pool = pools[number]
        one = pool.entries[entry]
        for _ in range(2):
            try:
                await client.get(PODS, *one.podref.split("/"))
            except NotFound:
                pass
        await client.patch(IPPOOLS, SYSTEM, pool.name, release_patch(pool, one))

    await spread(
        partial(release, number, entry)
        for number, pool in enumerate(pools)
        for entry, one in enumerate(pool.entries)
        if one.podref in gone
    )
    return time.perf_counter() - began


async def measure(cluster: Cluster) -> dict[str, Any]:
    """Return all figures."""
    async with Client.connect(str(cluster.kubeconfig), "whereabouts-fast-bench/1") as client:
        await grow(client, 0, NODE_COUNT, PODS_PER_NODE)
        await asyncio.to_thread(leak, cluster.api)
        left = PODS_IN_ALL - len(names())
        flags = ("--leak-grace", str(GRACE), "--leak-grace-lost", str(GRACE))
        async with running(cluster.kubeconfig, SYSTEM, *flags) as subject:
            await drained(client, left)
            seconds = time.perf_counter() - subject.began - GRACE - PAUSE
            processor = await subject.quiet()
            memory = subject.memory()
        await restore(client)
        plain = await plainly(client)
    return {
        "pods": PODS_IN_ALL,
        "pools": POOLS_IN_ALL,
        "leaks": len(names()),
        "memory_mb": memory,
        "memory_cap_mb": CAP_MB,
        "seconds": round(seconds, 2),
        "plain_seconds": round(plain, 2),
        "ratio": ratio(seconds, plain),
        "processor_seconds": round(processor, 2),
    }


async def restore(client: Client) -> None:
    """Record the released addresses once more, of pods that are gone all the same."""

    async def record(number: int, at: int) -> None:
        network, offset, body = population.pod(number, at)
        podref = f"{TENANT}/{body['metadata']['name']}"
        entry = {"id": "c" * 64, "podref": podref, "ifname": "net1", "uid": podref}
        name = population.pool_name(network, node_name(number), number)
        path = f"/spec/allocations/{offset}"
        patch = [{"op": "add", "path": path, "value": entry}]
        await client.patch(IPPOOLS, SYSTEM, name, patch, metadata_only=True)

    await spread(
        partial(record, int(number), int(at))
        for _, number, at in (name.split("-") for name in names())
    )


def main() -> int:
    """Run the benchmark; 1 above the cap."""
    with Cluster.start(feature_gates={"WatchList": False}) as cluster:
        figures = asyncio.run(measure(cluster))
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures, indent=2))
    return int(figures["memory_mb"]["peak"] > CAP_MB)


if __name__ == "__main__":
    sys.exit(main())
