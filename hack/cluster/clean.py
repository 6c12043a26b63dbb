"""Takes a cluster back to the state of its start, so that tests can share one server."""

from hack.cluster.api import Api, ApiError, JsonObject
from whereabouts_fast.kube.resource import (
    EVENTS,
    IPPOOLS,
    LEASES,
    NADS,
    NODES,
    NODESLICEPOOLS,
    PODS,
    RESERVATIONS,
    Resource,
)

# Nodes first: who still watches them should see them go before what hangs on them.
CLEANED = (NODES, NADS, PODS, IPPOOLS, NODESLICEPOOLS, RESERVATIONS, LEASES, EVENTS)
# Here lie the API server's own leases.
_KEPT_NAMESPACES = frozenset({"kube-system", "kube-node-lease"})


def remove_objects(api: Api) -> None:
    """Remove all Nodes, NADs, Pods, pools, tables, reservations, leases and events at once.

    Nothing is waited for: pods go without grace, and finalizers are taken off. Namespaces stay,
    since nobody here could finish them. Raises ApiError.
    """
    for kind in CLEANED:
        while objects := _present(api, kind):
            for item in objects:
                if item["metadata"].get("finalizers"):
                    _strip_finalizers(api, kind, item)
            for namespace in {item["metadata"].get("namespace") for item in objects}:
                api.delete(kind.path(namespace), grace=0)


def _present(api: Api, kind: Resource) -> list[JsonObject]:
    try:
        items = api.list(kind.path())
    except ApiError as failure:
        # A cluster may have been started without our definitions.
        if failure.status == 404:
            return []
        raise
    return [item for item in items if item["metadata"].get("namespace") not in _KEPT_NAMESPACES]


def _strip_finalizers(api: Api, kind: Resource, item: JsonObject) -> None:
    metadata = item["metadata"]
    path = kind.path(metadata.get("namespace"), metadata["name"])
    try:
        api.patch(path, {"metadata": {"finalizers": None}})
    except ApiError as failure:
        if failure.status != 404:
            raise
