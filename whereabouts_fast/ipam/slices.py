"""Who holds which slice of a network: the whole life of a slice as one pure function.

    free --deal--> active --node gone, range cut, idle--> draining --pool gone--> cooling --> free
                     ^---------- the node returns -----------'----------------'

`plan` looks at what was observed and says how the slice table must read and what to do with pools.
Whoever executes it writes the table first, by compare-and-swap, and then the actions, each of them
conditional; stopping after any of these writes, or planning from old data, costs another round and
nothing else.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from whereabouts_fast.ipam.dealing import Dealer
from whereabouts_fast.ipam.holdings import (
    ACTIVE,
    COOLING,
    DRAINING,
    Figures,
    Held,
    Observed,
    Plan,
    PoolSeen,
    key,
)
from whereabouts_fast.ipam.shares import Share, part
from whereabouts_fast.ipam.space import Claim, Claimed, contested
from whereabouts_fast.ipam.steps import Steps
from whereabouts_fast.ipam.supply import Supply

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from whereabouts_fast.ipam.holdings import Key


def plan(observed: Observed, now: float) -> Plan:
    """Decide the next table and actions; pure, near O(n log n) in nodes, pools and entries.

    `now` is in seconds since the epoch. Source of the rules: ARCHITECTURE.md, the life of a slice.
    """
    return _Planner(observed, round(now, 6)).plan()


def gives(table: Iterable[Held], node: str, base: int, prefix: int) -> bool:
    """Return whether the table gives this very slice to the node, as opening its pool requires."""
    return any(
        held.state == ACTIVE and held.node == node and held.base == base and held.prefix == prefix
        for held in table
    )


class _Planner:
    """One planning pass; each step leaves `_entries` as the table would read after it."""

    def __init__(self, observed: Observed, now: float) -> None:
        self._seen = observed
        self._now = now
        self._width = 32 if observed.range.version == 4 else 128
        self._order = {
            node.name: at
            for at, node in enumerate(sorted(observed.nodes, key=lambda n: (n.created, n.name)))
        }
        self._pools: Mapping[Key, PoolSeen] = {
            (pool.node, pool.base, pool.prefix): pool for pool in observed.pools
        }
        self._elsewhere = frozenset(observed.elsewhere)
        self._entries: dict[Key, Held] = {}
        self._shares: dict[str, Share] = {}

    def plan(self) -> Plan:
        for held in self._seen.table or ():
            self._keep(held)
        rivals = self._rivals()
        while True:
            self._adopt()
            self._drain(rivals)
            self._give_back(rivals)
            if not self._age():
                break
            # What became free may be where a pool is that the table does not know.
        disputes = contested(self._claims())
        self._measure(disputes)
        dealer = self._deal(rivals, disputes)
        self._release()
        table = tuple(sorted(self._entries.values(), key=lambda h: (h.base, h.prefix, h.node)))
        steps = self._steps(table, disputes, dealer)
        return Plan(
            table=table if table or self._seen.wanted or self._left_behind() else None,
            actions=steps.all(),
            waiting=tuple(dealer.waiting),
            again=self._again(),
            figures=Figures(
                active=sum(held.state == ACTIVE for held in table),
                draining=sum(held.state == DRAINING for held in table),
                cooling=sum(held.state == COOLING for held in table),
                free=dealer.free,
            ),
            disputed=tuple(steps.disputed),
            stuck=dealer.stuck,
            spent=frozenset(dealer.spent()),
        )

    # Steps, in their order

    def _adopt(self) -> None:
        """Enter pools that the table does not know: their addresses may be in use.

        Without a table even closed, empty pools count, for their nodes were about to get them.
        """
        rebuilding = self._seen.table is None
        strays = [
            pool
            for pool in self._own_pools()
            if key(pool) not in self._entries and (rebuilding or not (pool.closed and pool.empty))
        ]
        if not strays:
            return
        claimed = Claimed(
            [(h.base, self._last(h.base, h.prefix)) for h in self._entries.values()]
            + [(low, high) for low, high, _ in self._elsewhere]
        )
        active = self._counts()
        for pool in sorted(strays, key=lambda p: (p.closed, p.empty, p.base, p.prefix, p.node)):
            last = self._last(pool.base, pool.prefix)
            if claimed.touches(pool.base, last):
                continue
            claimed.add(pool.base, last)
            held = Held(pool.node, pool.base, pool.prefix)
            if pool.closed or active.get(pool.node, 0) >= self._seen.slice_max:
                held = replace(held, state=DRAINING, since=self._now)
            else:
                active[pool.node] = active.get(pool.node, 0) + 1
            self._keep(held)

    def _rivals(self) -> set[Key]:
        """Return entries without a pool that overlap others; only edits by hand make them."""
        disputes = contested(self._claim(held) for held in self._entries.values())
        if not disputes:
            return set()
        kept = Claimed([])
        rivals = set()
        ordered = sorted(
            self._entries.items(),
            key=lambda item: (item[0] not in self._pools, item[1].base, item[1].prefix, item[0]),
        )
        for at, held in ordered:
            last = self._last(held.base, held.prefix)
            if self._claim(held) not in disputes:
                continue
            if not kept.touches(held.base, last):
                kept.add(held.base, last)
            elif at not in self._pools:
                rivals.add(at)
        return rivals

    def _drain(self, rivals: set[Key]) -> None:
        for at, held in list(self._entries.items()):
            rightful = held.node in self._order and self._inside(held) and at not in rivals
            if held.state == ACTIVE and not rightful:
                self._keep(replace(held, state=DRAINING, since=self._now))

    def _give_back(self, rivals: set[Key]) -> None:
        """Return a present node's own slices, before they can be freed or dealt to anybody.

        Those on which pods live all come back, another only to a node that has none at all.
        """
        active = self._counts()
        for held in sorted(self._returnable(rivals), key=self._worth):
            pool = self._pools.get(key(held))
            count = active.get(held.node, 0)
            if not count or (pool is not None and not pool.empty and count < self._seen.slice_max):
                active[held.node] = count + 1
                self._keep(Held(held.node, held.base, held.prefix))

    def _returnable(self, rivals: set[Key]) -> list[Held]:
        return [
            held
            for held in self._entries.values()
            if held.state != ACTIVE
            and held.node in self._order
            and self._inside(held)
            and key(held) not in rivals
            and self._useful(held)
        ]

    def _worth(self, held: Held) -> tuple[bool, bool, int, int]:
        pool = self._pools.get(key(held))
        return (held.state == COOLING, pool is None or pool.empty, held.base, held.prefix)

    def _age(self) -> bool:
        """Let confirmed slices cool and cooled ones go; whether any went."""
        before = len(self._entries)
        for at, held in list(self._entries.items()):
            if held.state == DRAINING:
                if self._claim(held) in self._elsewhere:
                    # The pool is also another table's, where the slice lives on.
                    del self._entries[at]
                    continue
                if held in self._seen.gone:
                    held = self._keep(replace(held, state=COOLING, since=self._now))
            if held.state == COOLING:
                if held.since is None or held.since > self._now + self._seen.cooldown:
                    # A clock that jumped back must not keep the slice for an hour.
                    held = self._keep(replace(held, since=self._now))
                if self._rest(held) <= 0 and at not in self._pools:
                    del self._entries[at]
        return len(self._entries) < before

    def _measure(self, disputes: set[Claim]) -> None:
        """Find out what each listed node holds."""
        for held in self._entries.values():
            if held.state != ACTIVE:
                continue
            pool = self._pools.get(key(held))
            shut = (pool is None or pool.closed) and self._claim(held) in disputes
            measured = part(self._seen.range, held, pool, disputed=shut)
            self._shares.setdefault(held.node, Share()).add(measured)

    def _release(self) -> None:
        """Drain extra slices that have been empty for long, the one longest empty first."""
        for share in self._shares.values():
            for held in share.release(self._now, self._seen.idle_seconds):
                self._keep(replace(held, state=DRAINING, since=self._now))

    def _deal(self, rivals: set[Key], disputes: set[Claim]) -> Dealer:
        """Deal free slices to nodes that have none, and then to those that run short."""
        seen = self._seen
        dealer = Dealer(
            seen,
            self._order,
            self._shares,
            self._pools,
            Supply(seen.range, seen.size, self._claims(), self._elsewhere, seen.shared),
        )
        if seen.wanted:
            dealer.deal()
        if seen.wanted and dealer.short():
            own: dict[str, list[Held]] = {}
            for held in sorted(self._returnable(rivals), key=self._worth, reverse=True):
                if self._claim(held) not in disputes:
                    own.setdefault(held.node, []).append(held)
            dealer.grow(own)
        for held in dealer.dealt:
            self._keep(held)
        return dealer

    def _steps(self, table: tuple[Held, ...], disputes: set[Claim], dealer: Dealer) -> Steps:
        steps = Steps(self._order)
        steps.follow(table, self._pools, self._claim, disputes)
        for pool in self._own_pools():
            held = self._entries.get(key(pool))
            if held is None:
                if self._claim(pool) not in self._elsewhere:
                    steps.retire(pool)
            elif pool.want and not pool.closed and held.state == ACTIVE:
                steps.answer(pool, self._shares[pool.node], dealer.refusal(pool.node))
        return steps

    def _again(self) -> float | None:
        rests = [self._rest(held) for held in self._entries.values() if held.state == COOLING]
        # A cooled slice whose pool is still there waits for the pool, not for the clock.
        waits = [rest for rest in rests if rest > 0]
        for share in self._shares.values():
            rest = share.again(self._now, self._seen.idle_seconds)
            if rest is not None:
                waits.append(rest)
        return min(waits, default=None)

    def _left_behind(self) -> bool:
        """Return whether a pool of this network is left that no other table lists active."""
        return any(self._claim(pool) not in self._elsewhere for pool in self._own_pools())

    # Facts

    def _keep(self, held: Held) -> Held:
        self._entries[key(held)] = held
        return held

    def _last(self, base: int, prefix: int) -> int:
        return base + (1 << (self._width - prefix)) - 1

    def _claim(self, what: Held | PoolSeen) -> Claim:
        return (what.base, self._last(what.base, what.prefix), what.node)

    def _claims(self) -> set[Claim]:
        return (
            {self._claim(held) for held in self._entries.values()}
            | {self._claim(pool) for pool in self._seen.pools}
            | self._elsewhere
        )

    def _inside(self, held: Held) -> bool:
        whole = self._seen.range
        return (
            self._seen.wanted
            and whole.base <= held.base
            and self._last(held.base, held.prefix) <= whole.end
        )

    def _useful(self, held: Held) -> bool:
        usable = self._seen.range.next_usable(held.base)
        return usable is not None and usable <= self._last(held.base, held.prefix)

    def _rest(self, held: Held) -> float:
        return (self._now if held.since is None else held.since) + self._seen.cooldown - self._now

    def _counts(self) -> dict[str, int]:
        """Return how many active slices with a usable address each node holds."""
        counts: dict[str, int] = {}
        for held in self._entries.values():
            if held.state == ACTIVE and self._useful(held):
                counts[held.node] = counts.get(held.node, 0) + 1
        return counts

    def _own_pools(self) -> list[PoolSeen]:
        whole = self._seen.range
        return [
            pool
            for pool in self._seen.pools
            if pool.network == self._seen.network
            and pool.node
            and pool.base <= whole.end
            and whole.base <= self._last(pool.base, pool.prefix)
        ]
