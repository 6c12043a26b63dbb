"""Addresses as exact integers: text to (version, value) and back, for IPv4 and IPv6.

An address is a pair of its IP version (4 or 6) and its value as an unsigned integer of 32 or
128 bits. This module is frozen into the CNI plugin: see the import diet in ARCHITECTURE.md.
"""

from __future__ import annotations

import _socket

_MAPPED = 0xFFFF


class AddressError(ValueError):
    """A text that is not an address or CIDR, or a value that no address of its version has."""


def width(version: int) -> int:
    """Return the number of bits of an address: 32 for version 4, 128 for version 6."""
    return 32 if version == 4 else 128


def parse(text: str) -> tuple[int, int]:
    """Read one address and return (version, value).

    Leading zeros, surrounding space, zones and IPv4-mapped IPv6 (RFC 4291 section 2.5.5.2) are
    refused with AddressError: each of them means different things to different programs.
    """
    if isinstance(text, str):
        try:
            if ":" not in text:
                return 4, int.from_bytes(_socket.inet_pton(_socket.AF_INET, text), "big")
            value = int.from_bytes(_socket.inet_pton(_socket.AF_INET6, text), "big")
        except (OSError, ValueError):
            pass
        else:
            if value >> 32 != _MAPPED:
                return 6, value
            raise AddressError("is an IPv4 address written as IPv6")
    raise AddressError("is not an IPv4 or IPv6 address (no leading zeros, spaces or zones)")


def text(version: int, value: int) -> str:
    """Return the canonical text of an address (RFC 5952), as Go prints it.

    Raises AddressError for a value outside 0 to 2**width - 1.
    """
    if value < 0 or value >> width(version):
        raise AddressError(f"{value} is not the value of an IPv{version} address")
    if version == 4:
        return _socket.inet_ntop(_socket.AF_INET, value.to_bytes(4, "big"))
    shown = _socket.inet_ntop(_socket.AF_INET6, value.to_bytes(16, "big"))
    if "." in shown:
        # The C library shows the last 32 bits of ::a.b.c.d and ::ffff:a.b.c.d in decimal.
        head = shown[: shown.rindex(":") + 1]
        return f"{head}{value >> 16 & 0xFFFF:x}:{value & 0xFFFF:x}"
    return shown


def parse_cidr(text: str) -> tuple[int, int, int]:
    """Read `address/prefix` and return (version, value, prefix); host bits are kept.

    Raises AddressError, whose text completes a sentence that begins with the value.
    """
    if not isinstance(text, str):
        raise AddressError("is not a CIDR")
    host, slash, length = text.partition("/")
    if not slash:
        raise AddressError("is not a CIDR")
    version, value = parse(host)
    if not (length.isascii() and length.isdigit() and len(length) <= 3):
        raise AddressError("has no prefix length in decimal digits after the slash")
    prefix = int(length)
    if prefix > width(version):
        raise AddressError(f"has a prefix longer than the {width(version)} bits of its address")
    return version, value, prefix


def cidr_text(version: int, base: int, prefix: int) -> str:
    """Return the canonical `address/prefix` of the network that holds `base`."""
    host_bits = width(version) - prefix
    return f"{text(version, base >> host_bits << host_bits)}/{prefix}"
