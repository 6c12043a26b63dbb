"""All objects of one kind as last written or seen, whichever is newer, kept at each change.

What is asked of it costs what the answer is long, however many objects there are.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Generic, TypeVar

from whereabouts_fast.controller.recent import Recent, Versioned
from whereabouts_fast.kube.client import Object
from whereabouts_fast.kube.indexed import Index, Indexed

T = TypeVar("T", bound=Versioned)


class Latest(Generic[T]):
    """An informer's objects with this process's own writes laid over them.

    `cached` returns what the informer has under a key; `decode` reads an object, and is given what
    is known of an earlier state of it. `recent` is the memory of writes; another one for each term
    of leadership.
    """

    def __init__(
        self,
        cached: Callable[[str], T | None],
        decode: Callable[[Object, T | None], T],
        indexes: Mapping[str, Index[T]] | None = None,
    ) -> None:
        self._cached = cached
        self._decode = decode
        self._values = Indexed(indexes or {})
        self.recent: Recent[T] = Recent(self._changed)

    def decode(self, raw: Object) -> T:
        """Decode an object, unless it is the very state that is known."""
        metadata = raw.get("metadata") or {}
        known = self.get(f"{metadata.get('namespace')}/{metadata.get('name')}")
        if known is not None and (known.uid, known.resource_version) == (
            metadata.get("uid"),
            metadata.get("resourceVersion"),
        ):
            return known
        return self._decode(raw, known)

    def begin_term(self) -> None:
        """Forget what was written: another may have led since, and the informer will tell."""
        forgotten, self.recent = self.recent.keys(), Recent(self._changed)
        for key in forgotten:
            self._changed(key)

    def observe(self, old: T | None, new: T | None) -> bool:
        """Take over what the informer delivers; True when it only tells what we wrote."""
        known = self.recent.observe(old, new)
        for one in (old, new):
            if one is not None:
                self._changed(one.key)
                break
        return known

    def get(self, key: str) -> T | None:
        """Return the object under `key`."""
        return self._values.get(key)

    def values(self) -> list[T]:
        """Return all objects."""
        return self._values.values()

    def by_index(self, index: str, value: Hashable) -> list[T]:
        """Return the objects for which `index` names `value`."""
        return self._values.by_index(index, value)

    def named(self, index: str) -> list[Any]:
        """Return all that `index` names of any object."""
        return self._values.named(index)

    def _changed(self, key: str) -> None:
        new = self.recent.latest(key, self._cached(key))
        old = self._values.put(key, new)
        if old is not new:
            self._moved(old, new)

    def _moved(self, old: T | None, new: T | None) -> None:
        """Take note of another state of an object, of one that is new or gone."""
