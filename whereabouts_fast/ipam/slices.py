"""Who holds which slice of a network: the whole life of a slice as one pure function.

    free --deal--> active --node gone, range cut--> draining --pool gone--> cooling --> free
                     ^-------------- the node returns --------'----------------'

`plan` looks at what was observed and says how the slice table must read and what to do with pools.
Whoever executes it writes the table first, by compare-and-swap, and then the actions, each of them
conditional; stopping after any of these writes, or planning from old data, costs another round and
nothing else.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from whereabouts_fast.ipam.holdings import (
    ACTIVE,
    COOLING,
    DRAINING,
    Action,
    Close,
    Confirm,
    Create,
    Delete,
    Figures,
    Held,
    NodeSeen,
    Observed,
    Open,
    Plan,
    PoolSeen,
)
from whereabouts_fast.ipam.space import Claim, Claimed, FreeSlices, Interval, contested

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


__all__ = [
    "ACTIVE",
    "COOLING",
    "DRAINING",
    "Action",
    "Close",
    "Confirm",
    "Create",
    "Delete",
    "Figures",
    "Held",
    "NodeSeen",
    "Observed",
    "Open",
    "Plan",
    "PoolSeen",
    "gives",
    "plan",
]

_Key = tuple[str, int, int]


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
        self._pools: Mapping[_Key, PoolSeen] = {
            (pool.node, pool.base, pool.prefix): pool for pool in observed.pools
        }
        self._elsewhere = frozenset(observed.elsewhere)
        self._entries: dict[_Key, Held] = {}
        self._waiting: list[str] = []

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
        free = self._deal()
        table = tuple(sorted(self._entries.values(), key=lambda h: (h.base, h.prefix, h.node)))
        actions, disputed = self._actions(table)
        return Plan(
            table=table if table or self._seen.wanted or self._left_behind() else None,
            actions=tuple(actions),
            waiting=tuple(self._waiting),
            again=self._again(),
            figures=Figures(
                active=sum(held.state == ACTIVE for held in table),
                draining=sum(held.state == DRAINING for held in table),
                cooling=sum(held.state == COOLING for held in table),
                free=free,
            ),
            disputed=tuple(disputed),
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
            if _key(pool) not in self._entries and (rebuilding or not (pool.closed and pool.empty))
        ]
        if not strays:
            return
        claimed = Claimed(
            [(h.base, self._last(h.base, h.prefix)) for h in self._entries.values()]
            + [(low, high) for low, high, _ in self._elsewhere]
        )
        active = self._active_nodes()
        for pool in sorted(strays, key=lambda p: (p.closed, p.empty, p.base, p.prefix, p.node)):
            last = self._last(pool.base, pool.prefix)
            if claimed.touches(pool.base, last):
                continue
            claimed.add(pool.base, last)
            held = Held(pool.node, pool.base, pool.prefix)
            if pool.closed or pool.node in active:
                held = replace(held, state=DRAINING, since=self._now)
            else:
                active.add(pool.node)
            self._keep(held)

    def _rivals(self) -> set[_Key]:
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
        for key, held in ordered:
            last = self._last(held.base, held.prefix)
            if self._claim(held) not in disputes:
                continue
            if not kept.touches(held.base, last):
                kept.add(held.base, last)
            elif key not in self._pools:
                rivals.add(key)
        return rivals

    def _drain(self, rivals: set[_Key]) -> None:
        for key, held in list(self._entries.items()):
            rightful = (
                held.node in self._order
                and self._inside(held)
                and self._useful(held.base, held.prefix)
                and key not in rivals
            )
            if held.state == ACTIVE and not rightful:
                self._keep(replace(held, state=DRAINING, since=self._now))

    def _give_back(self, rivals: set[_Key]) -> None:
        """Return a present node's own slice, before it can be freed or dealt to anybody."""
        active = self._active_nodes()
        best: dict[str, tuple[bool, bool, int, int]] = {}
        choice: dict[str, Held] = {}
        for held in self._entries.values():
            if held.node in active or held.node not in self._order or not self._inside(held):
                continue
            if _key(held) in rivals or not self._useful(held.base, held.prefix):
                continue
            pool = self._pools.get(_key(held))
            rank = (held.state == COOLING, pool is None or pool.empty, held.base, held.prefix)
            if held.node not in best or rank < best[held.node]:
                best[held.node], choice[held.node] = rank, held
        for held in choice.values():
            self._keep(Held(held.node, held.base, held.prefix))

    def _age(self) -> bool:
        """Let confirmed slices cool and cooled ones go; whether any went."""
        before = len(self._entries)
        for key, held in list(self._entries.items()):
            if held.state == DRAINING:
                if self._claim(held) in self._elsewhere:
                    # The pool is also another table's, where the slice lives on.
                    del self._entries[key]
                    continue
                if held in self._seen.gone:
                    held = self._keep(replace(held, state=COOLING, since=self._now))
            if held.state == COOLING:
                if held.since is None or held.since > self._now + self._seen.cooldown:
                    # A clock that jumped back must not keep the slice for an hour.
                    held = self._keep(replace(held, since=self._now))
                if self._rest(held) <= 0 and key not in self._pools:
                    del self._entries[key]
        return len(self._entries) < before

    def _deal(self) -> int:
        """Deal free slices to the nodes that have none; return how many stay free."""
        claims = self._taken()
        space = FreeSlices(self._seen.range, self._seen.size, claims)
        free = space.count()
        if not self._seen.wanted:
            return free
        apart = space
        if self._seen.shared:
            apart = FreeSlices(self._seen.range, self._seen.size, [*claims, *self._seen.shared])
        shared = self._shared()
        active = self._active_nodes()
        for node in self._order:
            if node in active:
                continue
            base = shared.get(node)
            if base is None:
                base = apart.take()
                if base is None and apart is not space:
                    # All that is left is inside pools that all nodes share.
                    apart = space = FreeSlices(self._seen.range, self._seen.size, self._taken())
                    base = space.take()
                free -= base is not None
            if base is None:
                self._waiting.append(node)
            else:
                self._keep(Held(node, base, self._seen.size))
        return free

    def _taken(self) -> list[Interval]:
        return [claim[:2] for claim in self._claims()]

    def _actions(self, table: tuple[Held, ...]) -> tuple[list[Action], list[Held]]:
        disputes = contested(self._claims())
        closes: list[Action] = []
        deletes: list[Action] = []
        confirms: list[Action] = []
        opens: list[Action] = []
        creates: list[Create] = []
        disputed: list[Held] = []

        def retire(pool: PoolSeen) -> None:
            if not pool.closed:
                closes.append(Close(pool))
            elif pool.empty and not pool.leaving:
                deletes.append(Delete(pool))

        for held in table:
            pool = self._pools.get(_key(held))
            if held.state == ACTIVE:
                if pool is not None and (pool.leaving or not pool.closed):
                    continue
                if self._claim(held) in disputes:
                    disputed.append(held)
                elif pool is None:
                    creates.append(Create(*_key(held)))
                else:
                    opens.append(Open(pool))
            elif pool is not None:
                retire(pool)
            elif held.state == DRAINING:
                confirms.append(Confirm(held))
        for pool in self._own_pools():
            if _key(pool) not in self._entries and self._claim(pool) not in self._elsewhere:
                retire(pool)
        creates.sort(key=lambda action: (self._order[action.node], action.base))
        return [*closes, *deletes, *confirms, *opens, *creates], disputed

    def _again(self) -> float | None:
        rests = [self._rest(held) for held in self._entries.values() if held.state == COOLING]
        # A cooled slice whose pool is still there waits for the pool, not for the clock.
        return min((rest for rest in rests if rest > 0), default=None)

    def _left_behind(self) -> bool:
        """Return whether a pool of this network is left that no other table lists active."""
        return any(self._claim(pool) not in self._elsewhere for pool in self._own_pools())

    # Facts

    def _keep(self, held: Held) -> Held:
        self._entries[_key(held)] = held
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

    def _shared(self) -> dict[str, int]:
        """Slices of the wanted size that another table gives to a node and nobody else claims."""
        if not any(node for _, _, node in self._elsewhere):
            return {}
        disputes = contested(self._claims())
        block = 1 << (self._width - self._seen.size)
        return {
            claim[2]: claim[0]
            for claim in sorted(self._elsewhere - disputes, reverse=True)
            if claim[2] and claim[1] - claim[0] + 1 == block and self._deals(claim[0])
        }

    def _deals(self, base: int) -> bool:
        whole, size = self._seen.range, self._seen.size
        inside = whole.base <= base and self._last(base, size) <= whole.end
        return inside and self._useful(base, size)

    def _inside(self, held: Held) -> bool:
        whole = self._seen.range
        return (
            self._seen.wanted
            and whole.base <= held.base
            and self._last(held.base, held.prefix) <= whole.end
        )

    def _useful(self, base: int, prefix: int) -> bool:
        usable = self._seen.range.next_usable(base)
        return usable is not None and usable <= self._last(base, prefix)

    def _rest(self, held: Held) -> float:
        return (self._now if held.since is None else held.since) + self._seen.cooldown - self._now

    def _active_nodes(self) -> set[str]:
        return {held.node for held in self._entries.values() if held.state == ACTIVE}

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


def _key(what: Held | PoolSeen) -> _Key:
    return (what.node, what.base, what.prefix)
