"""Keeps the addresses of pools apart whose ranges overlap, in the order of ipam/overlap.py."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable
from dataclasses import replace

from whereabouts_fast.controller.bounded import each
from whereabouts_fast.controller.conditions import overlaps
from whereabouts_fast.controller.endings import Endings
from whereabouts_fast.controller.networks import Resolution
from whereabouts_fast.controller.poolmap import PoolMap
from whereabouts_fast.controller.pools import LivePools, Pools
from whereabouts_fast.controller.reservations import Reservations
from whereabouts_fast.controller.units import Unit
from whereabouts_fast.controller.world import World
from whereabouts_fast.ipam import overlap
from whereabouts_fast.ipam.overlap import Holder, Network, Plan
from whereabouts_fast.ipam.ranges import Range
from whereabouts_fast.kube.errors import ApiError, Conflict
from whereabouts_fast.observability import logs
from whereabouts_fast.resources.pools import PoolView, holders

# Marks, reservations and opening take two; more means that somebody else writes too.
_ROUNDS = 4


class OverlapError(Exception):
    """Addresses that cannot be kept apart yet; the next attempt comes after a pause."""


def networks_of(space: str, resolution: Resolution) -> tuple[Network, ...]:
    """Return the networks of an address space as the plan for overlaps needs them."""
    sliced = [
        Network(n.name, n.range.version, n.range.base, n.range.end, "", n.overlap_check)
        for n in (wanted.network for wanted in resolution.spaces.get(space, ()))
    ]
    shared = [
        Network(name, pool.range.version, pool.range.base, pool.range.end, pool.name, pool.checked)
        for pool in resolution.pools.get(space, ())
        for name in sorted(pool.networks)
    ]
    return (*sliced, *shared)


def informed(units: Iterable[Unit], networks: tuple[Network, ...], pools: PoolMap) -> list[Unit]:
    """Return the units, those that anything overlaps with the networks of the address space."""
    units = list(units)
    return [
        replace(unit, overlapping=networks) if _faces(unit, units, networks, pools) else unit
        for unit in units
    ]


def silent(units: Iterable[Unit]) -> list[Range]:
    """Return the ranges of networks whose tables could not be made to say what overlaps them.

    Until they do, nothing may open that overlaps them: see conditions.overlaps.
    """
    return [
        unit.range
        for unit in units
        if unit.overlapping and not unit.unreadable and not overlaps(unit.table)
    ]


def _faces(unit: Unit, units: list[Unit], networks: tuple[Network, ...], pools: PoolMap) -> bool:
    low, high, version = unit.range.base, unit.range.end, unit.range.version
    strangers = [
        pool
        for pool in pools.strangers(unit.space, unit.network, version, (low, high))
        if not (pool.node and pool.network == unit.network)
    ]
    # Slices of the network that whereabouts made do not say so themselves.
    held = unit.table.held if unit.table is not None else ()
    own = () if all(pool.exact for pool in strangers) else {unit.pool_of(one) for one in held}
    careless = unit.wanted is not None and not unit.wanted.network.overlap_check

    def meets(name: str, first: int, last: int, family: int, checked: bool = True) -> bool:
        if family != version or last < low or high < first:
            return False
        return not name or name == unit.network or (checked and not careless)

    return (
        any(n.pool and meets(n.name, n.low, n.high, n.version, n.checked) for n in networks)
        or any(
            other.table_name != unit.table_name
            and meets(other.network, other.range.base, other.range.end, other.range.version)
            for other in units
        )
        or any(
            pool.name not in own and meets(pool.network, pool.base, pool.last, pool.version)
            for pool in strangers
        )
    )


class Overlaps:
    """Marks, reservations and the opening of pools; one instance per term of leadership."""

    def __init__(
        self, world: World, pools: Pools, reservations: Reservations, *, in_flight: int
    ) -> None:
        self._world = world
        self._pools = pools
        self._reservations = reservations
        self._in_flight = in_flight
        self._endings = Endings(pools, reservations, in_flight=in_flight)
        # Space -> uids of pools whose addresses were all seen to be reserved, since they overlap.
        self._settled: dict[str, frozenset[str]] = {}
        self._log = logs.get("overlaps")

    async def settle(
        self, space: str, networks: Collection[Network], opening: Iterable[PoolView] = ()
    ) -> None:
        """Mark, reserve, and open what may be opened.

        Raises OverlapError when something is left that only others can change, and the first
        ApiError of those there were.
        """
        waiting = {pool.name: pool for pool in opening}
        trouble = ""
        for _ in range(_ROUNDS):
            live = await self._pools.list_space(space)
            # What is another object now, or open, is not what was to be opened.
            waiting = {
                name: live.views[name]
                for name, pool in waiting.items()
                if name in live.views
                and live.views[name].closed
                and live.views[name].uid == pool.uid
            }
            plan = await self._plan(space, live, networks, waiting)
            failures = await each(
                [live.views[name] for name in plan.marks], self._mark, self._in_flight
            )
            missing = await self._reserve(plan, failures)
            free = [n for n in plan.opens if not missing or n not in plan.concerned]
            failures += await each([live.views[n] for n in free], self._open, self._in_flight)
            if failures:
                raise failures[0]
            waiting = {name: pool for name, pool in waiting.items() if name not in free}
            trouble = await self._unblock(plan)
            if not (plan.marks or missing or plan.blocked):
                uids = frozenset(live.views[name].uid for name in plan.concerned)
                self._settled[space] = uids
                return
        raise OverlapError(trouble or f"pools of space {space!r} change as fast as they are read")

    async def sweep(self, space: str, networks: Collection[Network]) -> None:
        """Look after pools that opened without us, work left undone, and marks without need."""
        if not self._world.latest_pools.apart(space):
            self._settled.pop(space, None)
            return
        views = {pool.name: pool for pool in self._world.pools_of(space)}
        plan = overlap.plan(space, [_seen(pool) for pool in views.values()], networks)
        uids = {views[name].uid for name in plan.concerned}
        if plan.marks or not uids <= self._settled.get(space, frozenset()):
            await self.settle(space, networks)
        elif plan.needless:
            # Marked anew, they need their reservations anew.
            self._settled.pop(space, None)
            await self._lift(space, networks, [views[name] for name in plan.needless])
        now = [self._world.pool(name) for name in views]
        await self._endings.settle(p for p in now if p and p.lifted and not p.overlapping)

    async def _plan(
        self,
        space: str,
        live: LivePools,
        networks: Collection[Network],
        waiting: Collection[str],
    ) -> Plan:
        seen = {name: _seen(pool) for name, pool in live.views.items()}
        plan = overlap.plan(space, seen.values(), networks, waiting)
        if not plan.concerned:
            return plan
        for name in plan.concerned:
            view = live.views[name]
            seen[name] = replace(seen[name], holders=holders(view, live.allocations[name]))
        # Only now: a reservation that was read before its pool may be of an ADD that then failed.
        found = await self._reservations.secure()
        return overlap.plan(space, seen.values(), networks, waiting, found)

    async def _mark(self, pool: PoolView) -> None:
        if await self._pools.mark(pool):
            self._log.info("Marked overlapping pool", pool=pool.name)

    async def _open(self, pool: PoolView) -> None:
        if await self._pools.open(pool):
            self._log.info("Opened pool", pool=pool.name, overlapping=pool.overlapping)

    async def _reserve(self, plan: Plan, failures: list[ApiError]) -> int:
        """Write reservations; return how many could not be."""
        missing = 0

        async def write(item: tuple[str, Holder]) -> None:
            nonlocal missing
            try:
                await self._reservations.create(*item)
            except Conflict:
                missing += 1

        before = len(failures)
        failures += await each(plan.reserve, write, self._in_flight)
        if plan.reserve:
            self._log.info("Reserved addresses", count=len(plan.reserve))
        return missing + len(failures) - before

    async def _unblock(self, plan: Plan) -> str:
        """Free reservations whose pods are gone; tell of one that has to be waited for."""
        trouble = ""
        for one in plan.blocked:
            if not await self._reservations.outdated(one):
                trouble = (
                    f"reservation {one.reservation} is of pod {one.other.podref}, but"
                    f" {one.holder.podref} has the address: pools that overlap stay closed"
                )
        return trouble

    async def _lift(
        self, space: str, networks: Collection[Network], marked: Iterable[PoolView]
    ) -> None:
        # Whoever opens a pool that needs the mark sees the token and takes it away, or is seen in
        # the list; a mark is not taken away without the token.
        token = secrets.token_hex(8)

        async def announce(pool: PoolView) -> None:
            await self._pools.announce_lift(pool, token)

        failures = await each(marked, announce, self._in_flight)
        live = await self._pools.list_space(space)
        plan = overlap.plan(space, [_seen(pool) for pool in live.views.values()], networks)

        async def lift(pool: PoolView) -> None:
            if await self._pools.lift(pool, token):
                self._log.info("Unmarked pool that overlaps nothing any more", pool=pool.name)

        ready = [live.views[name] for name in plan.needless if live.views[name].lifting == token]
        failures += await each(ready, lift, self._in_flight)
        if failures:
            raise failures[0]


def _seen(pool: PoolView) -> overlap.Pool:
    return overlap.Pool(
        pool.name,
        pool.version,
        pool.base,
        pool.prefix,
        pool.node,
        pool.network,
        pool.overlapping,
        pool.lifting is not None,
        pool.exact,
    )
