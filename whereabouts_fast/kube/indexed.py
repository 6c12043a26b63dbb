"""Values by key, and by whatever functions of a value name: sets that are kept, never searched."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Index = Callable[[T], Iterable[Hashable]]


class Indexed(Generic[T]):
    """The values; `indexes` are functions that name the index values of one, by index name."""

    def __init__(self, indexes: Mapping[str, Index[T]]) -> None:
        self._indexes = dict(indexes)
        self._values: dict[str, T] = {}
        # index name -> index value -> keys (a dict without values keeps their order)
        self._found: dict[str, dict[Hashable, dict[str, None]]] = {name: {} for name in indexes}

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: str) -> T | None:
        """The value under `key`."""
        return self._values.get(key)

    def keys(self) -> list[str]:
        """All keys."""
        return list(self._values)

    def values(self) -> list[T]:
        """All values."""
        return list(self._values.values())

    def by_index(self, index: str, value: Hashable) -> list[T]:
        """The values for which `index` named `value`."""
        return [self._values[key] for key in self._found[index].get(value, ())]

    def named(self, index: str) -> list[Any]:
        """All that `index` names of any value."""
        return list(self._found[index])

    def put(self, key: str, value: T | None) -> T | None:
        """Put a value under a key, None to have none there; what was there before."""
        old = self._values.get(key)
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value
        for name, index in self._indexes.items():
            before = () if old is None else tuple(index(old))
            after = () if value is None else tuple(index(value))
            if before != after:
                self._move(self._found[name], key, before, after)
        return old

    @staticmethod
    def _move(
        found: dict[Hashable, dict[str, None]],
        key: str,
        before: Iterable[Hashable],
        after: Iterable[Hashable],
    ) -> None:
        for value in before:
            # An index may name a value twice; the second time the key is gone already.
            keys = found.get(value, {})
            keys.pop(key, None)
            if not keys:
                found.pop(value, None)
        for value in after:
            found.setdefault(value, {})[key] = None
