"""What the runtime is answered: results, versions and errors in the shape of each CNI version."""

from __future__ import annotations

from cni import errors, protocol
from cni.errors import CniError

# Keys of a route that came with 1.1.0; older readers know only dst and gw.
_NEW_ROUTE_KEYS = ("mtu", "advmss", "priority", "table", "scope")


class Address:
    """One address of a result: "address/prefix" and the gateway or an empty text."""

    __slots__ = ("cidr", "gateway")

    def __init__(self, cidr: str, gateway: str = "") -> None:
        self.cidr = cidr
        self.gateway = gateway

    @property
    def family(self) -> str:
        """Return the IP version as the result writes it, "4" or "6"."""
        return "6" if ":" in self.cidr else "4"


def check_families(version: str, families: list[str]) -> None:
    """Refuse, before anything is allocated, what the asked version has no place for.

    Versions 0.1.0 and 0.2.0 hold one address per family. Raises CniError 7.
    """
    if version in ("0.1.0", "0.2.0") and len(set(families)) < len(families):
        raise CniError(
            errors.CONFIGURATION,
            f"cniVersion {version} holds one address per IP family, the configuration asks for "
            f"{len(families)}",
            "use cniVersion 0.3.0 or later",
        )


def add_result(
    version: str, addresses: list[Address], routes: list[dict[str, object]], dns: dict[str, object]
) -> dict[str, object]:
    """Return the result of an ADD in the shape of the asked version."""
    if version in ("0.1.0", "0.2.0"):
        result = _old_result(version, addresses, routes)
    else:
        result = {"cniVersion": version, "ips": [_ip(version, a) for a in addresses]}
        if routes:
            result["routes"] = [_route(version, route) for route in routes]
    if dns:
        result["dns"] = dns
    return result


def _ip(version: str, address: Address) -> dict[str, object]:
    ip: dict[str, object] = {"address": address.cidr}
    if version.startswith("0."):
        ip["version"] = address.family
    if address.gateway:
        ip["gateway"] = address.gateway
    return ip


def _route(version: str, route: dict[str, object]) -> dict[str, object]:
    if version == "1.1.0":
        return route
    return {key: value for key, value in route.items() if key not in _NEW_ROUTE_KEYS}


def _old_result(
    version: str, addresses: list[Address], routes: list[dict[str, object]]
) -> dict[str, object]:
    result: dict[str, object] = {"cniVersion": version}
    for address in addresses:
        one: dict[str, object] = {"ip": address.cidr}
        if address.gateway:
            one["gateway"] = address.gateway
        own = [
            _route(version, route)
            for route in routes
            if (":" in str(route.get("dst"))) == (address.family == "6")
        ]
        if own:
            one["routes"] = own
        result["ip" + address.family] = one
    return result


def version_result(asked: str) -> dict[str, object]:
    """Return the answer to VERSION."""
    return {"cniVersion": asked, "supportedVersions": list(protocol.VERSIONS)}


def error_result(version: str, error: CniError) -> dict[str, object]:
    """Return an error for standard output; texts are one line each and bounded."""
    result: dict[str, object] = {
        "cniVersion": version,
        "code": error.code,
        "msg": _line(error.msg),
    }
    if error.details:
        result["details"] = _line(error.details)
    return result


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 1000 else line[:997] + "..."
