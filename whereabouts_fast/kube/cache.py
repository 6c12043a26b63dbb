"""The objects an informer knows, by key and by index, and who is told when one changes."""

from collections.abc import Callable, Hashable, Mapping
from typing import Generic, TypeVar

from whereabouts_fast.kube.client import Object
from whereabouts_fast.kube.indexed import Index, Indexed

T = TypeVar("T")
Handler = Callable[[T | None, T | None], None]


def object_key(item: Object) -> str:
    """`namespace/name`, or `name` where the kind has no namespaces."""
    metadata = item["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


class Cache(Generic[T]):
    """A reflector's sink. Objects are decoded as they come, so that none is kept as JSON.

    `undecodable(key, error)` is told of objects that `decode` refuses: under their key stays what
    was there before, for one bad object must not stop the others. `committed()` is told of each
    complete list, `resized(objects)` of another number of them.
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
        self._undecodable = undecodable
        self._committed = committed
        self._resized = resized
        self._values = Indexed(indexes)
        # Opaque: compared for equality only.
        self._versions: dict[str, str] = {}
        self._handlers: list[Handler[T]] = []
        self._list: dict[str, tuple[str, T]] = {}

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: str) -> T | None:
        """The object under `key`."""
        return self._values.get(key)

    def keys(self) -> list[str]:
        """All keys."""
        return self._values.keys()

    def values(self) -> list[T]:
        """All objects."""
        return self._values.values()

    def by_index(self, index: str, value: Hashable) -> list[T]:
        """The objects for which `index` named `value`."""
        return self._values.by_index(index, value)

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
        before, known = len(self._values), self._values.keys()
        for key in (key for key in known if key not in listed):
            self._remove(key)
        for key, (version, value) in listed.items():
            if self._values.get(key) is not value:
                self._put(key, version, value)
        self._count(before)
        self._committed()

    def changed(self, item: Object) -> None:
        """Take over an object that was created or changed."""
        key = object_key(item)
        version = item["metadata"]["resourceVersion"]
        if self._versions.get(key) == version:
            return
        decoded = self._try(key, item)
        if decoded is not None:
            before = len(self._values)
            self._put(key, version, decoded)
            self._count(before)

    def deleted(self, item: Object) -> None:
        """Forget an object."""
        key = object_key(item)
        if self._values.get(key) is not None:
            before = len(self._values)
            self._remove(key)
            self._count(before)

    def _count(self, before: int) -> None:
        if len(self._values) != before:
            self._resized(len(self._values))

    def _try(self, key: str, item: Object) -> T | None:
        try:
            return self._decode(item)
        except Exception as error:  # noqa: BLE001 -- whatever the object made it do
            self._undecodable(key, error)
            return None

    def _put(self, key: str, version: str, value: T) -> None:
        self._versions[key] = version
        self._tell(self._values.put(key, value), value)

    def _remove(self, key: str) -> None:
        del self._versions[key]
        self._tell(self._values.put(key, None), None)

    def _tell(self, old: T | None, new: T | None) -> None:
        for handler in self._handlers:
            handler(old, new)
