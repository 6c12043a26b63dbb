"""What the informers report, as metrics and log lines."""

from __future__ import annotations

from whereabouts_fast.kube.errors import ApiError
from whereabouts_fast.observability import logs
from whereabouts_fast.observability.metrics import Metrics


class WatchReport:
    """Fits the Kubernetes layer's WatchHook."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._log = logs.get("watch")

    def restarted(self, resource: str, reason: str, error: ApiError | None) -> None:
        """Count a watch that was started again."""
        self._metrics.restarted(resource, reason)
        if error is None:
            self._log.debug("Restarted watch", resource=resource, reason=reason)
        else:
            self._log.warning("Lost watch", resource=resource, reason=reason, err=str(error))

    def cached(self, resource: str, objects: int) -> None:
        """Set the size of a cache."""
        self._metrics.cached(resource, objects)

    def synced(self, resource: str) -> None:
        """Note that a cache is filled."""
        self._metrics.synced(resource)

    def undecodable(self, resource: str, key: str, error: Exception) -> None:
        """Count and log an object that could not be read at all."""
        self._metrics.undecodable(resource)
        self._log.error("Could not read object", resource=resource, object=key, err=str(error))
