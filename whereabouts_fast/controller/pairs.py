"""Reservations and allocations belong together: what is left of a pair that lost its half.

A reservation without an allocation goes when its pod is gone. An allocation in a pool that is
marked as overlapping, and without a reservation, gets one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from whereabouts_fast.controller import evidence
from whereabouts_fast.controller.leaks import SETTLE, Counters
from whereabouts_fast.controller.pools import Pools
from whereabouts_fast.controller.releases import reserves
from whereabouts_fast.controller.reservations import Reservations
from whereabouts_fast.controller.usage import Usage
from whereabouts_fast.ipam import address, leaks, naming
from whereabouts_fast.ipam.leaks import Allocation, Graces, Pod, Suspicion
from whereabouts_fast.kube.client import Client
from whereabouts_fast.kube.errors import AlreadyExists
from whereabouts_fast.kube.workqueue import Done, RetryAfter
from whereabouts_fast.observability import logs
from whereabouts_fast.resources.pools import PoolView
from whereabouts_fast.resources.reservations import ReservationView

_REASON = "reservation"
# How far the clocks of API servers may be apart, in seconds.
_SKEW = 60.0


class Pairs:
    """The suspicions of one term of leadership; a key is the name of a reservation.

    `later` asks for work on a key after so many seconds. `clock` is monotonic.
    """

    def __init__(
        self,
        client: Client,
        usage: Usage,
        pools: Pools,
        reservations: Reservations,
        graces: Graces,
        later: Callable[[str, float], None],
        counters: _Counters,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._client = client
        self._usage = usage
        self._world = usage.world
        self._pools = pools
        self._reservations = reservations
        self._graces = graces
        self._later = later
        self._counters = counters
        self._clock = clock or asyncio.get_running_loop().time
        self._orphans: dict[str, Suspicion] = {}
        self._bare: dict[str, Allocation] = {}
        self._log = logs.get("leaks")

    def consider(self, podref: str) -> None:
        """Look at the reservations and allocations of one pod in the caches."""
        for view in self._usage.reserved(podref):
            if not leaks.is_podref(podref) or self._is_paired(view):
                self._clear(view.name)
            elif view.name not in self._orphans:
                self._suspect(view.name, Suspicion(leaks.GONE, self._clock() + SETTLE))
                self._later(view.name, SETTLE)
        for entry in self._usage.entries(podref):
            pool = self._world.pool(entry.pool)
            if pool is not None and (name := _needed(pool, entry)):
                if self._cached(name) is not None:
                    self._bare.pop(name, None)
                elif name not in self._bare:
                    self._bare[name] = entry
                    self._later(name, SETTLE)

    async def reconcile(self, name: str) -> Done | RetryAfter:
        """Look live at one reservation, or at the lack of it."""
        if (entry := self._bare.get(name)) is not None:
            await self._reserve(name, entry)
            self._bare.pop(name, None)
        known, view = self._orphans.get(name), self._cached(name)
        if known is None:
            return Done()
        if view is None or self._is_paired(view):
            self._clear(name)
            return Done()
        if known.look <= self._clock():
            pod = await evidence.read_pod(self._client, view.holder.podref)
            known = await self._judge(view, pod, known)
            if known is None:
                self._clear(name)
                return Done()
            self._orphans[name] = known
        return RetryAfter(max(0.0, known.look - self._clock()))

    def forget(self) -> None:
        """Drop all suspicions, at the end of a term."""
        for name in list(self._orphans):
            self._clear(name)

    async def _judge(
        self, view: ReservationView, pod: Pod | None, known: Suspicion
    ) -> Suspicion | None:
        """Return when to look again; None when there is nothing left to do."""
        podref = view.holder.podref
        if pod is None or pod.finished:
            grace = self._graces.usual
        elif _older(view, pod) and not _names(view, pod):
            # Its pod had the same name as one that lives: who could still use it has had time.
            grace = self._graces.lost
        else:
            return None
        now = self._clock()
        one = known.confirm(leaks.GONE, now, grace)
        if one.look > now:
            return one
        machine = self._usage.machine(podref)
        if pod is not None and pod.machine:
            machine = (pod.machine, pod.machine_uid)
        if await evidence.machine_exists(self._client, podref, machine):
            return None
        if await self._reservations.remove(view):
            self._counters.leak_released(_REASON)
            self._log.info("Released reservation", reservation=view.name, pod=podref)
        return None

    async def _reserve(self, name: str, entry: Allocation) -> None:
        if await self._reservations.exists(name):
            return
        # After the reservation: an ADD makes that first, and a DEL removes it last.
        pool = await self._pools.look(entry.pool)
        if pool is None or entry not in pool.entries or _needed(pool, entry) != name:
            return
        try:
            await self._reservations.create(name, entry.holder)
        except AlreadyExists:
            return
        self._log.info("Reserved address", reservation=name, pod=entry.podref, pool=pool.name)

    def _cached(self, name: str) -> ReservationView | None:
        return self._usage.reservations.get(f"{self._world.namespace}/{name}")

    def _is_paired(self, view: ReservationView) -> bool:
        for entry in self._usage.entries(view.holder.podref):
            pool = self._world.pool(entry.pool)
            if pool is not None and reserves(view.name, pool, entry):
                return True
        return False

    def _suspect(self, name: str, one: Suspicion) -> None:
        self._orphans[name] = one
        self._counters.leak_candidates(_REASON, 1)

    def _clear(self, name: str) -> None:
        if self._orphans.pop(name, None) is not None:
            self._counters.leak_candidates(_REASON, -1)


def _needed(pool: PoolView, entry: Allocation) -> str:
    """Return the name of the reservation that an entry must have, "" when it needs none."""
    return pool.reservation_of(entry) if pool.overlapping and pool.exact else ""


def _older(view: ReservationView, pod: Pod) -> bool:
    """Return whether a reservation was made for an earlier pod of that name.

    Both times are the API server's.
    """
    return (
        view.created is not None and pod.created is not None and view.created + _SKEW < pod.created
    )


def _names(view: ReservationView, pod: Pod) -> bool:
    """Return whether network-status names the address of a reservation, in whatever space."""
    for value in pod.addresses:
        plain = naming.reservation(address.text(4 if value < 1 << 32 else 6, value))
        if f"-{view.name}".endswith(f"-{plain}"):
            return True
    return False


class _Counters(Counters, Protocol):
    """The part of the metrics that this module feeds."""

    def leak_released(self, reason: str) -> None:
        """Count a release."""
