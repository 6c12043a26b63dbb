"""OverlappingRangeIPReservations: one address of an address space, and whose it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import Field, ValidationError

from whereabouts_fast.ipam import naming
from whereabouts_fast.ipam.overlap import Holder
from whereabouts_fast.resources.metadata import Metadata, Model, metadata_of, read_time

_ENDING = f"/metadata/annotations/{naming.ANNOTATION_LIFTING.replace('/', '~1')}"


@dataclass(frozen=True, slots=True)
class ReservationView:
    """One reservation; its holder has no pod when the object could not be read.

    `created` is in seconds since the epoch. `ending`: the token of who is about to remove it as
    needless; `annotated` says whether there are any annotations.
    """

    name: str
    uid: str
    holder: Holder
    created: float | None = None
    version: str = ""
    annotated: bool = False
    ending: str | None = None


class _Spec(Model):
    podref: str = ""
    container: str = Field("", alias="containerid")
    ifname: str = ""


class _Reservation(Model):
    metadata: Metadata
    spec: _Spec = _Spec()


def decode_reservation(raw: dict[str, Any]) -> ReservationView:
    """Decode a reservation, written by this project or by whereabouts."""
    try:
        model = _Reservation.model_validate(raw)
    except ValidationError:
        model = _Reservation(metadata=metadata_of(raw))
    spec = model.spec
    holder = Holder(spec.podref, spec.container, spec.ifname)
    meta = model.metadata
    notes = meta.annotations
    return ReservationView(
        meta.name,
        meta.uid,
        holder,
        read_time(meta.created),
        meta.resource_version,
        notes is not None,
        (notes or {}).get(naming.ANNOTATION_LIFTING),
    )


def announce_end_patch(view: ReservationView, token: str) -> list[dict[str, Any]]:
    """Return the JSON Patch that says that a reservation is about to be removed as needless."""
    test = {"op": "test", "path": "/metadata/uid", "value": view.uid}
    if view.annotated:
        return [test, {"op": "add", "path": _ENDING, "value": token}]
    notes = {naming.ANNOTATION_LIFTING: token}
    return [
        test,
        {"op": "test", "path": "/metadata/annotations", "value": None},
        {"op": "add", "path": "/metadata/annotations", "value": notes},
    ]


def keep_patch(view: ReservationView) -> list[dict[str, Any]]:
    """Return the JSON Patch that objects to that."""
    return [
        {"op": "test", "path": "/metadata/uid", "value": view.uid},
        {"op": "remove", "path": _ENDING},
    ]


def encode_reservation(namespace: str, name: str, holder: Holder) -> dict[str, Any]:
    """Build the reservation to create; `name` is that of the address."""
    spec = {"podref": holder.podref, "containerid": holder.container, "ifname": holder.ifname}
    return {
        "apiVersion": f"{naming.GROUP}/{naming.VERSION}",
        "kind": "OverlappingRangeIPReservation",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {key: value for key, value in spec.items() if value or key == "podref"},
    }
