"""Tables, pools and reservations compared with each other, as they change.

A `Comparison` is told of one object after the other and knows after each what does not fit. What a
change costs depends on the objects that it touches, not on how many there are. There is no clock
here: some findings are passing states of work under way, and whoever shows them waits for them to
last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from whereabouts_fast.ipam import address, findings, naming
from whereabouts_fast.ipam.blocks import Blocks
from whereabouts_fast.ipam.findings import Finding, Pool, Table
from whereabouts_fast.ipam.holdings import Held
from whereabouts_fast.ipam.leaks import Allocation
from whereabouts_fast.ipam.overlap import Holder

# What a finding hangs on: a table, the entries that want a pool of a name, a pool, an address (by
# the name of its reservation).
_Subject = tuple[str, str]
_Slice = tuple[str, int, str, int, int]


def check(
    tables: Iterable[Table], pools: Iterable[Pool], reservations: Iterable[tuple[str, Holder]]
) -> list[Finding]:
    """Compare everything at once, as a command line does."""
    comparison = Comparison()
    for table in tables:
        comparison.table(table.name, table)
    for pool in pools:
        comparison.pool(pool.name, pool)
    for name, holder in reservations:
        comparison.reservation(name, holder)
    return comparison.findings()


class Comparison:
    """What was told last of each object, and what does not fit."""

    def __init__(self) -> None:
        self._tables: dict[str, Table] = {}
        self._pools: dict[str, Pool] = {}
        self._reservations: dict[str, Holder] = {}
        self._found: dict[_Subject, tuple[Finding, ...]] = {}
        # How many tables list a slice; who wants a pool of a name; the tables of a network.
        self._listed: Counter[_Slice] = Counter()
        self._wanting: dict[str, list[tuple[str, Held]]] = {}
        self._networks: dict[tuple[str | None, str], set[str]] = {}
        # Space, IP version -> where the pools lie.
        self._blocks: dict[tuple[str, int], Blocks] = {}
        # Pools that share addresses with others of their space.
        self._crowded: set[str] = set()
        # Reservation name -> pools that record its address, and for whom; of the pools in `_filed`.
        # Where nobody reserves and nothing overlaps, which is nearly everywhere, none is.
        self._holders: dict[str, dict[str, Allocation]] = {}
        self._filed: set[str] = set()

    # Changes; None means that the object is gone.

    def table(self, name: str, now: Table | None) -> None:
        """Take note of a table."""
        before = self._tables.pop(name, None)
        if now is not None:
            self._tables[name] = now
        same = before is not None and now is not None and _head(before) == _head(now)
        kept = set(before.held) & set(now.held) if same and before and now else set()
        touched = set()
        for table, step in ((before, -1), (now, 1)):
            if table is None:
                continue
            if table.space is not None:
                listed = (held for held in table.held if held not in kept)
                touched |= {self._list(table, table.space, held, step) for held in listed}
            names = self._networks.setdefault((table.space, table.network), set())
            (names.add if step > 0 else names.discard)(name)
        self._judge(("table", name), () if now is None else findings.of_table(now))
        for pool in touched:
            self._judge_pool(pool)

    def pool(self, name: str, now: Pool | None) -> None:
        """Take note of a pool."""
        before = self._pools.pop(name, None)
        if now is not None:
            self._pools[name] = now
        touched: set[str] = set()
        if _place(before) != _place(now):
            for other in self._move(name, before, now):
                touched |= self._file(other, self._pools[other], self._pools[other])
        touched |= self._file(name, before, now)
        for one in touched:
            self._judge_address(one)
        self._judge_pool(name)

    def reservation(self, name: str, now: Holder | None) -> None:
        """Take note of a reservation."""
        idle = not self._reservations
        self._reservations.pop(name, None)
        if now is not None:
            self._reservations[name] = now
        if idle != (not self._reservations):
            # Only while there are any is every address looked up.
            for pool in self._pools.values():
                for touched in self._file(pool.name, pool, pool):
                    self._judge_address(touched)
        self._judge_address(name)

    # The answer

    def findings(self) -> list[Finding]:
        """Return all that does not fit, by object."""
        found = [self._placed(one) for some in self._found.values() for one in some]
        return sorted(found, key=lambda f: (f.kind, f.name, f.reason, f.message))

    def _placed(self, finding: Finding) -> Finding:
        """Say which network a finding is of."""
        if finding.kind == "NodeSlicePool":
            return replace(finding, network=finding.name)
        pool = self._pools.get(finding.name) if finding.kind == "IPPool" else None
        if pool is None or pool.problem:
            return finding
        if not pool.node:
            return replace(finding, network=pool.name)
        tables = [self._tables[name] for name in self._networks.get((pool.space, pool.network), ())]
        names = [table.name for table in tables if _meet(table, pool)]
        return replace(finding, network=min(names, default=""))

    # Keeping the indexes

    def _list(self, table: Table, space: str, held: Held, step: int) -> str:
        """Note or forget an entry; return the name of its pool."""
        key = _slice(space, table.version, held)
        self._listed[key] += step
        if not self._listed[key]:
            del self._listed[key]
        cidr = address.cidr_text(table.version, held.base, held.prefix)
        try:
            pool = naming.ip_pool(cidr, space, held.node)
        except naming.InvalidNameError:
            return ""  # there can be no such pool
        wanting = self._wanting.setdefault(pool, [])
        if step > 0:
            wanting.append((table.name, held))
        else:
            wanting.remove((table.name, held))
            if not wanting:
                del self._wanting[pool]
        return pool

    def _move(self, name: str, before: Pool | None, now: Pool | None) -> set[str]:
        """Take a pool from its place to another; return those that it has come to share with."""
        met = {name}
        if before is not None and _known(before):
            met.update(self._sharing(before))
            self._blocks[before.space, before.version].remove(before.base, before.prefix, name)
        if now is not None and _known(now):
            blocks = self._blocks.setdefault(
                (now.space, now.version), Blocks(address.width(now.version))
            )
            blocks.add(now.base, now.prefix, name)
            met.update(self._sharing(now))
        changed = set()
        for other in met:
            pool = self._pools.get(other)
            crowded = pool is not None and _known(pool) and any(self._sharing(pool))
            if crowded != (other in self._crowded):
                (self._crowded.add if crowded else self._crowded.discard)(other)
                changed.add(other)
        return changed - {name}

    def _sharing(self, pool: Pool) -> Iterator[str]:
        """Yield the other pools that share addresses with one that is in its place."""
        blocks = self._blocks[pool.space, pool.version]
        names = blocks.touching(pool.base, pool.base + pool.size - 1)
        return (name for name in names if name != pool.name)

    def _file(self, name: str, before: Pool | None, now: Pool | None) -> set[str]:
        """File the addresses of a pool, as far as they can matter; return those that changed."""
        filed = name in self._filed
        wanted = (
            now is not None
            and _known(now)
            and (now.overlapping or name in self._crowded or bool(self._reservations))
        )
        if not filed and not wanted:
            return set()
        old = set(before.entries) if filed and before is not None else set()
        new = set(now.entries) if wanted and now is not None else set()
        if before is not None and now is not None and _meaning(before) == _meaning(now):
            old, new = old - new, new - old
        touched = set()
        for pool, entries in ((before, old), (now, new)):
            for entry in entries if pool is not None else ():
                if pool is None or not 0 <= entry.offset < pool.size:
                    continue
                reservation = _reservation(pool, entry.offset)
                touched.add(reservation)
                holders = self._holders.setdefault(reservation, {})
                if entries is new:
                    holders[name] = entry
                else:
                    holders.pop(name, None)
                    if not holders:
                        del self._holders[reservation]
        (self._filed.add if wanted else self._filed.discard)(name)
        return touched

    # Judging

    def _judge(self, subject: _Subject, found: Iterable[Finding]) -> None:
        some = tuple(found)
        if some:
            self._found[subject] = some
        else:
            self._found.pop(subject, None)

    def _judge_pool(self, name: str) -> None:
        pool = self._pools.get(name)
        wanting = self._wanting.get(name, ()) if pool is None else ()
        found = (findings.of_entry(self._tables[table], held, name) for table, held in wanting)
        self._judge(("entry", name), [one for some in found for one in some])
        self._judge(("pool", name), () if pool is None else findings.of_pool(pool, self._has(pool)))

    def _has(self, pool: Pool) -> bool:
        held = Held(pool.node, pool.base, pool.prefix)
        return _slice(pool.space, pool.version, held) in self._listed

    def _judge_address(self, reservation: str) -> None:
        holders = [
            (self._pools[name], entry)
            for name, entry in sorted(self._holders.get(reservation, {}).items())
        ]
        text = ""
        if holders:
            pool, entry = holders[0]
            text = address.text(pool.version, pool.base + entry.offset)
        self._judge(
            ("address", reservation),
            findings.of_address(text, holders, reservation, self._reservations.get(reservation)),
        )


def _head(table: Table) -> tuple[object, ...]:
    return table.space, table.network, table.version


def _place(pool: Pool | None) -> tuple[object, ...] | None:
    if pool is None or not _known(pool):
        return None
    return pool.space, pool.version, pool.base, pool.prefix


def _known(pool: Pool) -> bool:
    return pool.exact and not pool.problem


def _meaning(pool: Pool) -> tuple[object, ...]:
    """Return what else the judgement of a pool's addresses depends on."""
    return _place(pool), pool.network, pool.overlapping


def _slice(space: str, version: int, held: Held) -> _Slice:
    return space, version, held.node, held.base, held.prefix


def _reservation(pool: Pool, offset: int) -> str:
    return naming.reservation(address.text(pool.version, pool.base + offset), pool.space)


def _meet(table: Table, pool: Pool) -> bool:
    shift = address.width(pool.version) - min(table.prefix, pool.prefix)
    return table.version == pool.version and table.base >> shift == pool.base >> shift
