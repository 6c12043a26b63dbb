"""Warns when a pool that all nodes share is full; it has no table whose conditions could say so."""

from __future__ import annotations

from collections.abc import Callable

from whereabouts_fast.controller.announce import Tell
from whereabouts_fast.controller.reasons import Reason
from whereabouts_fast.controller.report import pool_reference
from whereabouts_fast.controller.world import World
from whereabouts_fast.observability import logs
from whereabouts_fast.resources.pools import PoolView

# Only below this share of its addresses is a pool no longer full: one that is freed and given
# again, over and over, is one piece of news.
_RELIEVED = 0.9


class Fullness:
    """One term's; `capacity` returns how many addresses of a pool may be given."""

    def __init__(self, world: World, capacity: Callable[[PoolView], int], tell: Tell) -> None:
        self._world = world
        self._capacity = capacity
        self._tell = tell
        self._full: set[str] = set()
        self._log = logs.get("pools")

    def begin(self) -> None:
        """Look at all pools there are."""
        for pool in self._world.pools.values():
            self.changed(None, pool)

    def changed(self, old: PoolView | None, new: PoolView | None) -> None:
        """Look at a pool that changed."""
        if new is None:
            self._full.discard(old.name if old is not None else "")
            return
        if new.node or new.problem or not new.exact:
            return
        capacity = self._capacity(new)
        if new.used < capacity * _RELIEVED:
            self._full.discard(new.name)
        elif 0 < capacity <= new.used and new.name not in self._full:
            self._full.add(new.name)
            self._log.warning("Ran out of addresses", pool=new.name, used=new.used)
            self._tell(
                pool_reference(new),
                Reason.SPENT,
                f"all {capacity} addresses of {new.range} are given: pods get no more before others"
                " are deleted; widen the range or its window, or exclude less",
            )
