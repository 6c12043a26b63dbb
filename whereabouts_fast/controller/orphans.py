"""What no plan covers: pools without a table, and memories that the informers contradict."""

from __future__ import annotations

from functools import partial

from whereabouts_fast.controller.bounded import each
from whereabouts_fast.controller.pools import Pools
from whereabouts_fast.controller.tables import Tables
from whereabouts_fast.controller.units import Unit
from whereabouts_fast.controller.world import World
from whereabouts_fast.ipam.space import Interval
from whereabouts_fast.kube.client import Client
from whereabouts_fast.kube.resource import NODESLICEPOOLS
from whereabouts_fast.observability import logs
from whereabouts_fast.resources.pools import PoolView
from whereabouts_fast.resources.tables import decode_table


class Orphans:
    """Looks after what is left over; one instance per term of leadership."""

    def __init__(
        self, client: Client, world: World, tables: Tables, pools: Pools, *, in_flight: int
    ) -> None:
        self._client = client
        self._world = world
        self._tables = tables
        self._pools = pools
        self._in_flight = in_flight
        self._log = logs.get("slices")

    def doubts(self) -> bool:
        """Return whether some memory is contradicted and not yet settled."""
        world = self._world
        return bool(world.recent_tables.doubtful(0) or world.recent_pools.doubtful(0))

    async def correct_doubts(self, seconds: float) -> None:
        """Read live what the informers have contradicted for so long."""
        for key in self._world.recent_tables.doubtful(seconds):
            await self._tables.read(key.partition("/")[2])
        for key in self._world.recent_pools.doubtful(seconds):
            await self._pools.look(key.partition("/")[2])

    async def retire(self, space: str, units: list[Unit]) -> None:
        """Close, and once empty delete, the slice pools of networks that have no table.

        Only whoever deletes a table by hand, with all NADs of its network gone, leaves such pools.
        """
        strays = self._world.latest_pools.strays(space, partial(_ranges, units))
        due = [pool for pool in strays if not pool.closed or not pool.used]
        if not due:
            return
        # The caches of tables and pools are not of one moment: ask before touching anything.
        answer = await self._client.list(NODESLICEPOOLS, self._world.namespace)
        listed = {
            (table.space, table.version, held.node, held.base, held.prefix)
            for table in map(decode_table, answer["items"])
            for held in table.held
        }

        async def step(pool: PoolView) -> None:
            if pool.closed:
                await self._pools.delete(pool)
                self._log.info("Deleted orphaned pool", pool=pool.name)
            else:
                await self._pools.close(pool)
                self._log.info("Closed orphaned pool", pool=pool.name)
                now = self._world.pool(pool.name)
                if now is not None and now.closed and not now.used:
                    await self._pools.delete(now)

        failures = await each(
            [p for p in due if (space, p.version, p.node, p.base, p.prefix) not in listed],
            step,
            self._in_flight,
        )
        if failures:
            raise failures[0]


def _ranges(units: list[Unit], network: str, version: int) -> list[Interval] | None:
    """Return the ranges of a network; None when nobody can tell, because a table is unreadable."""
    own = [unit for unit in units if unit.network == network]
    if any(unit.unreadable for unit in own):
        return None
    return [(u.range.base, u.range.end) for u in own if u.range.version == version]
