"""Brings one network to its plan: the table first, then the pools, until nothing is left to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from whereabouts_fast.controller.bounded import each
from whereabouts_fast.controller.conditions import overlaps
from whereabouts_fast.controller.overlaps import Overlaps
from whereabouts_fast.controller.plans import Plans
from whereabouts_fast.controller.pools import Pools
from whereabouts_fast.controller.report import Reporter
from whereabouts_fast.controller.shares import Shares
from whereabouts_fast.controller.tables import OutdatedError, Tables
from whereabouts_fast.controller.units import Unit, Units
from whereabouts_fast.controller.world import World
from whereabouts_fast.controller.writes import Body
from whereabouts_fast.ipam import slices
from whereabouts_fast.ipam.holdings import (
    ACTIVE,
    Action,
    Answer,
    Close,
    Confirm,
    Create,
    Delete,
    Held,
    Open,
    Plan,
    PoolSeen,
    key,
)
from whereabouts_fast.kube.errors import ApiError
from whereabouts_fast.resources.pools import PoolView
from whereabouts_fast.resources.tables import TableTooLargeError, TableView

A = TypeVar("A")
_Key = tuple[str, int, int]

# A slice passes through three or four; more means that somebody else writes too.
_ROUNDS = 12
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class _Draft:
    plan: Plan
    waiting: tuple[str, ...]
    body: Body | None
    pools: tuple[PoolSeen, ...]
    unnamable: list[str]


class UnsettledError(Exception):
    """A network changed as fast as it was worked on; the next attempt comes after a pause."""


class Settler:
    """Settles networks; one instance per term of leadership."""

    def __init__(
        self,
        world: World,
        units: Units,
        shares: Shares,
        plans: Plans,
        tables: Tables,
        pools: Pools,
        overlaps: Overlaps,
        report: Reporter,
        *,
        in_flight: int,
        now: Callable[[], float],
    ) -> None:
        self._world = world
        self._units = units
        self._shares = shares
        self._plans = plans
        self._tables = tables
        self._pools = pools
        self._overlaps = overlaps
        self._report = report
        self._in_flight = in_flight
        self._now = now

    async def settle(self, unit: Unit, space: Iterable[Unit]) -> float | None:
        """Work until the plan asks for nothing more; `space` are all units of the address space.

        Returns the seconds until time alone changes something, or None. Raises UnsettledError, and
        the first ApiError of those that could not be worked around.
        """
        others = [other for other in space if other.table_name != unit.table_name]
        gone: frozenset[Held] = frozenset()
        listed = False
        done: tuple[Action, ...] = ()
        for _ in range(_ROUNDS):
            unit = unit.refreshed(self._world)
            if unit.table is None:
                if unit.wanted is None:
                    return None
                if not listed:
                    # The table is rebuilt from what exists, not from what a cache says exists.
                    await self._pools.list_live(unit)
                    listed = True
            others = [other.refreshed(self._world) for other in others]
            try:
                plan = await self._plan_and_write(unit, others, gone)
            except OutdatedError:
                continue
            if not plan.actions:
                return plan.again
            if plan.actions == done:
                raise UnsettledError(f"network {unit.table_name}: {done[0]} changed nothing")
            done = plan.actions
            gone |= await self._perform(unit, plan)
        raise UnsettledError(f"network {unit.table_name} did not settle in {_ROUNDS} rounds")

    async def _plan_and_write(self, unit: Unit, others: list[Unit], gone: frozenset[Held]) -> Plan:
        draft = self._draft(unit, others, gone, None)
        trouble = ""
        if isinstance(draft, str):
            # Without numbers, which would make it news each time.
            trouble = (
                f"NodeSlicePool {unit.table_name} cannot record more slices, it would be over the"
                " limit for objects: split the network into several"
            )
            draft = self._fitting(unit, others, gone)
        blocked = self._blocked(unit, draft.plan)
        draft = replace(draft, plan=_without(draft.plan, blocked))
        table = await self._tables.write(unit, draft.body)
        troubles = (
            trouble,
            _unnamable_text(draft.unnamable),
            _blocked_text(blocked),
            _disputed_text(unit, draft),
        )
        self._report.trouble(unit, "; ".join(filter(None, troubles)))
        if draft.body is None:
            self._report.ended(unit)
            self._plans.forget(unit)
        if table is not None:
            self._tell(unit, table, draft.waiting, draft.pools)
        self._shares.planned(unit.table_name, draft.plan.stuck)
        self._report.spent(unit, draft.plan)
        return draft.plan

    def _blocked(self, unit: Unit, plan: Plan) -> dict[Action, str]:
        """Return what cannot be created, because something else has the name, with that name."""
        blocked: dict[Action, str] = {}
        for action in _only(plan, Create):
            name = unit.pool_name(*key(action))
            if self._world.pool(name) is not None:
                blocked[action] = name
                self._world.blocking.setdefault(name, set()).add(unit.space)
        return blocked

    def _draft(
        self, unit: Unit, others: list[Unit], gone: frozenset[Held], newcomers: int | None
    ) -> _Draft | str:
        """Plan for those who hold slices and so many others; why not, if that is too large."""
        if newcomers is None:
            made = self._plans.make(unit, others, gone)
            plan, pools, unnamable = made.plan, made.pools, made.unnamable
            waiting = plan.waiting
        else:
            observed = self._units.observe(unit, others, gone, newcomers)
            plan, pools = slices.plan(observed, self._now()), observed.pools
            unnamable = self._units.unnamable(unit)
            served = {held.node for held in plan.table or () if held.state == ACTIVE}
            waiting = tuple(n for n in self._units.in_order(unit) if n not in served)
        try:
            body = self._tables.encode(unit, plan, waiting, dealing=newcomers != 0)
        except TableTooLargeError as error:
            return str(error)
        return _Draft(plan, waiting, body, pools, unnamable)

    def _fitting(self, unit: Unit, others: list[Unit], gone: frozenset[Held]) -> _Draft:
        """Plan for as many nodes as a table can record; the others wait."""
        least = self._draft(unit, others, gone, 0)
        if isinstance(least, str):
            raise UnsettledError(least)
        low, high = 0, len(self._world.nodes_seen())
        while high - low > 1:
            middle = (low + high) // 2
            draft = self._draft(unit, others, gone, middle)
            if isinstance(draft, str):
                high = middle
            else:
                low, least = middle, draft
        return least

    def _tell(
        self,
        unit: Unit,
        table: TableView,
        waiting: tuple[str, ...],
        pools: Iterable[PoolSeen],
    ) -> None:
        rebuilt = unit.table is None
        pooled = frozenset((pool.node, pool.base, pool.prefix) for pool in pools if rebuilt)

        def present(name: str) -> bool:
            return self._units.takes_part(unit, name)

        self._report.written(unit, table, pooled, present)
        status = {} if unit.table is None else unit.table.raw.get("status") or {}
        before = status.get("waiting", 0)
        self._report.waiting(unit, waiting, before if isinstance(before, int) else 0)

    async def _perform(self, unit: Unit, plan: Plan) -> frozenset[Held]:
        """Do all actions; failures of some do not stop the others. Returns what is gone."""
        failures: list[ApiError] = []

        async def answer(action: Answer) -> None:
            await self._answer(unit, action)

        async def close(action: Close) -> None:
            if (pool := self._world.pool(action.pool.name)) is not None:
                await self._pools.close(pool)

        async def delete(action: Delete) -> None:
            if (pool := self._world.pool(action.pool.name)) is not None:
                await self._pools.delete(pool)

        gone: set[Held] = set()

        async def confirm(action: Confirm) -> None:
            if await self._pools.gone(unit, action.held):
                gone.add(action.held)

        # Somebody waits for each answer: those that need nothing else go first.
        failures += await each(_only(plan, Answer), answer, self._in_flight)
        failures += await each(_only(plan, Close), close, self._in_flight)
        failures += await each(_only(plan, Delete), delete, self._in_flight)
        failures += await each(_only(plan, Confirm), confirm, self._in_flight)
        failures += await self._provide(unit, _only(plan, Create), _only(plan, Open))
        failures += await each(_only(plan, Answer), answer, self._in_flight)
        if failures and not gone:
            raise failures[0]
        return frozenset(gone)

    async def _answer(self, unit: Unit, action: Answer) -> None:
        """Answer what a pool wants, with another pool only once that is open."""
        pool = self._world.pool(action.pool.name)
        if pool is None or pool.closed or pool.want is None:
            return
        if action.more is None:
            await self._pools.answer(pool, refused=action.refused)
            return
        more = self._world.pool(unit.pool_of(action.more))
        if more is not None and not more.closed:
            await self._pools.answer(pool, more=more.name)

    async def _provide(
        self, unit: Unit, creates: list[Create], opens: list[Open]
    ) -> list[ApiError]:
        """Create pools closed, read the table live once, open what it still gives."""
        ready: list[tuple[_Key, PoolView]] = []
        for action in opens:
            pool = self._world.pool(action.pool.name)
            if pool is not None and pool.closed:
                ready.append((key(action.pool), pool))

        async def create(action: Create) -> None:
            if (pool := await self._pools.create(unit, action)) is not None:
                ready.append((key(action), pool))

        failures = await each(creates, create, self._in_flight)
        if not ready:
            return failures
        live = await self._tables.read(unit.table_name)
        asked = {slice_ for slice_, _ in ready}
        held = live.held if live else ()
        given = {key(one) for one in held if one.state == ACTIVE and key(one) in asked}
        careful = bool(unit.overlapping) or overlaps(live)
        due: list[PoolView] = []

        async def settle(one: tuple[_Key, PoolView]) -> None:
            slice_, pool = one
            if slice_ not in given:
                await self._pools.delete(pool)
            elif careful:
                due.append(pool)
            else:
                await self._pools.open(pool)

        failures += await each(ready, settle, self._in_flight)
        if due:
            await self._overlaps.settle(unit.space, unit.overlapping, due)
        return failures


def _only(plan: Plan, kind: type[A]) -> list[A]:
    return [action for action in plan.actions if isinstance(action, kind)]


def _without(plan: Plan, blocked: dict[Action, str]) -> Plan:
    """Leave out what cannot be created, and refuse those who would wait for it."""
    if not blocked:
        return plan
    names = {key(action): name for action, name in blocked.items() if isinstance(action, Create)}
    actions: list[Action] = []
    for action in plan.actions:
        if isinstance(action, Answer) and action.more is not None and key(action.more) in names:
            name = names[key(action.more)]
            text = f"IPPool {name} is unreadable or of another network; correct or delete it"
            actions.append(Answer(action.pool, None, text))
        elif action not in blocked:
            actions.append(action)
    return replace(plan, actions=tuple(actions))


def _blocked_text(blocked: dict[Action, str]) -> str:
    if not blocked:
        return ""
    names = ", ".join(list(blocked.values())[:_SHOWN])
    return (
        "nodes get no pool, because there are IPPools of these names that are unreadable or of"
        f" another network: {names}; correct or delete them"
    )


def _disputed_text(unit: Unit, draft: _Draft) -> str:
    if not draft.plan.disputed:
        return ""
    slices_ = [unit.cidr(held.base, held.prefix) for held in draft.plan.disputed]
    rivals = {
        pool.name
        for held in draft.plan.disputed
        for pool in draft.pools
        if key(pool) != key(held)
        and pool.base >> (unit.width - min(pool.prefix, held.prefix))
        == held.base >> (unit.width - min(pool.prefix, held.prefix))
    }
    by = f"IPPools {', '.join(sorted(rivals)[:_SHOWN])} claim" if rivals else "others claim"
    return (
        f"slices stay closed, because {by} their addresses: {', '.join(slices_[:_SHOWN])};"
        " correct the table, or delete the pool that does not belong there once it is empty"
    )


def _unnamable_text(nodes: list[str]) -> str:
    if not nodes:
        return ""
    return (
        f"{len(nodes)} nodes get no slice, because the names of their pools would be too long:"
        f" {nodes[0]}; use shorter node names or a shorter network_name"
    )
