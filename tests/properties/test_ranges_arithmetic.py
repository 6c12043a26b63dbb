"""Ranges against brute force over every address of a small CIDR."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whereabouts_fast.ipam import address, pool, ranges

FIRST_BASES = {4: [0, 10 << 24 | 40 << 16, 2**32 - 256], 6: [0xFD10 << 112, 2**64, 2**128 - 256]}


@dataclass
class Sample:
    built: ranges.Range
    usable: set[int]
    holder: ipaddress.IPv4Network | ipaddress.IPv6Network


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    version = draw(st.sampled_from([4, 6]))
    width = address.width(version)
    size_bits = draw(st.integers(0, 8))
    base = draw(st.sampled_from(FIRST_BASES[version]))
    base += draw(st.integers(0, 255)) >> size_bits << size_bits
    end = base + (1 << size_bits) - 1

    def near() -> int:
        low, high = max(0, base - 3), min((1 << width) - 1, end + 3)
        return draw(st.integers(low, high))

    def shown(value: int) -> str:
        return address.text(version, value)

    usable = set(range(base, end + 1))
    if size_bits > 1:
        usable -= {base, end} if version == 4 else {base}
    first = last = None
    window = draw(st.sampled_from(["none", "keys", "text"]))
    host = draw(st.integers(base, end))
    cidr = f"{shown(host)}/{width - size_bits}"
    if window != "none":
        low, high = sorted([draw(st.integers(base, end)), draw(st.integers(base, end))])
        usable &= set(range(low, high + 1))
        if window == "text":
            cidr = f"{shown(low)}-{shown(high)}/{width - size_bits}"
        else:
            first, last = shown(low), shown(high)
    exclude = []
    for kind in draw(st.lists(st.sampled_from(["one", "cidr", "span"]), max_size=5)):
        low, high = sorted([near(), near()])
        if kind == "one":
            exclude.append(shown(low))
            usable.discard(low)
        elif kind == "span":
            exclude.append(f"{shown(low)}-{shown(high)}")
            usable -= set(range(low, high + 1))
        else:
            prefix = draw(st.integers(width - 8, width))
            exclude.append(f"{shown(low)}/{prefix}")
            hole = ipaddress.ip_network(exclude[-1], strict=False)
            usable -= set(range(int(hole[0]), int(hole[-1]) + 1))
    gateway = near()
    usable.discard(gateway)
    other_family = "10.0.0.0/8" if version == 6 else "::/1"
    built = ranges.build(cidr, first, last, [*exclude, other_family], [shown(gateway)])
    return Sample(built, usable, ipaddress.ip_network(f"{shown(base)}/{width - size_bits}"))


def everywhere(sample: Sample) -> range:
    return range(max(0, sample.built.base - 2), sample.built.end + 3)


def lowest(candidates: set[int], floor: int) -> int | None:
    return min((value for value in candidates if value >= floor), default=None)


@given(samples())
def test_a_range_has_exactly_the_addresses_that_counting_finds(sample: Sample) -> None:
    built = sample.built
    assert built.size == len(sample.usable)
    assert {value for value in everywhere(sample) if built.usable(value)} == sample.usable
    assert built.cidr == str(sample.holder)
    assert (built.base, built.end) == (int(sample.holder[0]), int(sample.holder[-1]))


@given(samples())
def test_the_next_usable_address_is_the_lowest_that_counting_finds(sample: Sample) -> None:
    for floor in everywhere(sample):
        assert sample.built.next_usable(floor) == lowest(sample.usable, floor)


@given(samples())
def test_excluded_intervals_are_sorted_apart_and_inside_the_window(sample: Sample) -> None:
    built = sample.built
    for low, high in built.excluded:
        assert built.first <= low <= high <= built.last
    for (_, high), (low, _) in zip(built.excluded, built.excluded[1:], strict=False):
        assert high + 1 < low


@given(samples(), st.data())
def test_slices_share_the_range_out_without_rest(sample: Sample, data: st.DataObject) -> None:
    built = sample.built
    prefix = data.draw(st.integers(built.prefix, address.width(built.version)))
    found: set[int] = set()
    for network in sample.holder.subnets(new_prefix=prefix):
        part = built.slice(int(network[0]), prefix)
        members = {int(network[0]) + offset for offset in range(part.end - part.base + 1)}
        usable = {value for value in members if part.usable(value)}
        assert usable == sample.usable & members
        assert part.size == len(usable)
        assert part.cidr == str(network)
        found |= usable
    assert found == sample.usable


@given(samples(), st.data())
def test_the_chosen_offset_is_the_lowest_free_one(sample: Sample, data: st.DataObject) -> None:
    built = sample.built
    inside = st.integers(0, built.end - built.base)
    taken = data.draw(st.sets(inside) | st.just({value - built.base for value in sample.usable}))
    start = data.draw(st.none() | st.integers(0, built.end - built.base + 2))
    free = {value - built.base for value in sample.usable} - taken
    expected = lowest(free, start or 0)
    assert pool.choose(built, taken, start=start) == expected
    assert pool.choose(built, dict.fromkeys(taken), start=start) == expected


@given(samples())
def test_offsets_and_addresses_are_each_other_inside_and_errors_outside(sample: Sample) -> None:
    built = sample.built
    for value in everywhere(sample):
        if built.base <= value <= built.end:
            assert built.address(built.offset(value)) == value
        else:
            with pytest.raises(ranges.RangeError):
                built.offset(value)
            with pytest.raises(ranges.RangeError):
                built.address(value - built.base)


@given(samples(), samples())
def test_overlap_and_containment_are_those_of_the_standard_library(a: Sample, b: Sample) -> None:
    same = a.holder.version == b.holder.version
    assert a.built.overlaps(b.built) == (same and a.holder.overlaps(b.holder))
    inside = same and b.holder.subnet_of(a.holder)  # type: ignore[arg-type]
    assert a.built.contains(b.built) == inside


@given(samples())
def test_ranges_are_values(sample: Sample) -> None:
    built = sample.built
    twin = ranges.Range(
        built.version, built.base, built.prefix, built.first, built.last, built.excluded
    )
    assert twin == built
    assert hash(twin) == hash(built)
    assert built != ranges.build("192.0.2.0/24")
