"""Addresses are counted so that they sum to the size of what they are in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from whereabouts_fast.controller.census import _addresses
from whereabouts_fast.ipam import address, ranges

RANGES = ("10.0.0.0/24", "10.0.0.0/31", "10.0.0.7/32", "fd10::/120", "fd10::/128")


@given(
    st.sampled_from(RANGES),
    st.lists(st.integers(0, 255), max_size=4),
    st.integers(0, 400),
    st.integers(0, 8),
)
def test_states_sum_to_the_size(text: str, holes: list[int], allocated: int, longer: int) -> None:
    first = ranges.build(text)
    exclude = [address.text(first.version, first.base + hole) for hole in holes]
    inside = [
        one for one, hole in zip(exclude, holes, strict=True) if hole <= first.end - first.base
    ]
    whole = ranges.build(text, exclude=inside)
    prefix = min(whole.prefix + longer, address.width(whole.version))
    part = whole.slice(whole.base, prefix)
    counted = _addresses(part, whole, allocated)
    assert sum(counted.values()) == 1 << (address.width(whole.version) - prefix)
    assert min(counted.values()) >= 0
    if allocated <= part.size:
        assert counted["free"] == part.size - allocated
        assert counted["allocated"] == allocated


def test_only_the_ends_of_the_whole_range_are_reserved() -> None:
    whole = ranges.build("10.0.0.0/24", exclude=["10.0.0.1", "10.0.0.70"])
    parts = [whole.slice(whole.base + 64 * n, 26) for n in range(4)]
    counted = [_addresses(part, whole, 3) for part in parts]
    assert [one["reserved"] for one in counted] == [1, 0, 0, 1]
    assert [one["excluded"] for one in counted] == [1, 1, 0, 0]
    assert [one["free"] for one in counted] == [59, 60, 61, 60]
