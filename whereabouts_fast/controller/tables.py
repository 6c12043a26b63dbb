"""Compare-and-swap of slice tables."""

from __future__ import annotations

from collections.abc import Callable, Collection

from whereabouts_fast.controller.conditions import conditions, unreadable
from whereabouts_fast.controller.units import Unit
from whereabouts_fast.controller.world import World
from whereabouts_fast.controller.writes import Body, Writes, Written
from whereabouts_fast.ipam.findings import Finding
from whereabouts_fast.ipam.holdings import Plan
from whereabouts_fast.kube.client import Client
from whereabouts_fast.kube.errors import Conflict
from whereabouts_fast.kube.resource import NODESLICEPOOLS
from whereabouts_fast.resources import tables as encoding
from whereabouts_fast.resources.tables import TableView

# Somewhat below the 1.5 MiB at which etcd refuses a request.
_SERVER_LIMIT = 1_400_000


class OutdatedError(Exception):
    """The table was changed by somebody else; what it is now will be planned from."""


class Tables:
    """The slice tables of one term of leadership; `found`: what lastingly does not fit of each."""

    def __init__(
        self,
        client: Client,
        world: World,
        written: Written,
        now: Callable[[], float],
        found: Callable[[str], Collection[Finding]] = lambda _: (),
    ) -> None:
        self._world = world
        self._writes = Writes(
            client,
            NODESLICEPOOLS,
            world.namespace,
            world.latest_tables.decode,
            cache=world.tables,
            recent=world.recent_tables,
            written=written,
        )
        self._now = now
        self._found = found

    def encode(
        self, unit: Unit, plan: Plan, waiting: tuple[str, ...], *, dealing: bool = True
    ) -> Body | None:
        """Return the object that a plan amounts to, None for none. Raises TableTooLargeError.

        A plan that deals nothing new may use what is left up to the server's own limit: whatever
        was recorded must be able to drain.
        """
        if plan.table is None:
            return None
        return encoding.encode_table(
            unit.table,
            namespace=self._world.namespace,
            name=unit.table_name,
            network=unit.network,
            network_name=unit.space,
            version=unit.range.version,
            cidr=unit.range.cidr,
            size=unit.size,
            held=plan.table,
            figures=plan.figures,
            waiting=len(waiting),
            conditions=conditions(unit, plan, waiting, self._found(unit.table_name)),
            now=self._now(),
            limit=encoding.SIZE_LIMIT if dealing else _SERVER_LIMIT,
        )

    async def write(self, unit: Unit, body: Body | None) -> TableView | None:
        """Make the table read so, if it is as the unit has it; None when there was nothing to do.

        Without a body the table is deleted. Raises OutdatedError.
        """
        if body is None:
            if unit.table is not None:
                await self._delete(unit.table)
            return None
        if unit.table is not None and not encoding.differs(unit.table, body):
            return None
        return await self._store(unit, body)

    async def condemn(self, table: TableView, problem: str) -> None:
        """Say on a table that it cannot be read; nothing else of it is touched."""
        patch = encoding.conditions_patch(table, unreadable(problem), self._now())
        if patch:
            await self._writes.patch(table.name, patch)

    async def read(self, name: str) -> TableView | None:
        """Read a table live, and have the next plan see it as it is."""
        return await self._writes.look(name)

    async def _store(self, unit: Unit, body: Body) -> TableView:
        if unit.table is not None:
            table = await self._writes.replace(unit.table_name, body)
            if table is None:
                raise OutdatedError
            return table
        try:
            return await self._writes.create(body)
        except Conflict:
            await self.read(unit.table_name)
            raise OutdatedError from None

    async def _delete(self, table: TableView) -> None:
        if not await self._writes.delete(table.name, table):
            raise OutdatedError
