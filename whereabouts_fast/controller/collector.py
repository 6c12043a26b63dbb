"""The work on leaks during one term: its queue, its sweeps, and who tells it of changes."""

from __future__ import annotations

import asyncio
from typing import NoReturn

from whereabouts_fast.controller.announce import SliceEvents, Tell
from whereabouts_fast.controller.leaks import Leaks
from whereabouts_fast.controller.leftovers import Leftovers
from whereabouts_fast.controller.pairs import Pairs
from whereabouts_fast.controller.pools import Pools
from whereabouts_fast.controller.releases import Releases
from whereabouts_fast.controller.reservations import Reservations
from whereabouts_fast.controller.usage import Usage, nobody
from whereabouts_fast.ipam.leaks import Graces
from whereabouts_fast.kube.client import Client
from whereabouts_fast.kube.errors import ApiError
from whereabouts_fast.kube.workqueue import WorkQueue, run_workers
from whereabouts_fast.observability import logs
from whereabouts_fast.observability.metrics import Metrics
from whereabouts_fast.settings import ControllerSettings

QUEUE = "leaks"
PAIR_QUEUE = "reservations"
QUEUES = (QUEUE, PAIR_QUEUE)
# Pods looked at between two turns of everybody else in the process.
_STRIDE = 500


class Collector:
    """Made anew for each term; `run` works until it is cancelled."""

    def __init__(
        self,
        client: Client,
        usage: Usage,
        tell: Tell,
        metrics: Metrics,
        settings: ControllerSettings,
    ) -> None:
        world = usage.world
        self._usage = usage
        self._settings = settings
        self._queue: WorkQueue[str] = WorkQueue(QUEUE, hook=metrics.queue)
        self._pair_queue: WorkQueue[str] = WorkQueue(PAIR_QUEUE, hook=metrics.queue)
        self._events = SliceEvents(tell)
        pools = Pools(client, world, metrics.written)
        reservations = Reservations(client, world.namespace, metrics.written)
        releases = Releases(world, usage, pools, reservations, self._events, metrics)
        graces = Graces(settings.leak_grace, settings.leak_grace_lost)
        self._leaks = Leaks(
            client,
            usage,
            releases,
            graces,
            self._queue.add_after,
            metrics,
            in_flight=settings.pools_in_flight,
            again=settings.leak_sweep_period,
        )
        self._leftovers = Leftovers(client, world, pools)
        self._pairs = Pairs(
            client, usage, pools, reservations, graces, self._pair_queue.add_after, metrics
        )

    async def run(self) -> NoReturn:
        """Work once the caches are filled; before that, absence means nothing."""
        for informer in self._usage.informers:
            await informer.synced()
        self._usage.changed = self._consider
        try:
            async with asyncio.TaskGroup() as group:
                # As many workers as pools may be in flight: one that hangs holds up one worker.
                workers = self._settings.pools_in_flight
                for queue, work in (
                    (self._queue, self._leaks.reconcile),
                    (self._pair_queue, self._pairs.reconcile),
                ):
                    group.create_task(run_workers(queue, work, workers, _failed))
                await self._sweep()
        finally:
            self._usage.changed = nobody
            self._leaks.forget()
            self._pairs.forget()
            self._events.flush()

    def _consider(self, podref: str) -> None:
        self._leaks.consider(podref)
        self._pairs.consider(podref)

    async def _sweep(self) -> NoReturn:
        while True:
            for number, podref in enumerate(self._usage.podrefs()):
                if number % _STRIDE == 0:
                    await asyncio.sleep(0)
                self._consider(podref)
            await self._leftovers.sweep()
            await asyncio.sleep(self._settings.leak_sweep_period)


def _failed(name: str, error: Exception, pause: float) -> None:
    log = logs.get("leaks")
    if isinstance(error, ApiError):
        log.error("Failed to look for leaks", object=name, err=str(error), retry=round(pause, 1))
    else:
        log.error("Failed to look for leaks", object=name, retry=round(pause, 1), exc_info=error)
