"""Free space of one range in slices of one size, by interval arithmetic.

Nothing here walks over addresses or slices: a /8 in /27 has half a million slices and a /64 in /120
more than can be counted off, so every step jumps from one claim or exclusion to the next.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from whereabouts_fast.ipam.ranges import Range

Interval = tuple[int, int]
"""First and last integer, both inclusive."""

Claim = tuple[int, int, str]
"""First and last address, and the node that claims them ("" for nobody in particular)."""


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the union as sorted intervals that neither overlap nor touch."""
    result: list[Interval] = []
    for low, high in sorted(intervals):
        if result and low <= result[-1][1] + 1:
            if high > result[-1][1]:
                result[-1] = (result[-1][0], high)
        else:
            result.append((low, high))
    return result


def holes(whole: Range, low: int, high: int) -> list[Interval]:
    """Return the unusable addresses of low..high as disjoint intervals in order."""
    found = [(low, min(high, whole.first - 1))] if low < whole.first else []
    excluded = whole.excluded
    for at in range(bisect_left(excluded, low, key=lambda hole: hole[1]), len(excluded)):
        if excluded[at][0] > high:
            break
        found.append((max(low, excluded[at][0]), min(high, excluded[at][1])))
    if high > whole.last:
        found.append((max(low, whole.last + 1), high))
    return found


class Claimed:
    """A growing set of claimed addresses that answers whether an interval touches it."""

    def __init__(self, intervals: Iterable[Interval]) -> None:
        union = merged(intervals)
        self._lows = [low for low, _ in union]
        self._highs = [high for _, high in union]

    def touches(self, low: int, high: int) -> bool:
        """Return whether any address of low..high is claimed."""
        at = bisect_right(self._lows, high) - 1
        return at >= 0 and self._highs[at] >= low

    def add(self, low: int, high: int) -> None:
        """Claim low..high, of which nothing may be claimed yet (`touches` answered no)."""
        at = bisect_left(self._lows, low)
        self._lows.insert(at, low)
        self._highs.insert(at, high)


class Union:
    """Disjoint intervals that come and go; iterated, the fewest intervals that make them up."""

    def __init__(self) -> None:
        self._lows: list[int] = []
        self._highs: list[int] = []

    def __iter__(self) -> Iterator[Interval]:
        return zip(self._lows, self._highs, strict=True)

    def add(self, low: int, high: int) -> None:
        """Add an interval of which nothing is there."""
        at = bisect_left(self._lows, low)
        if at and self._highs[at - 1] == low - 1:
            at -= 1
            low = self._lows[at]
            self._replace(at)
        if at < len(self._lows) and self._lows[at] == high + 1:
            high = self._highs[at]
            self._replace(at)
        self._replace(at, (low, high), count=0)

    def remove(self, low: int, high: int) -> None:
        """Remove an interval of which all is there."""
        at = bisect_right(self._lows, low) - 1
        left, right = (self._lows[at], low - 1), (high + 1, self._highs[at])
        self._replace(at, *(piece for piece in (left, right) if piece[0] <= piece[1]))

    def _replace(self, at: int, *pieces: Interval, count: int = 1) -> None:
        self._lows[at : at + count] = [low for low, _ in pieces]
        self._highs[at : at + count] = [high for _, high in pieces]


def contested(claims: Iterable[Claim]) -> set[Claim]:
    """Return the claims that share an address with a different claim; O(n log n)."""
    ordered = sorted(set(claims))
    result: set[Claim] = set()
    reach = -1
    for at, claim in enumerate(ordered):
        low, high, _ = claim
        following = ordered[at + 1][0] if at + 1 < len(ordered) else high + 1
        if low <= reach or following <= high:
            result.add(claim)
        reach = max(reach, high)
    return result


class FreeSlices:
    """The slices of a range that are unclaimed and have at least one usable address.

    `size` is the prefix length of a slice. `claims` are inclusive address intervals in any order;
    a slice that a claim only touches is not free, so slices of different sizes live side by side.
    """

    def __init__(self, whole: Range, size: int, claims: Iterable[Interval]) -> None:
        self._whole = whole
        self._shift = (32 if whole.version == 4 else 128) - size
        self._fits = self._shift >= 0 and size >= whole.prefix
        self._claims = merged(claims)
        self._cursor = whole.base
        self._next_claim = 0

    def take(self) -> int | None:
        """Return the first address of the lowest free slice not taken yet, None when all are."""
        while self._fits and self._cursor <= self._whole.end:
            usable = self._whole.next_usable(self._cursor)
            if usable is None:
                return None
            base = usable >> self._shift << self._shift
            last = base + (1 << self._shift) - 1
            while self._next_claim < len(self._claims) and self._claims[self._next_claim][1] < base:
                self._next_claim += 1
            if self._next_claim == len(self._claims) or self._claims[self._next_claim][0] > last:
                self._cursor = last + 1
                return base
            self._cursor = max(last, self._claims[self._next_claim][1]) + 1
        return None

    def count(self) -> int:
        """Return how many slices were free before the first `take`."""
        if not self._fits:
            return 0
        useful = merged(self._in_slices(_usable(self._whole)))
        claimed = merged(self._in_slices(self._claims))
        return sum(high - low + 1 for low, high in useful) - _common(useful, claimed)

    def _in_slices(self, intervals: Iterable[Interval]) -> list[Interval]:
        return [(low >> self._shift, high >> self._shift) for low, high in intervals]


def _usable(whole: Range) -> list[Interval]:
    segments: list[Interval] = []
    low = whole.first
    for excluded_low, excluded_high in whole.excluded:
        if low < excluded_low:
            segments.append((low, excluded_low - 1))
        low = max(low, excluded_high + 1)
    if low <= whole.last:
        segments.append((low, whole.last))
    return segments


def _common(left: Sequence[Interval], right: Sequence[Interval]) -> int:
    total = at = 0
    for low, high in left:
        while at < len(right) and right[at][1] < low:
            at += 1
        ahead = at
        while ahead < len(right) and right[ahead][0] <= high:
            total += min(high, right[ahead][1]) - max(low, right[ahead][0]) + 1
            ahead += 1
        at = max(at, ahead - 1)
    return total
