"""Pools of one address space whose ranges overlap: how no address is given out by two of them.

From the moment a pool is *marked*, whoever takes an address from it makes the address's reservation
first, and there is one reservation for each address of the space. So before a pool opens,

1. it exists, closed, for everybody to see, and after that all pools are read;
2. each pool that overlaps it is marked, and so is it itself;
3. all are read once more, and each address found in them gets its reservation.

`plan` says what is left to do of this for what was read last. Two controllers that do not know of
each other are safe as well: each shows its pool before it looks for the other's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from whereabouts_fast.ipam import address, naming


@dataclass(frozen=True, slots=True)
class Holder:
    """Whose an address is: pod ("namespace/name"), container id, interface; "" when unknown."""

    podref: str
    container: str = ""
    ifname: str = ""

    def agrees(self, other: Holder) -> bool:
        """Return whether both may be one attachment; old versions recorded the pod alone."""
        return (
            self.podref == other.podref
            and (not self.container or not other.container or self.container == other.container)
            and (not self.ifname or not other.ifname or self.ifname == other.ifname)
        )


@dataclass(frozen=True, slots=True)
class Pool:
    """An existing pool of the address space, as read live.

    `node` is "" for pools that all nodes share, `network` where it was not recorded. `holders`:
    address -> who has it. `lifting`: somebody is about to take the mark away. Of a pool that is not
    `exact` the address space is not known for sure: another one may need its mark.
    """

    name: str
    version: int
    base: int
    prefix: int
    node: str = ""
    network: str = ""
    marked: bool = False
    lifting: bool = False
    exact: bool = True
    holders: Mapping[int, Holder] = field(default_factory=dict)

    @property
    def last(self) -> int:
        """The last address."""
        return self.base + (1 << (address.width(self.version) - self.prefix)) - 1


@dataclass(frozen=True, slots=True)
class Network:
    """A network that is served: its range, and the pool of it that all nodes share, if any.

    `pool` is "" in slice mode. `checked`: its addresses are kept apart from other networks'.
    """

    name: str
    version: int
    low: int
    high: int
    pool: str = ""
    checked: bool = True


@dataclass(frozen=True, slots=True)
class Blocked:
    """An address that cannot be reserved for `holder`, because the reservation is another's."""

    reservation: str
    holder: Holder
    other: Holder


@dataclass(frozen=True, slots=True)
class Plan:
    """What is left to do, in this order; names are sorted.

    `marks`: pools to mark. `reserve`: reservations to write, by name. `opens`: pools that may be
    opened once all of `reserve` is written; those not in `concerned` at once. `concerned`: pools
    that overlap another. `needless`: marked pools that overlap nothing.
    """

    marks: tuple[str, ...]
    reserve: tuple[tuple[str, Holder], ...]
    blocked: tuple[Blocked, ...]
    opens: tuple[str, ...]
    concerned: frozenset[str]
    needless: tuple[str, ...]


def plan(
    space: str,
    pools: Iterable[Pool],
    networks: Collection[Network],
    opening: Collection[str] = (),
    reservations: Mapping[str, Holder] | None = None,
) -> Plan:
    """Decide what to do about the overlaps of one address space; pure.

    `space` is its network_name. `pools` are all its pools in one live read, `reservations` those
    found by a live read made after it, by name. `opening` names closed pools that are to open.
    """
    known = {pool.name: pool for pool in pools}
    partners = _partners(known, networks)
    marks = {name for name in partners if not known[name].marked or known[name].lifting}
    reserve: dict[str, Holder] = {}
    blocked: dict[str, Blocked] = {}
    stuck: set[str] = set()
    settled = [known[name] for name in sorted(partners.keys() - marks)]
    for reservation, holders in _addresses(space, settled).items():
        found = (reservations or {}).get(reservation)
        if found is None:
            # The first one's, where two had the address before anybody knew of the overlap.
            reserve[reservation] = holders[0][1]
        elif not any(found.agrees(holder) for _, holder in holders):
            blocked[reservation] = Blocked(reservation, holders[0][1], found)
            stuck.update(name for name, _ in holders)
    return Plan(
        marks=tuple(sorted(marks)),
        reserve=tuple(sorted(reserve.items(), key=lambda item: item[0])),
        blocked=tuple(blocked[name] for name in sorted(blocked)),
        opens=tuple(
            name
            for name in sorted(set(opening) & known.keys())
            if not ({name, *partners[name]} & (marks | stuck) if name in partners else ())
        ),
        concerned=frozenset(partners),
        needless=tuple(
            name
            for name, pool in sorted(known.items(), key=lambda item: item[0])
            if pool.marked and pool.exact and name not in partners
        ),
    )


def _partners(pools: Mapping[str, Pool], networks: Collection[Network]) -> dict[str, set[str]]:
    """Return for each pool those that share addresses with it and must not give them twice."""
    result: dict[str, set[str]] = {}
    facts: dict[str, tuple[frozenset[str], bool]] = {}
    for one, other in _intersecting(pools.values()):
        for pool in (one, other):
            if pool.name not in facts:
                facts[pool.name] = _served(pool, networks)
        (names, checked), (other_names, other_checked) = facts[one.name], facts[other.name]
        related = not names or not other_names or bool(names & other_names)
        # A network that changed its mode is one network, whatever it wants to know of others.
        if related or (checked and other_checked):
            result.setdefault(one.name, set()).add(other.name)
            result.setdefault(other.name, set()).add(one.name)
    return result


def _intersecting(pools: Iterable[Pool]) -> Iterator[tuple[Pool, Pool]]:
    # Of two CIDRs that share an address one holds the other: a sorted walk keeps those around it.
    around: list[Pool] = []
    for pool in sorted(pools, key=lambda p: (p.version, p.base, p.prefix, p.name)):
        while around and (around[-1].version != pool.version or around[-1].last < pool.base):
            around.pop()
        for outer in around:
            yield outer, pool
        around.append(pool)


def _served(pool: Pool, networks: Collection[Network]) -> tuple[frozenset[str], bool]:
    """Return the names of the networks that a pool is of, and whether any wants checks.

    What nobody asks for any more is checked: its pods are still there.
    """
    serving = [
        network
        for network in networks
        if (
            network.pool == pool.name
            if network.pool
            else pool.node
            and network.version == pool.version
            and network.low <= pool.last
            and pool.base <= network.high
        )
    ]
    names = {network.name for network in serving} | ({pool.network} if pool.network else set())
    return frozenset(names), not serving or any(network.checked for network in serving)


def _addresses(space: str, pools: Iterable[Pool]) -> dict[str, list[tuple[str, Holder]]]:
    found: dict[str, list[tuple[str, Holder]]] = {}
    for pool in pools:
        for value, holder in pool.holders.items():
            name = naming.reservation(address.text(pool.version, value), space)
            found.setdefault(name, []).append((pool.name, holder))
    return found
