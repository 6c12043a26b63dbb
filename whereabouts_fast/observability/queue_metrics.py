"""The `workqueue_*` metrics of client-go."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

BUCKETS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 60.0)


class QueueMetrics:
    """Records what happens to work queues; fits the Kubernetes layer's QueueHook."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._running: dict[str, list[float]] = {}
        self._depth = Gauge("workqueue_depth", "Keys waiting.", ["name"], registry=registry)
        self._adds = Counter("workqueue_adds", "Keys added.", ["name"], registry=registry)
        self._retries = Counter("workqueue_retries", "Keys retried.", ["name"], registry=registry)
        self._waited = Histogram(
            "workqueue_queue_duration_seconds",
            "How long a key waited.",
            ["name"],
            buckets=BUCKETS,
            registry=registry,
        )
        self._worked = Histogram(
            "workqueue_work_duration_seconds",
            "How long a key was worked on.",
            ["name"],
            buckets=BUCKETS,
            registry=registry,
        )
        self._unfinished = Gauge(
            "workqueue_unfinished_work_seconds",
            "Seconds of work under way that work_duration does not hold yet.",
            ["name"],
            registry=registry,
        )
        self._longest = Gauge(
            "workqueue_longest_running_processor_seconds",
            "Seconds the longest running worker has been at its key.",
            ["name"],
            registry=registry,
        )

    def known(self, name: str) -> None:
        """Start the series of a queue at zero."""
        running = self._running.setdefault(name, [])
        self._depth.labels(name).set(0)
        self._adds.labels(name)
        self._retries.labels(name)
        self._waited.labels(name)
        self._worked.labels(name)
        self._unfinished.labels(name).set_function(
            lambda: sum(time.monotonic() - began for began in running)
        )
        self._longest.labels(name).set_function(
            lambda: max((time.monotonic() - began for began in running), default=0.0)
        )

    def added(self, name: str, depth: int) -> None:
        """Count a key that was added; `depth` keys wait now."""
        self._adds.labels(name).inc()
        self._depth.labels(name).set(depth)

    def started(self, name: str, depth: int, waited: float) -> None:
        """Count a key that was taken after `waited` seconds; `depth` keys still wait."""
        self._depth.labels(name).set(depth)
        self._waited.labels(name).observe(waited)
        self._running.setdefault(name, []).append(time.monotonic())

    def finished(self, name: str, seconds: float) -> None:
        """Count a key that was worked on for `seconds`."""
        self._worked.labels(name).observe(seconds)
        running = self._running.setdefault(name, [])
        if running:
            # Keys are not told apart here; the start nearest to this end's is the same one.
            began = time.monotonic() - seconds
            running.remove(min(running, key=lambda start: abs(start - began)))

    def retried(self, name: str) -> None:
        """Count a key that will be tried again after a failure."""
        self._retries.labels(name).inc()
