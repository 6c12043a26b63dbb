"""A model of the API server and of controllers that execute slice plans step by step.

The server checks preconditions as the real one does. A controller yields before each request, so
that a test may let another controller, the plugins or the clock go first, or kill it there. Its
view of each kind is as old as its last refresh, except that it remembers its own writes.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count

from whereabouts_fast.ipam.holdings import (
    Answer,
    Close,
    Confirm,
    Create,
    Delete,
    Held,
    NodeSeen,
    Observed,
    Open,
    Plan,
    PoolSeen,
)
from whereabouts_fast.ipam.ranges import Range
from whereabouts_fast.ipam.slices import gives, plan

NETWORK = "blue"
COOLDOWN = 60.0
IDLE = 200.0


class RefusedError(Exception):
    """A precondition failed, the object is not there, or one is there already."""


@dataclass(frozen=True)
class Pool:
    uid: int
    version: int
    node: str
    base: int
    prefix: int
    closed: bool = True
    used: frozenset[int] = frozenset()
    # What its node asks for, and the last answer: a pool's name or a reason.
    want: bool = False
    more: str = ""
    refused: str = ""

    @property
    def name(self) -> str:
        return f"{self.node}-{self.base}-{self.prefix}"

    @property
    def key(self) -> tuple[str, int, int]:
        return (self.node, self.base, self.prefix)

    @property
    def addresses(self) -> range:
        return range(self.base, self.base + (1 << (32 - self.prefix)))

    def seen(self, idle: float | None = None) -> PoolSeen:
        return PoolSeen(
            self.name,
            self.node,
            NETWORK,
            self.base,
            self.prefix,
            self.closed,
            not self.used,
            taken=tuple(sorted(address - self.base for address in self.used)),
            want=self.want,
            idle=idle,
        )


@dataclass(frozen=True)
class Table:
    version: int
    held: tuple[Held, ...]


@dataclass(frozen=True)
class Network:
    range: Range
    size: int
    wanted: bool = True
    slice_max: int = 8


@dataclass
class Api:
    network: Network
    nodes: dict[str, NodeSeen] = field(default_factory=dict)
    pools: dict[str, Pool] = field(default_factory=dict)
    table: Table | None = None
    now: float = 1000.0
    writes: int = 0
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def add_node(self, name: str) -> None:
        number = next(self._numbers)
        # Several nodes share a second, as they do when a cluster is scaled.
        self.nodes[name] = NodeSeen(f"2026-01-01T{number // 4:06d}Z", name)

    def write_table(self, version: int | None, held: tuple[Held, ...] | None) -> Table | None:
        if (self.table.version if self.table else None) != version:
            raise RefusedError
        self.writes += 1
        self.table = None if held is None else Table(next(self._numbers), held)
        return self.table

    def create_pool(self, node: str, base: int, prefix: int) -> Pool:
        pool = Pool(next(self._numbers), next(self._numbers), node, base, prefix)
        if pool.name in self.pools:
            raise RefusedError
        return self._store(pool)

    def mark_pool(self, name: str, uid: int, *, closed: bool) -> Pool:
        pool = self.pools.get(name)
        if pool is None or pool.uid != uid or (not closed and not pool.closed):
            raise RefusedError
        return self._store(replace(pool, closed=closed, want=pool.want and not closed))

    def answer_pool(self, name: str, uid: int, more: str, refused: str) -> Pool:
        pool = self.pools.get(name)
        if pool is None or pool.uid != uid or not pool.want:
            raise RefusedError
        return self._store(replace(pool, want=False, more=more, refused=refused))

    def delete_pool(self, name: str, version: int) -> None:
        pool = self.pools.get(name)
        if pool is None or pool.version != version:
            raise RefusedError
        self.writes += 1
        del self.pools[name]

    def add(self, name: str) -> None:
        """A plugin's ADD: it tests that the pool is open; on a full one it asks for more."""
        pool = self.pools.get(name)
        if pool is None or pool.closed:
            raise RefusedError
        usable = self.network.range.usable
        free = [a for a in pool.addresses if a not in pool.used and usable(a)]
        if free:
            self._store(replace(pool, used=pool.used | {free[0]}))
        elif not pool.want:
            self._store(replace(pool, want=True, more="", refused=""))

    def remove(self, name: str, address: int) -> None:
        pool = self.pools[name]
        self._store(replace(pool, used=pool.used - {address}))

    def _store(self, pool: Pool) -> Pool:
        self.writes += 1
        self.pools[pool.name] = stored = replace(pool, version=next(self._numbers))
        return stored


class Controller:
    """One process that believes it leads."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.program: Iterator[None] | None = None
        self.last: Plan | None = None
        # Pools by uid that it has seen empty, since when; a new process begins anew.
        self.empty: dict[int, float] = {}
        self.refresh_network()
        self.refresh_nodes()
        self.refresh_pools()
        self.refresh_table()

    def refresh_network(self) -> None:
        self.network = self.api.network

    def refresh_nodes(self) -> None:
        self.nodes = dict(self.api.nodes)

    def refresh_pools(self) -> None:
        self.pools = dict(self.api.pools)
        known, now = self.empty, self.api.now
        self.empty = {p.uid: known.get(p.uid, now) for p in self.pools.values() if not p.used}

    def refresh_table(self) -> None:
        self.table = self.api.table

    def observe(self, gone: frozenset[Held] = frozenset()) -> Observed:
        return Observed(
            network=NETWORK,
            range=self.network.range,
            size=self.network.size,
            wanted=self.network.wanted,
            cooldown=COOLDOWN,
            nodes=tuple(self.nodes.values()),
            table=self.table.held if self.table else None,
            pools=tuple(p.seen(self.empty.get(p.uid)) for p in self.pools.values()),
            gone=gone,
            slice_max=self.network.slice_max,
            idle_seconds=IDLE,
        )

    def step(self) -> bool:
        """Do one request's worth of work; False when a round has just ended."""
        if self.program is None:
            self.program = self._round()
        try:
            next(self.program)
        except StopIteration:
            self.program = None
            return False
        return True

    def finish(self) -> None:
        while self.step():
            pass

    def _round(self) -> Iterator[None]:
        gone: frozenset[Held] = frozenset()
        while True:
            if self.table is None:
                # Nothing but the pools tells who holds what.
                yield
                self.refresh_pools()
            observed = self.observe(gone)
            # The view may change while the round goes on; preconditions come from what was planned.
            table, known = self.table, dict(self.pools)
            decided = self.last = self._plan(observed)
            if decided.table != observed.table:
                yield
                try:
                    version = table.version if table else None
                    self.table = self.api.write_table(version, decided.table)
                except RefusedError:
                    return
                if observed.table is None:
                    # A pool that was opened under the lost table must be seen before any other is.
                    yield
                    self.refresh_pools()
                    return
            found = yield from self._act(decided, known)
            if found <= gone:
                return
            gone |= found

    def _plan(self, observed: Observed) -> Plan:
        decided = plan(observed, self.api.now)
        again = plan(replace(observed, table=decided.table), self.api.now)
        if decided.table is not None:
            assert again.table == decided.table, "the same plan applied twice changes nothing"
            assert observed.table is None or again == decided
        return decided

    def _act(self, decided: Plan, known: dict[str, Pool]) -> Generator[None, None, frozenset[Held]]:
        gone: set[Held] = set()
        opening: list[Pool] = []
        answers: list[Answer] = []
        for action in decided.actions:
            yield
            try:
                match action:
                    case Close(pool):
                        uid = known[pool.name].uid
                        self.pools[pool.name] = self.api.mark_pool(pool.name, uid, closed=True)
                    case Delete(pool):
                        self.api.delete_pool(pool.name, known[pool.name].version)
                        self.pools.pop(pool.name, None)
                    case Confirm(held):
                        if f"{held.node}-{held.base}-{held.prefix}" not in self.api.pools:
                            gone.add(held)
                    case Create(node, base, prefix):
                        opening.append(self.api.create_pool(node, base, prefix))
                        self.pools[opening[-1].name] = opening[-1]
                    case Open(pool):
                        opening.append(known[pool.name])
                    case Answer():
                        answers.append(action)
            except RefusedError:
                continue
        if opening:
            yield from self._open(opening)
        for action in answers:
            yield
            self._answer(action)
        return frozenset(gone)

    def _answer(self, action: Answer) -> None:
        asked, more = self.pools.get(action.pool.name), action.more
        target = "" if more is None else f"{more.node}-{more.base}-{more.prefix}"
        if asked is None or (target and (target not in self.pools or self.pools[target].closed)):
            return
        with suppress(RefusedError):
            answered = self.api.answer_pool(asked.name, asked.uid, target, action.refused)
            self.pools[asked.name] = answered

    def _open(self, opening: list[Pool]) -> Iterator[None]:
        yield
        live = self.api.table.held if self.api.table else ()
        for pool in opening:
            yield
            try:
                if gives(live, *pool.key):
                    self.pools[pool.name] = self.api.mark_pool(pool.name, pool.uid, closed=False)
                elif not pool.used:
                    self.api.delete_pool(pool.name, pool.version)
                    self.pools.pop(pool.name, None)
            except RefusedError:
                continue
