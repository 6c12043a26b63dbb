"""Pools whose state the controller knows only from some time ago."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from hack.cluster.api import Api
from hack.cluster.server import Cluster
from whereabouts_fast.controller.pools import Pools
from whereabouts_fast.controller.world import World
from whereabouts_fast.kube.client import Client
from whereabouts_fast.kube.resource import IPPOOLS
from whereabouts_fast.resources.pools import PoolView, decode_pool, encode_pool

NAMESPACE = "ipam-system"
NAME = "blue-n1-10.40.0.0-26"
PATH = IPPOOLS.path(NAMESPACE, NAME)


@pytest.fixture
async def pools(cluster: Cluster, api: Api) -> AsyncIterator[Pools]:
    async with Client.connect(str(cluster.kubeconfig), "whereabouts-fast-test/0") as client:
        yield Pools(client, World.watching(client, NAMESPACE), lambda kind, result: None)


def seen_before_an_address_came(api: Api, *, closed: bool = False) -> PoolView:
    body = encode_pool(
        namespace=NAMESPACE,
        cidr="10.40.0.0/26",
        node="n1",
        network="blue",
        network_name="blue",
        closed=closed,
    )
    seen = decode_pool(api.create(IPPOOLS.path(NAMESPACE), body))
    entry = {"id": "c1", "podref": "tenant/p1", "ifname": "net1"}
    api.patch(PATH, [{"op": "add", "path": "/spec/allocations/1", "value": entry}])
    return seen


async def test_closing_learns_of_addresses_that_came_meanwhile(api: Api, pools: Pools) -> None:
    assert await pools.close(seen_before_an_address_came(api))
    known = pools._world.pool(NAME)
    assert known is not None
    assert known.closed
    assert known.used == 1
    await pools.delete(known)
    assert list(api.get(PATH)["spec"]["allocations"]) == ["1"]


async def test_a_pool_that_changed_since_it_was_seen_is_not_deleted(api: Api, pools: Pools) -> None:
    await pools.delete(seen_before_an_address_came(api, closed=True))
    assert list(api.get(PATH)["spec"]["allocations"]) == ["1"]


async def test_an_open_pool_is_not_deleted_even_when_it_is_empty(api: Api, pools: Pools) -> None:
    seen = seen_before_an_address_came(api)
    api.patch(PATH, [{"op": "remove", "path": "/spec/allocations/1"}])
    await pools.delete(decode_pool(api.get(PATH)))
    assert api.get(PATH)["metadata"]["uid"] == seen.uid
