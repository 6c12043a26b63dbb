"""The process: start, supervise, stop. A task that dies takes the process down with its error."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
from importlib.metadata import version

from whereabouts_fast.controller import collector
from whereabouts_fast.controller.census import Census
from whereabouts_fast.controller.inspection import Inspection
from whereabouts_fast.controller.reasons import Reason
from whereabouts_fast.controller.selfcheck import SelfCheck
from whereabouts_fast.controller.term import QUEUE, Term
from whereabouts_fast.controller.usage import Usage
from whereabouts_fast.controller.watching import WatchReport
from whereabouts_fast.controller.world import World
from whereabouts_fast.kube.client import Client
from whereabouts_fast.kube.errors import ConfigurationError
from whereabouts_fast.kube.events import Recorder
from whereabouts_fast.kube.lease import Elector
from whereabouts_fast.observability import health, logs
from whereabouts_fast.observability.metrics import Metrics
from whereabouts_fast.settings import DEFAULT_NAMESPACE, ControllerSettings

LEASE = "whereabouts-fast-controller"
COMPONENT = "whereabouts-fast-controller"

_FLUSH_SECONDS = 2.0


def run(settings: ControllerSettings) -> int:
    """Run the controller until SIGTERM or SIGINT; 0 after an orderly stop, 1 after a failure."""
    logs.configure(settings.log_level, settings.log_format)
    log = logs.get("controller")
    failure: Exception | None = None
    try:
        asyncio.run(_until_signal(settings))
    except* Exception as group:  # noqa: BLE001 -- told and turned into the exit code below
        failure = group
    if failure is None:
        return 0
    cause = _first(failure)
    if isinstance(cause, ConfigurationError | OSError):
        log.error("Could not run", err=str(cause))
    else:
        log.error("Died", exc_info=failure)
    return 1


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _until_signal(settings: ControllerSettings) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    await serve(settings, stopping)


async def serve(settings: ControllerSettings, stopping: asyncio.Event) -> None:
    """Run the controller until `stopping` is set; logging and signals are the caller's."""
    metrics = Metrics(os.environ.get("WHEREABOUTS_REVISION", ""))
    for queue in (QUEUE, *collector.QUEUES):
        metrics.queue.known(queue)
    metrics.leading(LEASE, False)
    metrics.may_drop(Reason)
    agent = f"{COMPONENT}/{version('whereabouts-fast')}"
    async with Client.connect(settings.kubeconfig or None, agent, hook=metrics.requested) as client:
        await _Controller(settings, client, metrics, stopping).run()


class _Controller:
    """The supervised tasks of the process."""

    def __init__(
        self,
        settings: ControllerSettings,
        client: Client,
        metrics: Metrics,
        stopping: asyncio.Event,
    ) -> None:
        self._settings = settings
        self._client = client
        self._metrics = metrics
        self._stopping = stopping
        self._log = logs.get("controller")
        self._namespace = settings.namespace or client.namespace or DEFAULT_NAMESPACE
        self._identity = settings.identity or f"{socket.gethostname()}_{secrets.token_hex(4)}"
        self._check = SelfCheck(client, self._namespace, LEASE, settings.self_check_period)
        self._in_term = False
        self._world = World.watching(client, self._namespace, WatchReport(metrics))
        self._usage = Usage.watching(client, self._world, WatchReport(metrics))
        self._census = Census(self._world, metrics, nodes=settings.node_addresses)
        metrics.census(self._census)
        self._inspection = Inspection(self._usage, settings.inconsistency_grace)
        metrics.inconsistencies(self._inspection.counts)
        for informer in (*self._world.informers, *self._usage.informers):
            metrics.watching(informer.resource.plural)
        self._recorder = Recorder(
            client, COMPONENT, instance=self._identity, hook=metrics.event_dropped
        )

    async def run(self) -> None:
        """Serve, watch and lead until told to stop."""
        listen = self._settings.address
        ready = {"self-check": lambda: self._check.text, "caches": self._caches}
        async with health.serve(
            listen.host, listen.port, metrics=self._metrics, alive={}, ready=ready
        ) as (host, port):
            shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            self._log.info(
                "Started", listen=shown, namespace=self._namespace, identity=self._identity
            )
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._recorder.run(), name="events"),
                    group.create_task(self._check.run(), name="self-check"),
                    group.create_task(self._watch(), name="watches"),
                    group.create_task(self._inspection.run(), name="inspection"),
                ]
                leading = group.create_task(self._lead(), name="lease")
                stopped = group.create_task(self._stopping.wait(), name="signal")
                await stopped
                self._log.info("Stopping")
                if not self._in_term:
                    # A term ends by itself, in order; anything else on the way to it just ends.
                    leading.cancel()
                await asyncio.wait([leading])
                for task in tasks:
                    task.cancel()
            try:
                async with asyncio.timeout(_FLUSH_SECONDS):
                    await self._recorder.flush()
            except TimeoutError:
                pass
        self._log.info("Stopped")

    async def _watch(self) -> None:
        """Keep the caches, once nothing speaks against it."""
        await self._check.passed()
        async with asyncio.TaskGroup() as group:
            for informer in (*self._world.informers, *self._usage.informers):
                group.create_task(informer.run(), name=informer.resource.plural)

    def _caches(self) -> str:
        informers = (*self._world.informers, *self._usage.informers)
        missing = [i.resource.plural for i in informers if not i.has_synced]
        return f"not filled yet: {', '.join(missing)}" if missing else ""

    async def _lead(self) -> None:
        """Once the caches for slices are filled, lead whenever the lease is ours.

        Those for leaks may be much larger; nobody who wants an address waits for them.
        """
        await self._check.passed()
        for informer in self._world.informers:
            await informer.synced()
        self._log.info("Filled caches")
        term = Term(
            self._client,
            self._world,
            self._usage,
            self._inspection,
            self._recorder,
            self._metrics,
            self._census,
            self._settings,
            self._stopping,
        )

        async def work() -> None:
            self._in_term = True
            try:
                await term.run()
            finally:
                self._in_term = False

        settings = self._settings
        elector = Elector(
            self._client,
            self._namespace,
            LEASE,
            self._identity,
            duration=settings.lease_duration,
            renew_deadline=settings.renew_deadline,
            retry=settings.retry_period,
            hook=self._metrics.leading,
            on_error=lambda error: self._log.warning("Failed to renew lease", err=str(error)),
        )
        await elector.run(work)
