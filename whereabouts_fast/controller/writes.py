"""Conditional writes of one kind, each counted and remembered until the informer shows it.

Whoever loses against another writer gets the object read live, so that the next plan sees it as it
is now.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Generic, Protocol, TypeVar

from whereabouts_fast.controller.recent import Recent, Versioned, Write
from whereabouts_fast.kube.client import Client
from whereabouts_fast.kube.errors import ApiError, Conflict, Invalid, NotFound
from whereabouts_fast.kube.resource import Resource

# (kind, result): result is ok, conflict or error.
Written = Callable[[str, str], None]
Body = dict[str, Any]

T = TypeVar("T", bound=Versioned)
Cached = TypeVar("Cached", bound=Versioned, covariant=True)


class Cache(Protocol[Cached]):
    """The informer of the kind."""

    def get(self, key: str) -> Cached | None:
        """Return the cached object of a key."""


class Writes(Generic[T]):
    """The writes of one kind in one namespace during one term of leadership."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        namespace: str,
        decode: Callable[[Body], T],
        *,
        cache: Cache[T],
        recent: Recent[T],
        written: Written,
    ) -> None:
        self._client = client
        self._resource = resource
        self._namespace = namespace
        self._decode = decode
        self._cache = cache
        self._recent = recent
        self._written = written

    async def look(self, name: str) -> T | None:
        """Read an object live, and have the next plan see it as it is."""
        key = self._key(name)
        read = self._recent.begin(key)
        live: T | None = None
        try:
            try:
                live = self._decode(await self._client.get(self._resource, self._namespace, name))
            except NotFound:
                pass
            self._recent.correct(read, live, self._cache.get(key))
        finally:
            self._recent.end(read)
        return live

    async def create(self, body: Body) -> T:
        """Create an object. Raises ApiError."""
        async with self._writing(body["metadata"]["name"], Conflict) as write:
            made = self._decode(await self._client.create(self._resource, self._namespace, body))
            self._recent.wrote(write, made, created=True)
        return made

    async def replace(self, name: str, body: Body) -> T | None:
        """Replace the version of an object that `body` names; None when there is another by now."""
        try:
            async with self._writing(name, Conflict, NotFound) as write:
                answer = await self._client.replace(self._resource, self._namespace, name, body)
                made = self._decode(answer)
                self._recent.wrote(write, made)
        except (Conflict, NotFound):
            await self.look(name)
            return None
        return made

    async def patch(self, name: str, patch: Sequence[dict[str, object]]) -> T | None:
        """Apply a JSON Patch; None when one of its tests failed or the object is gone."""
        try:
            async with self._writing(name, Conflict, NotFound, Invalid) as write:
                # The whole object, not its metadata: addresses may have come that no cache has
                # shown yet, and with the new version alone an empty-looking pool could be deleted.
                answer = await self._client.patch(
                    self._resource, self._namespace, name, list(patch)
                )
                made = self._decode(answer)
                self._recent.wrote(write, made)
        except (Conflict, NotFound, Invalid):
            await self.look(name)
            return None
        return made

    async def delete(self, name: str, seen: T) -> bool:
        """Delete an object if it is still in the very state that was seen; whether it is gone."""
        try:
            async with self._writing(name, Conflict) as write:
                try:
                    await self._client.delete(
                        self._resource,
                        self._namespace,
                        name,
                        uid=seen.uid,
                        resource_version=seen.resource_version,
                    )
                except NotFound:
                    pass
                self._recent.deleted(write, seen.uid)
        except Conflict:
            await self.look(name)
            return False
        return True

    @asynccontextmanager
    async def _writing(self, name: str, *lost: type[ApiError]) -> AsyncIterator[Write]:
        """Announce a write and count its result; errors in `lost` mean that somebody was faster."""
        write = self._recent.begin(self._key(name))
        try:
            yield write
        except ApiError as error:
            self._written(self._resource.kind, "conflict" if isinstance(error, lost) else "error")
            raise
        else:
            self._written(self._resource.kind, "ok")
        finally:
            self._recent.end(write)

    def _key(self, name: str) -> str:
        return f"{self._namespace}/{name}"
