"""The network gauges, counted from the caches when somebody scrapes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from whereabouts_fast.controller.networks import Resolution
from whereabouts_fast.controller.world import World
from whereabouts_fast.ipam import ranges
from whereabouts_fast.ipam.ranges import Range
from whereabouts_fast.observability.metrics import NetworkFigures
from whereabouts_fast.resources.pools import PoolView
from whereabouts_fast.resources.tables import TableView


class Counters(Protocol):
    """The part of the metrics whose series come and go with networks."""

    def network_appeared(self, network: str) -> None:
        """Start the counters of a network."""

    def network_vanished(self, network: str) -> None:
        """Drop the counters of a network."""


class Census:
    """Counts slices and addresses of every table, and addresses of pools that all nodes share.

    What no network asks for any more is counted by its recorded range, without its exclusions.
    With `nodes` the addresses of each node are counted too.
    """

    def __init__(self, world: World, counters: Counters, *, nodes: bool = False) -> None:
        self._world = world
        self._counters = counters
        self._nodes = nodes
        self._counted: frozenset[str] = frozenset()
        # By the name of the table or shared pool.
        self._ranges: dict[str, Range] = {}

    def serve(self, resolution: Resolution) -> None:
        """Take note of which networks are served; their counters begin and end.

        A network's counters end with its table: until then its slices are on their way back.
        """
        wanted = [one for space in resolution.spaces.values() for one in space]
        shared = [one for space in resolution.pools.values() for one in space]
        self._ranges = {one.name: one.range for one in shared}
        self._ranges |= {one.table: one.network.range for one in wanted}
        tables = (table.name for table in self._world.all_tables())
        before, self._counted = self._counted, frozenset(one.table for one in wanted).union(tables)
        for name in self._counted - before:
            self._counters.network_appeared(name)
        for name in before - self._counted:
            self._counters.network_vanished(name)

    def capacity(self, pool: PoolView) -> int:
        """Return how many addresses of a shared pool may be given."""
        whole = self._ranges.get(pool.name) or _recorded(pool.range)
        return 0 if whole is None else whole.size

    def __call__(self) -> Iterator[NetworkFigures]:
        """Yield the figures of each readable table, and of each shared pool."""
        by_network: dict[tuple[str, str, int], list[PoolView]] = {}
        shared: list[PoolView] = []
        for pool in self._world.pools.values():
            if pool.node:
                key = (pool.space, pool.network, pool.version)
                by_network.setdefault(key, []).append(pool)
            elif pool.exact or pool.name in self._ranges:
                # Others may be slices that whereabouts made, of which nobody counts each.
                shared.append(pool)
        names = set()
        for table in self._world.tables.values():
            whole = self._ranges.get(table.name) or _recorded(table.range)
            if whole is None:
                continue
            names.add(table.name)
            pools = by_network.get((table.space, table.network, table.version), ())
            inside = [pool for pool in pools if whole.base <= pool.base <= whole.end]
            yield NetworkFigures(
                network=table.name,
                addresses=_addresses(whole, whole, sum(pool.used for pool in inside)),
                slices=_slices(table),
                waiting=_count(table, "waiting"),
                nodes=_by_node(whole, inside) if self._nodes else {},
            )
        for pool in shared:
            whole = self._ranges.get(pool.name) or _recorded(pool.range)
            if whole is not None and pool.name not in names:
                yield NetworkFigures(
                    network=pool.name, addresses=_addresses(whole, whole, pool.used)
                )


def _slices(table: TableView) -> dict[str, float]:
    return {state: _count(table, state) for state in ("active", "draining", "cooling", "free")}


def _by_node(whole: Range, pools: Iterable[PoolView]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for pool in pools:
        try:
            part = whole.slice(pool.base, pool.prefix)
        except ranges.RangeError:
            continue  # of a range that was edited: its addresses are none of this one's
        states = found.setdefault(pool.node, {})
        for state, count in _addresses(part, whole, pool.used).items():
            states[state] = states.get(state, 0) + count
    return found


def _addresses(part: Range, whole: Range, allocated: int) -> dict[str, float]:
    """Count the addresses of a part of a range; they sum to its size."""
    # The network address, and in IPv4 the broadcast address, unless the range is too small.
    special = [whole.base, whole.end][: 2 if whole.version == 4 else 1]
    if whole.end - whole.base < 2:
        special = []
    total = part.end - part.base + 1
    free = max(0, part.size - allocated)
    # An address that was excluded while a pod had it is the pod's; a bad pool may have more
    # entries than addresses.
    reserved = min(sum(part.base <= one <= part.end for one in special), total - free)
    allocated = min(allocated, total - free - reserved)
    return {
        "allocated": allocated,
        "free": free,
        "reserved": reserved,
        "excluded": total - free - reserved - allocated,
    }


def _count(table: TableView, what: str) -> float:
    value = (table.raw.get("status") or {}).get(what, 0)
    return float(value) if isinstance(value, int) else 0.0


def _recorded(text: str) -> Range | None:
    try:
        return ranges.build(text)
    except ranges.RangeError:
        return None
