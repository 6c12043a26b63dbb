"""The pools of networks in classic mode, which all nodes share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass

from whereabouts_fast.controller.bounded import each
from whereabouts_fast.controller.networks import Resolution, WantedPool
from whereabouts_fast.controller.overlaps import Overlaps, networks_of
from whereabouts_fast.controller.pools import Pools
from whereabouts_fast.controller.world import World
from whereabouts_fast.ipam import classic, naming
from whereabouts_fast.ipam.overlap import Network
from whereabouts_fast.ipam.ranges import Range
from whereabouts_fast.kube.errors import ApiError
from whereabouts_fast.observability import logs
from whereabouts_fast.resources.pools import PoolView

# Created or adopted, then opened; what else changed meanwhile comes as an event.
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class SharedNeeds:
    """What an address space asks for, and its shared pools at the time of asking.

    A pool that appears later waits for the next round: `known` are the names of those that the
    networks in slice mode were told of.
    """

    space: str
    wanted: dict[str, WantedPool]
    sliced: dict[str, frozenset[str]]
    known: frozenset[str]
    networks: tuple[Network, ...]


class SharedPools:
    """Brings shared pools to their plan; one instance per term of leadership."""

    def __init__(self, world: World, pools: Pools, overlaps: Overlaps, *, in_flight: int) -> None:
        self._world = world
        self._pools = pools
        self._overlaps = overlaps
        self._in_flight = in_flight
        self._log = logs.get("pools")

    def needs(self, space: str, resolution: Resolution) -> SharedNeeds:
        """Return what is to be done for one address space."""
        sliced: dict[str, frozenset[str]] = {}
        for one in resolution.spaces.get(space, ()):
            name = naming.ip_pool(one.network.range.cidr, space)
            sliced[name] = sliced.get(name, frozenset()) | {one.network.name}
        wanted = {pool.name: pool for pool in resolution.pools.get(space, ())}
        known = {pool.name for pool in self._world.latest_pools.shared(space)}
        return SharedNeeds(
            space,
            wanted,
            sliced,
            frozenset(known | wanted.keys()),
            networks_of(space, resolution),
        )

    async def settle(self, needs: SharedNeeds, silent: Collection[Range]) -> None:
        """Create, adopt, close and delete, and open what overlaps none of `silent`.

        Raises the first ApiError of those there were, and OverlapError.
        """
        failures: list[ApiError] = []
        for _ in range(_ROUNDS):
            plan = classic.plan(
                needs.wanted, needs.sliced, (pool.shared() for pool in self._seen(needs))
            )
            due = [name for name in plan.open if not self._held_back(name, needs, silent)]
            if not (plan.create or plan.adopt or plan.close or plan.delete or due):
                break
            failures = await self._each(plan.close, self._close)
            failures += await self._each(plan.delete, self._delete)
            failures += await each(
                [needs.wanted[name] for name in plan.create],
                self._pools.create_shared,
                self._in_flight,
            )

            async def adopt(pool: PoolView) -> None:
                await self._pools.adopt(pool, needs.wanted[pool.name].network)

            failures += await self._each(plan.adopt, adopt)
            if failures:
                raise failures[0]
            closed = [pool for name in due if (pool := self._world.pool(name)) and pool.closed]
            if closed:
                await self._overlaps.settle(needs.space, needs.networks, closed)

    def _held_back(self, name: str, needs: SharedNeeds, silent: Collection[Range]) -> bool:
        pool, wanted = self._world.pool(name), needs.wanted.get(name)
        if wanted is not None:
            return any(wanted.range.overlaps(one) for one in silent)
        return pool is not None and any(
            one.version == pool.version and one.base <= pool.last and pool.base <= one.end
            for one in silent
        )

    async def _close(self, pool: PoolView) -> None:
        if await self._pools.close(pool):
            self._log.info("Closed shared pool", pool=pool.name)

    async def _delete(self, pool: PoolView) -> None:
        await self._pools.delete(pool)
        if self._world.pool(pool.name) is None:
            self._log.info("Deleted shared pool", pool=pool.name)

    async def _each(
        self, names: Iterable[str], work: Callable[[PoolView], Awaitable[None]]
    ) -> list[ApiError]:
        found = [self._world.pool(name) for name in names]
        return await each([pool for pool in found if pool is not None], work, self._in_flight)

    def _seen(self, needs: SharedNeeds) -> list[PoolView]:
        """Return the space's shared pools; those that whereabouts wrote are known by name."""
        found = {
            pool.name: pool
            for pool in self._world.latest_pools.shared(needs.space)
            if pool.name in needs.known
        }
        for name in needs.wanted.keys() - found.keys():
            pool = self._world.pool(name)
            if pool is not None:
                found[name] = pool
        return list(found.values())
