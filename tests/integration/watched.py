"""An informer with ears: what it said of itself, and a way to wait for what it knows."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from whereabouts_fast.kube.client import Client, Object
from whereabouts_fast.kube.errors import ApiError
from whereabouts_fast.kube.informer import Informer
from whereabouts_fast.kube.resource import Resource


class Ears:
    """A hook that wakes whoever waits for a reason."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.sizes: list[int] = []
        self.heard = asyncio.Event()

    def restarted(self, resource: str, reason: str, error: ApiError | None) -> None:
        self.reasons.append(reason)
        self.heard.set()

    def cached(self, resource: str, objects: int) -> None:
        self.sizes.append(objects)

    def synced(self, resource: str) -> None:
        self.heard.set()

    def undecodable(self, resource: str, key: str, error: Exception) -> None:
        raise AssertionError(f"{resource} {key}: {error}")

    async def wait_for_reason(self, reason: str) -> None:
        async with asyncio.timeout(60):
            while reason not in self.reasons:
                self.heard.clear()
                await self.heard.wait()


class Watched:
    """An informer of whole JSON objects whose changes can be awaited."""

    def __init__(self, client: Client, resource: Resource, **options: Any) -> None:
        self.ears = Ears()
        self.changes: list[tuple[str | None, str | None]] = []
        self._changed = asyncio.Event()
        self.informer: Informer[Object] = Informer(
            client,
            resource,
            decode=lambda item: item,
            hook=self.ears,
            indexes={"colour": _colours},
            **options,
        )
        self.informer.add_handler(self._heard)

    def _heard(self, old: Object | None, new: Object | None) -> None:
        self.changes.append((_name(old), _name(new)))
        self._changed.set()

    async def until(self, condition: Callable[[Informer[Object]], bool]) -> None:
        """Wait until the informer knows what `condition` says; a minute at most."""
        async with asyncio.timeout(60):
            while not condition(self.informer):
                self._changed.clear()
                await self._changed.wait()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Informer[Object]]:
        """The informer runs inside the block, and is synced when it begins."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.informer.run())
            async with asyncio.timeout(60):
                await self.informer.synced()
            yield self.informer
            task.cancel()


def _name(item: Object | None) -> str | None:
    return None if item is None else str(item["metadata"]["name"])


def _colours(item: Object) -> list[str]:
    colour = (item["metadata"].get("labels") or {}).get("colour")
    return [colour] if colour else []
