"""One end of time for everything a call does."""

from __future__ import annotations

import time


class Deadline:
    """A moment on the monotonic clock that nothing of a call may outlast."""

    __slots__ = ("end", "start")

    def __init__(self, start: float, seconds: float) -> None:
        self.start = start
        self.end = start + seconds

    def left(self) -> float:
        """Return the seconds left, 0 when it has passed."""
        return max(0.0, self.end - time.monotonic())

    def limit(self, seconds: float) -> float:
        """Return `seconds`, or less when less is left."""
        return min(seconds, self.left())
