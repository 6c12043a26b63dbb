"""Many nodes at once, and tables that grow too large: what it costs in requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hack.cluster.api import Api
from hack.cluster.server import Cluster
from tests.integration.controller_process import (
    NODES,
    POOLS,
    condition,
    create_nad,
    create_node,
    events,
    holders,
    running,
    table,
    wait_open,
    wait_table,
)
from whereabouts_fast.controller.process import serve
from whereabouts_fast.resources import tables as table_encoding
from whereabouts_fast.settings import ControllerSettings

AGENT = "whereabouts-fast-controller"
BURST = 1000


def all_open(count: int) -> Callable[[list[dict[str, object]]], bool]:
    def judge(items: list[dict[str, object]]) -> bool:
        specs = [item["spec"] for item in items]
        return sum(isinstance(s, dict) and not s.get("closed") for s in specs) == count

    return judge


def test_many_nodes_at_once_cost_two_requests_each(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    create_node(api, "first")
    create_nad(api, range="10.40.0.0/16")
    with running(cluster.kubeconfig, tmp_path) as controller, ThreadPoolExecutor(16) as threads:
        wait_open(api, {"blue-first-10.40.0.0-26"})
        mark = cluster.audit.mark()
        list(threads.map(lambda n: create_node(api, f"n{n:04d}"), range(BURST)))
        api.wait_for(POOLS, all_open(BURST + 1), seconds=120)
        assert controller.stop() == 0
    counts = cluster.audit.counts(mark)

    def of(*key: object) -> int:
        return sum(
            n for (agent, *rest), n in counts.items() if agent == AGENT and tuple(rest) == key
        )

    assert of("create", "ippools", 201) == BURST
    assert of("patch", "ippools", 200) == BURST
    # Nodes that come while the controller is busy are one batch: one write, one live read.
    batches = of("update", "nodeslicepools", 200)
    assert 1 <= batches <= 30
    assert of("get", "nodeslicepools", 200) == batches
    others = {
        key[1:]: n
        for key, n in counts.items()
        if key[0] == AGENT and key[2] not in ("leases", "events")
    }
    assert sum(others.values()) == 2 * BURST + 2 * batches
    # At most one event for the first, and one for the others at the end.
    assert sum(n for key, n in counts.items() if key[0] == AGENT and key[2] == "events") <= 3
    held = holders(api)
    assert len({node for node, _ in held.values()}) == len(held) == BURST + 1
    created = {n["metadata"]["name"]: n["metadata"]["creationTimestamp"] for n in api.list(NODES)}
    assert len(created) == BURST + 1


async def test_a_table_that_would_grow_too_large_is_refused_with_an_event(
    cluster: Cluster, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case T8: the limit of an object's size, here a small one."""
    monkeypatch.setattr(table_encoding, "SIZE_LIMIT", 1800)
    for n in range(20):
        create_node(api, f"n{n:02d}")
    create_nad(api, node_slice_cooldown=0.2, range="10.40.0.0/16")
    settings = ControllerSettings(
        kubeconfig=str(cluster.kubeconfig), namespace="ipam-system", listen="127.0.0.1:0"
    )
    stopping = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(serve(settings, stopping))
        try:
            await asyncio.to_thread(_grow_and_drain, api)
        finally:
            stopping.set()


def _grow_and_drain(api: Api) -> None:
    held = wait_table(api, lambda held: len(held) > 2)
    assert len(held) < 20
    found = table(api)
    assert found is not None
    assert found["status"]["waiting"] == 20 - len(held)
    assert condition(api, "Exhausted")["status"] == "True"
    assert len(json.dumps(found["spec"]) + json.dumps(found["status"])) < table_encoding.SIZE_LIMIT
    api.wait_for(
        "/apis/events.k8s.io/v1/namespaces/tenant/events",
        lambda items: any("cannot record more slices" in item["note"] for item in items),
    )
    # Those who hold slices still drain, and make room for who waits.
    slices = ["10.40.0.0/26", "10.40.0.64/26", "10.40.0.128/26"]
    leavers = {held[cidr][0] for cidr in slices}
    for name in leavers:
        api.delete(f"{NODES}/{name}")
    after = wait_table(
        api, lambda held: "10.40.0.0/26" in held and held["10.40.0.0/26"][0] not in leavers
    )
    assert len(after) <= len(held)
    notes = [event["note"] for event in events(api, "InvalidNetworkConfig")]
    assert len(notes) == 1
