"""Allocations of one IPPool: find, choose, and the JSON Patch that makes a choice so.

Every patch tests what it relies on, so that a wrong belief costs a refused request and never an
address. A `test` with the value null passes when the path is absent (RFC 6902 section 4.6, as the
API server has it); a failed test is answered with status 422.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping
    from typing import Any

    from whereabouts_fast.ipam.ranges import Range


class Entry:
    """Who holds one address: container id, pod ("namespace/name"), interface, pod uid, node.

    Absent texts are "".
    """

    __slots__ = ("id", "ifname", "node", "podref", "uid")

    def __init__(
        self,
        id: str,  # noqa: A002 (the object's own word)
        podref: str,
        ifname: str = "",
        uid: str = "",
        node: str = "",
    ) -> None:
        self.id = id
        self.podref = podref
        self.ifname = ifname
        self.uid = uid
        self.node = node

    def encode(self) -> dict[str, str]:
        """Return the entry as it stands in spec.allocations, without absent texts."""
        value = {"id": self.id, "podref": self.podref}
        if self.ifname:
            value["ifname"] = self.ifname
        if self.uid:
            value["uid"] = self.uid
        if self.node:
            value["node"] = self.node
        return value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entry) and self.encode() == other.encode()

    def __hash__(self) -> int:
        return hash((self.id, self.podref, self.ifname, self.uid, self.node))

    def __repr__(self) -> str:
        return f"Entry({self.encode()})"


def decode(raw_allocations: object) -> dict[int, Entry]:
    """Read spec.allocations of a pool into offset -> Entry.

    An entry that is malformed still takes its address; a key that is no number takes none.
    """
    entries: dict[int, Entry] = {}
    for key, value in _items(raw_allocations):
        offset = _offset(key)
        if offset is not None:
            entries[offset] = _entry(value)
    return entries


def offsets(raw_allocations: object) -> set[int]:
    """Read the keys of decode() alone out of spec.allocations, in a fraction of the time."""
    keys = [key for key, _ in _items(raw_allocations)]
    try:
        return set(map(int, keys))
    except ValueError:
        return {offset for offset in map(_offset, keys) if offset is not None}


def choose(space: Range, taken: Container[int], *, start: int | None = None) -> int | None:
    """Return the lowest usable offset not in `taken`, at or above `start`; None when there is none.

    Looks at no more offsets than are taken, and jumps over an excluded interval whole.
    """
    low = space.first - space.base
    if start is not None and start > low:
        low = start
    end = space.last - space.base + 1
    for hole_first, hole_last in (*space.excluded, (end + space.base, end + space.base)):
        # One flat loop per gap: on a nearly full pool this is all the work there is.
        for offset in range(low, hole_first - space.base):
            if offset not in taken:
                return offset
        low = max(low, hole_last - space.base + 1)
    return None


def find(allocations: Mapping[int, Entry], container_id: str, ifname: str) -> int | None:
    """Return the offset that an attachment (container id, interface) holds, or None."""
    for offset, entry in allocations.items():
        if entry.id == container_id and entry.ifname == ifname:
            return offset
    return None


def add_patch(offset: int, entry: Entry, overlapping: bool = False) -> list[dict[str, Any]]:
    """Return the patch that takes a free offset in an open pool whose overlap mark is as assumed.

    The pool must have spec.allocations, be it empty.
    """
    path = _path(offset)
    return [
        {"op": "test", "path": "/spec/closed", "value": None},
        _overlap_test(overlapping),
        {"op": "test", "path": path, "value": None},
        {"op": "add", "path": path, "value": entry.encode()},
    ]


def confirm_patch(offset: int, entry: Entry) -> list[dict[str, Any]]:
    """Return the patch that only tests that an attachment still holds an offset.

    A closed pool confirms too: its live attachments keep their addresses.
    """
    return _holder_tests(_path(offset), entry.id, entry.ifname, "")


def remove_patch(
    offset: int, container_id: str, ifname: str, uid: str = "", overlapping: bool = False
) -> list[dict[str, Any]]:
    """Return the patch that frees an offset if this attachment holds it.

    With `uid`, the pod's uid is tested too. The overlap mark is tested because a marked pool's
    addresses have reservations that must be removed as well.
    """
    path = _path(offset)
    return [
        _overlap_test(overlapping),
        *_holder_tests(path, container_id, ifname, uid),
        {"op": "remove", "path": path},
    ]


def _holder_tests(path: str, container_id: str, ifname: str, uid: str) -> list[dict[str, Any]]:
    tests: list[dict[str, Any]] = [
        {"op": "test", "path": path + "/id", "value": container_id},
        {"op": "test", "path": path + "/ifname", "value": ifname or None},
    ]
    if uid:
        tests.append({"op": "test", "path": path + "/uid", "value": uid})
    return tests


def _overlap_test(overlapping: bool) -> dict[str, Any]:
    return {"op": "test", "path": "/spec/overlapping", "value": True if overlapping else None}


def _path(offset: int) -> str:
    return f"/spec/allocations/{offset}"


def _items(raw_allocations: object) -> Iterable[tuple[str, object]]:
    return raw_allocations.items() if isinstance(raw_allocations, dict) else ()


def _offset(key: str) -> int | None:
    # int() takes more than plain decimals (" 7", "1_0"): what might mean an address is taken.
    try:
        return int(key)
    except ValueError:
        return None


def _entry(value: object) -> Entry:
    raw = value if isinstance(value, dict) else {}
    return Entry(
        _string(raw.get("id")),
        _string(raw.get("podref")),
        _string(raw.get("ifname")),
        _string(raw.get("uid")),
        _string(raw.get("node")),
    )


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""
