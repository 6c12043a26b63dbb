"""How long from a pool's `want` to a usable pool in a cluster of 100 nodes?

The controller is given one write that fills a node's pool and asks for more, and is timed until its
answer is seen. A plain client makes the same requests, one after the other, on copies of the same
objects in a namespace of its own: that write, a table of the same size, the pool, a read of the
table, the opening, the answer. Both take turns. Writes build/bench/growth.json and prints it.
"""

from __future__ import annotations

import asyncio
import json
import time
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.bench_slices import SYSTEM, TENANT, controller, median_and_ratio, node, spread
from hack.cluster.server import Cluster
from whereabouts_fast.ipam import naming
from whereabouts_fast.kube.client import Client
from whereabouts_fast.kube.informer import Informer
from whereabouts_fast.kube.resource import IPPOOLS, NADS, NAMESPACES, NODES, NODESLICEPOOLS
from whereabouts_fast.resources.poolpatches import answer_patch, open_patch
from whereabouts_fast.resources.pools import PoolView, decode_pool, encode_pool

RESULT = Path("build/bench/growth.json")
PLAIN, NAME = "plain", "growth"
NODE_COUNT, ROUNDS, WARM_UP = 100, 40, 5
LIMIT = 60.0


def attachment() -> dict[str, Any]:
    ipam = {"type": "whereabouts", "network_name": NAME, "range": "10.40.0.0/16"}
    config = {"name": NAME, "type": "macvlan", "ipam": {**ipam, "node_slice_size": "/28"}}
    return {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": NAME},
        "spec": {"config": json.dumps(config)},
    }


def fill_and_ask() -> list[dict[str, Any]]:
    """Take all addresses and want more in one write, lest the share grows before it is asked to."""
    entry = {"id": "c" * 64, "podref": "tenant/pod", "ifname": "net1"}
    entries = {str(offset): entry for offset in range(16)}
    asked = {naming.ANNOTATION_WANT: "tenant/pod/net1"}
    return [
        {"op": "add", "path": "/spec/allocations", "value": entries},
        {"op": "add", "path": "/metadata/annotations", "value": asked},
    ]


class Pools:
    """The pools of the cluster, as a watch tells."""

    def __init__(self, client: Client) -> None:
        self.changed = asyncio.Event()
        self.informer: Informer[PoolView] = Informer(
            client, IPPOOLS, namespace=SYSTEM, decode=decode_pool
        )
        self.informer.add_handler(lambda old, new: self.changed.set())

    def open(self) -> dict[str, PoolView]:
        """All pools that are open, by name."""
        return {pool.name: pool for pool in self.informer.values() if not pool.closed}

    async def until_open(self, count: int) -> dict[str, PoolView]:
        """Return the pools once so many are open."""
        async with asyncio.timeout(LIMIT):
            while len(self.open()) < count:
                self.changed.clear()
                await self.changed.wait()
        return self.open()

    async def answer(self, name: str) -> str:
        """Return the pool that the controller names in answer to a want."""
        async with asyncio.timeout(LIMIT):
            while (found := self.informer.get(f"{SYSTEM}/{name}")) is None or not found.more:
                self.changed.clear()
                await self.changed.wait()
        return found.more or ""


async def grown(client: Client, pools: Pools, pool: PoolView) -> float:
    """The controller's time: from the request that asks to the answer."""
    begin = time.perf_counter()
    await client.patch(IPPOOLS, SYSTEM, pool.name, fill_and_ask())
    await pools.answer(pool.name)
    return time.perf_counter() - begin


async def plain(client: Client, pool: PoolView, table: dict[str, Any], number: int) -> float:
    """The same requests, sent by a client that decides nothing; then what they made goes."""
    encode = partial(encode_pool, namespace=PLAIN, node=pool.node, network=NAME, network_name=NAME)
    asked, made = encode(cidr=pool.range, closed=False), encode(cidr=f"10.41.{number}.0/28")
    await client.create(IPPOOLS, PLAIN, asked)
    begin = time.perf_counter()
    full = decode_pool(await client.patch(IPPOOLS, PLAIN, pool.name, fill_and_ask()))
    await client.replace(NODESLICEPOOLS, PLAIN, NAME, table)
    new = decode_pool(await client.create(IPPOOLS, PLAIN, made))
    await client.get(NODESLICEPOOLS, PLAIN, NAME)
    await client.patch(IPPOOLS, PLAIN, new.name, open_patch(new.uid))
    await client.patch(IPPOOLS, PLAIN, pool.name, answer_patch(full, more=new.name))
    return time.perf_counter() - begin


async def copied_table(client: Client, turn: int) -> dict[str, Any]:
    """A copy of the controller's table, different in each turn, over the plain client's own."""
    table = await client.get(NODESLICEPOOLS, SYSTEM, NAME)
    status = {**table["status"], "waiting": turn}
    body = {**table, "metadata": {"name": NAME, "namespace": PLAIN}, "status": status}
    if turn:
        own = await client.get(NODESLICEPOOLS, PLAIN, NAME)
        body["metadata"]["resourceVersion"] = own["metadata"]["resourceVersion"]
    return body


async def run(cluster: Cluster) -> dict[str, Any]:
    times: dict[str, list[float]] = {"controller": [], "plain": []}
    async with (
        Client.connect(str(cluster.kubeconfig), "whereabouts-fast-bench/1") as client,
        asyncio.TaskGroup() as group,
    ):
        pools = Pools(client)
        watching = group.create_task(pools.informer.run())
        await client.create(NAMESPACES, None, {"metadata": {"name": PLAIN}})
        await client.create(NADS, TENANT, attachment())
        names = [f"node-{number:03d}" for number in range(NODE_COUNT)]
        await spread(partial(client.create, NODES, None, node(name)) for name in names)
        async with controller(cluster):
            found = sorted((await pools.until_open(NODE_COUNT)).items())
            await client.create(NODESLICEPOOLS, PLAIN, await copied_table(client, 0))
            for turn, (_, pool) in enumerate(found[: ROUNDS + WARM_UP]):
                table = await copied_table(client, turn + 1)
                one = await plain(client, pool, table, turn)
                other = await grown(client, pools, pool)
                if turn >= WARM_UP:
                    times["plain"].append(one)
                    times["controller"].append(other)
        watching.cancel()
    return {"want_to_usable_pool_at_100_seconds": median_and_ratio(times)}


def main() -> None:
    with Cluster.start() as cluster:
        result = asyncio.run(run(cluster))
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print(RESULT.read_text(), end="")


if __name__ == "__main__":
    main()
