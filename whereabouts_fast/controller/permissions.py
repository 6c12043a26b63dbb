"""What the controller must be allowed to do: the one list, and who of the API server to ask.

A chart's roles are to grant exactly this; the self-check asks for it before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from whereabouts_fast.controller.bounded import each
from whereabouts_fast.kube.client import Client
from whereabouts_fast.kube.errors import Forbidden, NotFound
from whereabouts_fast.kube.resource import (
    ACCESS_REVIEWS,
    CRDS,
    EVENTS,
    IPPOOLS,
    LEASES,
    NADS,
    NAMESPACES,
    NODES,
    NODESLICEPOOLS,
    PODS,
    RESERVATIONS,
    VMIS,
    Resource,
)

_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Need:
    """One verb on one kind.

    `namespace` is where ("" = in the whole cluster, or of a kind that has none), `name` the only
    object it is needed for ("" = any). `optional`: only where the kind is installed.
    """

    resource: Resource
    verb: str
    namespace: str = ""
    name: str = ""
    optional: bool = False

    def __str__(self) -> str:
        what = f"{self.verb} {self.resource.full_name}" + (f" {self.name}" if self.name else "")
        if not self.resource.namespaced:
            return what
        where = f"in namespace {self.namespace}" if self.namespace else "in all namespaces"
        return f"{what} {where}"


def needs(namespace: str, lease: str) -> list[Need]:
    """Return all that the controller needs, with its system namespace and its lease's name."""
    everywhere = [
        *_each(NODES, "get", "list", "watch"),
        *_each(PODS, "get", "list", "watch"),
        *_each(NADS, "list", "watch"),
        # Events stand beside the object they are about.
        *_each(EVENTS, "create", "patch"),
        Need(NAMESPACES, "get", name=namespace),
        *(Need(CRDS, "get", name=one.full_name) for one in (*_OURS, NADS)),
        Need(CRDS, "get", name=VMIS.full_name),
        *(Need(VMIS, verb, optional=True) for verb in ("get", "list")),
    ]
    own = [
        *_each(IPPOOLS, "get", "list", "watch", "create", "patch", "delete", namespace=namespace),
        *_each(
            NODESLICEPOOLS,
            *("get", "list", "watch", "create", "update", "patch", "delete"),
            namespace=namespace,
        ),
        *_each(
            RESERVATIONS,
            *("get", "list", "watch", "create", "patch", "delete"),
            namespace=namespace,
        ),
        Need(LEASES, "create", namespace),
        # Those that whereabouts left.
        *_each(LEASES, "list", "delete", namespace=namespace),
        *_each(LEASES, "get", "update", namespace=namespace, name=lease),
    ]
    return [*everywhere, *own]


async def denied(client: Client, wanted: Iterable[Need]) -> list[Need]:
    """Ask the API server and return what it would refuse. Raises ApiError."""
    wanted = list(wanted)
    refused: set[Need] = set()

    async def ask(need: Need) -> None:
        if need.optional and not await _installed(client, need.resource):
            return
        if not await _allowed(client, need):
            refused.add(need)

    failures = await each(wanted, ask, _AT_ONCE)
    if failures:
        raise failures[0]
    return [need for need in wanted if need in refused]


async def _allowed(client: Client, need: Need) -> bool:
    asked = {
        "verb": need.verb,
        "group": need.resource.group,
        "resource": need.resource.plural,
        "namespace": need.namespace,
        "name": need.name,
    }
    body = {
        "apiVersion": ACCESS_REVIEWS.api_version,
        "kind": ACCESS_REVIEWS.kind,
        "metadata": {},
        "spec": {"resourceAttributes": {key: value for key, value in asked.items() if value}},
    }
    answer = await client.create(ACCESS_REVIEWS, None, body)
    return bool((answer.get("status") or {}).get("allowed"))


async def _installed(client: Client, resource: Resource) -> bool:
    try:
        await client.get(CRDS, None, resource.full_name, metadata_only=True)
    except (NotFound, Forbidden):
        return False
    return True


_OURS = (IPPOOLS, NODESLICEPOOLS, RESERVATIONS)


def _each(resource: Resource, *verbs: str, namespace: str = "", name: str = "") -> list[Need]:
    return [Need(resource, verb, namespace, name) for verb in verbs]
