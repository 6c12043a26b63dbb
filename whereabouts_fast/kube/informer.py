"""One resource of the cluster as a local, indexed copy: the reflector and its cache together."""

import asyncio
import random
from collections.abc import Callable, Hashable, Mapping
from typing import Generic, NoReturn, TypeVar

from whereabouts_fast.kube.cache import Cache, Handler
from whereabouts_fast.kube.client import Client, Object
from whereabouts_fast.kube.hooks import WatchHook
from whereabouts_fast.kube.indexed import Index
from whereabouts_fast.kube.reflector import SILENCE, Reflector
from whereabouts_fast.kube.resource import Resource

T = TypeVar("T")


class Informer(Generic[T]):
    """Shared by all loops that read `resource`; keys are `namespace/name`, or `name`.

    decode: called once per object and version with the JSON object; what it returns is kept and
    must not be None. indexes: name -> function from a decoded object to index values.
    metadata_only: objects hold apiVersion, kind and metadata and nothing else.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        *,
        decode: Callable[[Object], T],
        namespace: str | None = None,
        metadata_only: bool = False,
        field_selector: str | None = None,
        indexes: Mapping[str, Index[T]] | None = None,
        hook: WatchHook | None = None,
        chance: Callable[[], float] = random.random,
        silence: float = SILENCE,
    ) -> None:
        self.resource = resource
        self._hook = hook
        self._synced = asyncio.Event()
        self._cache: Cache[T] = Cache(
            decode,
            indexes or {},
            undecodable=self._undecodable,
            committed=self._committed,
            resized=self._resized,
        )
        self._reflector = Reflector(
            client,
            resource,
            self._cache,
            namespace=namespace,
            metadata_only=metadata_only,
            field_selector=field_selector,
            hook=hook,
            chance=chance,
            silence=silence,
        )

    async def run(self) -> NoReturn:
        """List and watch until cancelled."""
        await self._reflector.run()

    @property
    def has_synced(self) -> bool:
        """Whether the first list is complete."""
        return self._synced.is_set()

    async def synced(self) -> None:
        """Wait until the first list is complete; before that, absence means nothing."""
        await self._synced.wait()

    def add_handler(self, handler: Handler[T]) -> None:
        """Call `handler(old, new)` at each change, None for an absent side; it only adds keys."""
        self._cache.add_handler(handler)

    def get(self, key: str) -> T | None:
        """The object under `key`, as last seen."""
        return self._cache.get(key)

    def keys(self) -> list[str]:
        """All keys."""
        return self._cache.keys()

    def values(self) -> list[T]:
        """All objects."""
        return self._cache.values()

    def by_index(self, index: str, value: Hashable) -> list[T]:
        """The objects for which the function `indexes[index]` named `value`."""
        return self._cache.by_index(index, value)

    def __len__(self) -> int:
        return len(self._cache)

    def _committed(self) -> None:
        if not self._synced.is_set():
            self._synced.set()
            if self._hook:
                self._hook.synced(self.resource.plural)

    def _resized(self, objects: int) -> None:
        if self._hook:
            self._hook.cached(self.resource.plural, objects)

    def _undecodable(self, key: str, error: Exception) -> None:
        if self._hook:
            self._hook.undecodable(self.resource.plural, key, error)
