"""The JSON shapes of CNI outputs, written from the CNI specification's sections on results.

An IPAM plugin's result holds ips, routes and dns only: no interfaces and no index of one.
"""

from __future__ import annotations

import json
from typing import Any

import jsonschema

from cni.protocol import VERSIONS

_CIDR = {"type": "string", "pattern": r"^[0-9a-f.:]+/[0-9]{1,3}$"}
_ADDRESS = {"type": "string", "pattern": r"^[0-9a-f.:]+$"}
_NUMBER = {"type": "integer", "minimum": 0, "maximum": 2**32 - 1}
_TEXTS = {"type": "array", "items": {"type": "string"}, "minItems": 1}


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


_DNS = {
    **_object([], nameservers=_TEXTS, domain={"type": "string"}, search=_TEXTS, options=_TEXTS),
    "minProperties": 1,
}
_OLD_ROUTE = _object(["dst"], dst=_CIDR, gw=_ADDRESS)
_ROUTE = _object(
    ["dst"],
    dst=_CIDR,
    gw=_ADDRESS,
    **dict.fromkeys(("mtu", "advmss", "priority", "table", "scope"), _NUMBER),
)


def _routes(route: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": route, "minItems": 1}


def result(version: str) -> dict[str, Any]:
    """Return the schema of an ADD's result in a version."""
    shown = {"const": version}
    if version in ("0.1.0", "0.2.0"):
        family = _object(["ip"], ip=_CIDR, gateway=_ADDRESS, routes=_routes(_OLD_ROUTE))
        schema = _object(["cniVersion"], cniVersion=shown, ip4=family, ip6=family, dns=_DNS)
        return {**schema, "anyOf": [{"required": ["ip4"]}, {"required": ["ip6"]}]}
    ip = _object(["address"], address=_CIDR, gateway=_ADDRESS)
    if version.startswith("0."):
        ip = _object(["version", "address"], **ip["properties"], version={"enum": ["4", "6"]})
    return _object(
        ["cniVersion", "ips"],
        cniVersion=shown,
        ips={"type": "array", "items": ip, "minItems": 1},
        routes=_routes(_ROUTE if version == "1.1.0" else _OLD_ROUTE),
        dns=_DNS,
    )


ERROR = _object(
    ["cniVersion", "code", "msg"],
    cniVersion={"enum": list(VERSIONS)},
    code={"type": "integer", "minimum": 1},
    msg={"type": "string", "pattern": r"^[^\n]+$"},
    details={"type": "string", "pattern": r"^[^\n]+$"},
)
VERSION_RESULT = _object(
    ["cniVersion", "supportedVersions"],
    cniVersion={"type": "string"},
    supportedVersions={"type": "array", "items": {"enum": list(VERSIONS)}, "minItems": 1},
)


def hold(verb: str, asked: object, code: int, stdout: str) -> None:
    """Check the output of one call against its shape; `asked` is the configuration's cniVersion.

    Raises jsonschema.ValidationError, or AssertionError for output where there has to be none.
    """
    if code == 0 and verb not in ("ADD", "VERSION"):
        assert stdout == "", f"{verb} printed {stdout}"
        return
    value = json.loads(stdout)
    if code:
        jsonschema.validate(value, ERROR)
        if asked in VERSIONS:
            assert value["cniVersion"] == asked
    elif verb == "VERSION":
        jsonschema.validate(value, VERSION_RESULT)
    else:
        jsonschema.validate(value, result(str(asked or "0.1.0")))
