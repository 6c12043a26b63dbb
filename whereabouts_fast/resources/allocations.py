"""The entries of IPPools: one for each address, decoded and written back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from whereabouts_fast.ipam.leaks import Allocation
from whereabouts_fast.ipam.pool import Entry

_NUMBER = re.compile(r"(0|[1-9][0-9]{0,38})\Z")


def decode_entries(pool: str, allocations: dict[str, Any]) -> tuple[Allocation, ...]:
    """Return the entries of spec.allocations that a patch can name."""
    return tuple(_entries(pool, allocations))


def encode_entries(entries: Iterable[Allocation]) -> dict[str, Any]:
    """Return spec.allocations with these entries, as their writers recorded them."""
    return {
        str(one.offset): Entry(one.id, one.podref, one.ifname, one.uid, one.node).encode()
        for one in entries
    }


def _entries(pool: str, allocations: dict[str, Any]) -> Iterator[Allocation]:
    known: dict[str, str] = {}  # texts that most entries of a pool have in common, kept once
    for key, value in allocations.items():
        # What is written in another way than ours names no path that a patch could test.
        if not isinstance(value, dict) or not _NUMBER.match(key):
            continue
        offset = int(key)
        container, podref, uid, ifname, node = (
            text if isinstance(text := value.get(name), str) else ""
            for name in ("id", "podref", "uid", "ifname", "node")
        )
        ifname, node = known.setdefault(ifname, ifname), known.setdefault(node, node)
        yield Allocation(pool, offset, container, podref, ifname, uid, node)
