"""After any sequence of changes what is known is what a fresh look at everything finds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whereabouts_fast.ipam import address, naming
from whereabouts_fast.ipam.consistency import Comparison, check
from whereabouts_fast.ipam.findings import Pool, Table
from whereabouts_fast.ipam.holdings import ACTIVE, COOLING, DRAINING, Held
from whereabouts_fast.ipam.leaks import Allocation
from whereabouts_fast.ipam.overlap import Holder

SPACES = ("", "blue")
NODES = ("", "a", "b")
# Nested, side by side, and of two lengths.
CIDRS = tuple(
    address.parse_cidr(text)
    for text in ("10.0.0.0/28", "10.0.0.0/29", "10.0.0.8/29", "10.0.0.8/30", "10.0.1.0/30")
)
WHOLE = address.parse_cidr("10.0.0.0/23")
PODS = ("t/p", "t/q", "t/r")


@dataclass
class Objects:
    tables: dict[str, Table] = field(default_factory=dict)
    pools: dict[str, Pool] = field(default_factory=dict)
    reservations: dict[str, Holder] = field(default_factory=dict)


entries = st.dictionaries(
    st.integers(0, 9),
    st.tuples(st.sampled_from(("c1", "c2", "")), st.sampled_from(PODS)),
    max_size=3,
)


def recorded(pool: str, found: dict[int, tuple[str, str]]) -> tuple[Allocation, ...]:
    return tuple(Allocation(pool, offset, *whose, "net1") for offset, whose in found.items())


@st.composite
def pools(draw: st.DrawFn) -> Pool:
    version, base, prefix = draw(st.sampled_from(CIDRS))
    space, node = draw(st.sampled_from(SPACES)), draw(st.sampled_from(NODES))
    name = naming.ip_pool(address.cidr_text(version, base, prefix), space, node)
    return Pool(
        name,
        space,
        draw(st.sampled_from(("", "blue", "red"))),
        node,
        version,
        base,
        prefix,
        overlapping=draw(st.booleans()),
        exact=draw(st.sampled_from((True, True, False))),
        entries=recorded(name, draw(entries)),
        malformed=draw(st.sampled_from((0, 0, 1))),
        problem=draw(st.sampled_from(("", "", "", "spec.range is odd"))),
    )


held = st.builds(
    lambda node, cidr, state: Held(node, cidr[1], cidr[2], state),
    st.sampled_from(NODES[1:]),
    st.sampled_from(CIDRS),
    st.sampled_from((ACTIVE, ACTIVE, DRAINING, COOLING)),
)
tables = st.builds(
    lambda name, space, network, listed, problem: Table(
        name,
        space,
        network,
        *WHOLE,
        tuple({(h.node, h.base, h.prefix): h for h in listed}.values()),
        tuple(listed[:1]) if len(listed) > 2 else (),
        problem,
    ),
    st.sampled_from(("one", "two")),
    st.sampled_from((*SPACES, None)),
    st.sampled_from(("blue", "red")),
    st.lists(held, max_size=4),
    st.sampled_from(("", "", "odd")),
)
reservations = st.tuples(
    st.builds(
        lambda space, last: naming.reservation(f"10.0.0.{last}", space),
        st.sampled_from(SPACES),
        st.integers(0, 12),
    ),
    st.builds(Holder, st.sampled_from(PODS), st.sampled_from(("", "c1")), st.just("")),
)
changes = st.lists(
    st.one_of(
        tables,
        pools(),
        reservations,
        # Something that is there, to be taken away or given other entries.
        st.tuples(st.sampled_from(("table", "pool", "reservation")), st.integers(0, 9)),
        st.tuples(st.just("entries"), st.integers(0, 9), entries),
    ),
    max_size=30,
)


def apply(change: object, objects: Objects, comparison: Comparison) -> None:
    match change:
        case Table(name=name):
            objects.tables[name] = change
            comparison.table(name, change)
        case Pool(name=name):
            objects.pools[name] = change
            comparison.pool(name, change)
        case (str(name), Holder() as holder):
            objects.reservations[name] = holder
            comparison.reservation(name, holder)
        case ("entries", int(at), dict(found)) if objects.pools:
            name = sorted(objects.pools)[at % len(objects.pools)]
            objects.pools[name] = replace(objects.pools[name], entries=recorded(name, found))
            comparison.pool(name, objects.pools[name])
        case (str(kind), int(at)):
            there: dict[str, object] = getattr(objects, f"{kind}s")
            if there:
                name = sorted(there)[at % len(there)]
                del there[name]
                getattr(comparison, kind)(name, None)


@given(changes)
def test_what_is_known_equals_a_fresh_look(made: list[object]) -> None:
    objects, comparison = Objects(), Comparison()
    for change in made:
        apply(change, objects, comparison)
        fresh = check(objects.tables.values(), objects.pools.values(), objects.reservations.items())
        assert comparison.findings() == fresh
        assert {(f.kind, f.name, f.reason) for f in fresh} == set(expected(objects))
    # Nothing is left behind of what is gone.
    for kind in ("table", "pool", "reservation"):
        for name in list(getattr(objects, f"{kind}s")):
            getattr(comparison, kind)(name, None)
    leftovers = {
        name: value
        for name in ("_found", "_listed", "_wanting", "_crowded", "_holders", "_filed")
        if (value := getattr(comparison, name))
    }
    assert leftovers == {}


def expected(objects: Objects) -> Iterator[tuple[str, str, str]]:
    """The same by comparing everything with everything."""
    known = [p for p in objects.pools.values() if p.exact and not p.problem]
    listed = {
        (table.space, h.node, h.base, h.prefix)
        for table in objects.tables.values()
        for h in table.held
    }
    for table in objects.tables.values():
        said = ("NodeSlicePool", table.name)
        if table.problem:
            yield (*said, "Unreadable")
        if table.repeated:
            yield (*said, "EntryTwice")
        if any(o is not h and share(o, h) for o in table.held for h in table.held):
            yield (*said, "SliceTwice")
        for h in table.held:
            name = naming.ip_pool(address.cidr_text(4, h.base, h.prefix), table.space or "", h.node)
            if h.state == ACTIVE and table.space is not None and name not in objects.pools:
                yield (*said, "EntryWithoutPool")
    for pool in objects.pools.values():
        said = ("IPPool", pool.name)
        if pool.problem:
            yield (*said, "Unreadable")
            continue
        slice_ = (pool.space, pool.node, pool.base, pool.prefix)
        if pool.node and pool.exact and slice_ not in listed:
            yield (*said, "PoolWithoutEntry")
        if any(entry.offset >= pool.size for entry in pool.entries):
            yield (*said, "AllocationOutsideRange")
        if pool.malformed or not all(entry.id for entry in pool.entries):
            yield (*said, "MalformedAllocation")
    places: dict[str, list[tuple[Pool, Allocation]]] = {}
    for pool in sorted(known, key=lambda p: p.name):
        for entry in pool.entries:
            if entry.offset < pool.size:
                name = naming.reservation(address.text(4, pool.base + entry.offset), pool.space)
                places.setdefault(name, []).append((pool, entry))
    for holders in places.values():
        for one, _ in holders:
            for other, _ in holders:
                related = not one.network or not other.network or one.network == other.network
                if other is not one and (related or (one.overlapping and other.overlapping)):
                    yield "IPPool", one.name, "AddressTwice"
    for name in {*places, *objects.reservations}:
        holders, reserved = places.get(name, []), objects.reservations.get(name)
        marked = [pool for pool, _ in holders if pool.overlapping]
        if reserved is None:
            if marked:
                yield "IPPool", marked[0].name, "AllocationWithoutReservation"
        elif not holders:
            yield "OverlappingRangeIPReservation", name, "ReservationWithoutAllocation"
        elif not any(reserved.agrees(Holder(e.podref, e.id, e.ifname)) for _, e in holders):
            yield "IPPool", holders[0][0].name, "ReservationOfAnother"


def share(one: Held, other: Held) -> bool:
    shift = 32 - min(one.prefix, other.prefix)
    return one.base >> shift == other.base >> shift


@pytest.mark.parametrize("reason", ["AddressTwice"])
def test_a_finding_names_object_reason_and_remedy(reason: str) -> None:
    names = ("10.0.0.0-28", "a-10.0.0.4-30")
    first, second = recorded(names[0], {5: ("c1", "t/p")}), recorded(names[1], {1: ("c2", "t/q")})
    wide = Pool(names[0], "", "blue", "", 4, WHOLE[1], 28, entries=first)
    slice_ = Pool(names[1], "", "blue", "a", 4, WHOLE[1] + 4, 30, entries=second)
    found = [one for one in check([], [wide, slice_], []) if one.reason == reason]
    assert [(one.name, one.severity, one.network) for one in found] == [
        ("10.0.0.0-28", "error", "10.0.0.0-28"),
        ("a-10.0.0.4-30", "error", ""),
    ]
    assert found[0].message == ("10.0.0.5 of pod t/p is also in IPPool a-10.0.0.4-30, of pod t/q")
    assert "delete one of the pods" in found[0].remedy
