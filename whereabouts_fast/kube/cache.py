"""The objects an informer knows, by key and by index, and who is told when one changes."""

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from whereabouts_fast.kube.client import Object

T = TypeVar("T")
Handler = Callable[[T | None, T | None], None]
Index = Callable[[T], Iterable[str]]


def object_key(item: Object) -> str:
    """`namespace/name`, or `name` where the kind has no namespaces."""
    metadata = item["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


class Cache(Generic[T]):
    """A reflector's sink. Objects are decoded as they come, so that none is kept as JSON.

    `undecodable(key, error)` is told of objects that `decode` refuses: under their key stays what
    was there before, for one bad object must not stop the others. `committed()` is told of each
    complete list, `resized(objects)` of each change in number.
    """

    def __init__(
        self,
        decode: Callable[[Object], T],
        indexes: Mapping[str, Index[T]],
        *,
        undecodable: Callable[[str, Exception], None],
        committed: Callable[[], None],
        resized: Callable[[int], None],
    ) -> None:
        self._decode = decode
        self._indexes = dict(indexes)
        self._undecodable = undecodable
        self._committed = committed
        self._resized = resized
        self._values: dict[str, T] = {}
        # Opaque: compared for equality only.
        self._versions: dict[str, str] = {}
        # index name -> index value -> keys (a dict without values keeps their order)
        self._found: dict[str, dict[str, dict[str, None]]] = {name: {} for name in indexes}
        self._handlers: list[Handler[T]] = []
        self._list: dict[str, tuple[str, T]] = {}

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: str) -> T | None:
        """The object under `key`."""
        return self._values.get(key)

    def keys(self) -> list[str]:
        """All keys."""
        return list(self._values)

    def values(self) -> list[T]:
        """All objects."""
        return list(self._values.values())

    def by_index(self, index: str, value: str) -> list[T]:
        """The objects for which `index` named `value`."""
        return [self._values[key] for key in self._found[index].get(value, ())]

    def add_handler(self, handler: Handler[T]) -> None:
        """Call `handler(old, new)` at each change; at once for each object there is."""
        self._handlers.append(handler)
        for value in self.values():
            handler(None, value)

    def begin(self) -> None:
        """A list begins."""
        self._list = {}

    def listed(self, item: Object) -> None:
        """Collect an object of the list, decoding it only if it is another than the known one."""
        key = object_key(item)
        version = item["metadata"]["resourceVersion"]
        known = self._values.get(key)
        if known is not None and self._versions[key] == version:
            self._list[key] = (version, known)
            return
        decoded = self._try(key, item)
        if decoded is not None:
            self._list[key] = (version, decoded)
        elif known is not None:
            self._list[key] = (self._versions[key], known)

    def commit(self) -> None:
        """Make the collected list what is known; objects missing in it were deleted unseen."""
        listed, self._list = self._list, {}
        for key in [key for key in self._values if key not in listed]:
            self._remove(key)
        for key, (version, value) in listed.items():
            if self._values.get(key) is not value:
                self._put(key, version, value)
        self._committed()

    def changed(self, item: Object) -> None:
        """Take over an object that was created or changed."""
        key = object_key(item)
        version = item["metadata"]["resourceVersion"]
        if self._versions.get(key) == version:
            return
        decoded = self._try(key, item)
        if decoded is not None:
            self._put(key, version, decoded)

    def deleted(self, item: Object) -> None:
        """Forget an object."""
        key = object_key(item)
        if key in self._values:
            self._remove(key)

    def _try(self, key: str, item: Object) -> T | None:
        try:
            return self._decode(item)
        except Exception as error:  # noqa: BLE001 -- whatever the object made it do
            self._undecodable(key, error)
            return None

    def _put(self, key: str, version: str, value: T) -> None:
        old = self._values.get(key)
        self._values[key] = value
        self._versions[key] = version
        self._reindex(key, old, value)
        if old is None:
            self._resized(len(self._values))
        for handler in self._handlers:
            handler(old, value)

    def _remove(self, key: str) -> None:
        old = self._values.pop(key)
        del self._versions[key]
        self._reindex(key, old, None)
        self._resized(len(self._values))
        for handler in self._handlers:
            handler(old, None)

    def _reindex(self, key: str, old: T | None, new: T | None) -> None:
        for name, index in self._indexes.items():
            before = () if old is None else tuple(index(old))
            after = () if new is None else tuple(index(new))
            if before == after:
                continue
            found = self._found[name]
            for value in before:
                # An index may name a value twice; the second time the key is gone already.
                keys = found.get(value, {})
                keys.pop(key, None)
                if not keys:
                    found.pop(value, None)
            for value in after:
                found.setdefault(value, {})[key] = None
