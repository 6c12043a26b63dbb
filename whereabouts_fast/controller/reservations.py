"""Reservations as the controller reads, writes and frees them; it watches none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whereabouts_fast.ipam.overlap import Blocked, Holder
from whereabouts_fast.kube.client import Client
from whereabouts_fast.kube.errors import ApiError, Conflict, Invalid, NotFound
from whereabouts_fast.kube.resource import PODS, RESERVATIONS
from whereabouts_fast.resources.reservations import (
    ReservationView,
    announce_end_patch,
    decode_reservation,
    encode_reservation,
    keep_patch,
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

    async def secure(self) -> dict[str, Holder]:
        """Read all reservations live, and see to it that nobody removes one as needless.

        Raises Conflict when somebody is about to all the same.
        """
        found = await self.read()
        if not any(view.ending for view in self._read.values()):
            return found
        for view in self._read.values():
            if view.ending:
                await self._patch(view, keep_patch(view))
        found = await self.read()
        for view in self._read.values():
            if view.ending:
                raise Conflict(409, "Conflict", f"reservation {view.name} is about to be removed")
        return found

    def known(self, name: str) -> ReservationView | None:
        """Return what was last read under a name."""
        return self._read.get(name)

    async def announce_end(self, view: ReservationView, token: str) -> ReservationView | None:
        """Say that a reservation is about to be removed; None when it is another by now."""
        return await self._patch(view, announce_end_patch(view, token))

    async def _patch(
        self, view: ReservationView, patch: list[dict[str, Any]]
    ) -> ReservationView | None:
        kind = RESERVATIONS.kind
        try:
            raw = await self._client.patch(RESERVATIONS, self._namespace, view.name, patch)
        except (NotFound, Conflict, Invalid):
            self._written(kind, "conflict")
            return None
        except ApiError:
            self._written(kind, "error")
            raise
        self._written(kind, "ok")
        return decode_reservation(raw)

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

    async def remove(self, view: ReservationView, *, unchanged: bool = False) -> bool:
        """Delete a reservation if it is still the same object; whether it was. Raises ApiError.

        `unchanged`: and in the very state that was seen.
        """
        kind = RESERVATIONS.kind
        version = view.version if unchanged else None
        try:
            await self._client.delete(
                RESERVATIONS, self._namespace, view.name, uid=view.uid, resource_version=version
            )
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
