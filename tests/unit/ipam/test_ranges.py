"""Ranges and the slices cut from them, as users configure them."""

from __future__ import annotations

import pytest

from whereabouts_fast.ipam import address, pool, ranges


def at(text: str) -> int:
    return address.parse(text)[1]


def first_addresses(space: ranges.Range, count: int) -> list[str]:
    taken: set[int] = set()
    for _ in range(count):
        offset = pool.choose(space, taken)
        assert offset is not None
        taken.add(offset)
    return [address.text(space.version, space.address(offset)) for offset in sorted(taken)]


def slice_of(whole: ranges.Range, base: str, prefix: int) -> ranges.Range:
    return whole.slice(at(base), prefix)


def test_exclusions_and_gateway_cut_into_slices() -> None:
    """T1."""
    exclude = ["10.40.0.0/30", "10.40.0.8", "10.40.0.64/26"]
    whole = ranges.build("10.40.0.0/24", exclude=exclude, reserved=["10.40.0.129"])
    assert first_addresses(slice_of(whole, "10.40.0.0", 26), 5) == [
        f"10.40.0.{host}" for host in (4, 5, 6, 7, 9)
    ]
    assert slice_of(whole, "10.40.0.64", 26).size == 0
    third = slice_of(whole, "10.40.0.128", 26)
    assert first_addresses(third, 2) == ["10.40.0.128", "10.40.0.130"]
    assert not third.usable(at("10.40.0.129"))


def test_a_window_cuts_into_slices() -> None:
    """T2."""
    whole = ranges.build("10.40.0.0/24", "10.40.0.10", "10.40.0.100")
    assert first_addresses(slice_of(whole, "10.40.0.0", 26), 1) == ["10.40.0.10"]
    second = slice_of(whole, "10.40.0.64", 26)
    assert first_addresses(second, second.size) == [f"10.40.0.{host}" for host in range(64, 101)]
    assert [slice_of(whole, f"10.40.0.{base}", 26).size for base in (128, 192)] == [0, 0]


@pytest.mark.parametrize(("cidr", "size"), [("10.0.0.0/8", 27), ("10.0.0.0/12", 27)])
def test_a_large_range_costs_no_more_than_a_small_one(cidr: str, size: int) -> None:
    """T8."""
    whole = ranges.build(cidr)
    assert whole.size == 2 ** (32 - whole.prefix) - 2
    last = whole.slice(whole.end - 31, size)
    assert last.size == 31
    assert whole.next_usable(last.base) == last.base


def test_ipv6_slices_use_every_address_but_the_first_of_the_range() -> None:
    """T9."""
    whole = ranges.build("fd10::/112")
    assert first_addresses(slice_of(whole, "fd10::", 120), 1) == ["fd10::1"]
    assert first_addresses(slice_of(whole, "fd10::100", 120), 1) == ["fd10::100"]
    assert slice_of(whole, "fd10::ff00", 120).usable(at("fd10::ffff"))


def test_an_address_outside_the_pool_has_no_offset() -> None:
    """T24."""
    half = ranges.build("10.40.0.128/25")
    with pytest.raises(ranges.RangeError, match=r"outside 10\.40\.0\.128/25"):
        half.offset(at("10.40.0.127"))
    with pytest.raises(ranges.RangeError):
        half.address(-1)
    with pytest.raises(ranges.RangeError):
        half.address(128)
    assert at("10.0.1.5") - at("10.0.0.10") == 251
    assert ranges.build("10.0.0.0/16").offset(at("10.0.1.5")) == 261


@pytest.mark.parametrize(
    ("cidr", "size"),
    [
        *(("10.0.0.0/32", 1), ("10.0.0.0/31", 2), ("10.0.0.0/30", 2)),
        *(("fd10::/128", 1), ("fd10::/127", 2), ("fd10::/126", 3), ("fd10::/64", 2**64 - 1)),
    ],
)
def test_only_the_ranges_own_network_and_broadcast_addresses_are_unusable(
    cidr: str, size: int
) -> None:
    assert ranges.build(cidr).size == size


def test_slices_of_one_or_two_addresses_use_them_all() -> None:
    whole = ranges.build("10.40.0.0/24")
    assert slice_of(whole, "10.40.0.4", 31).size == 2
    assert slice_of(whole, "10.40.0.4", 32).size == 1
    assert slice_of(whole, "10.40.0.0", 31).size == 1
    assert slice_of(whole, "10.40.0.255", 32).size == 0


def test_first_to_last_with_prefix_is_a_window_in_that_network() -> None:
    whole = ranges.build("10.0.0.5-10.0.0.9/24")
    assert whole.cidr == "10.0.0.0/24"
    assert first_addresses(whole, whole.size) == [f"10.0.0.{host}" for host in range(5, 10)]
    assert ranges.build("10.0.0.5-10.0.0.9/24", "10.0.0.1", "10.0.0.200") == whole
    assert ranges.build("fd10::5-fd10::9/64").size == 5


def test_equal_holes_make_equal_ranges_however_they_were_written() -> None:
    spans = ranges.build("10.0.0.0/24", exclude=["10.0.0.8-10.0.0.15"])
    cidrs = ranges.build("10.0.0.0/24", exclude=["10.0.0.12/30", "10.0.0.9/30", "10.0.0.13"])
    assert spans == cidrs
    assert len({spans, cidrs}) == 1


@pytest.mark.parametrize(
    ("part", "value", "arguments"),
    [
        ("range", "10.0.0/24", ("10.0.0/24",)),
        ("range", "", ("",)),
        ("range", None, (None,)),
        ("range", "::/64", ("::/64",)),
        ("range", "10.0.0.9-10.0.0.5/24", ("10.0.0.9-10.0.0.5/24",)),
        ("range", "10.0.1.9-10.0.0.5/24", ("10.0.1.9-10.0.0.5/24",)),
        ("range", "fd10::1-10.0.0.5/24", ("fd10::1-10.0.0.5/24",)),
        ("range_start", "10.1.0.0", ("10.0.0.0/24", "10.1.0.0")),
        ("range_start", "fd10::", ("10.0.0.0/24", "fd10::")),
        ("range_start", 5, ("10.0.0.0/24", 5)),
        ("range_end", "10.0.1.0", ("10.0.0.0/24", None, "10.0.1.0")),
        ("range_end", "10.0.0.8", ("10.0.0.0/24", "10.0.0.9", "10.0.0.8")),
        ("exclude", "10.0.0.0/33", ("10.0.0.0/24", None, None, ["10.0.0.0/33"])),
        ("exclude", "10.0.0.9-10.0.0.8", ("10.0.0.0/24", None, None, ["10.0.0.9-10.0.0.8"])),
        ("exclude", "10.0.0.9-fd10::", ("10.0.0.0/24", None, None, ["10.0.0.9-fd10::"])),
        ("exclude", None, ("10.0.0.0/24", None, None, [None])),
        ("gateway", "10.0.0.1/24", ("10.0.0.0/24", None, None, (), ["10.0.0.1/24"])),
    ],
)
def test_what_cannot_be_is_refused_by_part_and_value(
    part: str, value: object, arguments: tuple[str, ...]
) -> None:
    with pytest.raises(ranges.RangeError) as caught:
        ranges.build(*arguments)
    assert (caught.value.part, caught.value.value) == (part, value)


@pytest.mark.parametrize(
    ("base", "prefix"), [("10.0.1.0", 26), ("10.0.0.1", 26), ("10.0.0.0", 23), ("10.0.0.0", 33)]
)
def test_only_an_aligned_part_of_the_range_is_a_slice(base: str, prefix: int) -> None:
    with pytest.raises(ranges.RangeError, match="not a slice"):
        slice_of(ranges.build("10.0.0.0/24"), base, prefix)
