"""Which addresses of a pool nobody can have because another pool that overlaps it gave them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from whereabouts_fast.resources.pools import PoolView


class Crowd:
    """All addresses in use in some pools of one IP version."""

    def __init__(self, pools: Iterable[PoolView]) -> None:
        self._used = sorted({pool.base + offset for pool in pools for offset in pool.taken})

    def taken(self, pool: PoolView) -> tuple[int, ...]:
        """Return the offsets in a pool that are in use in any of them, sorted."""
        first = bisect_left(self._used, pool.base)
        end = bisect_right(self._used, pool.last)
        return tuple(address - pool.base for address in self._used[first:end])
