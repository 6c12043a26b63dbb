"""The release of one address: the entry first, then its reservation, then the words about it."""

from __future__ import annotations

from typing import Protocol

from whereabouts_fast.controller.announce import SliceEvents
from whereabouts_fast.controller.pools import Pools
from whereabouts_fast.controller.report import pool_reference
from whereabouts_fast.controller.reservations import Reservations
from whereabouts_fast.controller.usage import Usage
from whereabouts_fast.controller.world import World
from whereabouts_fast.ipam import naming
from whereabouts_fast.ipam.leaks import Allocation
from whereabouts_fast.kube.errors import Conflict
from whereabouts_fast.observability import logs
from whereabouts_fast.resources.pools import PoolView

_ATTEMPTS = 2


class Counters(Protocol):
    """The part of the metrics that this module feeds."""

    def leak_released(self, reason: str) -> None:
        """Count a release."""


class Releases:
    """Frees what others have found to be a leak; one instance per term of leadership."""

    def __init__(
        self,
        world: World,
        usage: Usage,
        pools: Pools,
        reservations: Reservations,
        events: SliceEvents,
        counters: Counters,
    ) -> None:
        self._world = world
        self._usage = usage
        self._pools = pools
        self._reservations = reservations
        self._events = events
        self._counters = counters
        self._log = logs.get("leaks")

    async def release(self, name: str, entry: Allocation, why: str) -> None:
        """Free an address, if the very entry is still there.

        Raises ApiError, and Conflict when others write the pool all the time.
        """
        for _ in range(_ATTEMPTS):
            pool = self._world.pool(name)
            if pool is None or entry not in pool.entries:
                # What we wrote last may be older than what the informer has shown.
                pool = await self._pools.look(name)
            if pool is None or entry not in pool.entries:
                return
            if await self._pools.release(pool, entry):
                self._tell(pool, entry, why)
                # No informer will: it was our own write.
                self._world.tell_of_pool(pool, self._world.pool(name))
                await self._unreserve(pool, entry)
                return
        text = f"IPPool {name} is written by others at the same time"
        raise Conflict(409, "Conflict", text)

    async def _unreserve(self, pool: PoolView, entry: Allocation) -> None:
        for view in self._usage.reserved(entry.podref):
            if view.holder.agrees(entry.holder) and reserves(view.name, pool, entry):
                await self._reservations.remove(view)

    def _tell(self, pool: PoolView, entry: Allocation, why: str) -> None:
        text = pool.address_of(entry) or f"offset {entry.offset} of {pool.range}"
        self._counters.leak_released(why)
        self._log.info(
            "Released address",
            address=text,
            pod=entry.podref,
            pool=pool.name,
            node=entry.node or self._usage.node_of(pool),
            network=pool.network,
            reason=why,
        )
        self._events.released(pool_reference(pool), {text: f"{entry.podref} ({why})"})


def reserves(name: str, pool: PoolView, entry: Allocation) -> bool:
    """Return whether a reservation of this name is that of an entry's address.

    Of a pool that whereabouts wrote, the address space may not be known; then any will do.
    """
    text = pool.address_of(entry)
    if not text:
        return False
    if pool.exact:
        return name == naming.reservation(text, pool.space)
    plain = naming.reservation(text)
    return name == plain or name.endswith(f"-{plain}")
