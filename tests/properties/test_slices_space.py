"""Interval arithmetic over slices, compared with walking over every one of them."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from whereabouts_fast.ipam.ranges import Range
from whereabouts_fast.ipam.space import Claimed, FreeSlices, contested, merged

BASE = 0x0A000000


@st.composite
def intervals(draw: st.DrawFn, low: int, high: int) -> tuple[int, int]:
    first = draw(st.integers(low, high))
    return first, draw(st.integers(first, min(high, first + 40)))


@st.composite
def wholes(draw: st.DrawFn) -> Range:
    prefix = draw(st.integers(24, 30))
    end = BASE + (1 << (32 - prefix)) - 1
    first = draw(st.integers(BASE, end))
    last = draw(st.integers(BASE - 1, end))
    holes = merged(draw(st.lists(intervals(BASE, end), max_size=6)))
    inside = [(max(low, first), min(high, last)) for low, high in holes]
    return Range(
        4, BASE, prefix, first, last, tuple((low, high) for low, high in inside if low <= high)
    )


CLAIMS = st.lists(intervals(BASE - 20, BASE + 280), max_size=8)


def by_walking(whole: Range, size: int, claims: list[tuple[int, int]]) -> list[int]:
    step = 1 << (32 - size)
    return [
        base
        for base in range(whole.base, whole.end + 1, step)
        if size >= whole.prefix
        and any(map(whole.usable, range(base, base + step)))
        and not any(low < base + step and base <= high for low, high in claims)
    ]


@given(wholes(), st.integers(23, 32), CLAIMS)
def test_free_slices_are_those_that_walking_finds(
    whole: Range, size: int, claims: list[tuple[int, int]]
) -> None:
    space = FreeSlices(whole, size, claims)
    expected = by_walking(whole, size, claims)
    assert space.count() == len(expected)
    taken = []
    while (base := space.take()) is not None:
        taken.append(base)
    assert taken == expected
    assert space.take() is None


@given(CLAIMS, intervals(BASE - 20, BASE + 300))
def test_claimed_answers_as_a_set_of_addresses_does(
    claims: list[tuple[int, int]], asked: tuple[int, int]
) -> None:
    claimed = Claimed([])
    addresses: set[int] = set()
    for low, high in claims:
        interval = set(range(low, high + 1))
        assert claimed.touches(low, high) == bool(addresses & interval)
        if not addresses & interval:
            claimed.add(low, high)
            addresses |= interval
    low, high = asked
    assert claimed.touches(low, high) == bool(addresses & set(range(low, high + 1)))
    assert Claimed(claims).touches(low, high) == any(a <= high and low <= b for a, b in claims)


@given(st.lists(st.tuples(intervals(0, 60), st.sampled_from("abc")), max_size=10))
def test_contested_are_the_claims_that_share_an_address(
    drawn: list[tuple[tuple[int, int], str]],
) -> None:
    claims = [(low, high, node) for (low, high), node in drawn]
    expected = {
        claim
        for pair in combinations(set(claims), 2)
        if pair[0][0] <= pair[1][1] and pair[1][0] <= pair[0][1]
        for claim in pair
    }
    assert contested(claims) == expected
