"""The network gauges, counted from the caches when somebody scrapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from whereabouts_fast.controller.networks import Resolution
from whereabouts_fast.controller.world import World
from whereabouts_fast.ipam import address, ranges
from whereabouts_fast.ipam.ranges import Range
from whereabouts_fast.observability.metrics import NetworkFigures
from whereabouts_fast.resources.tables import TableView


class Counters(Protocol):
    """The part of the metrics whose series come and go with networks."""

    def network_appeared(self, network: str) -> None:
        """Start the counters of a network."""

    def network_vanished(self, network: str) -> None:
        """Drop the counters of a network."""


class Census:
    """Counts slices and addresses of every table.

    Tables whose network is gone are counted by their recorded range, without its exclusions.
    """

    def __init__(self, world: World, counters: Counters) -> None:
        self._world = world
        self._counters = counters
        self._ranges: dict[str, Range] = {}

    def serve(self, resolution: Resolution) -> None:
        """Take note of which networks are served; their counters begin and end."""
        wanted = [one for space in resolution.spaces.values() for one in space]
        before, self._ranges = self._ranges, {one.table: one.network.range for one in wanted}
        for name in self._ranges.keys() - before.keys():
            self._counters.network_appeared(name)
        for name in before.keys() - self._ranges.keys():
            self._counters.network_vanished(name)

    def __call__(self) -> Iterator[NetworkFigures]:
        """Yield the figures of each readable table."""
        used: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
        for pool in self._world.pools.values():
            key = (pool.space, pool.network, pool.version)
            used.setdefault(key, []).append((pool.base, pool.used))
        for table in self._world.tables.values():
            whole = self._ranges.get(table.name) or _recorded(table)
            if whole is None:
                continue
            pools = used.get((table.space, table.network, table.version), ())
            allocated = sum(n for base, n in pools if whole.base <= base <= whole.end)
            yield NetworkFigures(
                table.name, _slices(table), _addresses(whole, allocated), _count(table, "waiting")
            )


def _slices(table: TableView) -> dict[str, float]:
    return {state: _count(table, state) for state in ("active", "draining", "cooling", "free")}


def _addresses(whole: Range, allocated: int) -> dict[str, float]:
    total = 1 << (address.width(whole.version) - whole.prefix)
    # The network address, and in IPv4 the broadcast address, unless the range is too small.
    reserved = 0 if total <= 2 else 2 if whole.version == 4 else 1
    return {
        "allocated": allocated,
        "free": max(0, whole.size - allocated),
        "reserved": reserved,
        "excluded": total - reserved - whole.size,
    }


def _count(table: TableView, what: str) -> float:
    value = (table.raw.get("status") or {}).get(what, 0)
    return float(value) if isinstance(value, int) else 0.0


def _recorded(table: TableView) -> Range | None:
    try:
        return ranges.build(table.range)
    except ranges.RangeError:
        return None
