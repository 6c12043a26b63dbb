"""The JSON Patches of the controller to IPPools: each tests what it relies on."""

from __future__ import annotations

from typing import Any

from whereabouts_fast.ipam import naming
from whereabouts_fast.ipam.leaks import Allocation
from whereabouts_fast.ipam.pool import remove_patch
from whereabouts_fast.resources.pools import PoolView


def announce_lift_patch(pool: PoolView, token: str) -> list[dict[str, Any]]:
    """Return the JSON Patch that says that the overlap mark is about to be taken away."""
    return [
        {"op": "test", "path": "/metadata/uid", "value": pool.uid},
        {"op": "test", "path": "/spec/overlapping", "value": True},
        *_annotate(pool, naming.ANNOTATION_LIFTING, token),
    ]


def answer_patch(pool: PoolView, *, more: str = "", refused: str = "") -> list[dict[str, Any]]:
    """Return the JSON Patch that answers what a pool wants, with one of the two and not the other.

    It fails where nothing is wanted any more, so that no answer outlives its question.
    """
    key, value, other, stale = naming.ANNOTATION_MORE, more, naming.ANNOTATION_REFUSED, pool.refused
    if refused:
        key, value, other, stale = naming.ANNOTATION_REFUSED, refused, key, pool.more
    patch: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/uid", "value": pool.uid},
        {"op": "remove", "path": _note(naming.ANNOTATION_WANT)},
        {"op": "add", "path": _note(key), "value": value},
    ]
    if stale is not None:
        patch.append({"op": "remove", "path": _note(other)})
    return patch


def close_patch(pool: PoolView) -> list[dict[str, Any]]:
    """Return the JSON Patch that closes a pool, if it still is the object with this uid.

    Who waits for an answer in it sees that it is closed, so what it wants goes too.
    """
    patch: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/uid", "value": pool.uid},
        {"op": "add", "path": "/spec/closed", "value": True},
    ]
    if pool.want is not None:
        patch.append({"op": "remove", "path": _note(naming.ANNOTATION_WANT)})
    return patch


def lift_patch(uid: str, token: str) -> list[dict[str, Any]]:
    """Return the JSON Patch that takes the overlap mark away, unless somebody objected.

    It leaves a note that the reservations of the pool's addresses are needless now.
    """
    return [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": _note(naming.ANNOTATION_LIFTING), "value": token},
        {"op": "remove", "path": _note(naming.ANNOTATION_LIFTING)},
        {"op": "remove", "path": "/spec/overlapping"},
        {"op": "add", "path": _note(naming.ANNOTATION_LIFTED), "value": "true"},
    ]


def unreserved_patch(uid: str) -> list[dict[str, Any]]:
    """Return the JSON Patch that says that no needless reservation is left, unless it is marked."""
    return [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": "/spec/overlapping", "value": None},
        {"op": "remove", "path": _note(naming.ANNOTATION_LIFTED)},
    ]


def mark_patch(pool: PoolView) -> list[dict[str, Any]]:
    """Return the JSON Patch that marks a pool as overlapping; nobody lifts the mark after it."""
    patch: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/uid", "value": pool.uid},
        {"op": "add", "path": "/spec/overlapping", "value": True},
    ]
    if pool.lifting is not None:
        patch.append({"op": "remove", "path": _note(naming.ANNOTATION_LIFTING)})
    if pool.lifted:
        patch.append({"op": "remove", "path": _note(naming.ANNOTATION_LIFTED)})
    return patch


def open_patch(uid: str) -> list[dict[str, Any]]:
    """Return the JSON Patch that opens a closed pool, if it still is the object with this uid.

    It also drops managedFields, a third of the object, for which a create is too early.
    """
    return [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "remove", "path": "/spec/closed"},
        {"op": "replace", "path": "/metadata/managedFields", "value": [{}]},
    ]


def adopt_patch(pool: PoolView, network: str) -> list[dict[str, Any]]:
    """Return the JSON Patch that records that a NetworkAttachmentDefinition asks for a pool.

    It also records the network where the pool's writer did not; addresses are not touched.
    """
    patch: list[dict[str, Any]] = [{"op": "test", "path": "/metadata/uid", "value": pool.uid}]
    if not pool.network:
        patch.append({"op": "test", "path": "/spec/network", "value": None})
        patch.append({"op": "add", "path": "/spec/network", "value": network})
    return [*patch, *_annotate(pool, naming.ANNOTATION_ATTACHED, "true")]


def _annotate(pool: PoolView, key: str, value: str) -> list[dict[str, Any]]:
    # An annotation cannot be added to nothing, and adding the whole map would wipe others.
    if not pool.annotated:
        return [
            {"op": "test", "path": "/metadata/annotations", "value": None},
            {"op": "add", "path": "/metadata/annotations", "value": {key: value}},
        ]
    return [{"op": "add", "path": _note(key), "value": value}]


def _note(key: str) -> str:
    return f"/metadata/annotations/{key.replace('/', '~1')}"


def release_patch(pool: PoolView, entry: Allocation) -> list[dict[str, Any]]:
    """Return the JSON Patch that frees an address if exactly this entry still holds it."""
    path = f"/spec/allocations/{entry.offset}/podref"
    freed = remove_patch(entry.offset, entry.id, entry.ifname, entry.uid, pool.overlapping)
    return [{"op": "test", "path": path, "value": entry.podref}, *freed]
