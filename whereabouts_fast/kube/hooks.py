"""What this layer tells whoever counts: plain protocols, so that it knows no metrics library.

Every hook is called on the event loop, must return at once and must not raise.
"""

from typing import Protocol

from whereabouts_fast.kube.errors import ApiError


class RequestHook(Protocol):
    """One HTTP request ended (a watch: was answered)."""

    def __call__(self, method: str, code: str, seconds: float, /) -> None:
        """`code` is the HTTP status, or `<error>` where no answer came, as in client-go."""


class WatchHook(Protocol):
    """What one informer did; `resource` is the plural name."""

    def restarted(self, resource: str, reason: str, error: ApiError | None) -> None:
        """A list or watch ended and is done again.

        `reason` is one of closed, short, silent, expired, unsupported, refused and broken.
        """

    def cached(self, resource: str, objects: int) -> None:
        """The cache now holds so many objects."""

    def synced(self, resource: str) -> None:
        """The first list is complete."""

    def undecodable(self, resource: str, key: str, error: Exception) -> None:
        """An object could not be decoded; the cache keeps what it had under that key."""


class QueueHook(Protocol):
    """What happened to a work queue; `name` is the queue's."""

    def added(self, name: str, depth: int) -> None:
        """A key was added; `depth` keys wait now."""

    def started(self, name: str, depth: int, waited: float) -> None:
        """A worker took a key that had waited so many seconds; `depth` keys still wait."""

    def finished(self, name: str, seconds: float) -> None:
        """A worker is done with a key after so many seconds."""

    def retried(self, name: str) -> None:
        """A key will be tried again after a failure."""


class LeaseHook(Protocol):
    """Leadership began or ended."""

    def __call__(self, name: str, leading: bool, /) -> None:
        """`name` is the lease's."""


class DropHook(Protocol):
    """An event was not written."""

    def __call__(self, reason: str, /) -> None:
        """`reason` is the event's reason, from the fixed registry."""
