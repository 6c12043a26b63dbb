"""Free slices in the order in which they are dealt: to whom, and how many must be left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whereabouts_fast.ipam.space import Claim, FreeSlices, Interval, contested

if TYPE_CHECKING:
    from collections.abc import Collection

    from whereabouts_fast.ipam.ranges import Range

_KEPT_BACK = 10


class Supply:
    """The free slices of one size while one plan is made.

    `claims` is what is taken. Of `elsewhere`, slices that another table gives to a node, that node
    is dealt the same ones first. Slices that lie in `shared` pools are dealt last.
    """

    def __init__(
        self,
        whole: Range,
        size: int,
        claims: Collection[Claim],
        elsewhere: Collection[Claim] = (),
        shared: Collection[Interval] = (),
    ) -> None:
        self._whole = whole
        self._size = size
        self._block = 1 << ((32 if whole.version == 4 else 128) - size)
        self._taken: list[Interval] = [claim[:2] for claim in claims]
        self._own = self._of_nodes(elsewhere, claims)
        self._space = FreeSlices(whole, size, self._taken)
        self.free = self._space.count()
        """How many slices are free."""
        self._apart = FreeSlices(whole, size, [*self._taken, *shared]) if shared else None

    def own(self, node: str) -> int | None:
        """Return a slice that another table gives to the node, each once."""
        known = self._own.get(node)
        return known.pop() if known else None

    def take(self) -> int | None:
        """Return the next free slice, None when there is none."""
        base = None
        if self._apart is not None:
            base = self._apart.take()
            if base is None:
                # All that is left is inside pools that all nodes share.
                self._apart = None
                self._space = FreeSlices(self._whole, self._size, self._taken)
        if base is None:
            base = self._space.take()
        if base is not None:
            self._taken.append((base, base + self._block - 1))
            self.free -= 1
        return base

    def kept(self) -> int:
        """Return how many slices are kept for nodes to come: a tenth of all, rounded down."""
        return FreeSlices(self._whole, self._size, ()).count() // _KEPT_BACK

    def _of_nodes(
        self, elsewhere: Collection[Claim], claims: Collection[Claim]
    ) -> dict[str, list[int]]:
        if not any(node for _, _, node in elsewhere):
            return {}
        found: dict[str, list[int]] = {}
        # The lowest comes last, for `own` takes from the end.
        for low, high, node in sorted(set(elsewhere) - contested(claims), reverse=True):
            if node and high - low + 1 == self._block and self._useful(low, high):
                found.setdefault(node, []).append(low)
        return found

    def _useful(self, low: int, high: int) -> bool:
        usable = self._whole.next_usable(low)
        inside = self._whole.base <= low and high <= self._whole.end
        return inside and usable is not None and usable <= high
