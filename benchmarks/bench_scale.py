"""What do memory, work for one event and a restart cost with 5,000 nodes, and with 500?

4 networks, 10 pods a node, each with an address; a real API server; the controller as a process.
Work is processor time of the controller, beside the time of one plain PATCH to the same server;
a restart stands beside listing the same objects page by page, and a new node beside the requests
it takes at least. Writes build/bench/scale.json and prints it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import happenings, population
from benchmarks.population import NETWORKS, PODS_PER_NODE, STRIP, SYSTEM, spread
from benchmarks.subject import LIMIT, Subject, running
from benchmarks.timing import ratio
from hack.cluster.server import Cluster
from whereabouts_fast.kube.client import Client
from whereabouts_fast.kube.errors import NotFound
from whereabouts_fast.kube.resource import IPPOOLS, NODES

RESULT = Path("build/bench/scale.json")
RESTARTS, JOINS, EVENTS, FEW = 3, 10, 300, 5
AGENT = "whereabouts-fast-controller"


class Bench:
    """One API server with `count` nodes; on those in `filled` there are pods."""

    def __init__(self, cluster: Cluster, client: Client, count: int, filled: Sequence[int]) -> None:
        self._cluster = cluster
        self._client = client
        self._count = count
        self._filled = filled[:EVENTS]
        self.joined = count

    async def measure(self) -> dict[str, Any]:
        """Return all figures."""
        async with self._running() as subject:
            # What the population could not know: conditions of the tables, and the like.
            await self._join()
            await subject.quiet()
        plain = await self._plain()
        listing, ready, served = [], [], []
        for _ in range(RESTARTS):
            began = time.perf_counter()
            await population.list_plainly(self._client)
            listing.append(time.perf_counter() - began)
            async with self._running() as subject:
                ready.append(time.perf_counter() - subject.began)
                await self._join()
                served.append(time.perf_counter() - subject.began)
        async with self._running() as subject:
            await subject.quiet()
            memory = subject.memory()
            work = await self._work(subject)
            joins = await self._joins(subject)
            after = subject.memory()
        pods, pools = self._count * PODS_PER_NODE, self._count * len(NETWORKS)
        limit = 120 + pods / 1000 + pools * 3 / 1000
        restarts = {
            "list": statistics.median(listing),
            "ready": statistics.median(ready),
            "first_node_served": statistics.median(served),
        }
        return {
            "nodes": self._count,
            "memory_mb": {**memory, "after_events": after["now"], "limit": limit},
            "memory/limit": ratio(memory["now"], limit),
            "restart_seconds": {name: round(value, 2) for name, value in restarts.items()},
            "restart/list": ratio(restarts["first_node_served"], restarts["list"]),
            "plain_seconds": {name: round(value, 4) for name, value in plain.items()},
            **joins,
            "join/plain": ratio(joins["join_seconds"], plain["join"]),
            "work_ms": {**work, "join": joins["join_work_ms"]},
        }

    def _running(self) -> Any:
        return running(self._cluster.kubeconfig, SYSTEM)

    async def _work(self, subject: Subject) -> dict[str, float]:
        """Return the processor time of the controller for one event of each kind, in ms."""
        work = {}
        events = happenings.kinds(self._client, self._filled, self.joined)
        events["scrape"] = [subject.scrape] * FEW
        for name, jobs in events.items():
            before = await subject.quiet()
            await spread(jobs)
            work[name] = round((await subject.quiet() - before) / len(jobs) * 1000, 3)
        before = await subject.quiet()
        for number in self._filled[:JOINS]:
            await happenings.want(self._client, number)
        work["want_answered"] = round((await subject.quiet() - before) / JOINS * 1000, 3)
        return work

    async def _joins(self, subject: Subject) -> dict[str, Any]:
        """Return what a node that joins costs, one at a time."""
        served = []
        before, mark = await subject.quiet(), self._cluster.audit.mark()
        for _ in range(JOINS):
            served.append(await self._join())
            await subject.quiet()
        work = (await subject.quiet() - before) / JOINS
        counts: Counter[str] = Counter()
        for (agent, verb, resource, _), count in self._cluster.audit.counts(mark).items():
            if agent == AGENT and resource in ("ippools", "nodeslicepools"):
                counts[f"{verb} {resource}"] += count
        return {
            "join_seconds": round(statistics.median(served), 4),
            "join_work_ms": round(work * 1000, 1),
            "join_requests": {name: count / JOINS for name, count in sorted(counts.items())},
        }

    async def _plain(self) -> dict[str, float]:
        """Return the seconds of one PATCH, and of what a new node needs at least."""
        patches, joins = [], []
        for at in range(JOINS):
            name = f"plain-{at}"
            began = time.perf_counter()
            await self._client.create(NODES, None, population.node(name))
            for network in NETWORKS:
                body = population.pool(network, name, 8191 - at)
                await self._client.create(IPPOOLS, SYSTEM, body)
                patching = time.perf_counter()
                pool = population.pool_name(network, name, 8191 - at)
                await self._client.patch(IPPOOLS, SYSTEM, pool, STRIP)
                patches.append(time.perf_counter() - patching)
            joins.append(time.perf_counter() - began)
            for network in NETWORKS:
                pool = population.pool_name(network, name, 8191 - at)
                await self._client.delete(IPPOOLS, SYSTEM, pool)
            await self._client.delete(NODES, None, name)
        return {"patch": statistics.median(patches), "join": statistics.median(joins)}

    async def _join(self) -> float:
        """Add a node; return the seconds until all its pools are open."""
        name, number = population.node_name(self.joined), self.joined
        self.joined += 1
        began = time.perf_counter()
        await self._client.create(NODES, None, population.node(name))
        async with asyncio.timeout(LIMIT):
            for network in NETWORKS:
                pool = population.pool_name(network, name, number)
                while True:
                    if await self._open(pool):
                        break
                    await asyncio.sleep(0.01)
        return time.perf_counter() - began

    async def _open(self, pool: str) -> bool:
        try:
            return not (await self._client.get(IPPOOLS, SYSTEM, pool))["spec"].get("closed")
        except NotFound:
            return False


async def run(cluster: Cluster, sizes: list[int]) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    async with Client.connect(str(cluster.kubeconfig), "whereabouts-fast-bench/1") as client:
        there, filled = 0, list[int]()
        for count in sizes:
            await population.grow(client, there, count)
            filled += range(there, count)
            bench = Bench(cluster, client, count, filled)
            found.append(await bench.measure())
            there = bench.joined
            print(json.dumps(found[-1], indent=2), flush=True)
    few, many = found[0]["work_ms"], found[-1]["work_ms"]
    growth = {name: ratio(many[name], few[name]) for name in few}
    return {"sizes": found, "growth_of_work": growth}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[500, 5000], metavar="COUNT")
    sizes = parser.parse_args().nodes
    with Cluster.start() as cluster:
        result = asyncio.run(run(cluster, sizes))
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result["growth_of_work"], indent=2))


if __name__ == "__main__":
    main()
