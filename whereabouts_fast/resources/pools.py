"""IPPools: decoded to what decisions need, encoded as the controller creates them, and patched."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pydantic import Field, ValidationError

from whereabouts_fast.ipam import address, naming
from whereabouts_fast.ipam.classic import SharedSeen
from whereabouts_fast.ipam.findings import Pool
from whereabouts_fast.ipam.holdings import PoolSeen
from whereabouts_fast.ipam.leaks import Allocation
from whereabouts_fast.ipam.overlap import Holder
from whereabouts_fast.ipam.pool import decode, offsets
from whereabouts_fast.resources.allocations import decode_entries
from whereabouts_fast.resources.metadata import (
    Metadata,
    Model,
    metadata_of,
    problem_of,
    read_cidr,
)


@dataclass(frozen=True, slots=True)
class PoolView:
    """One IPPool.

    `range` is the text as written; `version` (4 or 6; 0 when unreadable), `base` and `prefix` what
    it means. `space` is the address space: the network_name, or "" for that of all unnamed
    networks. `used` counts entries, malformed ones too; `entries` are those that can be read, and
    `taken` the offsets of all, sorted. `want`, `more` and `refused` are the annotations, None when
    absent; `annotated` says whether there are any annotations. `attached`: a
    NetworkAttachmentDefinition was seen to ask for this pool, which all nodes share. `lifting`: the
    token of who is about to take the overlap mark away; `lifted`: it was taken away, and addresses
    may still be reserved. `problem` is "" unless the object could not be read.

    `exact`: node and network are those that the name is made of. Pools that whereabouts wrote have
    neither; of those `stem` is the name without its range: a network_name, a node or both.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    range: str
    version: int
    base: int
    prefix: int
    node: str
    network: str
    space: str
    closed: bool
    overlapping: bool
    used: int
    taken: tuple[int, ...] = field(default=(), repr=False)
    want: str | None = None
    more: str | None = None
    refused: str | None = None
    annotated: bool = False
    attached: bool = False
    lifting: str | None = None
    lifted: bool = False
    problem: str = ""
    exact: bool = True
    stem: str = ""
    deleting: bool = False
    entries: tuple[Allocation, ...] = ()

    @property
    def key(self) -> str:
        """Return "namespace/name"."""
        return f"{self.namespace}/{self.name}"

    @property
    def last(self) -> int:
        """Return the last address of the range."""
        return self.base + (1 << (address.width(self.version) - self.prefix)) - 1

    def address_of(self, entry: Allocation) -> str:
        """Return the text of an entry's address, "" when it is outside the range."""
        if entry.offset > self.last - self.base:
            return ""
        return address.text(self.version, self.base + entry.offset)

    def reservation_of(self, entry: Allocation) -> str:
        """Return the name of the reservation of an entry's address, "" when it can have none."""
        text = self.address_of(entry)
        return text and naming.reservation(text, self.space)

    def may_be_in(self, space: str) -> bool:
        """Return whether the pool is, or for all that is known may be, in an address space."""
        if self.space == space:
            return True
        return bool(self.stem) and (not space or f"{self.stem}-".startswith(f"{space}-"))

    def seen(self, node: str = "", network: str = "", idle: float | None = None) -> PoolSeen:
        """Return what slice plans need of the pool, as one of `node` when that is given.

        `idle`: since when it has been seen empty, in seconds since the epoch. A pool that is not
        what its name says is nobody's: its range is taken, and that is all.
        """
        if self.exact:
            node, network = self.node, self.network
        return PoolSeen(
            self.name,
            node,
            network,
            self.base,
            self.prefix,
            self.closed,
            self.used == 0,
            self.deleting,
            self.taken,
            self.want is not None,
            idle,
        )

    def facts(self) -> Pool:
        """Return what is compared with tables, other pools and reservations."""
        return Pool(
            self.name,
            self.space,
            self.network,
            self.node,
            self.version,
            self.base,
            self.prefix,
            overlapping=self.overlapping,
            exact=self.exact,
            entries=self.entries,
            malformed=self.used - len(self.entries),
            problem=self.problem,
        )

    def shared(self) -> SharedSeen:
        """Return what plans for shared pools need of the pool."""
        return SharedSeen(self.name, self.network, self.attached, self.closed, self.used == 0)


class _Spec(Model):
    range: str
    # The entries themselves are checked where single addresses matter; here their number does.
    allocations: dict[str, Any] = Field(default_factory=dict)
    node: str = ""
    network: str = ""
    closed: bool = False
    overlapping: bool = False


class _Pool(Model):
    metadata: Metadata
    spec: _Spec


def decode_pool(raw: dict[str, Any]) -> PoolView:
    """Decode an IPPool, written by this project or by whereabouts."""
    problem = ""
    try:
        model = _Pool.model_validate(raw)
        meta, spec = model.metadata, model.spec
    except ValidationError as error:
        meta, spec, problem = metadata_of(raw), _Spec(range=""), problem_of(error)
    version = base = prefix = 0
    if not problem:
        try:
            version, base, prefix = read_cidr(spec.range)
        except address.AddressError as error:
            problem = f'spec.range "{spec.range}" {error}'
    space, exact, stem = (
        ("", False, "") if problem else _identity(meta.name, spec, (version, base, prefix))
    )
    notes = meta.annotations or {}
    return PoolView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        range=spec.range,
        version=version,
        base=base,
        prefix=prefix,
        node=spec.node,
        network=spec.network,
        space=space,
        closed=spec.closed,
        overlapping=spec.overlapping,
        used=len(spec.allocations),
        taken=tuple(sorted(offsets(spec.allocations))),
        want=notes.get(naming.ANNOTATION_WANT),
        more=notes.get(naming.ANNOTATION_MORE),
        refused=notes.get(naming.ANNOTATION_REFUSED),
        annotated=meta.annotations is not None,
        attached=naming.ANNOTATION_ATTACHED in notes,
        lifting=notes.get(naming.ANNOTATION_LIFTING),
        lifted=naming.ANNOTATION_LIFTED in notes,
        problem=problem,
        exact=exact,
        stem=stem,
        deleting=meta.deleting is not None,
        entries=decode_entries(meta.name, spec.allocations),
    )


def encode_pool(
    *,
    namespace: str,
    cidr: str,
    node: str,
    network: str,
    network_name: str,
    closed: bool = True,
    overlapping: bool = False,
    attached: bool = False,
) -> dict[str, Any]:
    """Build the IPPool to create for a range (`node` empty) or for a node's slice of it.

    `network` is the network's name, `network_name` empty for unnamed networks. Raises AddressError
    and naming.InvalidNameError.
    """
    spec: dict[str, Any] = {"range": cidr, "allocations": {}, "network": network}
    labels = {naming.LABEL_NETWORK: naming.label_value(network)}
    if node:
        spec["node"] = node
        labels[naming.LABEL_NODE] = naming.label_value(node)
    # Writers test for absence, so a mark that is not set is never written as false.
    if closed:
        spec["closed"] = True
    if overlapping:
        spec["overlapping"] = True
    metadata: dict[str, Any] = {
        "name": naming.ip_pool(cidr, network_name, node),
        "namespace": namespace,
        "labels": labels,
    }
    if attached:
        metadata["annotations"] = {naming.ANNOTATION_ATTACHED: "true"}
    return {
        "apiVersion": f"{naming.GROUP}/{naming.VERSION}",
        "kind": "IPPool",
        "metadata": metadata,
        "spec": spec,
    }


def holders(pool: PoolView, allocations: object) -> dict[int, Holder]:
    """Return who has which address; entries outside the range have none."""
    return {
        pool.base + offset: Holder(entry.podref, entry.id, entry.ifname)
        for offset, entry in decode(allocations).items()
        if 0 <= offset <= pool.last - pool.base
    }


def _identity(name: str, spec: _Spec, cidr: tuple[int, int, int]) -> tuple[str, bool, str]:
    """Return address space, whether the name says the same, and else its part before the range."""
    tail = naming.plain(address.cidr_text(*cidr))
    own = f"{spec.node}-{tail}" if spec.node else tail
    full = f"{spec.network}-{own}" if spec.network else own
    if spec.network or not spec.node:
        # Without a network only a classic pool of an unnamed one is what its name says.
        if name == own:
            return "", True, ""
        if name == full:
            return spec.network, True, ""
    stem = name.removesuffix(f"-{tail}")
    # A node or network that no name can have says nothing of this one.
    sensible = naming.is_object_name(own) and naming.is_object_name(full)
    return spec.network, False, stem if sensible and stem != name else ""
