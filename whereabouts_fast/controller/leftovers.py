"""What whereabouts left of nodes that are gone: the leases of their slices, and empty pools.

Its plugin locks each slice by a lease that has the name of the slice's pool, and nobody ever
deletes one. Its pools say their node only in their name, so that no plan knows whose they were.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection
from typing import Any

from whereabouts_fast.controller import evidence
from whereabouts_fast.controller.pools import Pools
from whereabouts_fast.controller.world import World
from whereabouts_fast.ipam import address, naming
from whereabouts_fast.kube.client import Client
from whereabouts_fast.kube.errors import ApiError, Conflict, NotFound
from whereabouts_fast.kube.resource import LEASES, NODESLICEPOOLS
from whereabouts_fast.observability import logs
from whereabouts_fast.resources.pools import PoolView
from whereabouts_fast.resources.tables import TableView, decode_table

_HOLDER = re.compile(r"[a-z0-9.-]+/[a-z0-9.-]+")


class Leftovers:
    """Looks once in each sweep; one instance per term of leadership."""

    def __init__(self, client: Client, world: World, pools: Pools) -> None:
        self._client = client
        self._world = world
        self._pools = pools
        self._clock = asyncio.get_running_loop().time
        # Leases by uid: the version that was seen, and since when. Clocks of nodes say nothing.
        self._seen: dict[str, tuple[str, float]] = {}
        self._log = logs.get("leaks")

    async def sweep(self) -> None:
        """Remove what is certain; what fails is logged, and seen to in the next sweep."""
        try:
            await self._leases()
            await self._dead_pools()
        except ApiError as error:
            self._log.error("Failed to look for leftovers", err=str(error))

    async def _leases(self) -> None:
        answer = await self._client.list(LEASES, self._world.namespace)
        before, self._seen = self._seen, {}
        now, nodes = self._clock(), self._nodes()
        for lease in answer["items"]:
            meta, spec = lease["metadata"], lease.get("spec") or {}
            if not _of_a_slice(meta["name"], spec, nodes.__contains__):
                continue
            uid, version = meta["uid"], meta["resourceVersion"]
            known, since = before.get(uid, ("", now))
            self._seen[uid] = version, since if known == version else now
            held = spec.get("leaseDurationSeconds")
            if known == version and now - since >= (held if isinstance(held, int) else 0):
                await self._delete_lease(meta)

    async def _delete_lease(self, meta: dict[str, Any]) -> None:
        try:
            await self._client.delete(
                LEASES,
                self._world.namespace,
                meta["name"],
                uid=meta["uid"],
                resource_version=meta["resourceVersion"],
            )
        except (NotFound, Conflict):
            return
        self._log.info("Deleted lease of a slice whose node is gone", lease=meta["name"])

    async def _dead_pools(self) -> None:
        nodes = self._nodes()
        for pool in self._world.pools.values():
            if pool.exact or not pool.stem or pool.problem or pool.used:
                continue
            if any(end in nodes for end in _ends(pool.stem)):
                continue
            table = next((t for t in self._world.all_tables() if _may_be_cut(pool, t)), None)
            if table is not None and await self._is_nobodys(pool, table):
                await self._retire(pool)

    async def _is_nobodys(self, pool: PoolView, table: TableView) -> bool:
        live = decode_table(
            await self._client.get(NODESLICEPOOLS, self._world.namespace, table.name)
        )
        if live.unreadable or not _may_be_cut(pool, live):
            return False
        for end in _ends(pool.stem):
            if naming.is_object_name(end) and not await evidence.node_is_gone(self._client, end):
                return False
        return True

    async def _retire(self, pool: PoolView) -> None:
        """Close a pool, and delete it if it is empty then; whoever comes later finds none."""
        if not pool.closed and not await self._pools.close(pool):
            return
        now = self._world.pool(pool.name)
        if now is not None and now.uid == pool.uid and now.closed and not now.used:
            await self._pools.delete(now)
            self._log.info("Deleted pool of a slice whose node is gone", pool=pool.name)

    def _nodes(self) -> frozenset[str]:
        return frozenset(node.name for node in self._world.nodes_seen())


def _of_a_slice(name: str, spec: dict[str, Any], is_node: Callable[[str], bool]) -> bool:
    """Return whether a lease is of a slice of a node that is gone.

    The name ends as only names of pools do, and the holder is a pod, as with no other component.
    """
    holder = spec.get("holderIdentity") or ""
    if holder and not _HOLDER.fullmatch(holder):
        return False
    stems = slice_stems(name)
    return bool(stems) and not any(is_node(end) for stem in stems for end in _ends(stem))


def slice_stems(name: str) -> list[str]:
    """Return all that may stand before the range in the name of a pool; none without a range.

    An IPv6 range may begin at several places, when what stands before it looks like a part of it.
    """
    parts = name.split("-")
    found = []
    for at in range(1, len(parts) - 1):
        text, bits = "-".join(parts[at:-1]), parts[-1]
        for written in {text, text.replace("-", ":")}:
            try:
                if naming.ip_pool(f"{written}/{bits}") == f"{text}-{bits}":
                    found.append("-".join(parts[:at]))
            except (address.AddressError, naming.InvalidNameError):
                continue
    return found


def _ends(stem: str) -> Collection[str]:
    """Return all that may be the node's name: the stem, or what follows a network_name in it."""
    parts = stem.split("-")
    return ["-".join(parts[at:]) for at in range(len(parts))]


def _may_be_cut(pool: PoolView, table: TableView) -> bool:
    """Return whether a pool is a slice of a table's network that the table gives to nobody."""
    span = 1 << (address.width(table.version) - table.prefix) if table.version else 0
    return (
        table.version == pool.version
        and table.size == pool.prefix
        and pool.prefix > table.prefix
        and 0 <= pool.base - table.base < span
        and not any((h.base, h.prefix) == (pool.base, pool.prefix) for h in table.held)
    )
