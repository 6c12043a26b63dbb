"""One range of addresses with its usable window and holes, by interval arithmetic.

Nothing here ever walks over addresses: a /64 costs as much as a /30.
"""

from __future__ import annotations

from whereabouts_fast.ipam import address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    Interval = tuple[int, int]

_MAPPED_FIRST = 0xFFFF_0000_0000
_MAPPED_LAST = 0xFFFF_FFFF_FFFF


class RangeError(ValueError):
    """A range that cannot be, or an address outside it.

    `part` is the configuration key at fault (range, range_start, range_end, exclude, gateway, or
    "" for arithmetic), `value` the offending text; str() completes a sentence that begins with it.
    """

    def __init__(self, problem: str, part: str = "", value: object = None) -> None:
        super().__init__(problem)
        self.part = part
        self.value = value


class Range:
    """The usable addresses of one CIDR: a window, less the holes in it.

    `base` is the first address of the CIDR; `first` to `last` is the window, inclusive, and
    empty when first > last; `excluded` are sorted, disjoint, non-adjacent inclusive intervals
    inside the window. All are integers (see address.py). Instances are values: do not change them.
    """

    __slots__ = ("base", "excluded", "first", "last", "prefix", "version")

    def __init__(
        self,
        version: int,
        base: int,
        prefix: int,
        first: int,
        last: int,
        excluded: tuple[Interval, ...] = (),
    ) -> None:
        self.version = version
        self.base = base
        self.prefix = prefix
        self.first = first
        self.last = last
        self.excluded = excluded

    @property
    def cidr(self) -> str:
        """The canonical text of the CIDR."""
        return address.cidr_text(self.version, self.base, self.prefix)

    @property
    def end(self) -> int:
        """The last address of the CIDR."""
        return self.base | (1 << address.width(self.version) - self.prefix) - 1

    @property
    def size(self) -> int:
        """The number of usable addresses."""
        if self.first > self.last:
            return 0
        return self.last - self.first + 1 - sum(high - low + 1 for low, high in self.excluded)

    def usable(self, value: int) -> bool:
        """Tell whether an address may be given to an attachment."""
        return self.next_usable(value) == value

    def next_usable(self, value: int) -> int | None:
        """Return the lowest usable address that is not below `value`; None when there is none."""
        value = max(value, self.first)
        low, high = 0, len(self.excluded)
        while low < high:
            middle = (low + high) // 2
            if self.excluded[middle][1] < value:
                low = middle + 1
            else:
                high = middle
        if low < len(self.excluded) and self.excluded[low][0] <= value:
            # Holes never touch each other, so the address after one is free of the next.
            value = self.excluded[low][1] + 1
        return value if value <= self.last else None

    def offset(self, value: int) -> int:
        """Return address minus base; RangeError when the CIDR does not hold the address."""
        if not self.base <= value <= self.end:
            raise RangeError(f"address {value} is outside {self.cidr}")
        return value - self.base

    def address(self, offset: int) -> int:
        """Return base plus offset; RangeError when that is outside the CIDR."""
        if not 0 <= offset <= self.end - self.base:
            raise RangeError(f"offset {offset} is outside {self.cidr}")
        return self.base + offset

    def overlaps(self, other: Range) -> bool:
        """Tell whether the two CIDRs share an address, usable or not."""
        return self.version == other.version and self.base <= other.end and other.base <= self.end

    def contains(self, other: Range) -> bool:
        """Tell whether every address of the other CIDR is in this one."""
        return self.version == other.version and self.base <= other.base and other.end <= self.end

    def slice(self, base: int, prefix: int) -> Range:
        """Return the part inside the CIDR base/prefix, with its own base and the same usable rule.

        Raises RangeError when base is not the first address of such a CIDR inside this range.
        """
        part = Range(self.version, base, prefix, 0, 0)
        host_bits = address.width(self.version) - prefix
        if (
            prefix < self.prefix
            or host_bits < 0
            or base & (1 << host_bits) - 1
            or not self.contains(part)
        ):
            raise RangeError(f"{base}/{prefix} is not a slice of {self.cidr}")
        part.first = max(self.first, base)
        part.last = min(self.last, part.end)
        part.excluded = _clip(self.excluded, part.first, part.last)
        return part

    def _key(self) -> tuple[object, ...]:
        return (self.version, self.base, self.prefix, self.first, self.last, self.excluded)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Range) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Range({self.cidr}, {self.first - self.base}..{self.last - self.base})"


def build(
    cidr: str,
    first: str | None = None,
    last: str | None = None,
    exclude: Iterable[str] = (),
    reserved: Iterable[str] = (),
) -> Range:
    """Build a Range from the texts of a configuration.

    `cidr` is a CIDR (host bits are dropped) or `first-last/prefix`, whose window then wins over
    `first` and `last`. `exclude` holds CIDRs, addresses and `a-b`; `reserved` addresses that are
    never given out (gateways). Of these, what lies outside the range or is of the other family
    excludes nothing. The network address and the IPv4 broadcast address are unusable unless the
    range is no more than two addresses (RFC 3021, RFC 6164). Raises RangeError.
    """
    start, dash, rest = cidr.partition("-") if isinstance(cidr, str) else ("", "", cidr)
    try:
        version, value, prefix = address.parse_cidr(rest if dash else cidr)
    except address.AddressError as error:
        raise RangeError(str(error), "range", cidr) from None
    host_bits = address.width(version) - prefix
    base = value >> host_bits << host_bits
    end = base | (1 << host_bits) - 1
    if version == 6 and base <= _MAPPED_LAST and end >= _MAPPED_FIRST:
        raise RangeError("holds the IPv4-mapped addresses ::ffff:0:0/96", "range", cidr)
    if dash:
        low, high = _inside(start, version, base, end, "range", cidr), value
    else:
        low = base if first is None else _inside(first, version, base, end, "range_start", first)
        high = end if last is None else _inside(last, version, base, end, "range_end", last)
    if low > high:
        part, shown = ("range", cidr) if dash else ("range_end", last)
        if not dash and last is None:
            part, shown = "range_start", first
        raise RangeError("ends before it starts", part, shown)
    if host_bits > 1:
        low = max(low, base + 1)
        high = min(high, end - 1 if version == 4 else end)
    holes = [_hole(text, "exclude") for text in exclude]
    holes += [_hole(text, "gateway") for text in reserved]
    merged = _merge(sorted((a, b) for family, a, b in holes if family == version))
    return Range(version, base, prefix, low, high, _clip(merged, low, high))


def _inside(text: str, version: int, base: int, end: int, part: str, shown: object) -> int:
    try:
        family, value = address.parse(text)
    except address.AddressError as error:
        raise RangeError(str(error), part, shown) from None
    if family != version or not base <= value <= end:
        raise RangeError("is outside the range", part, shown)
    return value


def _hole(text: str, part: str) -> tuple[int, int, int]:
    low, dash, high = "", "", ""
    if isinstance(text, str) and part == "exclude":
        low, dash, high = text.partition("-")
    try:
        if dash:
            version, first = address.parse(low)
            family, last = address.parse(high)
            if family != version or last < first:
                raise RangeError("ends before it starts", part, text)
            return version, first, last
        if part == "exclude" and "/" in low:
            version, value, prefix = address.parse_cidr(text)
            mask = (1 << address.width(version) - prefix) - 1
            return version, value & ~mask, value | mask
        version, value = address.parse(text)
    except address.AddressError as error:
        raise RangeError(str(error), part, text) from None
    return version, value, value


def _merge(holes: list[Interval]) -> list[Interval]:
    merged: list[Interval] = []
    for low, high in holes:
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


def _clip(holes: Iterable[Interval], first: int, last: int) -> tuple[Interval, ...]:
    return tuple(
        (max(low, first), min(high, last))
        for low, high in holes
        if low <= last and high >= first and first <= last
    )
