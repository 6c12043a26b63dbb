"""What this process wrote and its informers have not shown it yet.

A plan made from a cache that lacks our own last write would do that write again, or undo it. So
each written object is remembered until the informer has delivered it. Versions of objects are
opaque and cannot be put in order: the informer has caught up when it delivers the very version
that was written, or the first one of an object that we created, or its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar


class Versioned(Protocol):
    """A decoded object."""

    @property
    def key(self) -> str:
        """Its key in the informer."""

    @property
    def uid(self) -> str:
        """Which object of that name it is."""

    @property
    def resource_version(self) -> str:
        """Its version, opaque."""


T = TypeVar("T", bound=Versioned)


@dataclass(slots=True)
class _Memory(Generic[T]):
    uid: str
    version: str  # "" for a deletion
    value: T | None
    created: bool
    doubted: float | None = None


@dataclass(slots=True)
class Write:
    """A write under way, and what the informer delivered for its object meanwhile."""

    key: str
    versions: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)


class Recent(Generic[T]):
    """The memory for one kind of object.

    `changed` is told the key of each object of which another state may be the latest since a write
    or a read; `clock` is monotonic, in seconds.
    """

    def __init__(
        self,
        changed: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._changed = changed
        self._clock = clock
        self._memory: dict[str, _Memory[T]] = {}
        self._under_way: dict[str, list[Write]] = {}

    def begin(self, key: str) -> Write:
        """Note that a write of `key` is about to be sent; its event may come before its answer."""
        write = Write(key)
        self._under_way.setdefault(key, []).append(write)
        return write

    def end(self, write: Write) -> None:
        """Forget a write under way, whatever became of it."""
        writes = self._under_way[write.key]
        writes.remove(write)
        if not writes:
            del self._under_way[write.key]

    def wrote(self, write: Write, value: T, *, created: bool = False) -> None:
        """Remember the outcome of a write, unless the informer has delivered it already."""
        if value.resource_version in write.versions or value.uid in write.ended:
            self._remember(write.key, None)
        else:
            memory = _Memory(value.uid, value.resource_version, value, created)
            self._remember(write.key, memory)

    def deleted(self, write: Write, uid: str) -> None:
        """Remember that an object was deleted."""
        gone = _Memory[T](uid, "", None, created=False)
        self._remember(write.key, None if uid in write.ended else gone)

    def observe(self, old: T | None, new: T | None) -> bool:
        """Take note of what the informer delivers; True when it only tells what we wrote."""
        one = new if new is not None else old
        if one is None:
            return True
        for write in self._under_way.get(one.key, ()):
            if new is not None:
                write.versions.add(new.resource_version)
            else:
                write.ended.add(one.uid)
        memory = self._memory.get(one.key)
        if memory is None:
            return False
        if new is None:
            if one.uid == memory.uid:
                del self._memory[one.key]
                return memory.value is None
            return True  # the end of an earlier object of this name
        return self._deliver(memory, new)

    def _deliver(self, memory: _Memory[T], new: T) -> bool:
        if new.uid != memory.uid:
            if memory.value is None:
                del self._memory[new.key]
            else:
                self._doubt(memory)
            return False
        if memory.value is None:
            return True  # from before the deletion
        if new.resource_version == memory.version:
            del self._memory[new.key]
            return True
        if memory.created:
            del self._memory[new.key]
            return False
        self._doubt(memory)
        return False

    def _doubt(self, memory: _Memory[T]) -> None:
        if memory.doubted is None:
            memory.doubted = self._clock()

    def latest(self, key: str, cached: T | None) -> T | None:
        """Return the object as last written or as the cache has it, whichever is newer."""
        memory = self._memory.get(key)
        if memory is None:
            return cached
        if memory.value is None and cached is not None and cached.uid != memory.uid:
            return cached
        return memory.value

    def keys(self) -> list[str]:
        """Return the keys of which something is remembered."""
        return list(self._memory)

    def doubtful(self, seconds: float) -> list[str]:
        """Return keys of which the informer delivered versions that are neither ours nor ordered.

        Usually our own follows; when it has not for so many seconds, only a live read can tell
        which is newer. `correct` takes its outcome.
        """
        limit = self._clock() - seconds
        return [
            key
            for key, memory in self._memory.items()
            if memory.doubted is not None and memory.doubted <= limit
        ]

    def correct(self, read: Write, live: T | None, cached: T | None) -> None:
        """Take over a live read, which `begin` announced; `cached` is what the cache has now."""
        memory = self._memory.get(read.key)
        if live is None:
            known = memory.uid if memory is not None else cached.uid if cached is not None else ""
            gone = _Memory[T](known, "", None, created=False)
            self._remember(read.key, gone if known and known not in read.ended else None)
        elif (
            live.resource_version in read.versions
            or live.uid in read.ended
            or (cached is not None and cached.resource_version == live.resource_version)
        ):
            self._remember(read.key, None)
        else:
            seen = _Memory(live.uid, live.resource_version, live, created=False)
            self._remember(read.key, seen)

    def _remember(self, key: str, memory: _Memory[T] | None) -> None:
        if memory is None:
            self._memory.pop(key, None)
        else:
            self._memory[key] = memory
        self._changed(key)
