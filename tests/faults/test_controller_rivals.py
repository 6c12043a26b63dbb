"""Two controllers that both believe they lead: no slice is ever open to two nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hack.cluster.api import Api
from hack.cluster.server import Cluster
from tests.integration.controller_process import (
    NODES,
    POOLS,
    create_nad,
    create_node,
    holders,
    pools,
    wait_open,
    wait_table,
)
from whereabouts_fast.controller.census import Census
from whereabouts_fast.controller.inspection import Inspection
from whereabouts_fast.controller.term import Term
from whereabouts_fast.controller.usage import Usage
from whereabouts_fast.controller.world import World
from whereabouts_fast.ipam import address
from whereabouts_fast.kube.client import Client
from whereabouts_fast.kube.events import Recorder
from whereabouts_fast.observability.metrics import Metrics
from whereabouts_fast.settings import ControllerSettings

NAMES = [f"n{number}" for number in range(12)]


@asynccontextmanager
async def leading(cluster: Cluster, stopping: asyncio.Event) -> AsyncIterator[None]:
    """A term of leadership without any lease."""
    async with (
        Client.connect(str(cluster.kubeconfig), "whereabouts-fast-rival/1") as client,
        asyncio.TaskGroup() as group,
    ):
        metrics = Metrics()
        world = World.watching(client, "ipam-system")
        usage = Usage.watching(client, world)
        informers = (*world.informers, *usage.informers)
        watches = [group.create_task(informer.run()) for informer in informers]
        for informer in world.informers:
            await informer.synced()
        recorder = Recorder(client, "rival")
        census = Census(world, metrics)
        settings = ControllerSettings(leak_grace=300)
        inspection = Inspection(usage, 30.0)
        term = Term(client, world, usage, inspection, recorder, metrics, census, settings, stopping)
        running = group.create_task(term.run())
        yield
        stopping.set()
        await running
        for watch in watches:
            watch.cancel()


async def test_two_leaders_open_no_slice_twice(cluster: Cluster, api: Api) -> None:
    stopping = asyncio.Event()
    start = api.get(POOLS)["metadata"]["resourceVersion"]
    async with leading(cluster, stopping), leading(cluster, stopping):
        await asyncio.to_thread(_live, api)
    open_slices: dict[str, tuple[int, int]] = {}
    final = pools(api)
    watched = api.watch(POOLS, resourceVersion=start, seconds=10)
    seen: dict[str, str] = {}
    for event in watched:
        item = event["object"]
        name = item["metadata"]["name"]
        seen[name] = item["metadata"]["resourceVersion"]
        open_slices.pop(name, None)
        if event["type"] != "DELETED" and not item["spec"].get("closed"):
            _, base, prefix = address.parse_cidr(item["spec"]["range"])
            last = base + (1 << (32 - prefix)) - 1
            for other, (low, high) in open_slices.items():
                assert last < low or high < base, f"{name} and {other} were open at once"
            open_slices[name] = (base, last)
        if all(seen.get(n) == p["metadata"]["resourceVersion"] for n, p in final.items()):
            break
    watched.close()
    assert set(open_slices) == {n for n, p in final.items() if not p["spec"].get("closed")}


def _live(api: Api) -> None:
    create_nad(api, range="10.40.0.0/24", node_slice_size="/28", node_slice_cooldown=0.1)
    for name in NAMES:
        create_node(api, name)
    wait_table(api, lambda held: len(held) == len(NAMES))
    for name in NAMES[:6]:
        api.delete(f"{NODES}/{name}")
    for number in range(8):
        create_node(api, f"m{number}")
    names = {*NAMES[6:], *(f"m{number}" for number in range(8))}
    held = wait_table(
        api,
        lambda held: (
            {node for node, state in held.values()} == names
            and {state for _, state in held.values()} == {"Active"}
        ),
    )
    wait_open(api, {f"blue-{n}-{c.replace('/', '-')}" for c, (n, _) in held.items()})
    assert holders(api) == held
