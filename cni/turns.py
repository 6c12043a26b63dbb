"""Turns under a network's lock, and the waiting between them.

A turn does what it can while it holds the lock. Where it would have to wait it raises Later: the
lock is released, time passes, and the next turn begins from what the hint says then.
"""

from __future__ import annotations

import posix
import time

from cni import errors, hints
from cni.call import Call
from cni.errors import CniError, Later
from cni.lock import Lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Result = TypeVar("Result")

_FIRST_PAUSE = 0.05  # seconds, doubled from turn to turn
_LONGEST_PAUSE = 0.5
_AT_ONCE = 3  # repetitions without a pause
_LAST_TURN = 0.5  # seconds of the deadline that are kept for the turn after the wait


class Turns:
    """Repeats a turn until it returns, gives up, or the time is over."""

    __slots__ = ("_call", "_count", "_limit", "hint", "store")

    def __init__(self, call: Call, identity: tuple[str, str]) -> None:
        self._call = call
        self.store = hints.Store(call.conf.hints_dir, identity, call.node.name)
        self.hint = hints.Hint(call.node.name)
        self._limit = 0.0
        self._count = 0

    def take(self, turn: Callable[[], Result]) -> Result:
        """Run turns; raises CniError, in the end what the last turn waited for."""
        call = self._call
        path = self.store.path + ".lock" if self.store.usable else ""
        while True:
            try:
                with Lock(path, call.access.path, call.deadline):
                    self.hint = self.store.load()
                    return turn()
            except Later as later:
                self._wait(later)
                while not self.waited() and later.pending():
                    self._wait(later)

    def save(self) -> None:
        """Write the hint down as this turn has left it."""
        self.hint.contact = max(self.hint.contact, self._call.api.contact)
        self.store.save(self.hint)

    def waited(self) -> bool:
        """Tell whether wait_seconds have passed since the first turn that had to wait."""
        if not self._call.conf.wait_seconds:
            return True
        return self._limit > 0 and time.monotonic() >= self._limit - 0.01

    def _wait(self, later: Later) -> None:
        call = self._call
        now = time.monotonic()
        latest = max(now, call.deadline.end - _LAST_TURN)
        self._limit = self._limit or min(now + call.conf.wait_seconds, latest)
        self._count += 1
        delay = later.delay
        if delay == 0 and self._count <= _AT_ONCE:
            return
        # What the server or a rival makes us wait for is limited by the deadline alone.
        told = delay is not None and delay > 0
        left = (call.deadline.end if told else self._limit) - now
        if left <= 0 or (told and delay is not None and delay > left):
            raise later.failure
        if not told or delay is None:
            delay = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(self._count, 10)) * jitter()
        time.sleep(min(delay, left))


def jitter() -> float:
    """Return a number between 0.5 and 1 that differs between processes."""
    return 0.5 + (posix.getpid() * 7919 + time.monotonic_ns()) % 1000 / 2000


def gave_up(what: str) -> CniError:
    """Return the error of an ADD that nobody waits for any more."""
    return CniError(
        errors.TRY_AGAIN,
        f"the runtime has given this ADD up ({what}); nothing is kept for it",
        "the runtime tries again by itself",
    )
