"""What can be wrong between tables, pools and reservations, each said so that somebody can act.

Nothing here repairs: most of it the controller puts right by itself, in an order that never takes
an address from a live pod, and what it must not touch is left and told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from whereabouts_fast.ipam import address
from whereabouts_fast.ipam.holdings import ACTIVE, Held
from whereabouts_fast.ipam.leaks import Allocation
from whereabouts_fast.ipam.overlap import Holder

ERROR = "error"
WARNING = "warning"
_SHOWN = 3

# Reason -> severity and meaning; an error is what only a person can end, or what may cost a pod.
REASONS = {
    "Unreadable": (ERROR, "the object, or an entry of it, cannot be read and is left alone"),
    "EntryTwice": (WARNING, "a table lists the same slice of the same node twice"),
    "SliceTwice": (ERROR, "a table holds two slices that share addresses"),
    "EntryWithoutPool": (WARNING, "a table gives a slice to a node that has no pool for it"),
    "PoolWithoutEntry": (WARNING, "no table lists the slice of a node's pool"),
    "AllocationOutsideRange": (ERROR, "a pool records addresses outside its range"),
    "MalformedAllocation": (ERROR, "a pool has entries that are no allocation"),
    "AddressTwice": (ERROR, "two pools that must not give an address twice both record it"),
    "AllocationWithoutReservation": (WARNING, "an address of pools that overlap is not reserved"),
    "ReservationOfAnother": (
        ERROR,
        "an address is reserved for another pod than its own",
    ),
    "ReservationWithoutAllocation": (WARNING, "an address is reserved that no pool records"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that does not fit; `reason` is a key of REASONS.

    `kind` and `name` are the object that it is about, `network` the NodeSlicePool or shared pool
    whose network it concerns, "" when that is unknown.
    """

    kind: str
    name: str
    reason: str
    message: str
    remedy: str
    network: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.message}; {self.remedy}"

    @property
    def severity(self) -> str:
        """ERROR or WARNING."""
        return REASONS[self.reason][0]


@dataclass(frozen=True, slots=True)
class Table:
    """A NodeSlicePool; `space` is None where it does not say its address space.

    In that case nobody knows the names of its pools, and its entries are not compared with any.
    `repeated` are entries that stand in it a second time, `problem` is "" unless it could not be
    read.
    """

    name: str
    space: str | None
    network: str
    version: int
    base: int
    prefix: int
    held: tuple[Held, ...]
    repeated: tuple[Held, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Pool:
    """An IPPool; `node` is "" when all nodes share it.

    `malformed` counts entries that are none. `exact`: address space, network and node are surely
    known. `problem` is "" unless it could not be read.
    """

    name: str
    space: str
    network: str
    node: str
    version: int
    base: int
    prefix: int
    overlapping: bool = False
    exact: bool = True
    entries: tuple[Allocation, ...] = ()
    malformed: int = 0
    problem: str = ""

    @property
    def size(self) -> int:
        """How many addresses its range has."""
        return 1 << (address.width(self.version) - self.prefix)

    @property
    def cidr(self) -> str:
        """The text of its range."""
        return address.cidr_text(self.version, self.base, self.prefix)


def of_table(table: Table) -> Iterator[Finding]:
    """Yield what is wrong with a table in itself."""
    if table.problem:
        yield _table(
            table,
            "Unreadable",
            table.problem,
            "correct it, or delete it to have it rebuilt from the pools",
        )
    for held in table.repeated:
        yield _table(
            table,
            "EntryTwice",
            f"{_slice(table, held)} is listed twice",
            "none needed: the controller drops the second entry",
        )
    for one, other in _sharing(table):
        yield _table(
            table,
            "SliceTwice",
            f"{_slice(table, one)} and {_slice(table, other)} share addresses",
            "none needed while one of them has no pool: that one drains; else delete the pods of"
            " the one that does not belong there",
        )


def of_entry(table: Table, held: Held, pool: str) -> Iterator[Finding]:
    """Yield what is wrong with an entry whose pool, of this name, does not exist."""
    if held.state == ACTIVE:
        yield _table(
            table,
            "EntryWithoutPool",
            f"{_slice(table, held)} has no IPPool {pool}",
            "none needed: the controller creates it, and its log says what keeps it from that",
        )


def of_pool(pool: Pool, listed: bool) -> Iterator[Finding]:
    """Yield what is wrong with a pool in itself; `listed`: a table has an entry for it."""
    if pool.problem:
        yield _pool(pool, "Unreadable", pool.problem, "correct it or delete it")
        return
    if pool.node and pool.exact and not listed:
        yield _pool(
            pool,
            "PoolWithoutEntry",
            f"no NodeSlicePool lists {pool.cidr} of node {pool.node}",
            "none needed: the controller enters it or, once it is empty, deletes it; where its"
            " addresses are another's, delete its pods",
        )
    outside = sorted(one.offset for one in pool.entries if not 0 <= one.offset < pool.size)
    if outside:
        yield _pool(
            pool,
            "AllocationOutsideRange",
            f"allocations {_some(outside)} are outside of {pool.cidr}",
            "remove them from spec.allocations once their pods are gone",
        )
    malformed = pool.malformed + sum(not (one.id and one.podref) for one in pool.entries)
    if malformed:
        yield _pool(
            pool,
            "MalformedAllocation",
            f"{malformed} entries of spec.allocations have no number, no container id or no pod",
            "remove them once nothing uses their addresses",
        )


def of_address(
    text: str, holders: Iterable[tuple[Pool, Allocation]], reservation: str, held_for: Holder | None
) -> Iterator[Finding]:
    """Yield what is wrong with an address that pools record or a reservation names.

    `text` is the address, `reservation` the name of its reservation, `held_for` whose that is.
    """
    holders = list(holders)
    for pool, entry in holders:
        others = [(p, e) for p, e in holders if p is not pool and _exclusive(pool, p)]
        for other, theirs in others[:1]:
            yield _pool(
                pool,
                "AddressTwice",
                f"{text} of pod {entry.podref} is also in IPPool {other.name}, of pod"
                f" {theirs.podref}",
                "delete one of the pods; where both are one pod, delete it",
            )
    marked = [(pool, entry) for pool, entry in holders if pool.overlapping]
    if held_for is None:
        for pool, entry in marked[:1]:
            yield _pool(
                pool,
                "AllocationWithoutReservation",
                f"{text} of pod {entry.podref} has no reservation {reservation}",
                "none needed: the controller reserves it",
            )
    elif not holders:
        yield Finding(
            "OverlappingRangeIPReservation",
            reservation,
            "ReservationWithoutAllocation",
            f"no IPPool records the address for pod {held_for.podref}",
            "none needed: the controller removes it once its pod is gone",
        )
    elif not any(held_for.agrees(entry.holder) for _, entry in holders):
        pool, entry = holders[0]
        yield _pool(
            pool,
            "ReservationOfAnother",
            f"{text} of pod {entry.podref} is reserved by {reservation} for pod {held_for.podref}",
            "delete one of the pods, or the reservation once its pod is gone",
        )


def summary(found: Iterable[Finding]) -> str:
    """Say the first of some findings, errors first, and how many there are."""
    texts = sorted((one.severity, str(one)) for one in found)
    more = f" (and {len(texts) - _SHOWN} more)" if len(texts) > _SHOWN else ""
    return ". ".join(text for _, text in texts[:_SHOWN]) + more


def _exclusive(one: Pool, other: Pool) -> bool:
    related = not one.network or not other.network or one.network == other.network
    return related or (one.overlapping and other.overlapping)


def _sharing(table: Table) -> Iterator[tuple[Held, Held]]:
    # Of two CIDRs that share an address one holds the other: a sorted walk keeps those around it.
    width = address.width(table.version) if table.version else 0
    around: list[Held] = []
    for held in sorted(table.held, key=lambda h: (h.base, h.prefix, h.node)):
        while around and around[-1].base + (1 << (width - around[-1].prefix)) <= held.base:
            around.pop()
        if around:
            yield around[-1], held
        around.append(held)


def _slice(table: Table, held: Held) -> str:
    return f"{address.cidr_text(table.version, held.base, held.prefix)} of node {held.node}"


def _table(table: Table, reason: str, message: str, remedy: str) -> Finding:
    return Finding("NodeSlicePool", table.name, reason, message, remedy)


def _pool(pool: Pool, reason: str, message: str, remedy: str) -> Finding:
    return Finding("IPPool", pool.name, reason, message, remedy)


def _some(values: Iterable[object]) -> str:
    texts = [str(value) for value in values]
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return ", ".join(texts[:_SHOWN]) + more
