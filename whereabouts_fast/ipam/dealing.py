"""Who gets free slices: first the nodes that have none, then those that run short."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from whereabouts_fast.ipam.holdings import Held, Observed, PoolSeen, key
from whereabouts_fast.ipam.shares import Share, part

if TYPE_CHECKING:
    from collections.abc import Mapping

    from whereabouts_fast.ipam.holdings import Key
    from whereabouts_fast.ipam.supply import Supply

ALL_TAKEN = "all slices are taken"
KEPT_BACK = "the slices that are left are kept for nodes to come"
TABLE_FULL = "the slice table cannot record more slices"
DISPUTED = "something else claims the addresses of its slices"


class Dealer:
    """Deals the slices of one plan; `order` and `shares` are those of the nodes that take part.

    `dealt` are the new entries of the table, `waiting` the nodes that got nothing, and `stuck`
    those that run short and got nothing more, with the reason.
    """

    def __init__(
        self,
        seen: Observed,
        order: Mapping[str, int],
        shares: dict[str, Share],
        pools: Mapping[Key, PoolSeen],
        supply: Supply,
    ) -> None:
        self._seen = seen
        self._order = order
        self._shares = shares
        self._pools = pools
        self._supply = supply
        self.dealt: list[Held] = []
        self.waiting: list[str] = []
        self.stuck: dict[str, str] = {}

    @property
    def free(self) -> int:
        """How many slices are left."""
        return self._supply.free

    def deal(self) -> None:
        """Serve the nodes that have no slice with a usable address, in their order."""
        for node in self._order:
            if node in self._shares and self._shares[node].count:
                continue
            base = self._supply.own(node)
            if base is None:
                base = self._supply.take()
            if base is None:
                self.waiting.append(node)
            else:
                self._give(Held(node, base, self._seen.size))

    def short(self) -> list[str]:
        """Return the nodes that run short."""
        return [node for node, share in self._shares.items() if share.short]

    def grow(self, returning: Mapping[str, list[Held]]) -> None:
        """Serve the nodes that run short: those first that have no address left, or few slices.

        `returning`: slices that a node held before and that nobody has yet, the best one last.
        """
        due = [self._urgency(node) for node in self.short()]
        heapq.heapify(due)
        kept = self._supply.kept()
        while due:
            node = heapq.heappop(due)[-1]
            refusal = self._extend(node, returning.get(node, []), kept)
            if refusal:
                self.stuck[node] = refusal
            elif self._shares[node].short:
                heapq.heappush(due, self._urgency(node))

    def spent(self) -> list[str]:
        """Return the nodes that have no address left and get no further slice."""
        return [*self.waiting, *(node for node in self.stuck if not self._shares[node].free)]

    def refusal(self, node: str) -> str:
        """Return why a node that has no address left gets no further slice."""
        return self.stuck.get(node, ALL_TAKEN if node in self.waiting else DISPUTED)

    def _urgency(self, node: str) -> tuple[bool, int, int, str]:
        share = self._shares[node]
        return (share.free > 0, share.count, self._order[node], node)

    def _extend(self, node: str, returning: list[Held], kept: int) -> str:
        """Give a node one more slice, one that it held before if there is any, or say why not."""
        count, most = self._shares[node].count, self._seen.slice_max
        if count >= most:
            return f"the node holds {count} slices, and node_slice_max is {most}"
        if self._seen.capped:
            return TABLE_FULL
        if self.waiting:
            return ALL_TAKEN
        held = returning.pop() if returning else self._elsewhere(node)
        if held is None:
            if self._supply.free <= kept:
                return KEPT_BACK if self._supply.free else ALL_TAKEN
            base = self._supply.take()
            if base is None:
                return ALL_TAKEN
            held = Held(node, base, self._seen.size)
        self._give(Held(held.node, held.base, held.prefix))
        return ""

    def _elsewhere(self, node: str) -> Held | None:
        """Return a slice that another table gives to the node and this one does not yet."""
        known = {(one.held.base, one.held.prefix) for one in self._shares[node].parts}
        while (base := self._supply.own(node)) is not None:
            if (base, self._seen.size) not in known:
                return Held(node, base, self._seen.size)
        return None

    def _give(self, held: Held) -> None:
        self.dealt.append(held)
        measured = part(self._seen.range, held, self._pools.get(key(held)))
        self._shares.setdefault(held.node, Share()).add(measured)
