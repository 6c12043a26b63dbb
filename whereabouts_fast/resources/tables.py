"""NodeSlicePools, the slice tables: decoded, and encoded whole for a compare-and-swap.

The server keeps spec and status in one object without a status subresource, so each write sends the
whole object; what this project does not know of it goes back unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field, ValidationError

from whereabouts_fast.ipam import address, naming
from whereabouts_fast.ipam.findings import Table
from whereabouts_fast.ipam.holdings import ACTIVE, COOLING, DRAINING, Figures, Held
from whereabouts_fast.resources.metadata import (
    Metadata,
    Model,
    metadata_of,
    problem_of,
    read_cidr,
    read_time,
    time_text,
)

SIZE_LIMIT = 1 << 20
"""Bytes of JSON that a table may have; the API server's own limit is about 1.5 MiB."""


class TableTooLargeError(ValueError):
    """A table that must not be written, because it would pass SIZE_LIMIT."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of a table: Ready, Exhausted or Consistent; status "True" or "False"."""

    type: str
    status: str
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class TableView:
    """One NodeSlicePool.

    `network` is the network's plain name, `space` its address space ("" for unnamed networks);
    `space_recorded` is False where whereabouts wrote the table, which does not say it.
    `version` (4 or 6; 0 when unreadable), `base` and `prefix` are those of `range`; `size` is the
    recorded slice size, None when unreadable. `held` is sorted by address; free entries are left
    out, `repeated` are those that stand there a second time. `written` are the entries of those of
    `held` that are written just as they would be now, `unreadable` those that are kept as they are.
    `raw` is the object without managedFields: not to be changed. `problem` is "" unless something
    could not be read.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    generation: int
    network: str
    space: str
    range: str
    version: int
    base: int
    prefix: int
    size: int | None
    held: tuple[Held, ...]
    conditions: tuple[Condition, ...]
    written: Mapping[Held, Mapping[str, Any]] = field(default_factory=dict, hash=False, repr=False)
    unreadable: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    raw: Mapping[str, Any] = field(default_factory=dict, hash=False, repr=False)
    space_recorded: bool = True
    problem: str = ""
    repeated: tuple[Held, ...] = ()

    @property
    def key(self) -> str:
        """Return "namespace/name"."""
        return f"{self.namespace}/{self.name}"

    def facts(self) -> Table:
        """Return what is compared with pools."""
        return Table(
            self.name,
            self.space if self.space_recorded else None,
            self.network,
            self.version,
            self.base,
            self.prefix,
            self.held,
            self.repeated,
            self.problem,
        )

    def condition(self, type_: str) -> Condition | None:
        """Return the condition of this type, if the table has it."""
        return next((c for c in self.conditions if c.type == type_), None)


class _Allocation(Model):
    node: str = Field(alias="nodeName")
    slice: str = Field(alias="sliceRange")
    state: str = ACTIVE
    since: str | None = None


class _Condition(Model):
    type: str
    status: str
    reason: str = ""
    message: str = ""


class _Status(Model):
    allocations: list[_Allocation] | None = None
    conditions: list[_Condition] | None = None


class _Spec(Model):
    range: str = ""
    size: str = Field("", alias="sliceSize")
    network_name: str = Field("", alias="networkName")
    network: str = ""


class _Table(Model):
    metadata: Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


def decode_table(raw: dict[str, Any], known: TableView | None = None) -> TableView:
    """Decode a NodeSlicePool, written by this project or by whereabouts.

    `known` is any earlier version of it: entries that are as they were then are not read again.
    """
    problem = ""
    unreadable: list[Mapping[str, Any]] = []
    try:
        model = _Table.model_validate(raw)
    except ValidationError as error:
        model, problem = _Table(metadata=metadata_of(raw)), problem_of(error)
        unreadable = _entries(raw)
    meta, spec = model.metadata, model.spec
    version = base = prefix = 0
    try:
        version, base, prefix = read_cidr(spec.range)
    except address.AddressError as error:
        problem = problem or f'spec.range "{spec.range}" {error}'
    size = spec.size.removeprefix("/")
    if not (size.isascii() and size.isdigit()):
        problem = problem or f'spec.sliceSize "{spec.size}" is not a prefix length'
    before = _Known(known.written if known is not None and known.version == version else {})
    held: dict[tuple[str, int, int], Held] = {}
    repeated: list[Held] = []
    written: dict[Held, Mapping[str, Any]] = {}
    for at, entry in enumerate(model.status.allocations or ()):
        if not entry.node:
            continue
        text = raw["status"]["allocations"][at]
        same = before.meaning(text)
        found = same or _held(entry, version)
        if isinstance(found, str):
            problem = problem or f'status.allocations[{at}].sliceRange "{entry.slice}" {found}'
            unreadable.append(text)
        elif (key := (found.node, found.base, found.prefix)) in held:
            repeated.append(found)
        else:
            held[key] = found
            if same or _entry(text, found, version) == text:
                written[found] = text
    return TableView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        generation=meta.generation,
        network=spec.network or spec.network_name or meta.name,
        space=spec.network_name,
        range=spec.range,
        version=version,
        base=base,
        prefix=prefix,
        size=int(size) if size.isascii() and size.isdigit() else None,
        held=tuple(sorted(held.values(), key=lambda h: (h.base, h.prefix, h.node))),
        conditions=tuple(
            Condition(c.type, c.status, c.reason, c.message) for c in model.status.conditions or ()
        ),
        written=written,
        unreadable=tuple(unreadable),
        raw=_without_managed_fields(raw),
        space_recorded=bool(spec.network or spec.network_name),
        problem=problem,
        repeated=tuple(repeated),
    )


def encode_table(
    existing: TableView | None,
    *,
    namespace: str,
    name: str,
    network: str,
    network_name: str,
    version: int,
    cidr: str,
    size: int,
    held: Sequence[Held],
    figures: Figures,
    waiting: int,
    conditions: Sequence[Condition],
    now: float,
    limit: int = SIZE_LIMIT,
) -> dict[str, Any]:
    """Build the NodeSlicePool to create, or, over an existing one, to replace it with.

    The body carries the existing object's resourceVersion, and everything in it that is not named
    here. `version` is the IP version, `cidr` the range, `size` the prefix length of new slices,
    `now` seconds since the epoch, `limit` in bytes. Raises TableTooLargeError.
    """
    old: Mapping[str, Any] = existing.raw if existing is not None else {}
    metadata = dict(old.get("metadata") or {"name": name, "namespace": namespace})
    label = {naming.LABEL_NETWORK: naming.label_value(network)}
    metadata["labels"] = {**(metadata.get("labels") or {}), **label}
    spec = dict(old.get("spec") or {})
    spec["range"] = cidr
    spec["network"] = network
    if str(spec.get("sliceSize", "")).removeprefix("/") != str(size):
        spec["sliceSize"] = f"/{size}"
    if network_name:
        spec["networkName"] = network_name
    status = dict(old.get("status") or {})
    status["allocations"] = _allocations(status.get("allocations"), existing, held, version)
    status["active"] = figures.active
    status["draining"] = figures.draining
    status["cooling"] = figures.cooling
    # A /64 in /128 has more slices than the schema's 64-bit integer can say.
    status["free"] = min(figures.free, (1 << 63) - 1)
    status["waiting"] = waiting
    generation = existing.generation if existing is not None else 0
    status["conditions"] = _conditions(status.get("conditions"), conditions, generation, now)
    body = {
        **old,
        "apiVersion": f"{naming.GROUP}/{naming.VERSION}",
        "kind": "NodeSlicePool",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }
    # What grows no more than a few digits was not too long before.
    grown = status["allocations"] != (old.get("status") or {}).get("allocations")
    if grown and (length := len(json.dumps(body, separators=(",", ":")))) > limit:
        raise TableTooLargeError(
            f"{len(held)} slices make {name} {length} bytes long, over the limit of {limit}; "
            "split the network into several"
        )
    return body


def conditions_patch(
    table: TableView, conditions: Sequence[Condition], now: float
) -> list[dict[str, Any]]:
    """Return the JSON Patch that sets conditions and nothing else; empty when they are there."""
    status = table.raw.get("status")
    old = status.get("conditions") if isinstance(status, dict) else None
    new = _conditions(old, conditions, table.generation, now)
    if new == old:
        return []
    version = {
        "op": "test",
        "path": "/metadata/resourceVersion",
        "value": table.resource_version,
    }
    if not isinstance(status, dict):
        return [version, {"op": "add", "path": "/status", "value": {"conditions": new}}]
    return [version, {"op": "add", "path": "/status/conditions", "value": new}]


def differs(existing: TableView, body: Mapping[str, Any]) -> bool:
    """Tell whether writing `body` over the existing object would change anything."""

    def said(what: Mapping[str, Any]) -> tuple[object, ...]:
        return what.get("spec"), what.get("status"), what.get("metadata", {}).get("labels")

    return said(existing.raw) != said(body)


def _entries(raw: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    status = raw.get("status")
    found = status.get("allocations") if isinstance(status, dict) else None
    return [e for e in found if isinstance(e, dict)] if isinstance(found, list) else []


def _held(entry: _Allocation, version: int) -> Held | str:
    try:
        found, base, prefix = read_cidr(entry.slice)
    except address.AddressError as error:
        return str(error)
    if found != version:
        return "is of another IP version than spec.range"
    state = entry.state if entry.state in (ACTIVE, DRAINING, COOLING) else ACTIVE
    since = None if state == ACTIVE else read_time(entry.since)
    return Held(entry.node, base, prefix, state, since)


class _Known:
    """Entries that were read before, asked for in about the order in which they stood."""

    def __init__(self, written: Mapping[Held, Mapping[str, Any]]) -> None:
        self._entries = list(written.items())
        self._next = 0
        self._places: dict[object, int] = {}

    def meaning(self, text: Mapping[str, Any]) -> Held | None:
        """Return what the very same entry meant."""
        if self._next < len(self._entries) and self._entries[self._next][1] == text:
            self._next += 1
            return self._entries[self._next - 1][0]
        if not self._places:
            self._places = {_place(entry): at for at, (_, entry) in enumerate(self._entries)}
        at = self._places.get(_place(text), -1)
        if at < 0 or self._entries[at][1] != text:
            return None
        self._next = at + 1
        return self._entries[at][0]


def _place(entry: Mapping[str, Any]) -> tuple[object, object]:
    return entry.get("nodeName"), entry.get("sliceRange")


def _allocations(
    old: Sequence[Mapping[str, Any]] | None,
    existing: TableView | None,
    held: Sequence[Held],
    version: int,
) -> list[Mapping[str, Any]]:
    written: Mapping[Held, Mapping[str, Any]] = {}
    if existing is not None and existing.version == version:
        written = existing.written
        if held is existing.held and len(written) == len(held) == len(old or ()):
            return list(old or ())
    before: dict[object, Mapping[str, Any]] = {}
    if any(one not in written for one in held):
        before = {_place(entry): entry for entry in old or ()}
    result = list(existing.unreadable if existing is not None else ())
    for one in held:
        known = written.get(one)
        if known is None:
            cidr = address.cidr_text(version, one.base, one.prefix)
            known = _entry(before.get((one.node, cidr), {}), one, version)
        result.append(known)
    return result


def _entry(before: Mapping[str, Any], held: Held, version: int) -> dict[str, Any]:
    entry = dict(before)
    cidr = address.cidr_text(version, held.base, held.prefix)
    entry.update(nodeName=held.node, sliceRange=cidr, state=held.state)
    entry.pop("since", None)
    if held.since is not None:
        entry["since"] = time_text(held.since)
    return entry


def _conditions(
    old: Sequence[Mapping[str, Any]] | None,
    wanted: Sequence[Condition],
    generation: int,
    now: float,
) -> list[dict[str, Any]]:
    before = {entry["type"]: dict(entry) for entry in old or ()}
    for one in wanted:
        entry = before.setdefault(one.type, {"type": one.type})
        said = {"status": one.status, "reason": one.reason, "message": one.message}
        if any(entry.get(key) != value for key, value in said.items()):
            if entry.get("status") != one.status:
                entry["lastTransitionTime"] = time_text(now)
            # The generation that was read: this write itself raises it once more.
            entry.update(said, observedGeneration=generation)
    return list(before.values())


def _without_managed_fields(raw: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {k: v for k, v in raw.get("metadata", {}).items() if k != "managedFields"}
    return {**raw, "metadata": metadata}
