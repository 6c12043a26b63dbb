"""The work on leaks during one term: its queue, its sweeps, and who tells it of changes."""

from __future__ import annotations

import asyncio
from typing import NoReturn

from whereabouts_fast.controller.announce import SliceEvents, Tell
from whereabouts_fast.controller.leaks import Leaks
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
        self._events = SliceEvents(tell)
        releases = Releases(
            world,
            usage,
            Pools(client, world, metrics.written),
            Reservations(client, world.namespace, metrics.written),
            self._events,
            metrics,
        )
        self._leaks = Leaks(
            client,
            usage,
            releases,
            Graces(settings.leak_grace, settings.leak_grace_lost),
            self._queue.add_after,
            metrics,
            in_flight=settings.pools_in_flight,
            again=settings.leak_sweep_period,
        )

    async def run(self) -> NoReturn:
        """Work once the caches are filled; before that, absence means nothing."""
        for informer in self._usage.informers:
            await informer.synced()
        self._usage.changed = self._leaks.consider
        try:
            async with asyncio.TaskGroup() as group:
                # As many workers as pools may be in flight: one that hangs holds up one worker.
                workers = self._settings.pools_in_flight
                group.create_task(run_workers(self._queue, self._leaks.reconcile, workers, _failed))
                await self._sweep()
        finally:
            self._usage.changed = nobody
            self._leaks.forget()
            self._events.flush()

    async def _sweep(self) -> NoReturn:
        while True:
            for number, podref in enumerate(self._usage.podrefs()):
                if number % _STRIDE == 0:
                    await asyncio.sleep(0)
                self._leaks.consider(podref)
            await asyncio.sleep(self._settings.leak_sweep_period)


def _failed(name: str, error: Exception, pause: float) -> None:
    log = logs.get("leaks")
    if isinstance(error, ApiError):
        log.error("Failed to look for leaks", pool=name, err=str(error), retry=round(pause, 1))
    else:
        log.error("Failed to look for leaks", pool=name, retry=round(pause, 1), exc_info=error)
