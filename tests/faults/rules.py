"""What must hold at every version of a history: nobody shares an address, nobody loses one.

Pure, and without the code under test: texts are read with the standard library.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, ip_network
from itertools import pairwise
from typing import Any

from tests.faults.history import Version

Entry = dict[str, str]
Slice = tuple[str, str]


class BrokenError(AssertionError):
    """A rule did not hold at some version."""


@dataclass(frozen=True)
class Given:
    """What a plugin's ADD reported: an address to a container."""

    address: str
    container: str


class Replay:
    """Plays a history version by version; `seen` counts what has happened in it.

    given_up: containers whose addresses their runtime gave back although the pod lives, because an
    ADD failed. All networks are of one address space, and check for overlaps.
    """

    def __init__(self, given_up: Iterable[str] = ()) -> None:
        self.seen: Counter[str] = Counter()
        self._given_up = frozenset(given_up)
        self._pools: dict[str, dict[str, Any]] = {}
        self._tables: dict[str, dict[Slice, str]] = {}
        self._pods: dict[str, bool] = {}
        self._holders: dict[int, tuple[str, Entry]] = {}
        self._recorded: set[Given] = set()

    def play(self, versions: Iterable[Version]) -> None:
        """Apply all versions. Raises BrokenError at the first that breaks a rule."""
        for one in versions:
            try:
                self._apply(one)
            except BrokenError as error:
                shown = {key: one.item.get(key) for key in ("spec", "status")}
                raise BrokenError(
                    f"{error} at {one.number}, {one.kind} {one.name}: {shown}"
                ) from error

    def confirm(self, given: Iterable[Given]) -> None:
        """Hold what plugins reported against what was recorded."""
        for one in given:
            _require(one in self._recorded, f"{one} was reported and never recorded")

    def _apply(self, one: Version) -> None:
        match one.kind:
            case "pods":
                phase = one.item.get("status", {}).get("phase")
                self._pods[one.uid] = not one.deleted and phase not in ("Succeeded", "Failed")
            case "ippools":
                self._pool(one)
            case "nodeslicepools":
                self._table(one)

    def _pool(self, one: Version) -> None:
        before = self._pools.pop(one.name, {})
        after = {} if one.deleted else one.item["spec"]
        old, new = before.get("allocations") or {}, after.get("allocations") or {}
        base = int(_range(before or after).network_address)
        for offset in old.keys() | new.keys():
            if old.get(offset) == new.get(offset):
                continue
            if offset in old:
                self._free(base + int(offset), old[offset])
            if offset in new:
                self._take(base + int(offset), one.name, new[offset])
        if after:
            self._pools[one.name] = after
            self._dealt(one.name, after)
        self._count_pool(before, after)

    def _take(self, address: int, pool: str, entry: Entry) -> None:
        self.seen["taken"] += 1
        holder = self._holders.get(address)
        _require(holder is None, f"{address:#x} is taken by {entry}, and held in {holder}")
        self._holders[address] = (pool, entry)
        self._recorded.add(Given(str(IPv4Address(address)), entry["id"]))

    def _free(self, address: int, entry: Entry) -> None:
        self.seen["freed"] += 1
        lives = self._pods.get(entry.get("uid", ""), False)
        _require(not lives or entry["id"] in self._given_up, f"{entry} is freed, and its pod lives")
        del self._holders[address]

    def _dealt(self, name: str, spec: dict[str, Any]) -> None:
        """A pool that anybody can write to, or lives in, is of a slice its node holds."""
        if not spec.get("node") or (spec.get("closed") and not spec.get("allocations")):
            return
        wanted = (spec["node"], spec["range"])
        held = any(wanted in table for table in self._tables.values())
        _require(held, f"{name} is in use, and no table gives its slice to its node")

    def _table(self, one: Version) -> None:
        before = self._tables.pop(one.name, {})
        entries = [] if one.deleted else one.item.get("status", {}).get("allocations") or []
        after = {
            (entry["nodeName"], entry["sliceRange"]): entry.get("state", "Active")
            for entry in entries
            if entry["nodeName"]
        }
        parts = sorted(IPv4Network(entry["sliceRange"]) for entry in entries)
        for left, right in pairwise(parts):
            _require(not left.overlaps(right), f"{left} and {right} are both held")
        if not one.deleted:
            self._tables[one.name] = after
        for name, spec in self._pools.items():
            if (spec.get("node"), spec["range"]) in before.keys() - after.keys():
                self._dealt(name, spec)
        for key, state in after.items():
            if before.get(key) != state:
                self.seen[state] += 1
        self.seen["slices freed"] += len(before.keys() - after.keys())
        nodes = Counter(node for (node, _), state in after.items() if state == "Active")
        self.seen["most slices"] = max([self.seen["most slices"], *nodes.values()])

    def _count_pool(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        self.seen["created"] += not before
        self.seen["deleted"] += not after
        if before and after:
            self.seen["opened"] += bool(before.get("closed")) > bool(after.get("closed"))
            self.seen["marked"] += bool(before.get("overlapping")) < bool(after.get("overlapping"))


def address(spec: dict[str, Any], offset: str) -> str:
    """Return the address that a key of a pool's allocations means."""
    return str(_range(spec).network_address + int(offset))


def _range(spec: dict[str, Any]) -> IPv4Network:
    found = ip_network(spec["range"])
    assert isinstance(found, IPv4Network)
    return found


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise BrokenError(what)
