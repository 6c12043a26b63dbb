"""Single addresses whose text has surprised people."""

from __future__ import annotations

import pytest

from whereabouts_fast.ipam import address


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("FD10:0:0:0:0:0:0:1", "fd10::1"),
        ("1:0:0:2:0:0:0:3", "1:0:0:2::3"),
        ("1:0:2:3:4:5:6:7", "1:0:2:3:4:5:6:7"),
        ("::1.2.3.4", "::102:304"),
        ("::", "::"),
        ("10.40.0.7", "10.40.0.7"),
    ],
)
def test_text_is_canonical(written: str, canonical: str) -> None:
    assert address.text(*address.parse(written)) == canonical


def test_ipv6_text_never_holds_a_dotted_quad() -> None:
    assert address.text(6, 0xFFFF_0A00_0000) == "::ffff:a00:0"
    assert address.text(6, 0x0A00_0000) == "::a00:0"


@pytest.mark.parametrize("text", ["::ffff:10.0.0.0", "::FFFF:a00:1", "0:0:0:0:0:ffff:1:2"])
def test_ipv4_inside_ipv6_is_refused(text: str) -> None:
    with pytest.raises(address.AddressError, match="written as IPv6"):
        address.parse(text)


@pytest.mark.parametrize(("version", "value"), [(4, -1), (4, 2**32), (6, -1), (6, 2**128)])
def test_a_value_that_no_address_has_is_refused(version: int, value: int) -> None:
    with pytest.raises(address.AddressError):
        address.text(version, value)


def test_host_bits_are_kept_on_reading_and_dropped_on_writing() -> None:
    assert address.parse_cidr("10.40.0.7/24") == (4, 0x0A280007, 24)
    assert address.cidr_text(4, 0x0A280007, 24) == "10.40.0.0/24"


@pytest.mark.parametrize("text", ["10.0.0.0", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/33", "/24", ""])
def test_what_is_no_cidr_is_refused(text: str) -> None:
    with pytest.raises(address.AddressError):
        address.parse_cidr(text)
