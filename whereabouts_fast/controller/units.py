"""The networks of one address space as units of planning: wanted ones, and tables left over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from whereabouts_fast.controller.networks import Resolution, Wanted
from whereabouts_fast.controller.world import World
from whereabouts_fast.ipam import address, naming, ranges
from whereabouts_fast.ipam.holdings import ACTIVE, Held, NodeSeen, Observed, PoolSeen
from whereabouts_fast.ipam.overlap import Network
from whereabouts_fast.ipam.ranges import Range
from whereabouts_fast.ipam.space import Claim
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

    def __init__(self, world: World) -> None:
        self._world = world
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

        `newcomers` bounds how many nodes without any slice are seen, the first in order.
        """
        version = unit.range.version
        held = None if unit.table is None else unit.table.held
        nodes = self._nodes(unit)
        if newcomers is not None:
            holders = {one.node for one in held or ()}
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
            pools=tuple(self._pools(unit)),
            shared=(
                *((n.low, n.high) for n in unit.overlapping if n.pool and n.version == version),
                *(
                    (pool.base, pool.last)
                    for pool in self._world.pools_of(unit.space)
                    if pool.exact and not pool.node and pool.version == version
                ),
            ),
            gone=gone,
        )

    def _pools(self, unit: Unit) -> Iterator[PoolSeen]:
        found = [p for p in self._world.pools_of(unit.space) if p.version == unit.range.version]
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
            if held is None or (held.base, held.prefix) != (pool.base, pool.prefix):
                yield pool.seen()
            else:
                yield pool.seen(held.node, unit.network)

    def in_order(self, unit: Unit) -> list[str]:
        """Return the nodes that may hold slices, in the order in which they are served."""
        return [n.name for n in sorted(self._nodes(unit), key=lambda n: (n.created, n.name))]

    def unnamable(self, unit: Unit) -> list[str]:
        """Return the nodes whose pools of this network would have too long a name."""
        return [
            node.name
            for node in self._world.nodes_seen()
            if len(node.name) + len(unit.space) > _SAFE_NAMES and not _namable(unit, node)
        ]

    def _nodes(self, unit: Unit) -> tuple[NodeSeen, ...]:
        nodes = self._world.nodes_seen()
        bad = frozenset(self.unnamable(unit))
        return tuple(node for node in nodes if node.name not in bad) if bad else nodes


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
