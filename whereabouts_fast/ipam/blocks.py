"""CIDR blocks by address: who touches an interval, found without looking at the others."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from whereabouts_fast.ipam.space import Interval

_Block = tuple[int, int, str]


class Blocks:
    """Blocks of one IP version, `width` bits an address, each with a name; equal blocks may be.

    A change moves memory but looks at nothing else; a question costs as much as its answer.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        # First address, prefix length, name; in order, so larger blocks come before those inside.
        self._blocks: list[_Block] = []
        self._prefixes: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._blocks)

    def __iter__(self) -> Iterator[str]:
        return (name for _, _, name in self._blocks)

    def add(self, base: int, prefix: int, name: str) -> None:
        """Add a block that is not there."""
        insort(self._blocks, (base, prefix, name))
        self._prefixes[prefix] += 1

    def remove(self, base: int, prefix: int, name: str) -> None:
        """Remove a block that is there."""
        del self._blocks[bisect_left(self._blocks, (base, prefix, name))]
        self._prefixes[prefix] -= 1
        if not self._prefixes[prefix]:
            del self._prefixes[prefix]

    def touching(self, low: int, high: int) -> Iterator[str]:
        """Yield the names of the blocks that share an address with low..high."""
        for prefix in list(self._prefixes):
            shift = self._width - prefix
            base = low >> shift << shift
            if base < low:
                yield from self._at(base, prefix)
        first, end = self._span(low, high)
        for at in range(first, end):
            yield self._blocks[at][2]

    def outside(self, intervals: list[Interval]) -> Iterator[str]:
        """Yield the names of the blocks that share no address with any of some intervals.

        It passes over what lies inside the first of them; the others are looked at one by one.
        """
        if not intervals:
            yield from self
            return
        first, end = self._span(*intervals[0])
        for base, prefix, name in (*self._blocks[:first], *self._blocks[end:]):
            last = base + (1 << (self._width - prefix)) - 1
            if not any(base <= high and low <= last for low, high in intervals):
                yield name

    def _at(self, base: int, prefix: int) -> Iterator[str]:
        at = bisect_left(self._blocks, (base, prefix, ""))
        while at < len(self._blocks) and self._blocks[at][:2] == (base, prefix):
            yield self._blocks[at][2]
            at += 1

    def _span(self, low: int, high: int) -> tuple[int, int]:
        """Return from and up to which position blocks begin inside low..high."""
        return bisect_left(self._blocks, (low, -1, "")), bisect_left(
            self._blocks, (high + 1, -1, "")
        )
