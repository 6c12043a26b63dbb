"""All NADs and the existing slice tables -> the networks to serve, by address space.

A *network* is a name and a range. Several NADs may share one; the oldest decides. Networks of one
address space may overlap, which their owners are told; only of two in slice mode under one name,
whose tables a node could not tell apart, one is not served. All of this is a pure function of what
exists, computed anew on any change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from whereabouts_fast.controller.claims import (
    Claim,
    Problem,
    Reading,
    Source,
)
from whereabouts_fast.controller.reasons import Reason
from whereabouts_fast.ipam import address, naming
from whereabouts_fast.ipam.blocks import Blocks
from whereabouts_fast.ipam.netconf import Network
from whereabouts_fast.ipam.ranges import Range
from whereabouts_fast.ipam.selectors import EVERYTHING, Selector
from whereabouts_fast.resources.attachments import NODE_SELECTOR

Identity = tuple[str, str]


@dataclass(frozen=True, slots=True)
class TableSeen:
    """What naming needs to know of an existing slice table; no range when it is unreadable.

    `space` is None where the table does not record its address space, as whereabouts wrote it.
    """

    name: str
    range: Range | None
    space: str | None = None

    def may_serve(self, network: Network) -> bool:
        """Return whether slices in this table can be slices of the network."""
        return self.space is None or self.space == network.network_name


@dataclass(frozen=True, slots=True)
class Wanted:
    """A network in slice mode that is to be served.

    `table` names its NodeSlicePool. `size` is a prefix length. `sources` are its NADs, the oldest,
    whose word counts, first. `selector` says which nodes take part; where it is None, those that
    hold slices already.
    """

    network: Network
    size: int
    table: str
    sources: tuple[Source, ...]
    selector: Selector | None = EVERYTHING

    @property
    def space(self) -> str:
        """The address space: a network_name, or "" for all unnamed networks together."""
        return self.network.network_name


@dataclass(frozen=True, slots=True)
class WantedPool:
    """A pool that all nodes share, for every network in classic mode with its space and range.

    `network` is the name of the oldest one. `networks` are the names of all, `checked` whether any
    of them has its addresses kept apart from those of other ranges.
    """

    name: str
    space: str
    range: Range
    network: str
    networks: frozenset[str]
    checked: bool


@dataclass(frozen=True, slots=True)
class Resolution:
    """The outcome by address space: networks in slice mode, pools of those in classic mode.

    `problems` is what to tell the owners of NADs.
    """

    spaces: Mapping[str, tuple[Wanted, ...]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    pools: Mapping[str, tuple[WantedPool, ...]] = field(default_factory=dict)
    _bound: dict[str, Wanted] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        self._bound.update((one.table, one) for space in self.spaces.values() for one in space)

    def differing(self, other: Resolution) -> set[str]:
        """Return the spaces for which another resolution asks for something else."""
        return {
            space
            for space in {*self.spaces, *self.pools, *other.spaces, *other.pools}
            if self.spaces.get(space) != other.spaces.get(space)
            or self.pools.get(space) != other.pools.get(space)
        }

    def bound(self, table: str) -> Wanted | None:
        """Return the network whose table has this name."""
        return self._bound.get(table)


@dataclass(slots=True)
class _Candidate:
    claims: list[Claim]
    table: str = ""

    @property
    def network(self) -> Network:
        return self.claims[0].network

    @property
    def rank(self) -> tuple[tuple[str, str], int]:
        return self.claims[0].source.rank, self.claims[0].place

    @property
    def sources(self) -> tuple[Source, ...]:
        return tuple(dict.fromkeys(claim.source for claim in self.claims))


def resolve(readings: Iterable[Reading], tables: Iterable[TableSeen]) -> Resolution:
    """Decide which networks are served and how their tables are called."""
    readings, tables = list(readings), list(tables)
    problems = [problem for reading in readings for problem in reading.problems]
    claims = sorted(
        (claim for reading in readings for claim in reading.claims),
        key=lambda claim: (claim.source.rank, claim.place),
    )
    candidates: dict[Identity, _Candidate] = {}
    for claim in claims:
        known = candidates.setdefault(claim.network.identity, _Candidate([]))
        if known.claims and (text := _disagreement(known.claims[0], claim)):
            problems.append(Problem(claim.source, Reason.CONFLICTING, text))
        known.claims.append(claim)

    _bind(candidates.values(), tables)
    accepted = _without_overlaps(candidates.values(), tables, problems)
    _tell_overlaps(accepted, problems)
    served = [c for c in accepted if c.network.slice_size is not None]
    _name(served, {table.name for table in tables}, problems)
    spaces: dict[str, list[Wanted]] = {}
    for candidate in served:
        size = candidate.network.slice_size
        if size is not None and candidate.table:
            selector = candidate.claims[0].selector
            wanted = Wanted(candidate.network, size, candidate.table, candidate.sources, selector)
            spaces.setdefault(wanted.space, []).append(wanted)
    return Resolution(
        {key: tuple(value) for key, value in spaces.items()}, tuple(problems), _shared(accepted)
    )


def _shared(accepted: list[_Candidate]) -> dict[str, tuple[WantedPool, ...]]:
    """Return the pools of networks in classic mode: one for each space and range."""
    pools: dict[str, dict[str, list[Network]]] = {}
    for network in (c.network for c in accepted if c.network.slice_size is None):
        name = naming.ip_pool(network.range.cidr, network.network_name)
        pools.setdefault(network.network_name, {}).setdefault(name, []).append(network)
    return {
        space: tuple(
            WantedPool(
                name,
                space,
                networks[0].range,
                networks[0].name,
                frozenset(network.name for network in networks),
                any(network.overlap_check for network in networks),
            )
            for name, networks in found.items()
        )
        for space, found in pools.items()
    }


def _disagreement(older: Claim, younger: Claim) -> str:
    ours, theirs = younger.network, older.network
    differing = [
        key
        for key, differ in (
            ("network_name", ours.network_name != theirs.network_name),
            ("node_slice_size", ours.slice_size != theirs.slice_size),
            ("node_slice_max", ours.slice_max != theirs.slice_max),
            ("node_slice_cooldown", ours.slice_cooldown != theirs.slice_cooldown),
            ("range_start, range_end, exclude or gateway", ours.range != theirs.range),
            (f"annotation {NODE_SELECTOR}", older.selector != younger.selector),
        )
        if differ
    ]
    if not differing:
        return ""
    return (
        f"network {ours.name} {ours.range.cidr} is shared with the older {older.source.key}, which"
        f" has another {' and another '.join(differing)}; that one counts for slices:"
        " make them equal, or give this network another name"
    )


def _bind(candidates: Iterable[_Candidate], tables: list[TableSeen]) -> None:
    """Give candidates the tables that are theirs already, so that names never change hands.

    A table whose recorded range nobody wants any more, while exactly one wanted range of that name
    overlaps it, belongs to that one: its range was edited.
    """
    by_name = {table.name: table for table in tables}
    sliced = [c for c in candidates if c.network.slice_size is not None]
    for candidate in sliced:
        for name in _names(candidate.network):
            table = by_name.get(name)
            if (
                table
                and table.range
                and table.range.cidr == candidate.network.range.cidr
                and table.may_serve(candidate.network)
            ):
                candidate.table = by_name.pop(name).name
                break
    for name, table in by_name.items():
        unbound = [c for c in sliced if not c.table]
        if table.range is None:
            # Whatever it holds must not be dealt again under another name.
            heirs = [c for c in unbound if name in _names(c.network)][:1]
        else:
            long = table.range.cidr
            heirs = [
                c
                for c in unbound
                if c.network.range.overlaps(table.range)
                and table.may_serve(c.network)
                and name in (c.network.name, naming.slice_pool_long(c.network.name, long))
            ]
        if len(heirs) == 1:
            heirs[0].table = name


def _without_overlaps(
    candidates: Iterable[_Candidate], tables: list[TableSeen], problems: list[Problem]
) -> list[_Candidate]:
    # A network that is served already goes before an older NAD edited into its range: its pods
    # and slices are there, and would have to go for somebody else's edit.
    accepted: list[_Candidate] = []
    by_name: dict[str, list[_Candidate]] = {}
    for candidate in sorted(candidates, key=lambda c: (not c.table, c.rank)):
        namesakes = by_name.setdefault(candidate.network.name, [])
        other = next((a for a in namesakes if _collide(a.network, candidate.network)), None)
        former = _former_table(candidate, tables)
        if other is not None:
            text = (
                f"range {candidate.network.range.cidr} of network {candidate.network.name} overlaps"
                f" {other.network.range.cidr} of network {other.network.name}"
                f" ({other.sources[0].key}), which goes first; no slices are dealt from it: choose"
                " another range, or set another network_name if the addresses never meet"
            )
        elif former is not None:
            text = (
                f"range {candidate.network.range.cidr} of network {candidate.network.name} is held"
                f" by NodeSlicePool {former.name}, made {_with(former.space)}; no slices are dealt"
                f" {_with(candidate.network.network_name)} before that one's pods are gone:"
                " set network_name as it was, or choose another name or range"
            )
        else:
            accepted.append(candidate)
            namesakes.append(candidate)
            continue
        problems.extend(Problem(source, Reason.OVERLAPPING, text) for source in candidate.sources)
    return sorted(accepted, key=lambda c: c.rank)


def _former_table(candidate: _Candidate, tables: list[TableSeen]) -> TableSeen | None:
    """Return the table that held the network's slices before its network_name was edited.

    Name and range make the network: its pods still have addresses from pools under other names.
    """
    network = candidate.network
    if network.slice_size is None or candidate.table:
        return None
    return next(
        (
            table
            for table in tables
            if table.range is not None
            and not table.may_serve(network)
            and table.name in _names(network)
            and table.range.overlaps(network.range)
        ),
        None,
    )


def _with(network_name: str | None) -> str:
    return f'with network_name "{network_name}"' if network_name else "without network_name"


def _collide(one: Network, other: Network) -> bool:
    # Under one name a node could not tell the tables of overlapping ranges apart, whatever the
    # address spaces.
    sliced = one.slice_size is not None and other.slice_size is not None
    return sliced and one.name == other.name and one.range.overlaps(other.range)


def _tell_overlaps(accepted: list[_Candidate], problems: list[Problem]) -> None:
    """Tell the owners of each network which older ones of its address space it overlaps."""
    older: dict[tuple[str, int], Blocks] = {}
    for at, candidate in enumerate(accepted):
        if not candidate.network.overlap_check:
            continue
        whole = candidate.network.range
        home = (candidate.network.network_name, whole.version)
        blocks = older.setdefault(home, Blocks(address.width(whole.version)))
        for number in sorted(map(int, blocks.touching(whole.base, whole.end))):
            other = accepted[number]
            if _share_addresses(candidate.network, other.network):
                problems.extend(
                    Problem(source, Reason.OVERLAPPING, _overlap_text(source, candidate, other))
                    for source in candidate.sources
                )
        blocks.add(whole.base, whole.prefix, str(at))


def _share_addresses(one: Network, other: Network) -> bool:
    # In classic mode networks of one range are one pool, and cannot give an address twice.
    pooled = one.slice_size is None and other.slice_size is None
    return one.range.overlaps(other.range) and not (pooled and one.range.cidr == other.range.cidr)


def _overlap_text(source: Source, younger: _Candidate, older: _Candidate) -> str:
    return (
        f"{source.key}: range {younger.network.range.cidr} of network {younger.network.name}"
        f" overlaps {older.network.range.cidr} of network {older.network.name}"
        f" ({older.sources[0].key}); an address of both is reserved before it is given, at the cost"
        " of a request: choose another range, or another network_name if they never meet"
    )


def _name(served: list[_Candidate], taken: set[str], problems: list[Problem]) -> None:
    """Name new tables: the plain name for who comes first, the long one for the others."""
    taken = taken | {candidate.table for candidate in served}
    for candidate in served:
        if candidate.table:
            continue
        plain, long = _names(candidate.network)
        candidate.table = plain if plain not in taken else long if long not in taken else ""
        taken.add(candidate.table)
        if not candidate.table:
            text = f"name {plain} cannot be used: NodeSlicePools {plain} and {long} are taken"
            problems.extend(
                Problem(source, Reason.INVALID, text + "; choose another name")
                for source in candidate.sources
            )


def _names(network: Network) -> tuple[str, str]:
    long = naming.slice_pool_long(network.name, network.range.cidr)
    return naming.slice_pool(network.name), long
