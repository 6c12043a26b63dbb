"""Tells people what happened: log lines, events and counters, all on change only."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from whereabouts_fast.controller import changes
from whereabouts_fast.controller.announce import (
    Once,
    Reference,
    SliceEvents,
    Statement,
    Tell,
)
from whereabouts_fast.controller.claims import Problem, Source
from whereabouts_fast.controller.conditions import waiting_text
from whereabouts_fast.controller.reasons import Reason
from whereabouts_fast.controller.units import Unit
from whereabouts_fast.ipam import address
from whereabouts_fast.ipam.holdings import Answer, Plan
from whereabouts_fast.kube.resource import IPPOOLS, NADS, NODESLICEPOOLS, Resource
from whereabouts_fast.observability import logs
from whereabouts_fast.resources.pools import PoolView
from whereabouts_fast.resources.tables import TableView


class Counters(Protocol):
    """The part of the metrics that this module feeds."""

    def slices_assigned(self, network: str, reason: str, count: int) -> None:
        """Count slices given to nodes."""

    def slices_reclaimed(self, network: str, reason: str, count: int) -> None:
        """Count slices that became free."""


class Reporter:
    """One term's reports; what was told in an earlier term may be told once more."""

    def __init__(self, tell: Tell, counters: Counters, events: SliceEvents | None = None) -> None:
        self._tell = tell
        self._counters = counters
        self._events = events or SliceEvents(tell)
        self._once = Once()
        self._spent: dict[str, frozenset[str]] = {}
        self._once_pools = Once()
        self._log = logs.get("slices")

    def problems(
        self, problems: tuple[Problem, ...], alive: frozenset[str], tables: set[str]
    ) -> None:
        """Tell the owners of NADs what is wrong, once for each NAD and wording.

        `alive` are the uids of all NADs, `tables` the names of all tables; what was told of others
        is forgotten.
        """
        by_source: dict[Source, set[Statement]] = {}
        for problem in problems:
            by_source.setdefault(problem.source, set()).add((problem.reason, problem.message))
        quiet = alive - {source.uid for source in by_source}
        for uid in quiet:
            self._once.news(uid, frozenset())
        for source, statements in by_source.items():
            for reason, message in sorted(self._once.news(source.uid, frozenset(statements))):
                self._log.error("Found fault", network=source.key, reason=reason, err=message)
                self._tell(attachment(source), reason, message)
        keys = alive | {_TABLE + name for name in tables}
        self._once.keep(keys.__contains__)

    def trouble(self, unit: Unit, message: str) -> None:
        """Tell why a network cannot be served, once; "" withdraws it."""
        key = _TABLE + unit.table_name
        statements = frozenset([(Reason.INVALID, message)]) if message else frozenset()
        for reason, text in self._once.news(key, statements):
            self._log.error("Found trouble with network", network=unit.table_name, err=text)
            self._tell(_about(unit), reason, text)

    def unreadable(self, pools: Iterable[PoolView]) -> None:
        """Tell of all pools that cannot be read, once for each and wording."""
        bad = {pool.uid: pool for pool in pools}
        for uid, pool in bad.items():
            text = f"IPPool {pool.name} cannot be read and is left alone ({pool.problem})"
            for reason, message in self._once_pools.news(
                uid, frozenset([(Reason.UNREADABLE, text)])
            ):
                self._log.error("Could not read pool", pool=pool.name, err=pool.problem)
                self._tell(
                    pool_reference(pool),
                    reason,
                    message + ": correct it or delete it",
                )
        self._once_pools.keep(bad.__contains__)

    def written(
        self,
        unit: Unit,
        table: TableView,
        pooled: frozenset[tuple[str, int, int]],
        present: Callable[[str], bool],
    ) -> None:
        """Tell what a written table changed.

        `pooled` are the (node, base, prefix) of pools, where there was no table; `present` says
        whether a node takes part.
        """
        done = changes.between(
            None if unit.table is None else unit.table.held,
            table.held,
            lambda held: (held.node, held.base, held.prefix) in pooled,
            lambda held: unit.cidr(held.base, held.prefix),
        )
        about = reference(table)
        for reason, slices in done.assigned.items():
            self._counters.slices_assigned(table.name, reason, len(slices))
            self._say("Assigned slices", table, slices, reason=reason)
        if done.drained:
            self._say("Began draining slices", table, done.drained)
        reclaimed: dict[str, dict[str, str]] = {}
        for cidr, node in done.reclaimed.items():
            reason = _reclaim_reason(unit, cidr, node, present)
            reclaimed.setdefault(reason, {})[cidr] = node
        for reason, slices in reclaimed.items():
            self._counters.slices_reclaimed(table.name, reason, len(slices))
            self._say("Reclaimed slices", table, slices, reason=reason)
        self._events.assigned(about, done.all_assigned)
        self._events.reclaimed(about, done.reclaimed)

    def ended(self, unit: Unit) -> None:
        """Tell that a network's table is gone, and with it the last of its slices."""
        if unit.table is None:
            return
        slices = {unit.cidr(held.base, held.prefix): held.node for held in unit.table.held}
        self._events.satisfied(unit.table_name)
        self._spent.pop(unit.table_name, None)
        self._events.reclaimed(reference(unit.table), slices)
        self._log.info("Deleted slice table", network=unit.table_name, slices=len(slices))

    def waiting(self, unit: Unit, waiting: tuple[str, ...], before: int) -> None:
        """Warn about nodes that wait, when their number changed from `before`."""
        if not waiting:
            self._events.satisfied(unit.table_name)
        elif len(waiting) != before:
            text = waiting_text(waiting)
            self._log.warning("Ran out of slices", network=unit.table_name, waiting=len(waiting))
            message = (
                f"network {unit.network} {unit.range.cidr} has no free slice of /{unit.size}:"
                f" {text}"
            )
            self._events.exhausted(_about(unit), unit.table_name, message)

    def spent(self, unit: Unit, plan: Plan) -> None:
        """Warn about nodes that wanted more and got nothing, once until they have room again."""
        told = self._spent.get(unit.table_name, frozenset()) & plan.spent
        refused = {
            action.pool.node: action.refused
            for action in plan.actions
            if isinstance(action, Answer) and action.refused
        }
        news = {node: reason for node, reason in refused.items() if node not in told}
        for node, reason in news.items():
            self._log.warning(
                "Ran out of addresses", network=unit.table_name, node=node, err=reason
            )
        if news:
            what = f"network {unit.network} {unit.range.cidr}"
            self._events.spent(_about(unit), unit.table_name, what, news)
        self._spent[unit.table_name] = told | news.keys()

    def flush(self) -> None:
        """Tell what is still gathered, at the end of a term."""
        self._events.flush()

    def _say(self, message: str, table: TableView, slices: dict[str, str], **more: object) -> None:
        if len(slices) == 1:
            ((cidr, node),) = slices.items()
            more.update(slice=cidr, node=node)
        else:
            more.update(count=len(slices))
        self._log.info(message, network=table.name, **more)


_TABLE = "table/"


def _reclaim_reason(unit: Unit, cidr: str, node: str, present: Callable[[str], bool]) -> str:
    if unit.wanted is None:
        return "network_gone"
    if not present(node):
        return "node_gone"
    _, base, _ = address.parse_cidr(cidr)
    return "idle" if unit.range.base <= base <= unit.range.end else "network_changed"


def attachment(source: Source) -> Reference:
    """Return the object reference of a NAD."""
    return _reference(NADS, source)


def reference(table: TableView) -> Reference:
    """Return the object reference of a slice table."""
    return _reference(NODESLICEPOOLS, table)


def pool_reference(pool: PoolView) -> Reference:
    """Return the object reference of a pool."""
    return _reference(IPPOOLS, pool)


def _reference(resource: Resource, one: Source | TableView | PoolView) -> Reference:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "namespace": one.namespace,
        "name": one.name,
        "uid": one.uid,
    }


def _about(unit: Unit) -> Reference:
    if unit.wanted is not None:
        return attachment(unit.wanted.sources[0])
    return reference(unit.table) if unit.table is not None else {}
