"""Plans of networks, each made by looking only at nodes of which something changed since the last.

Networks that overlap others, and pools of which the name alone is known, are looked at as a whole:
there, what one node does may be another's business.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from whereabouts_fast.controller.units import Unit, Units
from whereabouts_fast.controller.world import World
from whereabouts_fast.ipam import slices
from whereabouts_fast.ipam.holdings import Held, Plan, PoolSeen, difference
from whereabouts_fast.ipam.incremental import Incremental, Part
from whereabouts_fast.ipam.selectors import Selector
from whereabouts_fast.resources.pools import PoolView
from whereabouts_fast.resources.tables import TableView


@dataclass(slots=True)
class _State:
    """What is remembered of one table; `changed` are nodes since the last plan."""

    selector: Selector | None
    incremental: Incremental = field(default_factory=Incremental)
    table: TableView | None = None
    entries: dict[str, tuple[Held, ...]] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    unnamable: set[str] = field(default_factory=set)

    def take(self, table: TableView) -> None:
        """Take note of another version of the table."""
        if table is self.table:
            return
        gone, come = difference(() if self.table is None else self.table.held, table.held)
        names = {held.node for held in (*gone, *come)}
        entries: dict[str, list[Held]] = {}
        for held in table.held:
            if held.node in names:
                entries.setdefault(held.node, []).append(held)
        for name in names - entries.keys():
            del self.entries[name]
        self.entries.update((name, tuple(found)) for name, found in entries.items())
        self.changed |= names
        self.table = table


@dataclass(frozen=True, slots=True)
class Made:
    """A plan, the pools that it has anything to do with, and the nodes that no pool can be for."""

    plan: Plan
    pools: tuple[PoolSeen, ...]
    unnamable: list[str]


class Plans:
    """The plans of one term of leadership; `now` is seconds since the epoch."""

    def __init__(self, world: World, units: Units, now: Callable[[], float]) -> None:
        self._world = world
        self._units = units
        self._now = now
        # By address space and network, and by the name of the table.
        self._states: dict[tuple[str, str], dict[str, _State]] = {}

    def node_changed(self, name: str) -> None:
        """Take note of a node that came, went or has other labels."""
        for states in self._states.values():
            for state in states.values():
                state.changed.add(name)

    def pool_changed(self, old: PoolView | None, new: PoolView | None) -> None:
        """Take note of another latest state of a pool."""
        for pool in (old, new):
            if pool is not None:
                for state in self._states.get((pool.space, pool.network), {}).values():
                    state.changed.add(pool.node)

    def make(self, unit: Unit, others: Iterable[Unit], gone: frozenset[Held]) -> Made:
        """Plan for a network; `others` are the other units of its address space."""
        around = self._units.around(unit, others, gone)
        states = self._states.setdefault((unit.space, unit.network), {})
        if around is None or unit.table is None:
            states.pop(unit.table_name, None)
            observed = self._units.observe(unit, others, gone)
            plan = slices.plan(observed, self._now())
            return Made(plan, observed.pools, self._units.unnamable(unit))
        state = states.get(unit.table_name)
        if state is None or state.selector != self._units.selector(unit):
            state = states[unit.table_name] = _State(self._units.selector(unit))
        state.take(unit.table)
        seen: list[PoolSeen] = []

        def look(names: Collection[str]) -> Part:
            part = self._look(unit, state, names)
            seen[:] = part.pools
            return part

        def everybody() -> set[str]:
            pools = self._world.latest_pools.homed(unit.space, unit.network)
            return {*self._world.nodes.keys(), *state.entries, *(pool.node for pool in pools)}

        changed, state.changed = state.changed, set()
        plan = state.incremental.plan(around, everybody, changed, look, self._now())
        return Made(plan, (*seen, *around.pools), sorted(state.unnamable))

    def forget(self, unit: Unit) -> None:
        """Forget a network whose table is gone."""
        self._states.get((unit.space, unit.network), {}).pop(unit.table_name, None)

    def _look(self, unit: Unit, state: _State, names: Collection[str]) -> Part:
        state.unnamable.difference_update(names)
        nodes = []
        for name in names:
            node = self._world.nodes.get(name)
            if node is not None and self._units.selects(unit, node):
                if self._units.namable(unit, name):
                    nodes.append(node.seen())
                else:
                    state.unnamable.add(name)
        held = [one for name in names for one in state.entries.get(name, ())]
        pools = [seen for name in names for seen in self._units.pools_on(unit, name)]
        return Part(
            tuple(nodes),
            tuple(sorted(held, key=_place)),
            tuple(sorted(pools, key=_place)),
        )


def _place(one: Held | PoolSeen) -> tuple[int, int, str]:
    return one.base, one.prefix, one.node
