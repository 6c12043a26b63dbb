"""Keeps comparing tables, pools and reservations as the caches change, and shows what lasts.

Most of what does not fit at one moment is work under way: a slice is in its table before it has a
pool, an address is reserved before it is recorded. So a finding is shown once it has lasted.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import NoReturn

from whereabouts_fast.controller.usage import Usage
from whereabouts_fast.ipam import findings
from whereabouts_fast.ipam.consistency import Comparison
from whereabouts_fast.ipam.findings import Finding
from whereabouts_fast.resources.pools import PoolView
from whereabouts_fast.resources.reservations import ReservationView
from whereabouts_fast.resources.tables import TableView

# Objects compared between two turns of everybody else in the process.
_STRIDE = 100


def nobody(_: set[str]) -> None:
    """Nobody is told."""


class Inspection:
    """One per process; `grace` in seconds. `changed` is told of networks with other findings."""

    def __init__(self, usage: Usage, grace: float) -> None:
        self._usage = usage
        self._world = usage.world
        self._grace = grace
        self._clock = asyncio.get_running_loop().time
        self._comparison = Comparison()
        self._due: dict[tuple[str, str], None] = {}
        self._wake = asyncio.Event()
        self._since: dict[Finding, float] = {}
        self._shown: tuple[Finding, ...] = ()
        self.changed: Callable[[set[str]], None] = nobody
        self._world.tables.add_handler(lambda old, new: self._touch("table", old, new))
        self._world.pools.add_handler(lambda old, new: self._touch("pool", old, new))
        usage.reservations.add_handler(lambda old, new: self._touch("reservation", old, new))

    def shown(self, network: str | None = None) -> tuple[Finding, ...]:
        """Return what has lasted, of one network or of all."""
        return tuple(f for f in self._shown if network is None or f.network == network)

    def counts(self) -> Counter[tuple[str, str]]:
        """Count what has lasted by network and reason, every reason of every table's network."""
        names = (table.name for table in self._world.tables.values())
        found = Counter({(name, reason): 0 for name in names for reason in findings.REASONS})
        found.update((finding.network, finding.reason) for finding in self._shown)
        return found

    async def run(self) -> NoReturn:
        """Compare until cancelled, once the caches are filled."""
        for informer in (*self._world.informers, self._usage.reservations):
            await informer.synced()
        while True:
            self._wake.clear()
            await self._compare()
            pause = self._judge()
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                pass

    def _touch(
        self,
        kind: str,
        old: TableView | PoolView | ReservationView | None,
        new: TableView | PoolView | ReservationView | None,
    ) -> None:
        one = new or old
        if one is not None:
            self._due[kind, one.name] = None
            self._wake.set()

    async def _compare(self) -> None:
        done = 0
        while self._due:
            kind, name = next(iter(self._due))
            del self._due[kind, name]
            key = f"{self._world.namespace}/{name}"
            if kind == "table":
                table = self._world.tables.get(key)
                self._comparison.table(name, None if table is None else table.facts())
            elif kind == "pool":
                pool = self._world.pools.get(key)
                self._comparison.pool(name, None if pool is None else pool.facts())
            else:
                reservation = self._usage.reservations.get(key)
                holder = None if reservation is None else reservation.holder
                self._comparison.reservation(name, holder)
            done += 1
            if done % _STRIDE == 0:
                await asyncio.sleep(0)

    def _judge(self) -> float | None:
        """Show what has lasted; return the seconds until more may have, or None."""
        now = self._clock()
        self._since = {one: self._since.get(one, now) for one in self._comparison.findings()}
        before = set(self._shown)
        self._shown = tuple(f for f, since in self._since.items() if now - since >= self._grace)
        if other := before ^ set(self._shown):
            self.changed({finding.network for finding in other})
        rests = (since + self._grace - now for since in self._since.values())
        return min((rest for rest in rests if rest > 0), default=None)
