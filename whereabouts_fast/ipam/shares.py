"""What one node holds of a network: when that runs short, and which part of it may go back.

A share grows when less than a tenth of it is free. An empty slice goes back only when the rest
would have a fifth free. Taking an empty slice away leaves a smaller part free, so what has just
grown has nothing to give back, and what was given back is not missing: as long as nobody comes or
goes, a share stands still.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from whereabouts_fast.ipam.space import holes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from whereabouts_fast.ipam.holdings import Held, PoolSeen
    from whereabouts_fast.ipam.ranges import Range

_GROWS_BELOW = 10
_SHRINKS_FROM = 5


@dataclass(frozen=True, slots=True)
class Part:
    """One active slice; `pool` is None while it is not created.

    `size` is the number of its usable addresses, `free` how many of them an ADD may have. `barred`:
    no ADD can have any, because something else claims the slice or its pool is being deleted.
    """

    held: Held
    pool: PoolSeen | None
    size: int
    free: int
    barred: bool = False

    @property
    def open(self) -> bool:
        """Whether ADDs may use it now."""
        return self.pool is not None and not self.pool.closed and not self.barred


def part(whole: Range, held: Held, pool: PoolSeen | None, *, disputed: bool = False) -> Part:
    """Measure an active slice of a range."""
    width = 32 if whole.version == 4 else 128
    last = held.base + (1 << (width - held.prefix)) - 1
    taken = () if pool is None else pool.taken
    size, lost = last - held.base + 1, len(taken)
    for low, high in holes(whole, held.base, last):
        size -= high - low + 1
        # An address that was excluded after it was given takes nothing away.
        lost -= bisect_left(taken, high - held.base + 1) - bisect_left(taken, low - held.base)
    barred = disputed or (pool is not None and pool.leaving)
    return Part(held, pool, size, 0 if barred else max(0, size - lost), barred)


class Share:
    """All active slices of one node."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: list[Part] = []

    @property
    def count(self) -> int:
        """How many slices there are with a usable address."""
        return sum(one.size > 0 for one in self.parts)

    @property
    def free(self) -> int:
        """How many addresses an ADD may have."""
        return sum(one.free for one in self.parts)

    @property
    def short(self) -> bool:
        """Whether the node needs another slice, if it has one that can be used at all."""
        size, free = _size(self.parts), self.free
        return size > 0 and (free < 1 or free * _GROWS_BELOW < size)

    def add(self, one: Part) -> None:
        """Take in a slice."""
        self.parts.append(one)

    def room(self) -> Part | None:
        """Return a slice with a free address, an open one if there is any."""
        return min(
            (one for one in self.parts if one.free),
            key=lambda one: (not one.open, one.held.base),
            default=None,
        )

    def release(self, now: float, seconds: float) -> Iterator[Held]:
        """Take out and yield what has been empty for so long, as long as the rest leaves room."""
        # Most nodes hold a single slice, and need no look at it.
        for one in sorted(self.parts, key=_age) if len(self.parts) > 1 else ():
            if idle_left(one, now, seconds) == 0 and self._spares(one):
                self.parts.remove(one)
                yield one.held

    def again(self, now: float, seconds: float) -> float | None:
        """Return the seconds until a slice may go back, 0 when one may now."""
        if len(self.parts) < 2:
            return None
        left = (idle_left(one, now, seconds) for one in self.parts if self._spares(one))
        return min((rest for rest in left if rest is not None), default=None)

    def _spares(self, one: Part) -> bool:
        """Return whether the node can do without this slice."""
        rest = [other for other in self.parts if other is not one]
        if not one.size:
            return any(other.size for other in rest)
        free = sum(other.free for other in rest)
        return free > 1 and free * _SHRINKS_FROM >= _size(rest)


def _size(parts: Iterable[Part]) -> int:
    return sum(one.size for one in parts if not one.barred)


def idle_left(one: Part, now: float, seconds: float) -> float | None:
    """Return how many seconds a slice must still be empty, None when it is not or nobody knows."""
    if one.pool is None or not one.pool.empty or one.pool.idle is None:
        return None
    return max(0.0, one.pool.idle + seconds - now)


def _age(one: Part) -> tuple[float, int]:
    since = None if one.pool is None else one.pool.idle
    return (float("inf") if since is None else since, one.held.base)
