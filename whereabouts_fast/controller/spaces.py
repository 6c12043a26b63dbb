"""The reconcile loop: one key per address space, and one for the networks themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from whereabouts_fast.controller import claims
from whereabouts_fast.controller.networks import Resolution, TableSeen, resolve
from whereabouts_fast.controller.orphans import Orphans
from whereabouts_fast.controller.overlaps import OverlapError, Overlaps, informed, silent
from whereabouts_fast.controller.report import Reporter
from whereabouts_fast.controller.settle import Settler
from whereabouts_fast.controller.shared import SharedPools
from whereabouts_fast.controller.shares import Shares
from whereabouts_fast.controller.tables import Tables
from whereabouts_fast.controller.units import Unit, Units
from whereabouts_fast.controller.world import World
from whereabouts_fast.ipam import ranges
from whereabouts_fast.kube.errors import ApiError
from whereabouts_fast.kube.workqueue import Done, RetryAfter
from whereabouts_fast.resources.attachments import AttachmentView
from whereabouts_fast.resources.nodes import NodeView
from whereabouts_fast.resources.pools import PoolView
from whereabouts_fast.resources.tables import TableView

# An address space by its network_name ("" = all unnamed networks), or None: find out anew which
# networks there are.
Key = str | None

_DOUBT_SECONDS = 5.0


class Spaces:
    """The state of one term of leadership.

    `enqueue` asks for work on a key in so many seconds; `served` is told of each new set of
    networks.
    """

    def __init__(
        self,
        world: World,
        units: Units,
        tables: Tables,
        shares: Shares,
        settler: Settler,
        orphans: Orphans,
        shared: SharedPools,
        overlaps: Overlaps,
        report: Reporter,
        enqueue: Callable[[Key, float], None],
        served: Callable[[Resolution], None],
    ) -> None:
        self._world = world
        self._units = units
        self._tables = tables
        self._shares = shares
        self._settler = settler
        self._orphans = orphans
        self._shared = shared
        self._overlaps = overlaps
        self._report = report
        self._enqueue_after = enqueue
        self._served = served
        self._resolution = Resolution()
        self._readings: dict[str, tuple[AttachmentView, claims.Reading]] = {}
        self._stopping = False
        self._busy = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    @property
    def resolution(self) -> Resolution:
        """The networks that are served at present."""
        return self._resolution

    async def reconcile(self, key: Key) -> Done | RetryAfter:
        """Bring one address space to its plan; raises what should be tried again."""
        if self._stopping:
            return Done()
        self._busy += 1
        self._quiet.clear()
        try:
            if key is None:
                self._resolve()
                return Done()
            return await self._settle(key)
        finally:
            self._busy -= 1
            if not self._busy:
                self._quiet.set()

    async def stop(self) -> None:
        """Begin nothing more, and wait for what is under way."""
        self._stopping = True
        await self._quiet.wait()

    # What changed -> whom to look at.

    def networks_changed(self) -> None:
        """A NAD, or the name or range of a table, has changed."""
        self._enqueue(None)

    def nodes_changed(self) -> None:
        """A node came or went."""
        for space in self._known():
            self._enqueue(space)

    def labels_changed(self, old: NodeView, new: NodeView) -> None:
        """A node has other labels."""
        for space, networks in self._resolution.spaces.items():
            if any(self._units.relabelled(one, old, new) for one in networks):
                self._enqueue(space)

    def pool_used(self, old: PoolView | None, new: PoolView | None) -> None:
        """Addresses may have come into a pool, or gone."""
        wait = self._shares.used(old, new)
        if wait is not None and new is not None:
            self._enqueue_after(new.space, wait)

    def pool_changed(self, pool: PoolView) -> None:
        """A pool has changed."""
        self._enqueue(pool.space)
        for space in self._world.blocking.pop(pool.name, ()):
            self._enqueue(space)
        if pool.stem:
            for space in self._known():
                if pool.may_be_in(space):
                    self._enqueue(space)

    def table_changed(self, table: TableView) -> None:
        """A table was changed by somebody else."""
        bound = self._resolution.bound(table.name)
        self._enqueue(table.space if bound is None else bound.space)

    def _enqueue(self, key: Key) -> None:
        self._enqueue_after(key, 0.0)

    def _known(self) -> set[str]:
        return set(self._resolution.spaces) | self._world.latest_tables.spaces()

    # The work.

    def begin(self) -> None:
        """Find the networks and look at every space that has anything."""
        self._resolve()
        for space in (
            self._known() | set(self._resolution.pools) | self._world.latest_pools.spaces()
        ):
            self._enqueue(space)

    def _resolve(self) -> None:
        attachments = self._world.attachments.values()
        known = self._readings
        self._readings = {}
        for nad in attachments:
            reading = known.get(nad.key)
            if reading is None or reading[0] is not nad:
                reading = (nad, claims.read(nad))
            self._readings[nad.key] = reading
        before = self._resolution
        self._resolution = resolve(
            [reading for _, reading in self._readings.values()],
            self._tables_seen(),
        )
        self._shares.serve(one for space in self._resolution.spaces.values() for one in space)
        self._served(self._resolution)
        for space in before.differing(self._resolution):
            self._enqueue(space)
        alive = frozenset(nad.uid for nad in attachments)
        tables = {table.name for table in self._world.all_tables()}
        wanted = {one.table for space in self._resolution.spaces.values() for one in space}
        self._report.problems(self._resolution.problems, alive, tables | wanted)

    async def _condemn(self, unit: Unit) -> Exception | None:
        table = unit.refreshed(self._world).table
        try:
            if table is not None:
                await self._tables.condemn(table, unit.unreadable)
        except ApiError as error:
            return error
        return None

    def _tables_seen(self) -> list[TableSeen]:
        homes = self._world.latest_pools.homes()
        return [_seen(table, homes.get(table.network, set())) for table in self._world.all_tables()]

    def _departures(self, space: str, units: list[Unit]) -> int:
        tables = self._world.latest_tables
        entries = sum(tables.departures(unit.table_name) for unit in units)
        return entries + self._world.latest_pools.departures(space)

    async def _settle(self, space: str) -> Done | RetryAfter:
        await self._orphans.correct_doubts(_DOUBT_SECONDS)
        if not space:
            self._report.unreadable(self._world.latest_pools.unreadable())
        # Both from the same moment: networks in slice mode know of the pools that open after them.
        needs = self._shared.needs(space, self._resolution)
        units = informed(
            self._units.of(space, self._resolution), needs.networks, self._world.latest_pools
        )
        before = self._departures(space, units)
        pauses: list[float] = []
        failure: Exception | None = None
        for unit in units:
            if unit.unreadable:
                self._report.trouble(unit, _unreadable_text(unit))
                failure = failure or await self._condemn(unit)
                continue
            try:
                again = await self._settler.settle(unit, units)
            except Exception as error:  # noqa: BLE001 -- one network must not stop the others
                failure = failure or error
            else:
                pauses += [] if again is None else [again]
            if unit.table is not None and self._world.table(unit.table_name) is None:
                # Its name is free: somebody may have waited for it.
                self._enqueue(None)
                if unit.wanted is None:
                    self._units.forget(unit.table_name)
        try:
            await self._shared.settle(needs, silent(unit.refreshed(self._world) for unit in units))
            await self._overlaps.sweep(space, needs.networks)
        except (ApiError, OverlapError) as error:
            failure = failure or error
        await self._orphans.retire(space, units)
        if self._departures(space, units) != before:
            # What one network left, another may have waited for; nobody else will say so.
            self._enqueue(space)
        if failure is not None:
            raise failure
        if self._orphans.doubts():
            pauses.append(_DOUBT_SECONDS)
        return RetryAfter(min(pauses)) if pauses else Done()


def _seen(table: TableView, homes: set[str]) -> TableSeen:
    """`homes` are the address spaces in which the network has pools."""
    if table.unreadable or not table.version:
        return TableSeen(table.name, None)
    whole = ranges.Range(table.version, table.base, table.prefix, 1, 0)
    # Where pools are only in other spaces, somebody edited the table and not the network.
    known = table.space_recorded and (not homes or table.space in homes)
    return TableSeen(table.name, whole, table.space if known else None)


def _unreadable_text(unit: Unit) -> str:
    return (
        f"NodeSlicePool {unit.table_name} cannot be read and is left alone ({unit.unreadable}):"
        " correct it, or delete it to have it rebuilt from the pools"
    )
