"""Reservations as the controller reads, writes and frees them; it watches none."""

from __future__ import annotations

from collections.abc import Callable

from whereabouts_fast.ipam.overlap import Blocked, Holder
from whereabouts_fast.kube.client import Client
from whereabouts_fast.kube.errors import ApiError, Conflict, NotFound
from whereabouts_fast.kube.resource import PODS, RESERVATIONS
from whereabouts_fast.resources.reservations import (
    ReservationView,
    decode_reservation,
    encode_reservation,
)

_PAGE = 500


class Reservations:
    """The reservations of one system namespace."""

    def __init__(self, client: Client, namespace: str, written: Callable[[str, str], None]) -> None:
        self._client = client
        self._namespace = namespace
        self._written = written
        self._read: dict[str, ReservationView] = {}

    async def read(self) -> dict[str, Holder]:
        """Read all reservations live: name -> holder."""
        found: dict[str, ReservationView] = {}
        token: str | None = None
        while True:
            page = await self._client.list(
                RESERVATIONS, self._namespace, limit=_PAGE, continue_token=token
            )
            for view in map(decode_reservation, page["items"]):
                found[view.name] = view
            token = page["metadata"].get("continue")
            if not token:
                self._read = found
                return {name: view.holder for name, view in found.items()}

    async def create(self, name: str, holder: Holder) -> None:
        """Write a reservation. Raises Conflict when there is one of this name."""
        body = encode_reservation(self._namespace, name, holder)
        try:
            await self._client.create(RESERVATIONS, self._namespace, body)
        except ApiError as error:
            result = "conflict" if isinstance(error, Conflict) else "error"
            self._written("OverlappingRangeIPReservation", result)
            raise
        self._written("OverlappingRangeIPReservation", "ok")

    async def exists(self, name: str) -> bool:
        """Read one live; whether there is one of this name. Raises ApiError."""
        try:
            await self._client.get(RESERVATIONS, self._namespace, name, metadata_only=True)
        except NotFound:
            return False
        return True

    async def remove(self, view: ReservationView) -> bool:
        """Delete a reservation if it is still the same object; whether it was. Raises ApiError."""
        kind = RESERVATIONS.kind
        try:
            await self._client.delete(RESERVATIONS, self._namespace, view.name, uid=view.uid)
        except (NotFound, Conflict):
            self._written(kind, "conflict")
            return False
        except ApiError:
            self._written(kind, "error")
            raise
        self._written(kind, "ok")
        return True

    async def outdated(self, blocked: Blocked) -> bool:
        """Remove a reservation that keeps another from its address, if nobody can need it.

        That is so when its pod is gone, by a live read, or is the same pod in an older container.
        """
        view = self._read.get(blocked.reservation)
        if view is None:
            return True
        if view.holder.podref != blocked.holder.podref and not await self._gone(view.holder):
            return False
        same = view.holder.container == blocked.holder.container
        if view.holder.podref == blocked.holder.podref and same:
            return False  # another interface of the pod: its ADD is under way
        try:
            await self._client.delete(RESERVATIONS, self._namespace, view.name, uid=view.uid)
        except (NotFound, Conflict):
            pass
        return True

    async def _gone(self, holder: Holder) -> bool:
        namespace, slash, name = holder.podref.partition("/")
        if not (namespace and slash and name):
            return False
        try:
            await self._client.get(PODS, namespace, name, metadata_only=True)
        except NotFound:
            return True
        return False
