"""What is kept at each change equals what a search through everything finds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from whereabouts_fast.controller.poolmap import PoolMap
from whereabouts_fast.ipam.blocks import Blocks
from whereabouts_fast.resources.pools import PoolView, decode_pool

BASE = 0x0A000000
BLOCKS = st.tuples(st.integers(0, 255), st.integers(24, 32)).map(
    lambda one: (BASE + (one[0] >> (32 - one[1]) << (32 - one[1])), one[1])
)
INTERVALS = st.tuples(st.integers(0, 300), st.integers(0, 60)).map(
    lambda one: (BASE - 20 + one[0], BASE - 20 + one[0] + one[1])
)


def touches(base: int, prefix: int, low: int, high: int) -> bool:
    return base <= high and low < base + (1 << (32 - prefix))


@given(
    st.lists(st.tuples(BLOCKS, st.sampled_from("abcd")), unique=True, max_size=20),
    st.data(),
    st.lists(INTERVALS, max_size=3),
)
def test_blocks_are_found_by_address(
    blocks: list[tuple[tuple[int, int], str]],
    data: st.DataObject,
    intervals: list[tuple[int, int]],
) -> None:
    index = Blocks(32)
    for (base, prefix), name in blocks:
        index.add(base, prefix, name)
    for gone in data.draw(st.lists(st.sampled_from(blocks), unique=True)) if blocks else []:
        blocks = [one for one in blocks if one != gone]
        index.remove(*gone[0], gone[1])
    assert len(index) == len(blocks)
    for low, high in intervals:
        assert sorted(index.touching(low, high)) == sorted(
            name for block, name in blocks if touches(*block, low, high)
        )
    assert sorted(index.outside(intervals)) == sorted(
        name for block, name in blocks if not any(touches(*block, *one) for one in intervals)
    )


def pool(number: int, kind: tuple[str, str, str, str, bool, bool]) -> PoolView:
    """A pool in one of a few states; each state has its own version."""
    name, node, network, cidr, closed, overlapping = kind
    spec = {"range": cidr, "allocations": {}, "node": node, "network": network, "closed": closed}
    return decode_pool(
        {
            "metadata": {"name": name, "uid": f"{name}-uid", "resourceVersion": str(number)},
            "spec": {**spec, "overlapping": overlapping},
        }
    )


NAMES = ("n1-10.0.0.0-26", "blue-n1-10.0.0.0-26", "10.0.0.0-24", "blue-10.0.0.0-24", "odd")
KINDS = st.tuples(
    st.sampled_from(NAMES),
    st.sampled_from(("", "n1")),
    st.sampled_from(("", "blue", "red")),
    st.sampled_from(("10.0.0.0/26", "10.0.0.0/24", "fd00::/120", "bad")),
    st.booleans(),
    st.booleans(),
)
STEPS = st.lists(st.tuples(st.sampled_from(("seen", "wrote", "deleted", "gone")), KINDS))


@given(STEPS)
def test_the_map_of_pools_equals_a_search(steps: list[tuple[str, tuple[object, ...]]]) -> None:
    cached: dict[str, PoolView] = {}
    pools = PoolMap(cached.get)
    numbers = count(1)
    for step, kind in steps:
        one = pool(next(numbers), kind)  # type: ignore[arg-type]
        old = cached.get(one.key)
        if step == "seen":
            cached[one.key] = one
            pools.observe(old, one)
        elif step == "gone" and old is not None:
            del cached[one.key]
            pools.observe(old, None)
        elif step in ("wrote", "deleted"):
            write = pools.recent.begin(one.key)
            if step == "wrote":
                pools.recent.wrote(write, one, created=old is None)
            else:
                pools.recent.deleted(write, one.uid)
            pools.recent.end(write)
        compare(pools, cached)
    pools.begin_term()
    assert set(pools.values()) == set(cached.values())
    compare(pools, cached)


def compare(pools: PoolMap, cached: dict[str, PoolView]) -> None:
    keys = {*cached, *pools.recent.keys()}
    latest = [one for key in keys if (one := pools.recent.latest(key, cached.get(key)))]
    assert set(pools.values()) == set(latest)
    readable = [one for one in latest if not one.problem]
    for space in ("", "blue", "red"):
        compare_space(pools, space, [one for one in readable if one.may_be_in(space)])
    assert {one.name for one in pools.unreadable()} == {o.name for o in latest if o.problem}
    homes: dict[str, set[str]] = {}
    for one in readable:
        if one.exact and one.network:
            homes.setdefault(one.network, set()).add(one.space)
    assert pools.homes() == homes


def compare_space(pools: PoolMap, space: str, within: list[PoolView]) -> None:
    def inside(one: PoolView) -> bool:
        return one.version == 4 and touches(one.base, one.prefix, BASE, BASE + 63)

    def own(one: PoolView) -> bool:
        return one.exact and bool(one.node)

    def found(judge: Callable[[PoolView], bool]) -> set[str]:
        return {one.name for one in within if judge(one)}

    def names(views: list[PoolView]) -> set[str]:
        assert len({one.name for one in views}) == len(views)
        return {one.name for one in views}

    part = (BASE, BASE + 63)
    assert names(pools.of(space)) == found(lambda _: True)
    assert names(pools.apart(space)) == found(
        lambda one: one.overlapping or one.lifted or not one.node
    )
    assert names(pools.shared(space)) == found(lambda one: one.exact and not one.node)
    assert names(pools.strays(space, lambda *_: [part])) == found(
        lambda one: own(one) and one.space == space and not inside(one)
    )
    assert names(pools.strangers(space, "blue", 4, part)) == found(
        lambda one: inside(one) and not (own(one) and one.network == "blue")
    )
