"""The networks of one plugin configuration: a validated Network for each range in it."""

from __future__ import annotations

from whereabouts_fast.ipam import address, checks, naming, ranges
from whereabouts_fast.ipam.checks import MISSING, ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Value = TypeVar("Value")

RANGE_KEYS = frozenset(("range", "range_start", "range_end", "exclude"))

_NAME_REMEDY = 'set network_name to lower case letters, digits, "-" and ".", 200 at most'
_RANGE_REMEDIES = {
    "range": "write a CIDR such as 10.40.0.0/24 or 10.40.0.5-10.40.0.9/24",
    "range_start": "give an address of the range, not above range_end",
    "range_end": "give an address of the range, not below range_start",
    "exclude": "list CIDRs, addresses or first-last",
}


class Network:
    """One range that an attachment gets an address from.

    `name` (network_name, else the CNI name) with `range.cidr` is its identity; `network_name` is
    "" for a network of the unnamed address space. `slice_size` is a prefix length, None in classic
    mode. Cooldowns are in seconds. `gateway` is "" unless it is of the range's family.
    """

    __slots__ = (
        "address_cooldown",
        "gateway",
        "name",
        "network_name",
        "overlap_check",
        "range",
        "slice_cooldown",
        "slice_max",
        "slice_size",
    )

    name: str
    network_name: str
    range: ranges.Range
    slice_size: int | None
    slice_max: int
    slice_cooldown: float
    address_cooldown: float
    overlap_check: bool
    gateway: str

    @property
    def identity(self) -> tuple[str, str]:
        """Name and canonical range, which together tell networks apart."""
        return self.name, self.range.cidr

    def _key(self) -> tuple[object, ...]:
        return tuple(getattr(self, slot) for slot in self.__slots__)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Network) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Network{self.identity}"


class Section:
    """Looks keys up in `places`, where the first that has one wins.

    A wrong value raises ConfigError when strict; else it joins `problems` and the next place, or
    the default, is taken.
    """

    __slots__ = ("places", "problems", "strict")

    def __init__(self, *, strict: bool) -> None:
        self.places: tuple[tuple[dict[str, Any], str], ...] = ()
        self.problems: list[ConfigError] = []
        self.strict = strict

    def get(self, key: str, check: Callable[[object, str], Value], default: Value) -> Value:
        """Return the checked value of a key."""
        for place, prefix in self.places:
            value = place.get(key)
            if value is None or (value == "" and key != "node_slice_size"):
                continue
            try:
                return check(value, prefix + key)
            except ConfigError as error:
                self.refuse(error)
        return default

    def object(self, key: str, value: object) -> dict[str, Any]:
        """Return a value that must be a JSON object, {} when it is not."""
        try:
            if value is None:
                raise ConfigError(key, None, MISSING, "write an object")
            return checks.json_object(value, key)
        except ConfigError as error:
            self.refuse(error)
            return {}

    def refuse(self, error: ConfigError) -> None:
        """Raise or keep an error."""
        if self.strict:
            raise error
        self.problems.append(error)


def read_networks(
    section: Section, name: str, network_name: str, size: int | None
) -> tuple[Network, ...]:
    """Return one Network per range, in order; all of them or, when not strict, none.

    `size` is the prefix length of a slice, None in classic mode.
    """
    gateway = section.get("gateway", checks.one_address, "")
    overlap_check = section.get("enable_overlapping_ranges", checks.boolean, True)
    slice_max = section.get("node_slice_max", checks.slice_max, 8)
    slice_cooldown = section.get("node_slice_cooldown", checks.seconds(0, checks.YEAR), 60.0)
    address_cooldown = section.get(
        "address_cooldown", checks.seconds(0, checks.YEAR), 0.0 if size is None else 30.0
    )
    networks: list[Network] = []
    try:
        if not (network_name or name):
            raise ConfigError("name", None, MISSING, "name the network")
        for prefix, entry in _range_entries(section):
            network = Network()
            network.name = network_name or name
            network.network_name = network_name
            network.range = space = _range(section, prefix, entry, gateway)
            first = networks[0].range if networks else space
            network.slice_size = None if size is None else _scaled(size, first, space)
            network.gateway = gateway if (":" in gateway) == (space.version == 6) else ""
            network.overlap_check = overlap_check
            network.slice_max = slice_max
            network.slice_cooldown = slice_cooldown
            network.address_cooldown = address_cooldown
            _check_names(network, prefix + "range")
            if any(network.range.cidr == other.range.cidr for other in networks):
                raise ConfigError(
                    prefix + "range", entry.get("range"), "is there twice", "list it once"
                )
            networks.append(network)
    except ConfigError as error:
        section.refuse(error)
        return ()
    return tuple(networks)


def _range_entries(section: Section) -> list[tuple[str, dict[str, Any]]]:
    (own, _), (flat, _) = section.places
    # A window or hole of the flat file belongs to the flat file's range, not to this one.
    merged = own if own.get("range") or own.get("ipRanges") else {**flat, **own}
    entries = [("ipam.", merged)] if merged.get("range") else []
    more = merged.get("ipRanges") or []
    if not isinstance(more, list):
        raise ConfigError("ipam.ipRanges", more, "is not a list", "list objects with a range")
    for index, entry in enumerate(more):
        key = f"ipam.ipRanges[{index}]"
        if not isinstance(entry, dict):
            raise ConfigError(key, entry, "is not an object", "write an object with a range")
        entries.append((key + ".", entry))
    if not entries:
        raise ConfigError("ipam.range", None, MISSING, _RANGE_REMEDIES["range"])
    return entries


def _range(section: Section, prefix: str, entry: dict[str, Any], gateway: str) -> ranges.Range:
    cidr = entry.get("range")
    if not cidr:
        raise ConfigError(prefix + "range", None, MISSING, _RANGE_REMEDIES["range"])
    exclude = entry.get("exclude") or []
    reserved = [gateway] if gateway else []
    try:
        if not isinstance(exclude, list):
            raise ranges.RangeError("is not a list", "exclude", exclude)
        return ranges.build(
            cidr,
            entry.get("range_start") or None,
            entry.get("range_end") or None,
            exclude,
            reserved,
        )
    except ranges.RangeError as error:
        wrong = ConfigError(
            prefix + error.part, error.value, str(error), _RANGE_REMEDIES[error.part]
        )
    if wrong.key == prefix + "range":
        raise wrong
    section.refuse(wrong)
    # Only reached when an address is to be released: what was excluded is of no account then.
    return _range(section, prefix, {"range": cidr}, gateway)


def _scaled(size: int, first: ranges.Range, space: ranges.Range) -> int:
    # The size is meant for the first range's family; other ranges get slices of as many addresses.
    host_bits = address.width(first.version) - size
    scaled = address.width(space.version) - host_bits
    key, shown = "ipam.node_slice_size", f"/{size}"
    if host_bits < 0:
        problem = f"is longer than the {address.width(first.version)} bits of an address"
        raise ConfigError(key, shown, problem, f"give a prefix length from {first.prefix} up")
    if scaled < space.prefix:
        raise ConfigError(
            key,
            shown,
            f"makes slices larger than the range {space.cidr}",
            f"give a prefix length of at least {size + space.prefix - scaled}",
        )
    return scaled


def _check_names(network: Network, key: str) -> None:
    cidr = network.range.cidr
    try:
        if network.slice_size is None:
            naming.ip_pool(cidr, network.network_name)
        else:
            naming.slice_pool(network.name)
            naming.slice_pool_long(network.name, cidr)
            naming.ip_pool(cidr, network.network_name, "n")
    except naming.InvalidNameError as error:
        problem = (
            f'makes the object name "{checks.show(error.name)[1:-1]}", which Kubernetes refuses'
        )
        if network.network_name:
            key, value = "ipam.network_name", network.network_name
        elif network.slice_size is not None:
            key, value = "name", network.name
        else:
            value = cidr
        raise ConfigError(key, value, problem, _NAME_REMEDY) from None
