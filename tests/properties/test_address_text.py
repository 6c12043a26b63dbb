"""Addresses against the standard library as oracle."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from whereabouts_fast.ipam import address

IPV4 = st.integers(0, 2**32 - 1)
# Runs of zeros and ones decide how IPv6 is shortened; uniform integers have hardly any.
GROUP = st.sampled_from([0, 0, 0, 1, 0xFFFF]) | st.integers(0, 0xFFFF)
IPV6 = st.lists(GROUP, min_size=8, max_size=8).map(
    lambda groups: sum(group << 16 * place for place, group in enumerate(groups))
)
ALPHABET = "0123456789abcdefABCDEF:./% -x\u0663\u00b2\x00"
NEARLY = (
    st.text(ALPHABET, max_size=45)
    | IPV4.map(lambda value: str(ipaddress.IPv4Address(value)))
    | IPV6.map(lambda value: str(ipaddress.IPv6Address(value)))
    | IPV6.map(lambda value: ipaddress.IPv6Address(value).exploded.upper())
)


def mapped(value: int) -> bool:
    return value >> 32 == 0xFFFF


@given(IPV4)
def test_ipv4_text_is_what_the_standard_library_prints_and_reads_back(value: int) -> None:
    shown = address.text(4, value)
    assert shown == str(ipaddress.IPv4Address(value))
    assert address.parse(shown) == (4, value)


@given(IPV6)
@example(0)
@example(0x01020304)
@example(0x10000)
@example(2**128 - 1)
def test_ipv6_text_is_what_the_standard_library_prints_and_reads_back(value: int) -> None:
    assume(not mapped(value))
    shown = address.text(6, value)
    assert shown == str(ipaddress.IPv6Address(value))
    assert address.parse(shown) == (6, value)


@given(NEARLY)
@example("010.0.0.1")
@example("::1.2.3.4")
@example("fe80::1%eth0")
@example("1.2.3.4\n")
def test_text_is_an_address_exactly_where_the_standard_library_says_so(text: str) -> None:
    try:
        oracle = ipaddress.ip_address(text)
    except ValueError:
        oracle = None
    if oracle is None or "%" in text or (oracle.version == 6 and mapped(int(oracle))):
        with pytest.raises(address.AddressError):
            address.parse(text)
    else:
        assert address.parse(text) == (oracle.version, int(oracle))


@given(NEARLY, st.text("0123456789-+ _\u0663", max_size=4))
@example("10.0.0.0", "33")
@example("fd10::", "129")
@example("10.0.0.0", "024")
def test_text_is_a_cidr_exactly_where_the_standard_library_says_so(host: str, prefix: str) -> None:
    assume("/" not in host)
    text = f"{host}/{prefix}"
    try:
        address.parse(host)
        oracle = ipaddress.ip_interface(text)
    except ValueError:
        oracle = None
    if oracle is None or len(prefix) > 3:
        with pytest.raises(address.AddressError):
            address.parse_cidr(text)
    else:
        version, value, length = address.parse_cidr(text)
        assert (version, value, length) == (oracle.version, int(oracle), oracle.network.prefixlen)
        assert address.cidr_text(version, value, length) == str(oracle.network)


@given(st.none() | st.integers() | st.floats() | st.binary() | st.lists(st.text()) | st.text())
def test_anything_else_is_an_address_error(value: object) -> None:
    assume(not isinstance(value, str) or ("." not in value and ":" not in value))
    with pytest.raises(address.AddressError):
        address.parse(value)  # type: ignore[arg-type]
    with pytest.raises(address.AddressError):
        address.parse_cidr(value)  # type: ignore[arg-type]
