"""Checks of single configuration values, and the error that names key, value and remedy.

A check takes (value, key) and returns the value in the form that the product uses, or raises
ConfigError.
"""

from __future__ import annotations

from whereabouts_fast.ipam import address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

HOUR = 3600
YEAR = 365 * 24 * HOUR
MISSING = "is missing"
CIDR_REMEDY = "write a CIDR such as 10.40.0.0/24"

_LOG_LEVELS = ("debug", "error", "fatal", "info", "panic", "verbose", "warn", "warning")
_ROUTE_NUMBERS = ("mtu", "advmss", "priority", "table", "scope")
_SHOWN = 120  # characters of a wrong value that an error repeats


class ConfigError(ValueError):
    """A configuration that cannot be right; str() names key, value and remedy in one sentence."""

    def __init__(self, key: str, value: object, problem: str, remedy: str) -> None:
        shown = f"{key} " if value is None and problem == MISSING else f"{key} {show(value)} "
        super().__init__(f"{shown}{problem}; {remedy}")
        self.key = key
        self.value = value
        self.remedy = remedy


def text(value: object, key: str) -> str:
    """Check a text that may stand in a log line, a path or a request."""
    if not isinstance(value, str) or not value.isprintable():
        raise ConfigError(key, value, "is not a printable text", "write a string")
    return value


def path(value: object, key: str) -> str:
    """Check an absolute path."""
    checked = text(value, key)
    if not checked.startswith("/"):
        raise ConfigError(key, value, "is not an absolute path", "begin it with /")
    return checked


def boolean(value: object, key: str) -> bool:
    """Check a JSON boolean."""
    if not isinstance(value, bool):
        raise ConfigError(key, value, "is not a boolean", "write true or false")
    return value


def seconds(low: float, high: int) -> Callable[[object, str], float]:
    """Return a check for a number of seconds from `low` to `high`."""

    def check(value: object, key: str) -> float:
        # NaN, which the JSON scanner lets through, fails both comparisons.
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not low <= value <= high
        ):
            remedy = f"give a number from {low} to {high}"
            raise ConfigError(key, value, "is not a sensible number of seconds", remedy)
        return value

    return check


def _one_of(value: object, key: str, choices: tuple[str, ...]) -> str:
    chosen = text(value, key).lower()
    if chosen not in choices:
        raise ConfigError(key, value, "is not known", "use one of " + ", ".join(choices))
    return chosen


def reservations(value: object, key: str) -> str:
    """Check when reservations are made: auto (where ranges overlap) or always."""
    return _one_of(value, key, ("auto", "always"))


def log_level(value: object, key: str) -> str:
    """Check a log level, in any case; those of whereabouts are among them."""
    return _one_of(value, key, _LOG_LEVELS)


def slice_max(value: object, key: str) -> int:
    """Check how many slices a node may hold."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1024:
        raise ConfigError(key, value, "is not a number of slices", "give a number from 1 to 1024")
    return value


def slice_size(value: object, key: str) -> int:
    """Check a prefix length: `"/26"`, `"26"` or `26`. Whether it suits a range is not seen here."""
    digits = value.removeprefix("/") if isinstance(value, str) else value
    if isinstance(digits, str) and digits.isascii() and digits.isdigit() and len(digits) <= 3:
        digits = int(digits)
    if isinstance(digits, bool) or not isinstance(digits, int) or not 0 <= digits <= 128:
        raise ConfigError(key, value, "is not a prefix length", 'write it as "/26" or 26')
    return digits


def one_address(value: object, key: str) -> str:
    """Check an address and return its canonical text."""
    try:
        return address.text(*address.parse(value))  # type: ignore[arg-type]
    except address.AddressError as error:
        raise ConfigError(key, value, str(error), "write an address such as 10.40.0.1") from None


def cidr(value: object, key: str) -> str:
    """Check a CIDR and return its canonical text with its host bits."""
    try:
        version, host, prefix = address.parse_cidr(value)  # type: ignore[arg-type]
    except address.AddressError as error:
        problem = MISSING if value is None else str(error)
        raise ConfigError(key, value, problem, CIDR_REMEDY) from None
    return f"{address.text(version, host)}/{prefix}"


def kubernetes(value: object, key: str) -> str:
    """Check the `kubernetes` object and return its kubeconfig, an absolute path or ""."""
    kubeconfig = json_object(value, key).get("kubeconfig")
    return path(kubeconfig, key + ".kubeconfig") if kubeconfig else ""


def json_object(value: object, key: str) -> dict[str, Any]:
    """Check a JSON object."""
    if not isinstance(value, dict):
        raise ConfigError(key, value, "is not an object", "write an object")
    return value


def json_list(value: object, key: str) -> list[Any]:
    """Check a JSON list."""
    if not isinstance(value, list):
        raise ConfigError(key, value, "is not a list", "write a list")
    return value


def routes(value: object, key: str) -> tuple[dict[str, Any], ...]:
    """Check routes and return them as the CNI result shows them."""
    checked = []
    for index, item in enumerate(json_list(value, key)):
        where = f"{key}[{index}]"
        raw = json_object(item, where)
        route: dict[str, Any] = {"dst": cidr(raw.get("dst"), where + ".dst")}
        if raw.get("gw"):
            route["gw"] = one_address(raw["gw"], where + ".gw")
        for name in _ROUTE_NUMBERS:
            number = raw.get(name)
            if number is None:
                continue
            if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 1 << 32:
                raise ConfigError(
                    f"{where}.{name}", number, "is not a number of 32 bits", "give one"
                )
            route[name] = number
        checked.append(route)
    return tuple(checked)


def dns(value: object, key: str) -> dict[str, Any]:
    """Check DNS settings and return them without empty members."""
    raw = json_object(value, key)
    settings: dict[str, Any] = {}
    for name in ("nameservers", "search", "options"):
        if raw.get(name):
            where = f"{key}.{name}"
            settings[name] = [text(item, where) for item in json_list(raw[name], where)]
    if raw.get("domain"):
        settings["domain"] = text(raw["domain"], key + ".domain")
    return settings


def fixed_addresses(value: object, key: str) -> tuple[dict[str, str], ...]:
    """Check addresses that are passed through, each `{address, gateway}` of one family."""
    fixed = []
    for index, item in enumerate(json_list(value, key)):
        where = f"{key}[{index}]"
        raw = json_object(item, where)
        entry = {"address": cidr(raw.get("address"), where + ".address")}
        if raw.get("gateway"):
            entry["gateway"] = one_address(raw["gateway"], where + ".gateway")
            if (":" in entry["gateway"]) != (":" in entry["address"]):
                raise ConfigError(
                    where + ".gateway",
                    raw["gateway"],
                    "is not of the address's family",
                    "give one of the same family",
                )
        fixed.append(entry)
    return tuple(fixed)


def show(value: object) -> str:
    """Return a short one-line form of any value, for messages."""
    if isinstance(value, str):
        return '"' + repr(value[:_SHOWN])[1:-1] + '"'
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    try:
        return repr(value)[:_SHOWN]
    except (RecursionError, ValueError):
        return "of type " + type(value).__name__
