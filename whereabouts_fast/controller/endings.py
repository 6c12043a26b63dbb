"""Takes away the reservations that nothing needs since an overlap ended.

Whoever marks a pool anew relies on the reservations that he reads after it. So each is announced to
go before its pool is looked at once more: either this look finds the mark, or he finds the
announcement, takes it away, and the removal fails on the version that it was announced with.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from whereabouts_fast.controller.bounded import each
from whereabouts_fast.controller.pools import Pools
from whereabouts_fast.controller.reservations import Reservations
from whereabouts_fast.kube.errors import ApiError
from whereabouts_fast.observability import logs
from whereabouts_fast.resources.pools import PoolView
from whereabouts_fast.resources.reservations import ReservationView


class Endings:
    """The ends of overlaps in one term of leadership."""

    def __init__(self, pools: Pools, reservations: Reservations, *, in_flight: int) -> None:
        self._pools = pools
        self._reservations = reservations
        self._in_flight = in_flight
        self._log = logs.get("overlaps")

    async def settle(self, lifted: Iterable[PoolView]) -> None:
        """Remove the needless reservations of pools whose mark was taken away.

        Raises the first ApiError of those there were.
        """
        pools = [pool for one in lifted if (pool := await self._look(one)) is not None]
        if not pools:
            return
        await self._reservations.read()
        failures: list[ApiError] = []
        for pool in pools:
            failures += await self._end(pool)
        if failures:
            raise failures[0]

    async def _look(self, pool: PoolView) -> PoolView | None:
        """Read a pool live; None when it is another, or needs reservations."""
        live = await self._pools.look(pool.name)
        same = live is not None and live.uid == pool.uid and live.lifted and not live.overlapping
        return live if same else None

    async def _end(self, pool: PoolView) -> list[ApiError]:
        token = secrets.token_hex(8)
        ending: list[ReservationView] = []

        async def announce(view: ReservationView) -> None:
            announced = await self._reservations.announce_end(view, token)
            if announced is not None:
                ending.append(announced)

        async def remove(view: ReservationView) -> None:
            await self._reservations.remove(view, unchanged=True)

        failures = await each(self._needless(pool), announce, self._in_flight)
        if ending and await self._look(pool) is None:
            return failures
        failures += await each(ending, remove, self._in_flight)
        if ending:
            self._log.info("Removed needless reservations", pool=pool.name, count=len(ending))
        if not failures:
            await self._pools.unreserved(pool)
        return failures

    def _needless(self, pool: PoolView) -> list[ReservationView]:
        found = []
        for entry in pool.entries:
            name = pool.reservation_of(entry)
            view = self._reservations.known(name) if name else None
            if view is not None and view.holder.agrees(entry.holder):
                found.append(view)
        return found
