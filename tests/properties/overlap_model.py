"""A small address space in which controllers and plugins take their steps in any order.

An actor is a generator that does at most one request to the API server between two yields, with the
conditions that the real one sends. Anything may happen between two requests, and an actor may end
for good after any. `Tape` makes every choice, so that one text of bytes is one history.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count

from whereabouts_fast.ipam.overlap import Holder, Network, Plan, Pool, plan

# Name -> (base, prefix, node). Two are shared by all nodes, two are slices of one network.
RANGES = {
    "wide": (0, 30, ""),
    "half": (2, 31, ""),
    "n1-low": (0, 31, "n1"),
    "n2-high": (2, 31, "n2"),
}
SLICES = frozenset({"n1-low", "n2-high"})
NETWORKS = (
    Network("wide", 4, 0, 3, "wide"),
    Network("half", 4, 2, 3, "half"),
    Network("sliced", 4, 0, 3),
)
_ROUNDS = 3


class Tape:
    """Choices out of bytes; at its end the history ends."""

    def __init__(self, data: bytes) -> None:
        self._data = iter(data)

    def pick(self, choices: int) -> int:
        """Return a number below `choices`. Raises StopIteration at the end."""
        return next(self._data) % choices

    def one(self, names: list[str]) -> str:
        return names[self.pick(len(names))]


@dataclass
class Stored:
    """An IPPool; `lifting` is the token of who is about to take the mark away.

    `lifted`: its mark was taken away, and its addresses may still have reservations.
    """

    uid: int
    closed: bool = True
    marked: bool = False
    lifting: str = ""
    lifted: bool = False
    entries: dict[int, Holder] = field(default_factory=dict)


@dataclass
class Store:
    """The API server; `overlapping` is the condition of the slice table.

    `ending`: address -> version of its reservation from when it was announced that it goes.
    """

    pools: dict[str, Stored] = field(default_factory=dict)
    reservations: dict[int, tuple[int, Holder]] = field(default_factory=dict)
    ending: dict[int, int] = field(default_factory=dict)
    overlapping: bool = False
    uids: count[int] = field(default_factory=count)

    def unreserve(self, value: int) -> None:
        """Delete a reservation."""
        del self.reservations[value]
        self.ending.pop(value, None)

    def duplicates(self) -> dict[int, list[str]]:
        """Addresses that are in more than one pool."""
        found: dict[int, list[str]] = {}
        for name, pool in self.pools.items():
            for value in pool.entries:
                found.setdefault(value, []).append(name)
        return {value: names for value, names in found.items() if len(names) > 1}


class Controller:
    """One that believes it leads; `wanted` is what it knows of NADs, which may be old."""

    def __init__(self, store: Store, name: str) -> None:
        self.store = store
        self.name = name
        self.tokens = count()
        self.wanted = set(SLICES)

    def run(self, tape: Tape) -> Iterator[None]:
        """Sync again and again, each time from the NADs as they were known at its beginning."""
        while True:
            wanted = set(self.wanted)
            # What the caches say, which may be old by the time it counts.
            suspects = bool((wanted | self.store.pools.keys()) - SLICES)
            yield
            if suspects:
                self.store.overlapping = True
                yield
            for name in sorted(self.store.pools.keys() - wanted):
                yield from self._retire(name)
            for name in sorted(wanted - self.store.pools.keys()):
                if name not in self.store.pools:
                    self.store.pools[name] = Stored(next(self.store.uids))
                    yield
            closed = {n: p.uid for n, p in self.store.pools.items() if p.closed and n in wanted}
            if suspects or self.store.overlapping:
                yield
                yield from self._settle(closed)
                if tape.pick(2):
                    yield from self._lift()
            else:
                yield
                for name, uid in sorted(closed.items()):
                    self._open(name, uid)
                    yield

    def _settle(self, opening: dict[str, int]) -> Iterator[None]:
        for _ in range(_ROUNDS):
            seen = deepcopy(self.store.pools)
            yield
            announced = sorted(self.store.ending)
            read = self._reserved()
            if announced:
                for value in announced:
                    yield
                    # Another version of the reservation, unless it is gone.
                    self.store.ending.pop(value, None)
                yield
                if self.store.ending:
                    return
                read = self._reserved()
            names = {n for n, uid in opening.items() if n in seen and seen[n].uid == uid}
            found = decided(seen, names, read)
            yield
            for name in found.marks:
                self._mark(name, seen[name].uid)
                yield
            written = not found.blocked
            for reservation, holder in found.reserve:
                written &= self._reserve(int(reservation.rpartition(".")[2]), holder)
                yield
            for name in found.opens:
                if written or name not in found.concerned:
                    self._open(name, seen[name].uid)
                    yield
            if written and not found.marks:
                return

    def _lift(self) -> Iterator[None]:
        for name in decided(deepcopy(self.store.pools)).needless:
            token = f"{self.name}-{next(self.tokens)}"
            pool = self.store.pools.get(name)
            if pool is None or not pool.marked:
                continue
            pool.lifting = token
            yield
            seen = deepcopy(self.store.pools)
            yield
            pool = self.store.pools.get(name)
            if name in decided(seen).needless and pool is not None and pool.lifting == token:
                pool.marked, pool.lifting, pool.lifted = False, "", True
                yield
        for name, pool in sorted(self.store.pools.items()):
            if pool.lifted and not pool.marked:
                yield
                yield from self._unreserve(name, pool.uid)

    def _unreserve(self, name: str, uid: int) -> Iterator[None]:
        """Announce that reservations go, look whether that is still right, and remove them."""
        pool = self.store.pools.get(name)
        if pool is None or pool.uid != uid or pool.marked:
            return
        entries = dict(pool.entries)
        yield
        versions: dict[int, int] = {}
        for value, holder in sorted(entries.items()):
            found = self.store.reservations.get(value)
            if found is not None and found[1] == holder:
                versions[value] = self.store.ending[value] = next(self.store.uids)
                yield
        pool = self.store.pools.get(name)
        if pool is None or pool.uid != uid or pool.marked:
            return
        for value, version in versions.items():
            yield
            if self.store.ending.get(value) == version:
                self.store.unreserve(value)
        yield
        pool = self.store.pools.get(name)
        if pool is not None and pool.uid == uid and not pool.marked:
            pool.lifted = False

    def _reserved(self) -> dict[str, Holder]:
        found = self.store.reservations
        return {f"10.0.0.{value}": holder for value, (_, holder) in found.items()}

    def _retire(self, name: str) -> Iterator[None]:
        if name in self.store.pools:
            self.store.pools[name].closed = True
            yield
        pool = self.store.pools.get(name)
        if pool is not None and pool.closed and not pool.entries:
            del self.store.pools[name]
            yield

    def _mark(self, name: str, uid: int) -> None:
        pool = self.store.pools.get(name)
        if pool is not None and pool.uid == uid:
            pool.marked, pool.lifting, pool.lifted = True, "", False

    def _reserve(self, value: int, holder: Holder) -> bool:
        if value in self.store.reservations:
            return False
        self.store.reservations[value] = (next(self.store.uids), holder)
        return True

    def _open(self, name: str, uid: int) -> None:
        # Without a test of the mark: whoever set it meanwhile knows of this pool.
        pool = self.store.pools.get(name)
        if pool is not None and pool.uid == uid:
            pool.closed = False


class Plugin:
    """The plugin's calls for one pod at a time, out of any pool."""

    def __init__(self, store: Store, name: str) -> None:
        self.store = store
        self.name = name
        self.calls = count()
        self.held: tuple[str, int, Holder] | None = None

    def run(self, tape: Tape) -> Iterator[None]:
        """ADD and DEL again and again; what is known of the pool may be old when it is used."""
        while True:
            if self.held is not None:
                yield from self._delete()
            present = sorted(self.store.pools)
            if not present:
                yield
                continue
            name = tape.one(present)
            hint = deepcopy(self.store.pools[name])
            yield
            base, prefix, _ = RANGES[name]
            free = [v for v in range(base, base + (1 << (32 - prefix))) if v not in hint.entries]
            if not hint.closed and free:
                yield from self._add(name, hint, free[tape.pick(len(free))])
            yield

    def _add(self, name: str, hint: Stored, value: int) -> Iterator[None]:
        holder = Holder(f"t/{self.name}", f"{self.name}-{next(self.calls)}", "net1")
        reserved = None
        if hint.marked:
            if value in self.store.reservations:
                return
            reserved = next(self.store.uids)
            self.store.reservations[value] = (reserved, holder)
            yield
        pool = self.store.pools.get(name)
        if (
            pool is not None
            and not pool.closed
            and pool.marked == hint.marked
            and value not in pool.entries
        ):
            pool.entries[value] = holder
            self.held = (name, value, holder)
        elif reserved is not None:
            yield
            if self.store.reservations.get(value, (None,))[0] == reserved:
                self.store.unreserve(value)
        yield

    def _delete(self) -> Iterator[None]:
        """The entry first, then the reservation, if it is this attachment's."""
        if self.held is None:
            return
        (name, value, holder), self.held = self.held, None
        del self.store.pools[name].entries[value]
        yield
        found = self.store.reservations.get(value)
        if found is not None and found[1] == holder:
            self.store.unreserve(value)
            yield


class Leaks:
    """The collection of reservations that a killed plugin left, of no entry and no call."""

    def __init__(self, store: Store, plugins: list[Plugin]) -> None:
        self.store = store
        self.plugins = plugins

    def collect(self, pod: str) -> None:
        """Drop the reservations of a pod that is gone."""
        kept = {holder for pool in self.store.pools.values() for holder in pool.entries.values()}
        for value, (_, holder) in list(self.store.reservations.items()):
            if holder.podref == f"t/{pod}" and holder not in kept:
                self.store.unreserve(value)


def history(data: bytes) -> Iterator[Store]:
    """Play one history and yield the store after each step."""
    tape, store = Tape(data), Store()
    controllers = [Controller(store, f"c{n}") for n in range(2)]
    plugins = [Plugin(store, f"p{n}") for n in range(3)]
    leaks = Leaks(store, plugins)
    actors = [*(one.run(tape) for one in controllers), *(one.run(tape) for one in plugins)]
    while True:
        try:
            what = tape.pick(24)
            if what < 20:
                # Many steps at once leave the others paused, as a process may be for minutes.
                for _ in range(1 + tape.pick(20)):
                    next(actors[what % 5])
                    yield store
            elif what < 22:
                controllers[tape.pick(2)].wanted ^= {tape.one(sorted(RANGES))}
            elif what == 22:
                at = tape.pick(2)
                actors[at] = controllers[at].run(tape)
            else:
                # Killed in the middle of a call; its pod comes back under another name.
                at = tape.pick(3)
                actors[2 + at] = plugins[at].run(tape)
                leaks.collect(plugins[at].name)
        except (StopIteration, RuntimeError):
            return
        yield store


def decided(
    pools: dict[str, Stored],
    opening: set[str] | frozenset[str] = frozenset(),
    reservations: dict[str, Holder] | None = None,
) -> Plan:
    """Plan for pools as read."""
    start = 10 << 24
    decoded = [
        Pool(
            name,
            4,
            start + RANGES[name][0],
            RANGES[name][1],
            RANGES[name][2],
            "sliced" if name in SLICES else name,
            stored.marked,
            bool(stored.lifting),
            holders={start + value: holder for value, holder in stored.entries.items()},
        )
        for name, stored in pools.items()
    ]
    return plan("", decoded, NETWORKS, opening, reservations)
