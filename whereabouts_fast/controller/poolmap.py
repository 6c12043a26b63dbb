"""All pools as last written or seen, by what work on one address space asks of them.

Answers cost what they are long. Few pools are shared, marked, unreadable or of uncertain space;
the others are found by network and address.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from whereabouts_fast.controller.latest import Latest
from whereabouts_fast.ipam import address
from whereabouts_fast.ipam.blocks import Blocks
from whereabouts_fast.ipam.space import Interval
from whereabouts_fast.resources.pools import PoolView, decode_pool

# Address space, network ("" where the name does not bear it out), IP version.
Home = tuple[str, str, int]
_APART, _UNCERTAIN, _BAD, _NODE = "apart", "uncertain", "bad", "node"


class PoolMap(Latest[PoolView]):
    """The pools of this process; `moved` is told of each other state of one."""

    def __init__(
        self,
        cached: Callable[[str], PoolView | None],
        moved: Callable[[PoolView | None, PoolView | None], None] = lambda _, __: None,
    ) -> None:
        super().__init__(
            cached,
            lambda raw, _: decode_pool(raw),
            {
                _APART: lambda pool: [pool.space] if _is_apart(pool) else [],
                _UNCERTAIN: lambda pool: [""] if pool.stem else [],
                _BAD: lambda pool: [""] if pool.problem else [],
                _NODE: lambda pool: [pool.node] if pool.exact and pool.node else [],
            },
        )
        self._told = moved
        self._homes: dict[str, dict[Home, Blocks]] = {}
        self._departures: Counter[str] = Counter()

    def of(self, space: str) -> list[PoolView]:
        """Return the readable pools that are, or for all that is known may be, of a space."""
        homes = self._homes.get(space, {}).values()
        return [*self._named(name for home in homes for name in home), *self.uncertain(space)]

    def uncertain(self, space: str) -> list[PoolView]:
        """Return the pools of other spaces that, for all that is known, may be of this one."""
        doubtful = self.by_index(_UNCERTAIN, "")
        return [pool for pool in doubtful if pool.space != space and pool.may_be_in(space)]

    def apart(self, space: str) -> list[PoolView]:
        """Return those of `of(space)` that are no node's own, or concern overlaps."""
        found = [*self.by_index(_APART, space), *self.uncertain(space)]
        return [pool for pool in found if not pool.problem and _is_apart(pool)]

    def shared(self, space: str) -> list[PoolView]:
        """Return the pools that are known to be shared by all nodes."""
        return [pool for pool in self.apart(space) if pool.exact and not pool.node]

    def on(self, node: str) -> list[PoolView]:
        """Return the pools that are known to be one node's."""
        return self.by_index(_NODE, node)

    def homed(self, space: str, network: str) -> list[PoolView]:
        """Return the pools whose names say that they are of a network."""
        homes = self._homes.get(space, {}).items()
        return self._named(name for home, ones in homes if home[1] == network for name in ones)

    def unreadable(self) -> list[PoolView]:
        """Return the pools that cannot be read; those are in the unnamed space."""
        return self.by_index(_BAD, "")

    def strangers(
        self, space: str, network: str, version: int, interval: Interval
    ) -> list[PoolView]:
        """Return those of `of(space)` in an interval that are not known to be of a network."""
        low, high = interval
        homes = self._homes.get(space, {}).items()
        names = (
            name
            for home, blocks in homes
            if home[1] != network and home[2] == version
            for name in blocks.touching(low, high)
        )
        more = [*self.uncertain(space), *(p for p in self.shared(space) if p.network == network)]
        found = [p for p in more if p.version == version and p.base <= high and low <= p.last]
        return [*self._named(names), *found]

    def strays(
        self, space: str, ranges: Callable[[str, int], list[Interval] | None]
    ) -> list[PoolView]:
        """Return the nodes' own pools outside the ranges of their network.

        `ranges` returns them for a network and an IP version; None excepts the network.
        """
        found: list[str] = []
        for (_, network, version), blocks in self._homes.get(space, {}).items():
            inside = ranges(network, version)
            if inside is not None:
                found += blocks.outside(inside)
        return [pool for pool in self._named(found) if pool.exact and pool.node]

    def homes(self) -> dict[str, set[str]]:
        """Return by network the address spaces in which it has pools."""
        found: dict[str, set[str]] = {}
        for space, homes in self._homes.items():
            for _, network, _ in homes:
                if network:
                    found.setdefault(network, set()).add(space)
        return found

    def spaces(self) -> set[str]:
        """Return the address spaces in which there are pools."""
        return {*self._homes, *(pool.space for pool in self.unreadable())}

    def departures(self, space: str) -> int:
        """Return how many pools have gone from a space so far."""
        return self._departures[space]

    def _moved(self, old: PoolView | None, new: PoolView | None) -> None:
        self._told(old, new)
        before, after = _place(old), _place(new)
        if before == after:
            return
        if before is not None:
            home, block = before
            self._homes[home[0]][home].remove(*block)
            if not self._homes[home[0]][home]:
                del self._homes[home[0]][home]
            if not self._homes[home[0]]:
                del self._homes[home[0]]
            self._departures[home[0]] += 1
        if after is not None:
            home, block = after
            blocks = self._homes.setdefault(home[0], {}).get(home)
            if blocks is None:
                blocks = self._homes[home[0]][home] = Blocks(address.width(home[2]))
            blocks.add(*block)

    def _named(self, keys: Iterable[str]) -> list[PoolView]:
        return [pool for pool in map(self.get, keys) if pool is not None]


def _is_apart(pool: PoolView) -> bool:
    return pool.overlapping or pool.lifted or not pool.node


def _place(pool: PoolView | None) -> tuple[Home, tuple[int, int, str]] | None:
    if pool is None or pool.problem:
        return None
    home = (pool.space, pool.network if pool.exact else "", pool.version)
    return home, (pool.base, pool.prefix, pool.key)
