"""Plans from any observation at all, consistent or not."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from whereabouts_fast.ipam import ranges
from whereabouts_fast.ipam.holdings import (
    ACTIVE,
    COOLING,
    DRAINING,
    Close,
    Confirm,
    Create,
    Delete,
    Held,
    NodeSeen,
    Observed,
    Open,
    PoolSeen,
)
from whereabouts_fast.ipam.slices import plan

BASE = 0x0A000000
NOW = 1000.0
NAMES = st.sampled_from(["n1", "n2", "n3", "n4", "n5", "n6"])
PREFIXES = st.sampled_from([29, 30, 30, 30, 31])


@st.composite
def blocks(draw: st.DrawFn) -> tuple[int, int]:
    prefix = draw(PREFIXES)
    step = 1 << (32 - prefix)
    return BASE + step * draw(st.integers(0, 32 // step - 1)), prefix


@st.composite
def entries(draw: st.DrawFn) -> Held:
    base, prefix = draw(blocks())
    state = draw(st.sampled_from([ACTIVE, ACTIVE, DRAINING, COOLING]))
    since = None if state == ACTIVE else draw(st.sampled_from([900.0, 970.0, 1000.0, 5000.0]))
    return Held(draw(NAMES), base, prefix, state, since)


@st.composite
def pools(draw: st.DrawFn) -> PoolSeen:
    base, prefix = draw(blocks())
    node = draw(st.one_of(NAMES, st.just("")))
    network = draw(st.sampled_from(["blue", "blue", "blue", "red"]))
    name = f"{node}-{base}-{prefix}"
    return PoolSeen(name, node, network, base, prefix, draw(st.booleans()), draw(st.booleans()))


def last(base: int, prefix: int) -> int:
    return base + (1 << (32 - prefix)) - 1


def overlap(one: Held | PoolSeen | Create, other: Held | PoolSeen) -> bool:
    return one.base <= last(other.base, other.prefix) and other.base <= last(one.base, one.prefix)


def key(what: Held | PoolSeen | Create) -> tuple[str, int, int]:
    return (what.node, what.base, what.prefix)


def useful(observed: Observed, entry: Held) -> bool:
    """Whether a slice has a usable address."""
    usable = observed.range.next_usable(entry.base)
    return usable is not None and usable <= last(entry.base, entry.prefix)


@st.composite
def tables(draw: st.DrawFn) -> tuple[Held, ...] | None:
    table: list[Held] = []
    for entry in draw(st.lists(entries(), max_size=6)):
        if not any(overlap(entry, other) for other in table):
            table.append(entry)
    table.sort(key=lambda h: (h.base, h.prefix, h.node))
    return draw(st.sampled_from([tuple(table), tuple(table), tuple(table), None]))


@st.composite
def observations(draw: st.DrawFn) -> Observed:
    table = draw(tables())
    listed = draw(st.lists(NAMES, unique=True))
    ages = draw(st.lists(st.sampled_from("12"), min_size=len(listed), max_size=len(listed)))
    seen = draw(st.lists(pools(), max_size=5, unique_by=lambda p: p.name))
    # Most slices have the pool that belongs to them.
    for entry in draw(st.lists(st.sampled_from(table), unique=True)) if table else ():
        name = f"{entry.node}-{entry.base}-{entry.prefix}"
        if all(pool.name != name for pool in seen):
            marks = draw(st.booleans()), draw(st.booleans())
            seen.append(PoolSeen(name, entry.node, "blue", entry.base, entry.prefix, *marks))
    drained = [entry for entry in table or () if entry.state == DRAINING]
    return Observed(
        network="blue",
        range=draw(
            st.sampled_from(
                [
                    ranges.build("10.0.0.0/27"),
                    ranges.build("10.0.0.0/28"),
                    ranges.build("10.0.0.0/27", exclude=["10.0.0.4/30"]),
                ]
            )
        ),
        size=draw(PREFIXES),
        wanted=draw(st.sampled_from([True, True, True, False])),
        cooldown=60.0,
        nodes=tuple(map(NodeSeen, ages, listed)),
        table=table,
        pools=tuple(seen),
        gone=frozenset(draw(st.lists(st.sampled_from(drained))) if drained else ()),
    )


@given(observations())
def test_no_two_held_slices_overlap(observed: Observed) -> None:
    table = plan(observed, NOW).table or ()
    for at, one in enumerate(table):
        assert not any(overlap(one, other) for other in table[at + 1 :])


@given(observations())
def test_a_plan_that_was_written_changes_nothing_when_made_again(observed: Observed) -> None:
    first = plan(observed, NOW)
    assume(first.table is not None)
    # What is gone was drained under the old table; the new one has no such entry any more.
    again = plan(replace(observed, table=first.table), NOW)
    assert again.table == first.table
    assert again.waiting == first.waiting
    assert again.figures == first.figures
    if observed.table is not None:
        assert again == first


@given(observations())
def test_nodes_are_served_in_order(observed: Observed) -> None:
    decided = plan(observed, NOW)
    before = {h.node for h in observed.table or ()} | {p.node for p in observed.pools}
    order = sorted(observed.nodes, key=lambda n: (n.created, n.name))
    held = [h for h in decided.table or () if h.state == ACTIVE]
    # A slice that exclusions have swallowed is none.
    active = {h.node for h in held if useful(observed, h)}
    dealt = [n.name for n in order if n.name in active and n.name not in before]
    if observed.wanted:
        assert list(decided.waiting) == [n.name for n in order if n.name not in active]
        served = [n.name for n in order if n.name in dealt or n.name in decided.waiting]
        assert served[: len(dealt)] == dealt or set(served) - set(dealt) >= set(decided.waiting)
        if decided.waiting:
            first_waiting = served.index(decided.waiting[0])
            assert not set(served[first_waiting:]) & set(dealt)
            assert decided.figures.free == 0
    else:
        assert not held
        assert not decided.waiting


@given(observations())
def test_nobody_is_dealt_what_anybody_held_or_may_write_to(observed: Observed) -> None:
    decided = plan(observed, NOW)
    known = {key(h) for h in observed.table or ()} | {key(pool) for pool in observed.pools}
    for entry in decided.table or ():
        if key(entry) not in known:
            assert not any(overlap(pool, entry) for pool in observed.pools)
    kept = {key(h) for h in decided.table or ()}
    for old in observed.table or ():
        if key(old) not in kept:
            assert old.state in (DRAINING, COOLING)
            if old.state == DRAINING:
                assert old in observed.gone
            assert all(key(pool) != key(old) for pool in observed.pools)
            assert decided.table is None or old.since is not None


@given(observations())
def test_a_listed_node_keeps_each_slice_inside_the_range(observed: Observed) -> None:
    decided = plan(observed, NOW)
    listed = {node.name for node in observed.nodes}
    for entry in observed.table or ():
        inside = last(entry.base, entry.prefix) <= observed.range.end
        if entry.state == ACTIVE and entry.node in listed and inside and observed.wanted:
            assert decided.table is not None
            assert entry in decided.table


@given(observations())
def test_actions_fit_the_table_and_the_pools(observed: Observed) -> None:
    decided = plan(observed, NOW)
    table = {key(h): h for h in decided.table or ()}
    for action in decided.actions:
        match action:
            case Create():
                assert table[key(action)].state == ACTIVE
                assert not any(overlap(action, pool) for pool in observed.pools)
            case Open(pool):
                assert pool.closed
                assert table[key(pool)].state == ACTIVE
                others = [p for p in observed.pools if p is not pool]
                assert not any(overlap(pool, other) for other in others)
            case Close(pool):
                assert not pool.closed
                assert key(pool) not in table or table[key(pool)].state != ACTIVE
                assert pool.network == "blue" or key(pool) in table
            case Delete(pool):
                assert pool.closed
                assert pool.empty
                assert key(pool) not in table or table[key(pool)].state != ACTIVE
            case Confirm(held):
                assert held in table.values()
                assert held.state == DRAINING
                assert all(key(pool) != key(held) for pool in observed.pools)
