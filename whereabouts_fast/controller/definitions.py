"""Whether the installed CustomResourceDefinitions can hold what we write.

With those of whereabouts itself the server prunes our fields without a word: a pool would be open
that was created closed. So nothing is written before all of them are right.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whereabouts_fast.controller.bounded import each
from whereabouts_fast.kube.client import Client
from whereabouts_fast.kube.errors import NotFound
from whereabouts_fast.kube.resource import (
    CRDS,
    IPPOOLS,
    NADS,
    NODESLICEPOOLS,
    RESERVATIONS,
    Resource,
)

# Paths below the schema's root; a last "*" stands for the items of a map or a list.
_NEEDED: tuple[tuple[Resource, tuple[str, ...]], ...] = (
    (
        IPPOOLS,
        (
            "spec.node",
            "spec.network",
            "spec.closed",
            "spec.overlapping",
            "spec.allocations.*.uid",
            "spec.allocations.*.node",
        ),
    ),
    (
        NODESLICEPOOLS,
        (
            "spec.networkName",
            "spec.network",
            "status.allocations.*.state",
            "status.allocations.*.since",
            "status.conditions",
            "status.active",
            "status.draining",
            "status.cooling",
            "status.free",
            "status.waiting",
        ),
    ),
    (RESERVATIONS, ("spec.podref", "spec.containerid", "spec.ifname")),
    (NADS, ()),
)
_REMEDY = "apply the CRDs of this version (charts/whereabouts-fast/crds)"
_FOREIGN_REMEDY = "install Multus or the NetworkAttachmentDefinition CRD"


async def problems(client: Client) -> list[str]:
    """Read the definitions live and return what is wrong with them, each with a remedy.

    Raises ApiError, Forbidden too.
    """
    found: dict[Resource, list[str]] = {}

    async def look(needed: tuple[Resource, tuple[str, ...]]) -> None:
        resource, paths = needed
        remedy = _FOREIGN_REMEDY if resource is NADS else _REMEDY
        try:
            definition = await client.get(CRDS, None, resource.full_name)
        except NotFound:
            found[resource] = [f"the CRD {resource.full_name} is missing: {remedy}"]
        else:
            found[resource] = [f"{text}: {remedy}" for text in judge(resource, definition, paths)]

    failures = await each(_NEEDED, look, len(_NEEDED))
    if failures:
        raise failures[0]
    return [text for resource, _ in _NEEDED for text in found[resource]]


def judge(resource: Resource, definition: Mapping[str, Any], paths: tuple[str, ...]) -> list[str]:
    """Return what one definition lacks; pure."""
    name = resource.full_name
    version = next(
        (
            v
            for v in definition["spec"].get("versions", ())
            if v.get("name") == resource.version and v.get("served")
        ),
        None,
    )
    if version is None:
        return [f"the CRD {name} does not serve {resource.version}"]
    found = []
    if paths and "status" in (version.get("subresources") or {}):
        found.append(f"the CRD {name} has a status subresource, with which status writes vanish")
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    missing = [path for path in paths if not _keeps(schema, path.split("."))]
    if missing:
        found.append(f"the CRD {name} is too old, the server would drop {', '.join(missing)}")
    conditions = definition.get("status", {}).get("conditions", ())
    if not any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions):
        found.append(f"the CRD {name} is not established yet")
    return found


def _keeps(schema: Mapping[str, Any], path: list[str]) -> bool:
    for step in path:
        if schema.get("x-kubernetes-preserve-unknown-fields"):
            return True
        if step == "*":
            inner = schema.get("items") or schema.get("additionalProperties")
        else:
            inner = schema.get("properties", {}).get(step)
        if not isinstance(inner, Mapping):
            return False
        schema = inner
    return True
