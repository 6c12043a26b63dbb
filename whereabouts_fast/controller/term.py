"""One term of leadership: everything that may write, made anew when this process begins to lead."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from whereabouts_fast.controller.announce import Reference
from whereabouts_fast.controller.census import Census
from whereabouts_fast.controller.collector import Collector
from whereabouts_fast.controller.fullness import Fullness
from whereabouts_fast.controller.inspection import Inspection
from whereabouts_fast.controller.orphans import Orphans
from whereabouts_fast.controller.overlaps import OverlapError, Overlaps
from whereabouts_fast.controller.plans import Plans
from whereabouts_fast.controller.pools import Pools
from whereabouts_fast.controller.reasons import Reason
from whereabouts_fast.controller.report import Reporter
from whereabouts_fast.controller.reservations import Reservations
from whereabouts_fast.controller.settle import Settler, UnsettledError
from whereabouts_fast.controller.shared import SharedPools
from whereabouts_fast.controller.shares import Shares
from whereabouts_fast.controller.spaces import Key, Spaces
from whereabouts_fast.controller.tables import Tables
from whereabouts_fast.controller.units import Units
from whereabouts_fast.controller.usage import Usage
from whereabouts_fast.controller.verdicts import Verdicts
from whereabouts_fast.controller.world import Changes, World
from whereabouts_fast.ipam import selectors
from whereabouts_fast.kube.client import Client
from whereabouts_fast.kube.errors import ApiError
from whereabouts_fast.kube.events import Recorder
from whereabouts_fast.kube.workqueue import WorkQueue, run_workers
from whereabouts_fast.observability import logs
from whereabouts_fast.observability.metrics import Metrics
from whereabouts_fast.resources.pools import PoolView
from whereabouts_fast.settings import ControllerSettings

QUEUE = "spaces"


@dataclass(frozen=True, slots=True)
class Term:
    """What a term needs; `run` may be called again after it ended."""

    client: Client
    world: World
    usage: Usage
    inspection: Inspection
    recorder: Recorder
    metrics: Metrics
    census: Census
    settings: ControllerSettings
    stopping: asyncio.Event

    async def run(self) -> None:
        """Work until `stopping` is set, then finish what is under way; or until cancelled."""
        log = logs.get("controller")
        queue: WorkQueue[Key] = WorkQueue(QUEUE, hook=self.metrics.queue)
        changes = Changes()
        self.world.begin_term(changes)
        report = Reporter(self._tell, self.metrics)
        spaces = self._spaces(report, queue)
        fullness = Fullness(self.world, self.census.capacity, self._tell)
        collector = Collector(self.client, self.usage, self._tell, self.metrics, self.settings)
        changes.networks = spaces.networks_changed
        changes.nodes = spaces.nodes_changed
        changes.labels = spaces.labels_changed

        def used(old: PoolView | None, new: PoolView | None) -> None:
            spaces.pool_used(old, new)
            fullness.changed(old, new)

        changes.used = used
        changes.pool = spaces.pool_changed
        changes.table = spaces.table_changed
        log.info("Began to lead")
        verdicts = Verdicts(self.usage, self.inspection, self._tell, spaces.table_changed)
        try:
            spaces.begin()
            verdicts.begin()
            fullness.begin()
            async with asyncio.TaskGroup() as group:
                workers = group.create_task(
                    run_workers(queue, spaces.reconcile, self.settings.workers, _failed)
                )
                collecting = group.create_task(collector.run())
                await self.stopping.wait()
                # Each release is one conditional write; what is cut short, the next term does.
                collecting.cancel()
                try:
                    async with asyncio.timeout(self.settings.shutdown_grace):
                        await spaces.stop()
                except TimeoutError:
                    log.error("Stopped in the middle of work", err="the shutdown grace is over")
                workers.cancel()
        finally:
            self.world.end_term()
            verdicts.end()
            report.flush()
            log.info("Ceased to lead")

    def _tell(self, about: Reference, reason: Reason, message: str) -> None:
        self.recorder.event(about, reason.type, reason, message)

    def _spaces(self, report: Reporter, queue: WorkQueue[Key]) -> Spaces:
        in_flight = self.settings.pools_in_flight
        shares = Shares(self.world.pools_on, self.settings.idle_slice_seconds, time.time)
        units = Units(self.world, shares, selectors.parse(self.settings.node_selector))
        plans = Plans(self.world, units, time.time)
        self.world.changes.node = plans.node_changed
        self.world.changes.moved = plans.pool_changed
        tables = Tables(
            self.client, self.world, self.metrics.written, time.time, self.inspection.shown
        )
        pools = Pools(self.client, self.world, self.metrics.written)
        reservations = Reservations(self.client, self.world.namespace, self.metrics.written)
        overlaps = Overlaps(self.world, pools, reservations, in_flight=in_flight)
        return Spaces(
            self.world,
            units,
            tables,
            shares,
            Settler(
                self.world,
                units,
                shares,
                plans,
                tables,
                pools,
                overlaps,
                report,
                in_flight=in_flight,
                now=time.time,
            ),
            Orphans(self.client, self.world, tables, pools, in_flight=in_flight),
            SharedPools(self.world, pools, overlaps, in_flight=in_flight),
            overlaps,
            report,
            queue.add_after,
            self.census.serve,
        )


def _failed(key: Key, error: Exception, pause: float) -> None:
    log = logs.get("controller")
    space = "networks" if key is None else key
    if isinstance(error, ApiError | UnsettledError | OverlapError):
        log.error("Failed to settle", space=space, err=str(error), retry=round(pause, 1))
    else:
        log.error("Failed to settle", space=space, retry=round(pause, 1), exc_info=error)
