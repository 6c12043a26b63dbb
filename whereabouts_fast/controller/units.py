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
from whereabouts_fast.ipam.space import Claim
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
            for table in self._world.all_tables()
            if table.space == space and resolution.bound(table.name) is None
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
        held = None if unit.table is None else unit.table.held
        nodes = self.taking_part(unit)
        if newcomers is not None:
            holders = _holders(unit)
            new = [name for name in self.in_order(unit) if name not in holders]
            seen = holders | set(new[:newcomers])
            nodes = tuple(node for node in nodes if node.name in seen)
        return Observed(
            network=unit.network,
            range=unit.range,
            size=unit.size,
            wanted=unit.wanted is not None,
            cooldown=unit.cooldown,
            nodes=nodes,
            table=held,
            elsewhere=tuple(
                _claim(version, one)
                for other in others
                if other.table is not None
                and other.table_name != unit.table_name
                and other.table.version == version
                for one in other.table.held
            ),
            pools=tuple(self._pools_seen(unit)),
            shared=(
                *((n.low, n.high) for n in unit.overlapping if n.pool and n.version == version),
                *(
                    (pool.base, pool.last)
                    for pool in self._world.pools_of(unit.space)
                    if pool.exact and not pool.node and pool.version == version
                ),
            ),
            gone=gone,
            slice_max=1 if unit.wanted is None else unit.wanted.network.slice_max,
            idle_seconds=self._shares.idle_seconds,
            capped=newcomers is not None,
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
        return [
            node.name
            for node in self._selected(unit)
            if len(node.name) + len(unit.space) > _SAFE_NAMES and not _namable(unit, node)
        ]

    def taking_part(self, unit: Unit) -> tuple[NodeSeen, ...]:
        """Return the nodes that may hold slices."""
        nodes = self._selected(unit)
        bad = frozenset(self.unnamable(unit))
        return tuple(node for node in nodes if node.name not in bad) if bad else nodes

    def relabelled(self, wanted: Wanted, old: NodeView, new: NodeView) -> bool:
        """Return whether changed labels make a node take part, or not any more."""
        chosen = [one for one in (self._selector, wanted.selector) if one]
        return any(one.matches(old.labels) != one.matches(new.labels) for one in chosen)

    def _selected(self, unit: Unit) -> tuple[NodeSeen, ...]:
        own = unit.wanted.selector if unit.wanted is not None else EVERYTHING
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


def _namable(unit: Unit, node: NodeSeen) -> bool:
    # The longest slice text there can be in this range.
    base, prefix = unit.range.end, address.width(unit.range.version)
    try:
        unit.pool_name(node.name, base, prefix)
    except naming.InvalidNameError:
        return False
    return True
