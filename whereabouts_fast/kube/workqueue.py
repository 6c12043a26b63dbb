"""Keys that need work: each at most once in the queue, each with at most one worker at a time.

After client-go's util/workqueue. A key is added as often as anything happens to it; work reads
the present state and never what happened, so any number of adds before the work begins are one.
"""

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from whereabouts_fast.kube.errors import ApiError
from whereabouts_fast.kube.hooks import QueueHook

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Done:
    """The key is as it should be; its failures are forgotten."""


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """Nothing failed, but the key wants to be looked at again after so many seconds."""

    seconds: float


class WorkQueue(Generic[K]):
    """The queue; all methods are called on the event loop.

    base, ceiling: seconds of the first and the longest pause after failures of one key; each
    failure in a row doubles it, and chance takes away up to half of it.
    """

    def __init__(
        self,
        name: str,
        *,
        base: float = 0.1,
        ceiling: float = 30.0,
        chance: Callable[[], float] = random.random,
        hook: QueueHook | None = None,
    ) -> None:
        self.name = name
        self._base = base
        self._ceiling = ceiling
        self._chance = chance
        self._hook = hook
        # Keys in the order in which workers will take them. Each is in `_dirty`, none in
        # `_processing`, so that no two workers hold the same one.
        self._queue: deque[K] = deque()
        # Keys that need work: those in `_queue`, and those that were added again while a worker
        # holds them, which go back into `_queue` when it is done.
        self._dirty: set[K] = set()
        # Keys that a worker holds, with the time it took them.
        self._processing: dict[K, float] = {}
        self._added: dict[K, float] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def idle(self) -> bool:
        """Nothing waits and nothing is being worked at (delayed keys do not count)."""
        return not self._queue and not self._processing

    def add(self, key: K) -> None:
        """Ask for work on `key`."""
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._processing:
            self._append(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Ask for work on `key` later; the earliest of several such wishes counts."""
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        known = self._timers.get(key)
        if known is not None:
            if known.when() <= due:
                return
            known.cancel()
        self._timers[key] = loop.call_at(due, self._due, key)

    def add_failed(self, key: K, *, at_least: float = 0.0) -> float:
        """Ask for work after a failure, later with each in a row; the pause in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        # 2.0 ** 1024 is an error, and the ceiling is long passed by then.
        pause = min(self._ceiling, self._base * 2.0 ** min(failures, 64))
        pause = max(at_least, pause * (1 - self._chance() / 2))
        if self._hook:
            self._hook.retried(self.name)
        self.add_after(key, pause)
        return pause

    def forget(self, key: K) -> None:
        """The failures of `key` no longer count."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """The next key, once there is one; `done` must follow."""
        while not self._queue:
            self._wake.clear()
            await self._wake.wait()
        key = self._queue.popleft()
        self._dirty.discard(key)
        now = asyncio.get_running_loop().time()
        self._processing[key] = now
        added = self._added.pop(key)
        if self._hook:
            self._hook.started(self.name, len(self._queue), now - added)
        return key

    def done(self, key: K) -> None:
        """The worker no longer holds `key`; it is queued again if it was added meanwhile."""
        began = self._processing.pop(key)
        if self._hook:
            self._hook.finished(self.name, asyncio.get_running_loop().time() - began)
        if key in self._dirty:
            self._append(key)

    def close(self) -> None:
        """Forget the delayed keys, whose timers would outlive the queue's users."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _due(self, key: K) -> None:
        del self._timers[key]
        self.add(key)

    def _append(self, key: K) -> None:
        self._queue.append(key)
        self._added[key] = asyncio.get_running_loop().time()
        self._wake.set()
        if self._hook:
            self._hook.added(self.name, len(self._queue))


async def run_workers(
    queue: WorkQueue[K],
    reconcile: Callable[[K], Awaitable[Done | RetryAfter]],
    workers: int,
    on_error: Callable[[K, Exception, float], None],
) -> None:
    """Work until cancelled; a key whose work raises is tried again after a growing pause.

    `on_error(key, error, pause)` is told of each failure. A pause is not shorter than what the
    API server asked for.
    """

    async def work() -> None:
        while True:
            key = await queue.get()
            try:
                outcome = await reconcile(key)
            except Exception as error:  # noqa: BLE001 -- one key's bug must not stop the others
                advice = error.retry_after if isinstance(error, ApiError) else None
                on_error(key, error, queue.add_failed(key, at_least=advice or 0.0))
            else:
                queue.forget(key)
                if isinstance(outcome, RetryAfter):
                    queue.add_after(key, outcome.seconds)
            finally:
                queue.done(key)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(work())
    finally:
        queue.close()
