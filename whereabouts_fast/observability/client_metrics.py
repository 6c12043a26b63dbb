"""Metrics of the Kubernetes layer: requests, watches, caches, work queues and leadership.

The Kubernetes layer declares what it reports as protocols; the methods here fit them.
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from whereabouts_fast.observability.queue_metrics import QueueMetrics

PREFIX = "whereabouts_fast_"
RESTART_REASONS = ("closed", "short", "silent", "expired", "unsupported", "refused", "broken")
REQUEST_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 30.0)


class ClientMetrics:
    """The part of the registry that the Kubernetes layer fills."""

    def __init__(self, registry: CollectorRegistry, host: str = "kubernetes") -> None:
        self._host = host
        self._requests = Counter(
            "rest_client_requests",
            "HTTP requests by code, method and host.",
            ["code", "method", "host"],
            registry=registry,
        )
        self._latency = Histogram(
            "rest_client_request_duration_seconds",
            "Request latency by verb and host.",
            ["verb", "host"],
            buckets=REQUEST_BUCKETS,
            registry=registry,
        )
        self._restarts = Counter(
            PREFIX + "watch_restarts",
            "Lists and watches started again; `reason`, why the one before ended: "
            + ", ".join(RESTART_REASONS)
            + ".",
            ["resource", "reason"],
            registry=registry,
        )
        self._objects = Gauge(
            PREFIX + "cache_objects", "Objects in the cache.", ["resource"], registry=registry
        )
        self._undecodable = Counter(
            PREFIX + "cache_undecodable",
            "Objects that could not be read; the cache kept what it had.",
            ["resource"],
            registry=registry,
        )
        self._dropped = Counter(
            PREFIX + "events_dropped",
            "Events not written, because there were too many or the server refused them.",
            ["reason"],
            registry=registry,
        )
        self._synced = Gauge(
            PREFIX + "cache_synced",
            "1 once the cache was filled.",
            ["resource"],
            registry=registry,
        )
        self._leading = Gauge(
            "leader_election_master_status",
            "1 while this process leads.",
            ["name"],
            registry=registry,
        )
        self.queue = QueueMetrics(registry)

    def requested(self, method: str, code: str, seconds: float) -> None:
        """Count one HTTP request."""
        self._requests.labels(code, method, self._host).inc()
        self._latency.labels(method, self._host).observe(seconds)

    def restarted(self, resource: str, reason: str) -> None:
        """Count a watch that was started again."""
        self._restarts.labels(resource, reason).inc()

    def cached(self, resource: str, objects: int) -> None:
        """Set the size of a cache."""
        self._objects.labels(resource).set(objects)

    def watching(self, resource: str) -> None:
        """Start the series of a resource: an empty cache, not yet filled."""
        self._synced.labels(resource).set(0)
        self._objects.labels(resource).set(0)
        self._undecodable.labels(resource)
        for reason in RESTART_REASONS:
            self._restarts.labels(resource, reason)

    def synced(self, resource: str) -> None:
        """Show a cache as filled."""
        self._synced.labels(resource).set(1)

    def undecodable(self, resource: str) -> None:
        """Count an object that could not be read."""
        self._undecodable.labels(resource).inc()

    def may_drop(self, reasons: Iterable[str]) -> None:
        """Start the series of all reasons of events."""
        for reason in reasons:
            self._dropped.labels(str(reason))

    def event_dropped(self, reason: str) -> None:
        """Count an event that was not written."""
        self._dropped.labels(reason).inc()

    def leading(self, name: str, leading: bool) -> None:
        """Set whether this process holds the lease `name`."""
        self._leading.labels(name).set(leading)
