"""Releases the addresses of pods that are gone, found by events and by a look at all of them.

A cache only raises suspicion. The grace begins when a live read of the pod has confirmed it, and
another one is made before the release. Each pool is worked on by itself, so that one that is bad or
busy keeps no other waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from whereabouts_fast.controller import evidence
from whereabouts_fast.controller.bounded import each
from whereabouts_fast.controller.releases import Releases
from whereabouts_fast.controller.usage import Usage
from whereabouts_fast.ipam import leaks
from whereabouts_fast.ipam.leaks import Allocation, Graces, Pod, Suspicion
from whereabouts_fast.kube.client import Client
from whereabouts_fast.kube.errors import ApiError
from whereabouts_fast.kube.workqueue import Done, RetryAfter
from whereabouts_fast.resources.pools import PoolView

# Pods and pools come by different watches, and a DEL needs no more than this to be seen.
SETTLE = 1.0


class Counters(Protocol):
    """The part of the metrics that this module feeds."""

    def leak_candidates(self, reason: str, change: int) -> None:
        """Count candidates that came or went."""


class Leaks:
    """The suspicions of one term of leadership; a key is the name of a pool.

    `later` asks for work on a key after so many seconds. `clock` is monotonic. `again` is the time
    between two looks at an address that is kept for a virtual machine.
    """

    def __init__(
        self,
        client: Client,
        usage: Usage,
        releases: Releases,
        graces: Graces,
        later: Callable[[str, float], None],
        counters: Counters,
        *,
        in_flight: int,
        again: float,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._client = client
        self._world = usage.world
        self._usage = usage
        self._releases = releases
        self._graces = graces
        self._later = later
        self._counters = counters
        self._in_flight = in_flight
        self._again = again
        self._clock = clock or asyncio.get_running_loop().time
        self._suspects: dict[str, dict[Allocation, Suspicion]] = {}

    def consider(self, podref: str) -> None:
        """Look at all allocations of one pod in the caches, because something has changed."""
        claims = self._usage.claims(podref)
        found = leaks.reasons(self._usage.pod(podref), claims)
        for entry in (claim.entry for claim in claims):
            why = found.get(entry)
            if why is None:
                self._clear(entry)
                continue
            now = self._clock()
            known = self._suspects.get(entry.pool, {}).get(entry)
            one = Suspicion(why, now + SETTLE) if known is None else known.still(why)
            self._suspect(entry, one)
            self._later(entry.pool, one.look - now)

    async def reconcile(self, name: str) -> Done | RetryAfter:
        """Look live at the suspects of one pool whose time has come, and release what is a leak."""
        pool = self._world.pool(name)
        mine = self._suspects.get(name, {})
        for entry in [e for e in mine if pool is None or e not in self._usage.entries(e.podref)]:
            self._clear(entry)
        if pool is None:
            return Done()
        now = self._clock()
        due = [entry for entry, one in mine.items() if one.look <= now]
        failures = await self._look(pool, due)
        if failures:
            raise failures[0]
        rest = self._suspects.get(name)
        if not rest:
            return Done()
        return RetryAfter(max(0.0, min(one.look for one in rest.values()) - self._clock()))

    def forget(self) -> None:
        """Drop all suspicions, at the end of a term."""
        for entry in [entry for mine in self._suspects.values() for entry in mine]:
            self._clear(entry)

    async def _look(self, pool: PoolView, due: Iterable[Allocation]) -> list[ApiError]:
        groups = leaks.by_podref(due)
        lost: dict[str, bool] = {}
        ready: list[tuple[Allocation, str]] = []

        async def look(podref: str) -> None:
            pod = await evidence.read_pod(self._client, podref)
            found = leaks.reasons(pod, self._usage.claims(podref))
            for entry in groups[podref]:
                why = found.get(entry)
                if why is None:
                    self._clear(entry)
                elif await self._is_ready(pool, entry, why, pod, lost):
                    ready.append((entry, why))

        failures = await each(groups, look, self._in_flight)
        # One after the other: they are writes to one object.
        for entry, why in ready:
            try:
                await self._releases.release(pool.name, entry, why)
            except ApiError as error:
                failures.append(error)
            else:
                self._clear(entry)
        return failures

    async def _is_ready(
        self, pool: PoolView, entry: Allocation, why: str, pod: Pod | None, lost: dict[str, bool]
    ) -> bool:
        node = entry.node or self._usage.node_of(pool)
        if not node and pod is not None and entry.uid and pod.is_called(entry.uid):
            node = pod.node
        if node not in lost:
            lost[node] = await evidence.node_is_lost(self._client, node)
        known = self._suspects.get(pool.name, {}).get(entry)
        if known is None:
            return False
        now = self._clock()
        one = known.confirm(why, now, self._graces.after(why, lost[node]))
        if one.look <= now:
            machine = self._usage.machine(entry.podref)
            if pod is not None and pod.machine and why == leaks.FINISHED:
                machine = (pod.machine, pod.machine_uid)
            if not await evidence.machine_exists(self._client, entry.podref, machine):
                return True
            one = one.at(now + self._again)
        self._suspect(entry, one)
        return False

    def _suspect(self, entry: Allocation, one: Suspicion) -> None:
        mine = self._suspects.setdefault(entry.pool, {})
        known = mine.get(entry)
        if known is None or known.why != one.why:
            if known is not None:
                self._counters.leak_candidates(known.why, -1)
            self._counters.leak_candidates(one.why, 1)
        mine[entry] = one

    def _clear(self, entry: Allocation) -> None:
        mine = self._suspects.get(entry.pool)
        known = mine.pop(entry, None) if mine is not None else None
        if known is not None:
            self._counters.leak_candidates(known.why, -1)
        if not mine:
            self._suspects.pop(entry.pool, None)
