"""What `slices.plan` says of everything, found by looking only at nodes that have changed.

A node is *settled* when a plan for it alone asks for nothing and its slices and pools share no
address with anything else. To a plan for all, settled nodes are nothing but taken addresses. So
the others are planned as if they were alone, those addresses being claimed elsewhere, and the
outcome is laid over the table. Nothing is decided here: `slices.plan` does it, for few nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from whereabouts_fast.ipam import address, slices
from whereabouts_fast.ipam.blocks import Blocks
from whereabouts_fast.ipam.holdings import (
    ACTIVE,
    COOLING,
    DRAINING,
    Figures,
    Held,
    NodeSeen,
    Observed,
    Plan,
    PoolSeen,
)
from whereabouts_fast.ipam.space import Claim, Union, contested


@dataclass(frozen=True, slots=True)
class Part:
    """Some nodes: those of them that are listed, their entries, sorted by address, and pools."""

    nodes: tuple[NodeSeen, ...]
    table: tuple[Held, ...]
    pools: tuple[PoolSeen, ...]

    def of(self, names: Collection[str]) -> Part:
        """Return what is of some of these nodes."""
        return Part(
            tuple(node for node in self.nodes if node.name in names),
            tuple(held for held in self.table if held.node in names),
            tuple(pool for pool in self.pools if pool.node in names),
        )


Look = Callable[[Collection[str]], Part]
"""Reads what is known of some nodes now; the pools are those of the network planned for."""

_Block = tuple[int, int]


class Incremental:
    """The plans of one network, one after the other."""

    def __init__(self) -> None:
        self._rules: Observed | None = None
        self._unsettled: set[str] = set()
        # Settled nodes with their blocks and the states of their entries, and sums of both.
        self._settled: dict[str, tuple[set[_Block], Counter[str]]] = {}
        self._states: Counter[str] = Counter()
        self._blocks = Blocks(32)
        self._taken = Union()

    def plan(
        self,
        observed: Observed,
        everybody: Callable[[], Iterable[str]],
        changed: Iterable[str],
        look: Look,
        now: float,
    ) -> Plan:
        """Return what `slices.plan` would return for everything there is.

        `observed` is that, without nodes and without the pools of this network and one node each.
        `everybody` names all nodes that are listed or have an entry or such a pool, `changed` those
        of which anything changed since the last call; `look` is asked about no others.
        """
        changed = set(self._begin(everybody) if self._outdated(observed) else changed)
        self._unsettle(changed)
        foreign = {*observed.elsewhere, *(self._claim(pool) for pool in observed.pools)}
        self._meet(foreign)
        part = look(self._unsettled)
        if self._meet(self._claims(part)):
            part = look(self._unsettled)
        taken = [(low, high, "") for low, high in self._taken]
        made = slices.plan(
            replace(
                observed,
                nodes=part.nodes,
                table=None if observed.table is None else part.table,
                pools=(*part.pools, *observed.pools),
                elsewhere=(*observed.elsewhere, *taken),
            ),
            now,
        )
        whole = self._laid_over(observed.table or (), part, made)
        if observed.table is not None:
            alone = changed - self._contested(part, {*foreign, *taken})
            quiet = alone == self._unsettled and _asks_nothing(made, part)
            self._settle(part, alone if quiet else self._quiet(part.of(alone), alone, now))
        return whole

    def _outdated(self, observed: Observed) -> bool:
        """Take over the rules of a plan; whether they make everybody's case a new one."""
        before = self._rules
        self._rules = replace(observed, table=(), elsewhere=(), pools=(), gone=frozenset())
        return observed.table is None or self._rules != before

    def _begin(self, everybody: Callable[[], Iterable[str]]) -> Iterable[str]:
        self._unsettled, self._settled, self._states = set(), {}, Counter()
        self._blocks, self._taken = Blocks(self._width), Union()
        return everybody()

    def _laid_over(self, table: tuple[Held, ...], part: Part, made: Plan) -> Plan:
        merged = table
        if made.table != part.table:
            kept = [held for held in table if held.node not in self._unsettled]
            merged = tuple(sorted((*kept, *(made.table or ())), key=_place))
        return replace(
            made,
            table=merged if merged or made.table is not None else None,
            figures=Figures(
                made.figures.active + self._states[ACTIVE],
                made.figures.draining + self._states[DRAINING],
                made.figures.cooling + self._states[COOLING],
                made.figures.free,
            ),
        )

    def _meet(self, claims: Iterable[Claim]) -> bool:
        """Unsettle whoever shares an address with a claim; whether there was anybody."""
        met = {name for low, high, _ in claims for name in self._blocks.touching(low, high)}
        self._unsettle(met)
        return bool(met)

    def _contested(self, part: Part, others: set[Claim]) -> set[str]:
        """Return the nodes whose claims are not theirs alone."""
        # Under another name, for the same claim made twice would be one.
        foreign = {(low, high, f"/{node}") for low, high, node in others}
        return {node for _, _, node in contested(self._claims(part) | foreign)}

    def _quiet(self, part: Part, names: set[str], now: float) -> set[str]:
        """Return those of some nodes of whom plans for each alone ask nothing."""
        if not names:
            return set()
        if _asks_nothing(slices.plan(self._alone(part), now), part):
            return names
        if len(names) == 1:
            return set()
        ordered = sorted(names)
        halves = set(ordered[::2]), set(ordered[1::2])
        return set().union(*(self._quiet(part.of(half), half, now) for half in halves))

    def _alone(self, part: Part) -> Observed:
        assert self._rules is not None
        return replace(self._rules, nodes=part.nodes, table=part.table, pools=part.pools)

    def _settle(self, part: Part, names: set[str]) -> None:
        blocks: dict[str, set[_Block]] = {name: set() for name in names}
        states: dict[str, Counter[str]] = {name: Counter() for name in names}
        for held in part.table:
            if held.node in names:
                blocks[held.node].add((held.base, held.prefix))
                states[held.node][held.state] += 1
        for pool in part.pools:
            if pool.node in names:
                blocks[pool.node].add((pool.base, pool.prefix))
        self._unsettled -= names
        # Of whom nothing is held, nothing needs to be remembered.
        for name in filter(blocks.get, names):
            self._settled[name] = blocks[name], states[name]
            self._states += states[name]
            for base, prefix in blocks[name]:
                self._blocks.add(base, prefix, name)
                self._taken.add(base, self._last(base, prefix))

    def _unsettle(self, names: Iterable[str]) -> None:
        for name in names:
            self._unsettled.add(name)
            blocks, states = self._settled.pop(name, (set(), Counter()))
            self._states -= states
            for base, prefix in blocks:
                self._blocks.remove(base, prefix, name)
                self._taken.remove(base, self._last(base, prefix))

    def _claims(self, part: Part) -> set[Claim]:
        return {self._claim(held) for held in part.table} | {
            self._claim(pool) for pool in part.pools
        }

    def _claim(self, one: Held | PoolSeen) -> Claim:
        return one.base, self._last(one.base, one.prefix), one.node

    def _last(self, base: int, prefix: int) -> int:
        return base + (1 << (self._width - prefix)) - 1

    @property
    def _width(self) -> int:
        return 32 if self._rules is None else address.width(self._rules.range.version)


def _asks_nothing(made: Plan, part: Part) -> bool:
    return (
        (made.table or ()) == part.table
        and not (made.actions or made.waiting or made.disputed or made.stuck)
        and made.again is None
    )


def _place(held: Held) -> tuple[int, int, str]:
    return held.base, held.prefix, held.node
