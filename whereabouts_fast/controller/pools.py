"""Conditional writes to pools, each remembered until the informer shows it.

Only what is done here opens a pool, and only after a live read of the table: a leader that was
paused between two writes cannot open what another has dealt on meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass

from whereabouts_fast.controller.networks import WantedPool
from whereabouts_fast.controller.units import Unit
from whereabouts_fast.controller.world import World
from whereabouts_fast.controller.writes import Body, Writes, Written
from whereabouts_fast.ipam import naming
from whereabouts_fast.ipam.holdings import Create, Held
from whereabouts_fast.ipam.leaks import Allocation
from whereabouts_fast.kube.client import Client
from whereabouts_fast.kube.errors import AlreadyExists, ApiError
from whereabouts_fast.kube.resource import IPPOOLS
from whereabouts_fast.observability import logs
from whereabouts_fast.resources import poolpatches as patches
from whereabouts_fast.resources.allocations import encode_entries
from whereabouts_fast.resources.pools import PoolView, decode_pool, encode_pool

_PAGE = 500


class DroppedError(ApiError):
    """The server has not stored what makes a pool safe.

    Definitions are looked at before anything is written; these have been replaced since.
    """

    def __init__(self, pool: str, mark: str = "closed") -> None:
        super().__init__(
            0,
            "Dropped",
            f"the server dropped spec.{mark} of IPPool {pool}, whose CRD was replaced by an older"
            " one: apply the CRDs of this version (charts/whereabouts-fast/crds)",
        )


@dataclass(frozen=True, slots=True)
class LivePools:
    """Pools as read live, and their allocations as they are in the object; by name."""

    views: dict[str, PoolView]
    allocations: dict[str, object]


class Pools:
    """The pools of one term of leadership."""

    def __init__(self, client: Client, world: World, written: Written) -> None:
        self._client = client
        self._world = world
        self._log = logs.get("pools")
        self._writes = Writes(
            client,
            IPPOOLS,
            world.namespace,
            world.latest_pools.decode,
            cache=world.pools,
            recent=world.recent_pools,
            written=written,
        )

    async def create(self, unit: Unit, action: Create) -> PoolView | None:
        """Create a closed pool and return it; None when it exists already.

        Raises AlreadyExists when its name is taken by something else.
        """
        body = encode_pool(
            namespace=self._world.namespace,
            cidr=unit.cidr(action.base, action.prefix),
            node=action.node,
            network=unit.network,
            network_name=unit.space,
        )
        try:
            return await self._create(body)
        except AlreadyExists:
            live = await self.look(body["metadata"]["name"])
            if live is None or _is(live, unit, action):
                return None
            raise

    async def create_shared(self, wanted: WantedPool) -> None:
        """Create the closed pool of a range that all nodes share, unless it exists."""
        body = encode_pool(
            namespace=self._world.namespace,
            cidr=wanted.range.cidr,
            node="",
            network=wanted.network,
            network_name=wanted.space,
            attached=True,
        )
        try:
            await self._create(body)
        except AlreadyExists:
            await self.look(wanted.name)

    async def release(self, pool: PoolView, entry: Allocation) -> bool:
        """Free an address if exactly this entry still holds it; whether that was done."""
        return await self._patch(pool, patches.release_patch(pool, entry))

    async def adopt(self, pool: PoolView, network: str) -> bool:
        """Record that a NAD asks for a shared pool; whether that was done."""
        return await self._patch(pool, patches.adopt_patch(pool, network))

    async def open(self, pool: PoolView) -> bool:
        """Open a closed pool, if it is still the same object; whether that was done."""
        return await self._patch(pool, patches.open_patch(pool.uid))

    async def mark(self, pool: PoolView) -> bool:
        """Mark a pool as overlapping; whether that was done."""
        done = await self._patch(pool, patches.mark_patch(pool))
        now = self._world.pool(pool.name)
        if done and now is not None and now.uid == pool.uid and not now.overlapping:
            raise DroppedError(pool.name, "overlapping")
        return done

    async def announce_lift(self, pool: PoolView, token: str) -> bool:
        """Say that the overlap mark is about to be taken away; whether that was done."""
        return await self._patch(pool, patches.announce_lift_patch(pool, token))

    async def lift(self, pool: PoolView, token: str) -> bool:
        """Take the overlap mark away as announced; whether nobody objected."""
        return await self._patch(pool, patches.lift_patch(pool.uid, token))

    async def unreserved(self, pool: PoolView) -> bool:
        """Record that no needless reservation is left; whether that was done."""
        return await self._patch(pool, patches.unreserved_patch(pool.uid))

    async def close(self, pool: PoolView) -> bool:
        """Close a pool, if it is still the same object; whether that was done."""
        done = await self._patch(pool, patches.close_patch(pool))
        now = self._world.pool(pool.name)
        if done and now is not None and now.uid == pool.uid and not now.closed:
            raise DroppedError(pool.name)
        return done

    async def answer(self, pool: PoolView, *, more: str = "", refused: str = "") -> bool:
        """Answer what a pool wants by a pool's name or a reason; whether that was done."""
        return await self._patch(pool, patches.answer_patch(pool, more=more, refused=refused))

    async def delete(self, pool: PoolView) -> None:
        """Delete a pool if it is still in the very state that was seen.

        A pool that is open or holds an address is left alone: whoever decided on it knew less.
        """
        if not pool.used and pool.closed and await self._writes.delete(pool.name, pool):
            # The informer's last view may be from before the last DEL.
            self._world.lost[pool.name] = ()

    async def _create(self, body: Body) -> PoolView:
        # Its pods may live: their addresses must not be given again, and their DELs must find them.
        # Those of pods that are gone are leaks like any other.
        name = body["metadata"]["name"]
        if entries := self._world.entries_lost(name):
            body["spec"]["allocations"] = encode_entries(entries)
            self._log.warning(
                "Restored pool that was deleted in use", pool=name, count=len(entries)
            )
        pool = await self._writes.create(body)
        if not pool.closed:
            await self._writes.delete(pool.name, pool)
            raise DroppedError(pool.name)
        return pool

    async def gone(self, unit: Unit, held: Held) -> bool:
        """Read a slice's pool live; whether there is none."""
        name = unit.pool_of(held)
        # Without a name somebody edited the table, and there can be no pool.
        return not name or await self.look(name) is None

    async def list_space(self, space: str) -> LivePools:
        """Read all pools of an address space live, as they are at one moment."""
        found = LivePools({}, {})
        token: str | None = None
        while True:
            page = await self._client.list(
                IPPOOLS, self._world.namespace, limit=_PAGE, continue_token=token
            )
            for raw in page["items"]:
                pool = decode_pool(raw)
                if pool.may_be_in(space) and not pool.problem:
                    found.views[pool.name] = pool
                    found.allocations[pool.name] = raw["spec"].get("allocations")
            token = page["metadata"].get("continue")
            if not token:
                return found

    async def list_live(self, unit: Unit) -> None:
        """Read all pools of a network live, and have the next plan see them as they are."""
        selector = f"{naming.LABEL_NETWORK}={naming.label_value(unit.network)}"
        token: str | None = None
        while True:
            page = await self._client.list(
                IPPOOLS,
                self._world.namespace,
                label_selector=selector,
                limit=_PAGE,
                continue_token=token,
            )
            for raw in page["items"]:
                live = decode_pool(raw)
                cached = self._world.pools.get(live.key)
                if cached is None or cached.resource_version != live.resource_version:
                    await self.look(live.name)
            token = page["metadata"].get("continue")
            if not token:
                return

    async def look(self, name: str) -> PoolView | None:
        """Read a pool live, and have the next plan see it as it is."""
        return await self._writes.look(name)

    async def _patch(self, pool: PoolView, patch: list[dict[str, object]]) -> bool:
        return await self._writes.patch(pool.name, patch) is not None


def _is(pool: PoolView, unit: Unit, action: Create) -> bool:
    if pool.problem or (unit.range.version, action.base, action.prefix) != (
        pool.version,
        pool.base,
        pool.prefix,
    ):
        return False
    wanted = (unit.space, unit.network, action.node)
    return not pool.exact or (pool.space, pool.network, pool.node) == wanted
