"""The networks of one address space as units of planning: wanted ones, and tables left over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from whereabouts_fast.controller.crowd import Crowd
from whereabouts_fast.controller.networks import Resolution, Wanted
from whereabouts_fast.controller.shares import Shares
from whereabouts_fast.controller.world import World
from whereabouts_fast.ipam import address, naming, ranges
from whereabouts_fast.ipam.holdings import ACTIVE, Held, NodeSeen, Observed, PoolSeen
from whereabouts_fast.ipam.overlap import Network
from whereabouts_fast.ipam.ranges import Range
from whereabouts_fast.ipam.selectors import EVERYTHING, Selector
from whereabouts_fast.ipam.space import Claim, Interval
from whereabouts_fast.resources.nodes import NodeView
from whereabouts_fast.resources.tables import TableView

DEFAULT_COOLDOWN = 60.0
# Together longer, node and network_name can make the name of a pool longer than an object name may
# be: the longest slice text has 43 characters.
_SAFE_NAMES = 208


@dataclass(frozen=True, slots=True)
class Unit:
    """One network and its table.

    `network` and `space` are the network's name and network_name. `size` is a prefix length,
    `cooldown` in seconds. `wanted` is None when no NAD asks for it any more. `overlapping`: the
    networks of the address space when anything overlaps this one, else none.
    """

    network: str
    space: str
    table_name: str
    range: Range
    size: int
    cooldown: float
    wanted: Wanted | None
    table: TableView | None
    overlapping: tuple[Network, ...] = ()

    @property
    def width(self) -> int:
        """Bits of an address."""
        return address.width(self.range.version)

    @property
    def unreadable(self) -> str:
        """Why nothing may be decided about this network, "" when it may."""
        if self.table is None or not (self.table.unreadable or not self.table.version):
            return ""
        return self.table.problem or "an entry cannot be read"

    def pool_name(self, node: str, base: int, prefix: int) -> str:
        """Return the name of a node's pool. Raises naming.InvalidNameError."""
        return naming.ip_pool(self.cidr(base, prefix), self.space, node)

    def pool_of(self, held: Held) -> str:
        """Return the name of an entry's pool, "" when no object can have it."""
        try:
            return self.pool_name(held.node, held.base, held.prefix)
        except naming.InvalidNameError:
            return ""

    def cidr(self, base: int, prefix: int) -> str:
        """Return the text of a slice."""
        return address.cidr_text(self.range.version, base, prefix)

    def refreshed(self, world: World) -> Unit:
        """Return the unit with its table as last written or seen."""
        return replace(self, table=world.table(self.table_name))


class Units:
    """Builds units and what is observed of them."""

    def __init__(self, world: World, shares: Shares, selector: Selector = EVERYTHING) -> None:
        self._world = world
        self._shares = shares
        self._selector = selector
        # A network that is gone still cools its slices for as long as it said.
        self._cooldowns: dict[str, float] = {}

    def of(self, space: str, resolution: Resolution) -> list[Unit]:
        """Return the units of an address space, wanted ones first."""
        units = [self._wanted(wanted) for wanted in resolution.spaces.get(space, ())]
        units.extend(
            self._left_over(table)
            for table in self._world.latest_tables.of(space)
            if resolution.bound(table.name) is None
        )
        return units

    def forget(self, table: str) -> None:
        """Forget what is remembered of a network whose table is gone."""
        self._cooldowns.pop(table, None)

    def _wanted(self, wanted: Wanted) -> Unit:
        network = wanted.network
        self._cooldowns[wanted.table] = network.slice_cooldown
        return Unit(
            network=network.name,
            space=network.network_name,
            table_name=wanted.table,
            range=network.range,
            size=wanted.size,
            cooldown=network.slice_cooldown,
            wanted=wanted,
            table=self._world.table(wanted.table),
        )

    def _left_over(self, table: TableView) -> Unit:
        try:
            whole = ranges.build(table.range)
        except ranges.RangeError:
            whole = Range(4, 0, 32, 1, 0)  # never planned with: the table is unreadable
        return Unit(
            network=table.network,
            space=table.space,
            table_name=table.name,
            range=whole,
            size=whole.prefix if table.size is None else table.size,
            cooldown=self._cooldowns.get(table.name, DEFAULT_COOLDOWN),
            wanted=None,
            table=table,
        )

    def observe(
        self,
        unit: Unit,
        others: Iterable[Unit],
        gone: frozenset[Held],
        newcomers: int | None = None,
    ) -> Observed:
        """Return what a plan for `unit` depends on.

        `newcomers` bounds how many nodes without any slice are seen, the first in order, where the
        table cannot record all; no share grows then.
        """
        version = unit.range.version
        nodes = self.taking_part(unit)
        if newcomers is not None:
            holders = _holders(unit)
            new = [name for name in self.in_order(unit) if name not in holders]
            seen = holders | set(new[:newcomers])
            nodes = tuple(node for node in nodes if node.name in seen)
        return replace(
            self._frame(unit, gone),
            nodes=nodes,
            elsewhere=tuple(
                _claim(version, one)
                for other in others
                if other.table is not None
                and other.table_name != unit.table_name
                and other.table.version == version
                for one in other.table.held
            ),
            pools=tuple(self._pools_seen(unit)),
            capped=newcomers is not None,
        )

    def around(self, unit: Unit, others: Iterable[Unit], gone: frozenset[Held]) -> Observed | None:
        """Return what a plan depends on besides the nodes and the pools known to be theirs.

        None where that is not enough, because one node's pools may be of another's concern.
        """
        if unit.overlapping or unit.table is None or self.selector(unit) is None:
            return None
        version, (low, high) = unit.range.version, _extent(unit)
        pools = self._world.latest_pools.strangers(unit.space, unit.network, version, (low, high))
        if not all(pool.exact for pool in pools):
            return None
        return replace(
            self._frame(unit, gone),
            elsewhere=tuple(
                claim
                for other in others
                if other.table is not None
                and other.table_name != unit.table_name
                and other.table.version == version
                and _meet(_extent(other), (low, high))
                for one in other.table.held
                if _meet((claim := _claim(version, one))[:2], (low, high))
            ),
            pools=tuple(pool.seen() for pool in pools if pool.node),
        )

    def pools_on(self, unit: Unit, node: str) -> Iterator[PoolSeen]:
        """Yield the pools of a network that are known to be a node's."""
        for pool in self._world.pools_on(node):
            own = (pool.space, pool.network) == (unit.space, unit.network)
            if own and pool.version == unit.range.version:
                yield pool.seen(idle=self._shares.idle(pool))

    def _frame(self, unit: Unit, gone: frozenset[Held]) -> Observed:
        version = unit.range.version
        return Observed(
            network=unit.network,
            range=unit.range,
            size=unit.size,
            wanted=unit.wanted is not None,
            cooldown=unit.cooldown,
            nodes=(),
            table=None if unit.table is None else unit.table.held,
            shared=(
                *((n.low, n.high) for n in unit.overlapping if n.pool and n.version == version),
                *(
                    (pool.base, pool.last)
                    for pool in self._world.latest_pools.shared(unit.space)
                    if pool.version == version
                ),
            ),
            gone=gone,
            slice_max=1 if unit.wanted is None else unit.wanted.network.slice_max,
            idle_seconds=self._shares.idle_seconds,
        )

    def _pools_seen(self, unit: Unit) -> Iterator[PoolSeen]:
        found = [p for p in self._world.pools_of(unit.space) if p.version == unit.range.version]
        crowd = Crowd(found) if unit.overlapping else None
        named: dict[str, Held] = {}
        if unit.table is not None and not all(pool.exact for pool in found):
            # The plugin finds pools by their names; so whatever else is lost, the table and the
            # name together say whose pool it is.
            named = {unit.pool_of(held): held for held in unit.table.held}
        for pool in found:
            if pool.exact and not pool.node:
                # A shared pool takes no slice away: marks and reservations keep addresses apart.
                continue
            held = named.get(pool.name)
            idle = self._shares.idle(pool)
            if held is None or (held.base, held.prefix) != (pool.base, pool.prefix):
                seen = pool.seen(idle=idle)
            else:
                seen = pool.seen(held.node, unit.network, idle)
            yield seen if crowd is None else replace(seen, taken=crowd.taken(pool))

    def in_order(self, unit: Unit) -> list[str]:
        """Return the nodes that may hold slices, in the order in which they are served."""
        nodes = sorted(self.taking_part(unit), key=lambda n: (n.created, n.name))
        return [node.name for node in nodes]

    def unnamable(self, unit: Unit) -> list[str]:
        """Return the nodes whose pools of this network would have too long a name."""
        return [n.name for n in self._selected(unit) if not self.namable(unit, n.name)]

    def namable(self, unit: Unit, node: str) -> bool:
        """Return whether any pool of the network can be a node's."""
        if len(node) + len(unit.space) <= _SAFE_NAMES:
            return True
        # The longest slice text there can be in this range.
        base, prefix = unit.range.end, address.width(unit.range.version)
        return bool(unit.pool_of(Held(node, base, prefix)))

    def taking_part(self, unit: Unit) -> tuple[NodeSeen, ...]:
        """Return the nodes that may hold slices."""
        nodes = self._selected(unit)
        bad = frozenset(self.unnamable(unit))
        return tuple(node for node in nodes if node.name not in bad) if bad else nodes

    def takes_part(self, unit: Unit, name: str) -> bool:
        """Return whether a node may hold slices."""
        node = self._world.nodes.get(name)
        if node is None or not self.namable(unit, name):
            return False
        if self.selector(unit) is None:
            return self._selector.matches(node.labels) and name in _holders(unit)
        return self.selects(unit, node)

    def relabelled(self, wanted: Wanted, old: NodeView, new: NodeView) -> bool:
        """Return whether changed labels make a node take part, or not any more."""
        chosen = [one for one in (self._selector, wanted.selector) if one]
        return any(one.matches(old.labels) != one.matches(new.labels) for one in chosen)

    def selector(self, unit: Unit) -> Selector | None:
        """Return which nodes a network is for, besides what the controller itself is told."""
        return unit.wanted.selector if unit.wanted is not None else EVERYTHING

    def selects(self, unit: Unit, node: NodeView) -> bool:
        """Return whether a network is for a node, if its selector can be read."""
        own = self.selector(unit)
        return self._selector.matches(node.labels) and (
            own is not None and own.matches(node.labels)
        )

    def _selected(self, unit: Unit) -> tuple[NodeSeen, ...]:
        own = self.selector(unit)
        if own is not None and not own and not self._selector:
            return self._world.nodes_seen()
        # Nobody knows whom an unreadable selector means: those who are there stay.
        holders = _holders(unit) if own is None else ()
        return tuple(
            node.seen()
            for node in self._world.nodes.values()
            if self._selector.matches(node.labels)
            and (node.name in holders if own is None else own.matches(node.labels))
        )


def _holders(unit: Unit) -> set[str]:
    return set() if unit.table is None else {one.node for one in unit.table.held}


def _claim(version: int, held: Held) -> Claim:
    last = held.base + (1 << (address.width(version) - held.prefix)) - 1
    return held.base, last, held.node if held.state == ACTIVE else ""


def _extent(unit: Unit) -> Interval:
    """Return the addresses that a network has to do with: its range, and what its table holds."""
    low, high = unit.range.base, unit.range.end
    held = unit.table.held if unit.table is not None else ()
    # In the order of addresses; only after an edit is there anything outside the range.
    if held and (held[0].base < low or held[-1].base > high):
        low = min(low, held[0].base)
        high = max(high, *(_claim(unit.range.version, one)[1] for one in held))
    return low, high


def _meet(one: Interval, other: Interval) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]
